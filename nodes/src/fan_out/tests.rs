//! What a call does when its nodes answer, are slow, fail, or serve different versions.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{BucketMap, HedgeOptions, RetryOptions};
use std::sync::Arc;
use std::time::Duration;

/// Buckets of these nodes: b0 on a and b, b1 on a and c, b2 on b and c.
const MAP: &str = r#"version = 1
    buckets = 3
    nodes = [
        { name = "a", addresses = ["a:1"], buckets = "0-1" },
        { name = "b", addresses = ["b:1"], buckets = "0,2" },
        { name = "c", addresses = ["c:1"], buckets = "1-2" },
    ]"#;

struct Bed {
    routing: Routing,
    now: Instant,
}

fn bed() -> Bed {
    let map = Arc::new(BucketMap::from_toml(MAP).unwrap());
    let routing = Routing::new(map, HedgeOptions::default(), RetryOptions::default());
    Bed {
        routing,
        now: Instant::now(),
    }
}

impl Bed {
    fn node(&self, name: &str) -> NodeIndex {
        self.routing.map().find(name).unwrap()
    }

    /// So many keys of each bucket.
    fn keys(&self, counts: [usize; 3]) -> Vec<u64> {
        let map = self.routing.map();
        let of = |bucket: u32, count| {
            (0_u64..)
                .filter(move |key| map.bucket(*key) == bucket)
                .take(count)
        };
        let keys = (0_u32..)
            .zip(counts)
            .flat_map(|(bucket, count)| of(bucket, count));
        keys.collect()
    }

    fn begin(&mut self, keys: &[u64]) -> FanOut<&'static str> {
        FanOut::new("t", keys, None, &mut self.routing, self.now).unwrap()
    }

    /// Answers of 10 ms, until a slow copy is hedged after that time and ten hedges are saved.
    fn learn(&mut self) {
        for _ in 0..200 {
            let mut attempt = self.routing.hedging.begin(self.now);
            let later = self.now + Duration::from_millis(10);
            let event = Event::Answered(Sent::First);
            let _ = self.routing.hedging.on(&mut attempt, event, later);
        }
    }
}

/// Sends that are due: the node's name, the version asked for and how many keys.
fn sends(bed: &Bed, fan_out: &mut FanOut<&'static str>) -> Vec<(CopyId, String, Option<u64>, usize)> {
    let mut sends = Vec::new();
    while let Some(send) = fan_out.next_send() {
        let node = bed.routing.map().node(send.node).unwrap();
        sends.push((
            send.copy,
            node.name.clone(),
            send.at_version,
            fan_out.keys(send.copy).len(),
        ));
    }
    sends
}

const TAKE: Verdict = Verdict {
    reset: false,
    take: true,
};
const DROP: Verdict = Verdict {
    reset: false,
    take: false,
};

fn rows(version: u64) -> Outcome<&'static str> {
    Outcome::Rows {
        version,
        active: version,
    }
}

#[test]
fn a_failed_copy_is_split_again_over_the_other_replicas() {
    let mut bed = bed();
    let (b, c) = (bed.node("b"), bed.node("c"));
    bed.routing.replicas.sent(b, bed.now);
    bed.routing.replicas.sent(c, bed.now);
    let keys = bed.keys([2, 3, 0]);
    let mut call = bed.begin(&keys);
    let first = sends(&bed, &mut call);
    assert_eq!(first.len(), 1);
    let (copy, node, version, count) = &first[0];
    assert_eq!((node.as_str(), *version, *count), ("a", None, 5));
    let lost = Outcome::Lost("closed");
    assert_eq!(call.on(*copy, lost, &mut bed.routing, bed.now), DROP);
    let second = sends(&bed, &mut call);
    let second: Vec<_> = second
        .iter()
        .map(|(id, node, _, n)| (*id, node.as_str(), *n))
        .collect();
    let [(b_copy, "b", 2), (c_copy, "c", 3)] = second[..] else {
        panic!("{second:?}")
    };
    assert_eq!(call.on(b_copy, rows(1), &mut bed.routing, bed.now), TAKE);
    assert!(!call.is_complete());
    let refused = Outcome::Refused("overloaded");
    assert_eq!(call.on(c_copy, refused, &mut bed.routing, bed.now), DROP);
    assert!(call.is_complete() && !call.is_outstanding());
    assert_eq!(sends(&bed, &mut call), []);
    let missing = Missing {
        node: c,
        positions: vec![2, 3, 4],
        error: Some("overloaded"),
    };
    assert_eq!(call.missing(), [missing]);
}

#[test]
fn as_few_nodes_are_asked_as_replicas_allow_and_calls_take_turns() {
    let mut bed = bed();
    let text = r#"version = 1
        buckets = 64
        nodes = [
            { name = "a0", addresses = ["a0:1"], buckets = "0-31" },
            { name = "a1", addresses = ["a1:1"], buckets = "0-31" },
            { name = "b0", addresses = ["b0:1"], buckets = "32-63" },
            { name = "b1", addresses = ["b1:1"], buckets = "32-63" },
        ]"#;
    let map = Arc::new(BucketMap::from_toml(text).unwrap());
    bed.routing = bed.routing.succeeded_by(map);
    let keys: Vec<u64> = (0..500).collect();
    let mut asked = std::collections::BTreeMap::new();
    for _ in 0..4 {
        let mut call = bed.begin(&keys);
        let sent = sends(&bed, &mut call);
        assert_eq!(sent.len(), 2, "{sent:?}");
        for (_, node, ..) in sent {
            *asked.entry(node).or_insert(0) += 1;
        }
    }
    // What has not ended counts, so that the other replica is next.
    assert!(
        asked.len() == 4 && asked.values().all(|count| *count == 2),
        "{asked:?}"
    );
}

#[test]
fn a_slow_copy_is_hedged_over_the_other_replicas_and_each_costs() {
    let mut bed = bed();
    bed.learn();
    let (b, c) = (bed.node("b"), bed.node("c"));
    bed.routing.replicas.sent(b, bed.now);
    bed.routing.replicas.sent(c, bed.now);
    let keys = bed.keys([2, 3, 0]);
    let mut call = bed.begin(&keys);
    let (slow, ..) = sends(&bed, &mut call)[0];
    let due = call.timer_at().unwrap();
    assert_eq!(due, bed.now + Duration::from_millis(10));
    call.on_timer(&mut bed.routing, bed.now);
    assert_eq!(sends(&bed, &mut call), []);
    call.on_timer(&mut bed.routing, due);
    let hedges = sends(&bed, &mut call);
    assert_eq!(hedges.len(), 2, "{hedges:?}");
    assert_eq!(call.timer_at(), None);
    for (copy, ..) in &hedges {
        assert_eq!(call.on(*copy, rows(1), &mut bed.routing, due), TAKE);
    }
    assert!(call.is_complete() && call.is_outstanding());
    // The slow one stays outstanding, so that the next call goes elsewhere, and its answer comes too late to be taken.
    assert_eq!(bed.routing.replicas.outstanding(bed.node("a")), 1);
    assert_eq!(call.on(slow, rows(1), &mut bed.routing, due), DROP);
    assert_eq!(bed.routing.replicas.outstanding(bed.node("a")), 0);
    // Ten hedges were saved and two are spent: four more calls of two spend the rest.
    let mut hedged = 0;
    for _ in 0..8 {
        let mut call = bed.begin(&keys);
        sends(&bed, &mut call);
        call.on_timer(&mut bed.routing, due + Duration::from_millis(100));
        hedged += sends(&bed, &mut call).len();
        call.abandon(&mut bed.routing, bed.now);
    }
    assert!((8..=10).contains(&hedged), "{hedged}");
}

/// A call of so many keys of each bucket that is one copy, to node a: b has more calls, and c lets one wait since so many
/// milliseconds, whose copy is given too.
fn slow_at_a(
    bed: &mut Bed,
    counts: [usize; 3],
    c_waits_ms: u64,
) -> (FanOut<&'static str>, FanOut<&'static str>, CopyId) {
    bed.learn();
    let (a, b, c) = (bed.node("a"), bed.node("b"), bed.node("c"));
    bed.routing.replicas.sent(a, bed.now);
    bed.routing.replicas.sent(b, bed.now);
    let keys = bed.keys([0, 1, 0]);
    let mut waits = bed.begin(&keys);
    let of_c = sends(bed, &mut waits);
    assert_eq!(of_c[0].1, "c");
    bed.routing.replicas.overdue(c, bed.now);
    bed.routing.replicas.sent(b, bed.now);
    bed.now += Duration::from_millis(c_waits_ms);
    let keys = bed.keys(counts);
    let mut call = bed.begin(&keys);
    let sent = sends(bed, &mut call);
    assert_eq!((sent.len(), sent[0].1.as_str()), (1, "a"));
    (call, waits, of_c[0].0)
}

#[test]
fn keys_whose_other_replica_stands_still_go_there_beside_those_that_go_elsewhere() {
    let mut bed = bed();
    let (mut call, _waits, _) = slow_at_a(&mut bed, [2, 3, 0], 100);
    bed.now = call.timer_at().unwrap();
    call.on_timer(&mut bed.routing, bed.now);
    let hedges = sends(&bed, &mut call);
    let sent: Vec<_> = hedges
        .iter()
        .map(|(_, node, _, count)| (node.as_str(), *count))
        .collect();
    assert_eq!(sent, [("b", 2), ("c", 3)]);
    for (copy, ..) in hedges {
        assert_eq!(call.on(copy, rows(1), &mut bed.routing, bed.now), TAKE);
    }
    assert!(call.is_complete());
}

#[test]
fn where_all_others_stand_still_a_slow_copy_waits_for_them_and_its_keys_are_not_looked_at() {
    let mut bed = bed();
    let (mut call, mut waits, of_c) = slow_at_a(&mut bed, [0, 3, 0], 100);
    let (a, first) = (bed.node("a"), CopyId(0));
    let since = bed.now;
    let mut tries = 0;
    while bed.now < since + Duration::from_secs(1) {
        bed.now = call.timer_at().unwrap();
        call.on_timer(&mut bed.routing, bed.now);
        assert_eq!(sends(&bed, &mut call), []);
        let event = call.without_keys(first, a, &bed.routing, bed.now);
        assert_eq!(event, Event::Later(None));
        tries += 1;
    }
    assert!(tries < 20, "{tries} in a second");
    let _ = waits.on(of_c, rows(1), &mut bed.routing, bed.now);
    bed.now = call.timer_at().unwrap();
    call.on_timer(&mut bed.routing, bed.now);
    assert_eq!(sends(&bed, &mut call)[0].1, "c");
    assert_eq!(call.timer_at(), None);
}

#[test]
fn where_the_budget_is_short_the_keys_of_a_slow_copy_are_not_looked_at_until_its_node_stands_still() {
    let mut bed = bed();
    let ms = Duration::from_millis;
    let (mut call, mut waits, of_c) = slow_at_a(&mut bed, [0, 3, 0], 5);
    let _ = waits.on(of_c, rows(1), &mut bed.routing, bed.now);
    // Slow calls spend what there is.
    let mut slow: Vec<_> = (0..20).map(|_| bed.routing.hedging.begin(bed.now)).collect();
    let begun = bed.now;
    bed.now = call.timer_at().unwrap();
    for attempt in &mut slow {
        let _ = bed.routing.hedging.on(attempt, Event::Timer, bed.now);
    }
    let (a, first) = (bed.node("a"), CopyId(0));
    let stands_at = begun + ms(10 + 40);
    while bed.now < stands_at {
        call.on_timer(&mut bed.routing, bed.now);
        assert_eq!(sends(&bed, &mut call), [], "after {:?}", bed.now - begun);
        let event = call.without_keys(first, a, &bed.routing, bed.now);
        assert_eq!(event, Event::Later(Some(stands_at)));
        bed.now = call.timer_at().unwrap();
    }
    // It is due when the node is taken to stand still, and not some time after that.
    assert_eq!(bed.now, stands_at);
    call.on_timer(&mut bed.routing, bed.now);
    assert_eq!(sends(&bed, &mut call)[0].1, "c");
}

#[test]
fn no_call_mixes_versions() {
    let mut bed = bed();
    let keys = bed.keys([4, 4, 4]);
    // The first call knows no version: the least that is answered is taken, what was taken before is dropped.
    let mut call = bed.begin(&keys);
    let first = sends(&bed, &mut call);
    assert!(first.len() > 1 && first.iter().all(|(_, _, version, _)| version.is_none()));
    assert_eq!(call.on(first[0].0, rows(2), &mut bed.routing, bed.now), TAKE);
    let restart = Verdict {
        reset: true,
        take: true,
    };
    assert_eq!(call.on(first[1].0, rows(1), &mut bed.routing, bed.now), restart);
    let again = sends(&bed, &mut call);
    assert!(
        again.iter().all(|(_, _, version, _)| *version == Some(1)),
        "{again:?}"
    );
    for (copy, node, ..) in &again {
        let held = Outcome::Rows {
            version: 1,
            active: if *node == first[1].1 { 1 } else { 2 },
        };
        assert_eq!(call.on(*copy, held, &mut bed.routing, bed.now), TAKE);
    }
    assert!(call.is_complete() && call.missing().is_empty());
    assert_eq!(call.version(), Some(1));
    call.abandon(&mut bed.routing, bed.now);
    // The next call asks all for what every node has.
    let mut call = bed.begin(&keys);
    assert_eq!(call.version(), Some(1));
    // Where one has it no more and nor has another replica, the call begins anew with what the others serve.
    bed.routing.pins = crate::Pins::new(bed.routing.map());
    let (a, b, c) = (bed.node("a"), bed.node("b"), bed.node("c"));
    for node in [a, b, c] {
        bed.routing.pins.said("t", node, 2, 2);
    }
    let mut gone = 0;
    while !call.is_complete() {
        for (copy, _, version, _) in sends(&bed, &mut call) {
            let outcome = match version {
                Some(2) => rows(2),
                _ => {
                    gone += 1;
                    Outcome::VersionGone("gone")
                }
            };
            let _ = call.on(copy, outcome, &mut bed.routing, bed.now);
        }
    }
    assert!(gone > 1 && call.missing().is_empty());
    assert_eq!(call.version(), Some(2));
}

#[test]
fn what_nodes_served_long_ago_leaves_no_key_missing() {
    let mut bed = bed();
    for name in ["a", "b", "c"] {
        let node = bed.node(name);
        bed.routing.pins.said("t", node, 3, 3);
    }
    let keys = bed.keys([2, 2, 2]);
    let mut call = bed.begin(&keys);
    assert_eq!(call.version(), Some(3));
    // All serve version 4 by now, and only c still has version 3.
    while !call.is_complete() {
        for (copy, node, version, _) in sends(&bed, &mut call) {
            let outcome = match version {
                Some(3) if node == "c" => Outcome::Rows {
                    version: 3,
                    active: 4,
                },
                Some(3) => Outcome::VersionGone("gone"),
                _ => rows(4),
            };
            let _ = call.on(copy, outcome, &mut bed.routing, bed.now);
        }
    }
    assert!(call.missing().is_empty());
    assert_eq!(call.version(), Some(4));
}

#[test]
fn a_version_that_the_caller_named_is_never_exchanged() {
    let mut bed = bed();
    let keys = bed.keys([2, 0, 0]);
    let mut call = FanOut::new("t", &keys, Some(7), &mut bed.routing, bed.now).unwrap();
    bed.routing.pins.said("t", bed.node("c"), 9, 9);
    for _ in 0..2 {
        let [(copy, _, Some(7), 2)] = sends(&bed, &mut call)[..] else {
            panic!("not one copy of both keys");
        };
        let gone = Outcome::VersionGone("gone");
        assert_eq!(call.on(copy, gone, &mut bed.routing, bed.now), DROP);
    }
    assert!(call.is_complete());
    assert_eq!(call.missing()[0].error, Some("gone"));
}

#[test]
fn keys_that_nobody_answered_in_time_are_missing_and_their_copies_stay_outstanding() {
    let mut bed = bed();
    let keys = bed.keys([2, 2, 2]);
    let mut call = bed.begin(&keys);
    let sent = sends(&bed, &mut call);
    assert_eq!(call.on(sent[0].0, rows(1), &mut bed.routing, bed.now), TAKE);
    call.expire(&mut bed.routing, |_| "late");
    assert!(call.is_complete() && call.is_outstanding());
    let missing: usize = call.missing().iter().map(|missing| missing.positions.len()).sum();
    assert_eq!(missing, keys.len() - sent[0].3);
    for (copy, ..) in &sent[1..] {
        assert_eq!(call.on(*copy, rows(1), &mut bed.routing, bed.now), DROP);
    }
    assert!(!call.is_outstanding());
}
