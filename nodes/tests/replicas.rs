//! Choices among replicas under random events in virtual time, against a model that remembers all that was said.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_nodes::{BucketMap, Choice, NodeIndex, Replicas};
use proptest::prelude::*;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
enum Step {
    Choose,
    Answered(usize),
    Failed(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Choose),
        2 => (0_usize..3).prop_map(Step::Answered),
        1 => (0_usize..3).prop_map(Step::Failed),
        1 => (1_u64..3000).prop_map(Step::Wait),
    ]
}

/// What a model knows of a node.
#[derive(Debug, Clone, Default)]
struct Known {
    outstanding: u32,
    /// Failures in a row that were news, and when the last of them was.
    failures: u32,
    failed_at: Option<Instant>,
    tried: bool,
}

impl Known {
    fn rests_until(&self) -> Option<Instant> {
        let wait_ms = (100 << self.failures.saturating_sub(1).min(10)).min(10_000);
        self.failed_at.map(|at| at + Duration::from_millis(wait_ms))
    }

    fn rests(&self, now: Instant) -> bool {
        self.rests_until().is_some_and(|until| until > now || self.tried)
    }
}

proptest! {
    #[test]
    fn choices_are_those_of_the_model(steps in proptest::collection::vec(step(), 1..300)) {
        let nodes = r#"version = 1
            buckets = 1
            replicas = 3
            nodes = [{ name = "a", addresses = ["a:1"] }, { name = "b", addresses = ["b:1"] }, { name = "c", addresses = ["c:1"] }]"#;
        let map = BucketMap::from_toml(nodes).unwrap();
        let indices: Vec<NodeIndex> = ["a", "b", "c"].iter().map(|name| map.find(name).unwrap()).collect();
        let mut replicas = Replicas::new(&map);
        let mut known = vec![Known::default(); 3];
        let mut now = Instant::now();
        for step in steps {
            match step {
                Step::Wait(ms) => now += Duration::from_millis(ms),
                Step::Answered(n) => {
                    replicas.answered(indices[n]);
                    known[n] = Known { outstanding: known[n].outstanding.saturating_sub(1), ..Known::default() };
                }
                Step::Failed(n) => {
                    replicas.failed(indices[n], now);
                    let node = &mut known[n];
                    node.outstanding = node.outstanding.saturating_sub(1);
                    if node.rests_until().is_none_or(|until| until <= now) {
                        *node = Known { outstanding: node.outstanding, failures: node.failures + 1, failed_at: Some(now), tried: false };
                    }
                }
                Step::Choose => {
                    let choice = replicas.choose(&indices, now);
                    let chosen = &known[choice.node().get()];
                    let due = known.iter().any(|node| node.failed_at.is_some() && !node.rests(now));
                    let up = known.iter().filter(|node| node.failed_at.is_none());
                    match (due, up.map(|node| node.outstanding).min(), choice) {
                        (true, _, Choice::Ready(_)) => prop_assert!(chosen.failed_at.is_some() && !chosen.rests(now)),
                        (false, Some(fewest), Choice::Ready(_)) => {
                            prop_assert!(chosen.failed_at.is_none());
                            prop_assert_eq!(chosen.outstanding, fewest);
                        }
                        (false, None, Choice::Resting { until, .. }) => {
                            prop_assert_eq!(known.iter().filter_map(Known::rests_until).min(), Some(until));
                            prop_assert_eq!(chosen.rests_until(), Some(until));
                        }
                        other => prop_assert!(false, "{:?} of {:?}", other, known),
                    }
                    let node = &mut known[choice.node().get()];
                    node.tried |= node.rests_until().is_some_and(|until| until <= now);
                    node.outstanding += 1;
                    replicas.sent(choice.node(), now);
                    prop_assert_eq!(replicas.outstanding(choice.node()), node.outstanding);
                }
            }
        }
    }
}
