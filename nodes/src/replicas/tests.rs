//! What is chosen after what was said of the nodes. Time is passed in.
#![allow(clippy::unwrap_used)]
use super::*;

const A: NodeIndex = NodeIndex(0);
const B: NodeIndex = NodeIndex(1);
const C: NodeIndex = NodeIndex(2);

fn map(version: u64, names: &[&str]) -> BucketMap {
    let nodes: Vec<_> = names
        .iter()
        .map(|name| format!("{{ name = {name:?}, addresses = [\"{name}:1\"] }}"))
        .collect();
    let text = format!("version = {version}\nbuckets = 4\nnodes = [{}]", nodes.join(","));
    BucketMap::from_toml(&text).unwrap()
}

fn state() -> (Replicas, Instant) {
    (Replicas::new(&map(1, &["a", "b", "c"])), Instant::now())
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn the_fewest_outstanding_win_and_ties_go_round() {
    let (mut replicas, now) = state();
    let chosen: Vec<_> = (0..4).map(|_| replicas.choose(&[A, B], now)).collect();
    assert_eq!(chosen, [A, B, A, B].map(Choice::Ready));
    let asked = replicas.sent(A, now);
    replicas.sent(A, now);
    replicas.sent(B, now);
    for _ in 0..4 {
        assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(B));
    }
    replicas.answered(A);
    replicas.abandoned(asked, now);
    assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(A));
    assert_eq!(replicas.choose(&[], now), Choice::None);
}

#[test]
fn a_failed_node_rests_longer_each_time_and_is_tried_by_one_call() {
    let (mut replicas, start) = state();
    let mut now = start;
    for wait in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        replicas.sent(A, now);
        replicas.sent(A, now);
        replicas.failed(A, now);
        // The second one was under way: it does not double the wait.
        replicas.failed(A, now);
        assert_eq!(replicas.choose(&[A, B], now + ms(wait - 1)), Choice::Ready(B));
        now += ms(wait);
        assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(A));
        let trial = replicas.sent(A, now);
        assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(B));
        replicas.abandoned(trial, now);
    }
    replicas.sent(A, now);
    replicas.answered(A);
    replicas.failed(A, now);
    assert_eq!(
        replicas.choose(&[A], now),
        Choice::Resting {
            node: A,
            until: now + ms(100)
        }
    );
}

#[test]
fn only_the_call_that_tries_a_node_ends_its_trial() {
    let (mut replicas, now) = state();
    let before = replicas.sent(A, now);
    replicas.lost(A, now);
    let later = now + ms(100);
    let trial = replicas.sent(A, later);
    let beside = replicas.sent(A, later);
    for other in [before, beside] {
        replicas.abandoned(other, now);
        assert_eq!(replicas.choose(&[A, B], later), Choice::Ready(B));
    }
    replicas.abandoned(trial, now);
    assert_eq!(replicas.choose(&[A, B], later), Choice::Ready(A));
    assert_eq!(replicas.outstanding(A), 0);
}

#[test]
fn a_preferred_node_is_chosen_while_it_is_up() {
    let (mut replicas, now) = state();
    replicas.prefer(Some(B));
    replicas.sent(B, now);
    for _ in 0..3 {
        assert_eq!(replicas.choose(&[A, B, C], now), Choice::Ready(B));
    }
    assert_eq!(replicas.choose_other(&[A, B], Some(B), now), Choice::Ready(A));
    replicas.failed(B, now);
    assert_ne!(replicas.choose(&[A, B, C], now), Choice::Ready(B));
}

#[test]
fn where_all_failed_the_first_to_be_due_is_named() {
    let (mut replicas, now) = state();
    replicas.lost(B, now);
    replicas.lost(A, now + ms(10));
    replicas.lost(C, now + ms(20));
    let until = now + ms(100);
    assert_eq!(
        replicas.choose(&[C, A, B], now + ms(30)),
        Choice::Resting { node: B, until }
    );
    let map = map(1, &["a", "b", "c"]);
    replicas.leases_ended(&map, &BTreeSet::from(["c".to_owned()]));
    replicas.leases_ended(&map, &BTreeSet::new());
    assert_eq!(replicas.choose(&[C, A, B], now + ms(30)), Choice::Ready(C));
}

#[test]
fn a_node_without_a_lease_is_asked_where_no_other_is_up() {
    let (old, new) = (map(1, &["a", "b", "c"]), map(2, &["b", "d"]));
    let (mut replicas, now) = state();
    replicas.leases_ended(&old, &BTreeSet::from(["b".to_owned()]));
    for _ in 0..4 {
        replicas.sent(A, now);
        assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(A));
        assert_eq!(replicas.choose_other(&[A, B, C], Some(A), now), Choice::Ready(C));
    }
    assert!(!replicas.may_join(A, B, now) && replicas.may_join(B, C, now));
    // As a second copy, and where the other has failed.
    assert_eq!(replicas.choose_other(&[A, B], Some(A), now), Choice::Ready(B));
    replicas.failed(A, now);
    assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(B));
    // That it answers gives it no lease, and its trial waits until no other is up.
    replicas.sent(B, now);
    replicas.answered(B);
    assert_eq!(replicas.choose(&[B, C], now), Choice::Ready(C));
    replicas.failed(B, now);
    assert_eq!(replicas.choose(&[B, C], now + ms(100)), Choice::Ready(C));
    assert_eq!(replicas.choose(&[B], now + ms(100)), Choice::Ready(B));
    let mut next = replicas.succeeded_by(&old, &new);
    let [b, d] = ["b", "d"].map(|name| new.find(name).unwrap());
    assert_eq!(next.choose(&[b, d], now + ms(500)), Choice::Ready(d));
    next.leases_ended(&new, &BTreeSet::new());
    next.sent(d, now);
    assert_eq!(next.choose(&[b, d], now), Choice::Ready(b));
    // This server itself needs none.
    next.leases_ended(&new, &BTreeSet::from(["b".to_owned()]));
    next.prefer(Some(b));
    assert_eq!(next.choose(&[b, d], now), Choice::Ready(b));
}

#[test]
fn a_node_that_lets_a_call_wait_is_asked_where_no_other_answers() {
    let (mut replicas, now) = state();
    replicas.sent(A, now);
    let given_up = replicas.sent(B, now);
    replicas.overdue(A, now);
    for _ in 0..3 {
        replicas.sent(B, now);
        assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(B));
    }
    assert!(!replicas.may_join(B, A, now) && replicas.may_join(A, B, now));
    // Of two that are silent, the one that is so for longer is avoided; that a call is overdue again changes nothing.
    replicas.overdue(B, now + ms(1));
    replicas.overdue(A, now + ms(2));
    assert_eq!(replicas.silent_since(A, now), Some(now));
    assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(B));
    // Any answer says that it runs.
    replicas.answered(B);
    replicas.abandoned(given_up, now);
    assert_eq!(replicas.silent_since(B, now), None);
    // One that has a lease and is silent comes behind one that has none and answers.
    let ended = BTreeSet::from(["b".to_owned()]);
    replicas.leases_ended(&map(1, &["a", "b", "c"]), &ended);
    assert_eq!(replicas.choose(&[A, B], now), Choice::Ready(B));
    assert_eq!(replicas.choose_other(&[A, B, C], Some(C), now), Choice::Ready(B));
}

#[test]
fn a_silent_node_is_remembered_when_its_last_call_is_cancelled() {
    let check = |waited: u64, remembered: u64| {
        let (mut replicas, start) = state();
        // A has more calls, so that it is silence that decides.
        replicas.sent(A, start);
        let last = replicas.sent(C, start);
        let now = start + ms(waited);
        replicas.overdue(C, now);
        replicas.abandoned(last, now);
        let until = now + ms(remembered);
        for at in [now, until - ms(1)] {
            assert_eq!(replicas.choose(&[A, C], at), Choice::Ready(A), "{waited} ms");
        }
        // Where it is the only one it is asked. That such a call is cancelled too soon to be overdue says nothing more.
        let only = replicas.sent(C, now);
        replicas.abandoned(only, until - ms(1));
        assert_eq!(replicas.silent_since(C, until - ms(1)), Some(now));
        assert_eq!(replicas.choose(&[A, C], until), Choice::Ready(C), "{waited} ms");
        // Then it is silent anew only where it lets another call wait, and not since the last time.
        replicas.sent(C, until);
        assert_eq!(replicas.silent_since(C, until), None);
        replicas.overdue(C, until + ms(5));
        assert_eq!(replicas.silent_since(C, until + ms(5)), Some(until + ms(5)));
    };
    check(2, 100);
    check(30, 300);
    check(5_000, 1_000);
}

#[test]
fn a_second_copy_goes_elsewhere_and_tries_nobody() {
    let (mut replicas, now) = state();
    replicas.lost(B, now);
    let later = now + ms(500);
    assert_eq!(
        replicas.choose_other(&[A, B, C], Some(A), later),
        Choice::Ready(C)
    );
    assert!(matches!(
        replicas.choose_other(&[A, B], Some(A), later),
        Choice::Resting { node: B, .. }
    ));
    assert_eq!(replicas.choose_other(&[A], Some(A), later), Choice::None);
}

#[test]
fn the_next_map_knows_who_failed_and_counts_anew() {
    let (old, new) = (map(1, &["a", "b", "c"]), map(2, &["c", "d", "a"]));
    let (mut replicas, now) = state();
    replicas.sent(A, now);
    replicas.lost(C, now);
    let mut next = replicas.succeeded_by(&old, &new);
    let [c, d, a] = ["c", "d", "a"].map(|name| new.find(name).unwrap());
    assert!(matches!(next.choose(&[c], now), Choice::Resting { .. }));
    assert_eq!(next.choose(&[d], now), Choice::Ready(d));
    assert_eq!((next.outstanding(a), replicas.outstanding(A)), (0, 1));
}
