//! How far a node is with replicas that fail, come back, or have rows that it cannot write.
//! Nothing here waits: time is passed in.

use super::*;

const TIMES: Times = Times {
    lease: Duration::from_millis(1000),
    wait_max: Duration::from_millis(9000),
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn of(names: &[&str], now: Instant) -> Standings {
    let mut standings = Standings::new("m", TIMES, now);
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    standings.set(&names, true, now);
    standings
}

#[test]
fn a_node_that_starts_asks_all_of_them() {
    let now = Instant::now();
    let mut standings = of(&["b", "c"], now);
    assert_eq!(standings.judge(now).until, None);
    standings.has_all("b");
    standings.heard("b", now);
    standings.heard("c", now);
    assert_eq!(standings.judge(now).until, None, "it has not looked through c");
    assert!(!standings.judge(now).is_whole && standings.wants_all("c"));
    // It is waited for, gone or not: it may have taken something before it went.
    assert!(!standings.failed("c", now, Failure::Gone, now + ms(500)));
    assert!(standings.awaits("c") && !standings.awaits("b"));
    assert_eq!(standings.judge(now + ms(500)).until, None);
    standings.has_all("c");
    standings.heard("c", now + ms(100));
    let verdict = standings.judge(now + ms(600));
    assert_eq!((verdict.until, verdict.is_whole), (Some(now + ms(1000)), true));
}

#[test]
fn a_replica_that_is_gone_ends_no_lease_and_one_that_is_not_heard_is_given_up_before() {
    let now = Instant::now();
    let mut standings = of(&["b", "c"], now);
    for name in ["b", "c"] {
        standings.has_all(name);
        standings.heard(name, now);
    }
    assert!(standings.failed("b", now + ms(250), Failure::Gone, now + ms(250)));
    assert!(!standings.failed("c", now + ms(250), Failure::Silent, now + ms(500)));
    assert_eq!(standings.judge(now + ms(500)).until, Some(now + ms(1000)));
    assert!(standings.failed("c", now + ms(500), Failure::Silent, now + ms(750)));
    let verdict = standings.judge(now + ms(750));
    assert_eq!((verdict.until, verdict.away), (Some(now + ms(1750)), 2));
    // It is back, and a little later has what this node missed.
    standings.heard("c", now + ms(800));
    standings.missed("c", now + ms(800));
    assert_eq!(standings.judge(now + ms(800)).until, None);
    assert!(!standings.failed("c", now + ms(900), Failure::Silent, now + ms(5000)));
    for at in (1000..=9000).step_by(500) {
        standings.judge(now + ms(at));
    }
    assert!(standings.failed("c", now + ms(900), Failure::Silent, now + ms(9800)));
    assert!(standings.judge(now + ms(9800)).until.is_some());
}

#[test]
fn a_node_that_stood_still_asks_again() {
    let now = Instant::now();
    let mut standings = of(&["b", "c"], now);
    standings.has_all("b");
    standings.has_all("c");
    standings.heard("b", now);
    assert!(standings.failed("c", now, Failure::Silent, now + ms(9000)));
    let verdict = standings.judge(now + ms(9001));
    assert_eq!(
        (verdict.until, verdict.stood_still, verdict.away),
        (None, true, 0)
    );
    // What was asked before is too old.
    standings.heard("b", now + ms(8000));
    standings.heard("c", now + ms(9100));
    let until = standings.judge(now + ms(9200)).until;
    assert_eq!(until, Some(now + ms(9000)));
    standings.heard("b", now + ms(9200));
    assert_eq!(standings.judge(now + ms(9200)).until, Some(now + ms(10_100)));
}

/// What a replica says that answers no lookups, or does.
fn holder(leaves_lookups: bool) -> Holder {
    Holder {
        leaves_lookups,
        has_ours: false,
    }
}

#[test]
fn of_replicas_that_cannot_write_each_others_rows_one_is_not_waited_for() {
    // The node is "m": of the other one's name it depends which of them waits a few leases more.
    for (name, more) in [("b", 4), ("z", 0)] {
        let now = Instant::now();
        let mut standings = of(&[name], now);
        // One that answers lookups has them left to it for good.
        for s in [0, 8, 16] {
            standings.heard(name, now + ms(s * 1000));
            assert!(!standings.stuck(name, holder(false), now + ms(s * 1000)));
        }
        assert!(!standings.stuck(name, holder(true), now + ms(20_000)));
        assert!(!standings.stuck(name, holder(false), now + ms(28_000)));
        assert!(!standings.stuck(name, holder(true), now + ms(29_000)));
        for s in 0..=(38 + more) {
            assert_eq!(standings.judge(now + ms(s * 999)).until, None);
        }
        let over = 38_000 + more * 1000;
        assert!(!standings.stuck(name, holder(true), now + ms(over - 1)));
        // It is asked once more.
        assert!(standings.stuck(name, holder(true), now + ms(over)));
        assert_eq!(standings.judge(now + ms(over)).until, None);
        standings.give_up(name);
        let verdict = standings.judge(now + ms(over));
        assert_eq!((verdict.until.is_some(), verdict.away), (true, 1));
        // It stays so while there is no room, whatever it answers, and is over once its rows are here.
        for after in [200, 500, 900, 1600, 2400] {
            standings.heard(name, now + ms(over + after));
            standings.missed(name, now + ms(over + after));
            assert!(!standings.stuck(name, holder(true), now + ms(over + after)));
            let verdict = standings.judge(now + ms(over + after));
            let until = Some(now + ms(over + after) + TIMES.lease);
            assert_eq!((verdict.until, verdict.away, verdict.is_whole), (until, 1, true));
        }
        standings.has_all(name);
        standings.heard(name, now + ms(over + 2600));
        assert_eq!(standings.judge(now + ms(over + 2600)).away, 0);
    }
}

#[test]
fn of_two_that_answer_one_leaves_lookups_to_the_other() {
    let now = Instant::now();
    let check = |name: &str, has_ours, expected: bool| {
        let mut standings = of(&[name], now);
        assert!(standings.failed(name, now, Failure::Gone, now + ms(9000)));
        let holder = Holder {
            leaves_lookups: false,
            has_ours,
        };
        assert!(!standings.stuck(name, holder, now + ms(9100)));
        assert_eq!(standings.awaits(name), expected, "{name} {has_ours}");
    };
    check("b", false, true);
    check("b", true, true);
    // It goes by this node, unless it has all that this one has.
    check("z", false, false);
    check("z", true, true);
}

#[test]
fn one_late_answer_makes_no_node_go_on_without_what_it_missed() {
    let now = Instant::now();
    let mut standings = of(&["b"], now);
    for s in 0..=20 {
        standings.heard("b", now + ms(s * 500));
        standings.judge(now + ms(s * 500));
    }
    assert!(!standings.failed("b", now + ms(10_000), Failure::Silent, now + ms(10_250)));
    standings.heard("b", now + ms(10_300));
    standings.judge(now + ms(10_300));
    assert!(!standings.failed("b", now + ms(10_500), Failure::Silent, now + ms(10_750)));
    assert!(standings.failed("b", now + ms(10_800), Failure::Silent, now + ms(11_000)));
    // It is back: its rows are still to be looked through.
    standings.heard("b", now + ms(11_100));
    let verdict = standings.judge(now + ms(11_100));
    assert!(verdict.until.is_some() && verdict.away == 1 && standings.wants_all("b"));
    standings.has_all("b");
    standings.heard("b", now + ms(11_200));
    let verdict = standings.judge(now + ms(11_200));
    assert_eq!((verdict.until, verdict.away), (Some(now + ms(12_200)), 0));
}

#[test]
fn a_node_that_lacks_rows_for_good_answers_nothing_until_it_has_them() {
    let now = Instant::now();
    let mut standings = of(&["b"], now);
    standings.lacks("b");
    assert!(standings.failed("b", now, Failure::Silent, now + ms(9000)));
    let verdict = standings.judge(now + ms(9000));
    assert_eq!((verdict.until, verdict.is_whole), (None, false));
    standings.heard("b", now + ms(9000));
    assert_eq!(standings.judge(now + ms(9500)).until, None);
    standings.lacks_nothing("b");
    standings.has_all("b");
    standings.heard("b", now + ms(9500));
    let verdict = standings.judge(now + ms(9900));
    assert!(verdict.until.is_some() && verdict.is_whole);
}

#[test]
fn what_was_said_at_a_time_is_said_by_all_of_them() {
    let now = Instant::now();
    let mut standings = of(&["b", "c"], now);
    assert_eq!(standings.clean_since_ms(), None);
    standings.clean("b", 7);
    standings.has_all("b");
    standings.clean("b", 8);
    assert_eq!(standings.clean_since_ms(), None);
    standings.has_all("c");
    standings.clean("c", 5);
    assert_eq!(
        standings.clean_since_ms(),
        Some(5),
        "b has not counted before it was looked through"
    );
    standings.clean("c", 9);
    assert_eq!(standings.clean_since_ms(), Some(8));
    let before = |ms| move |name: &str, clean_ms| name == "c" && clean_ms >= Some(ms);
    standings.forget(before(10));
    standings.want("c");
    standings.forget(before(9));
    assert!(standings.has("c"));
    standings.has_all("c");
    standings.forget(before(9));
    assert!(!standings.has("c") && standings.has("b"));
    assert_eq!(standings.clean_since_ms(), Some(8));
    standings.set(&["b".to_owned(), "d".to_owned()], false, now);
    assert_eq!(standings.clean_since_ms(), None);
    standings.set(&[], false, now);
    assert_eq!(standings.clean_since_ms(), Some(u64::MAX));
}

#[test]
fn a_map_with_more_of_it_has_all_of_them_looked_through() {
    let now = Instant::now();
    let mut standings = of(&["b"], now);
    standings.has_all("b");
    standings.heard("b", now);
    standings.set(&["b".to_owned(), "d".to_owned()], false, now);
    standings.want_all();
    assert!(standings.judge(now).until.is_some() && !standings.judge(now).is_whole);
    standings.has_all("b");
    // One that does not answer is not waited for.
    assert!(standings.failed("d", now, Failure::Gone, now));
    assert!(standings.judge(now).is_whole);
}
