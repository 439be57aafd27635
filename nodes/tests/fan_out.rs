//! Calls over nodes that answer, fail, are slow, switch versions and lie, in virtual time: what must hold whatever happens.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_nodes::{
    BucketMap, CopyId, FanOut, HedgeOptions, NodeIndex, Outcome, RetryOptions, Routing, ToSend,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What happens to the copy of that place among those under way.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The node answers as it stands.
    Answer(usize),
    Refuse(usize),
    Lose(usize),
    /// It answers from another version than it was asked for.
    Lie(usize),
    Wait(u64),
    /// A node serves the next version, and holds the one before or not.
    Switch(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let place = 0_usize..16;
    prop_oneof![
        8 => place.clone().prop_map(Step::Answer),
        1 => place.clone().prop_map(Step::Refuse),
        1 => place.clone().prop_map(Step::Lose),
        1 => place.prop_map(Step::Lie),
        4 => (1_u64..30).prop_map(Step::Wait),
        1 => (0_usize..5, any::<bool>()).prop_map(|(node, holds)| Step::Switch(node, holds)),
    ]
}

/// A node of the model.
#[derive(Debug, Clone, Copy)]
struct Server {
    serves: u64,
    holds: Option<u64>,
}

impl Server {
    fn answer(self, asked: Option<u64>) -> Outcome<&'static str> {
        let has = |version| version == self.serves || Some(version) == self.holds;
        match asked {
            Some(version) if !has(version) => Outcome::VersionGone("gone"),
            asked => Outcome::Rows {
                version: asked.unwrap_or(self.serves),
                active: self.serves,
            },
        }
    }
}

struct Bed {
    routing: Routing,
    now: Instant,
    servers: Vec<Server>,
}

fn bed(replicas: usize) -> Bed {
    let nodes: Vec<_> = (0..5)
        .map(|n| format!("{{ name = \"n{n}\", addresses = [\"n{n}:1\"] }}"))
        .collect();
    let nodes = nodes.join(",");
    let text = format!("version = 1\nbuckets = 32\nreplicas = {replicas}\nnodes = [{nodes}]");
    let map = Arc::new(BucketMap::from_toml(&text).unwrap());
    let hedge = HedgeOptions {
        share_permille: 500,
        saved_max: 100,
        delay_min: Duration::from_millis(1),
        ..HedgeOptions::default()
    };
    let server = Server {
        serves: 1,
        holds: None,
    };
    Bed {
        routing: Routing::new(map, hedge, RetryOptions::default()),
        now: Instant::now(),
        servers: vec![server; 5],
    }
}

/// What a caller keeps: the version of each key's rows, as a merge of answers would.
struct Taken {
    versions: Vec<Option<u64>>,
    under_way: Vec<ToSend>,
    /// Which nodes were asked for each key since the call last began anew, and which of them failed.
    asked: Vec<BTreeSet<NodeIndex>>,
    copies: usize,
}

impl Taken {
    fn send_all(&mut self, call: &mut FanOut<&'static str>, bed: &Bed, keys: &[u64]) {
        let map = bed.routing.map();
        while let Some(send) = call.next_send() {
            self.copies += 1;
            let (sent, positions) = (call.keys(send.copy), call.positions(send.copy));
            assert!(!sent.is_empty());
            assert_eq!(sent.len(), positions.len());
            for (key, position) in sent.iter().zip(positions) {
                let position = *position as usize;
                assert_eq!(*key, keys[position]);
                assert!(map.replicas(map.bucket(*key)).contains(&send.node));
                self.asked[position].insert(send.node);
            }
            self.under_way.push(send);
        }
    }

    fn on(
        &mut self,
        place: usize,
        outcome: impl FnOnce(&Server, ToSend) -> Outcome<&'static str>,
        call: &mut FanOut<&'static str>,
        bed: &mut Bed,
    ) {
        if self.under_way.is_empty() {
            return;
        }
        let send = self.under_way.swap_remove(place % self.under_way.len());
        let outcome = outcome(&bed.servers[send.node.get()], send);
        let version = match outcome {
            Outcome::Rows { version, .. } => Some(version),
            _ => None,
        };
        let was_complete = call.is_complete();
        let verdict = call.on(send.copy, outcome, &mut bed.routing, bed.now);
        assert!(!was_complete || verdict == Default::default());
        if verdict.reset {
            self.versions.fill(None);
            self.asked.iter_mut().for_each(BTreeSet::clear);
        }
        if verdict.take {
            for position in call.positions(send.copy) {
                self.versions[*position as usize] = version;
            }
        }
    }
}

/// Every key is answered from the call's version or missing, and missing only where all replicas were asked.
fn check_end(call: &FanOut<&'static str>, taken: &Taken, bed: &Bed, keys: &[u64]) {
    let map = bed.routing.map();
    let mut missing: BTreeMap<u32, NodeIndex> = BTreeMap::new();
    for part in call.missing() {
        assert!(!part.positions.is_empty());
        for position in &part.positions {
            assert!(missing.insert(*position, part.node).is_none());
        }
    }
    for (position, key) in (0_u32..).zip(keys) {
        let place = position as usize;
        match missing.get(&position) {
            None => assert_eq!(taken.versions[place], call.version(), "key {position}"),
            Some(last) => {
                let replicas: BTreeSet<_> = map.replicas(map.bucket(*key)).iter().copied().collect();
                assert_eq!(taken.asked[place], replicas, "key {position}");
                assert!(replicas.contains(last));
            }
        }
    }
}

proptest! {
    #[test]
    fn every_key_ends_once_and_all_are_of_one_version(
        replicas in 1_usize..4,
        calls in proptest::collection::vec((proptest::collection::vec(any::<u64>(), 0..40), proptest::collection::vec(step(), 0..40)), 1..6),
        learns in any::<bool>(),
    ) {
        let mut bed = bed(replicas);
        if learns {
            for _ in 0..100 {
                let mut attempt = bed.routing.hedging.begin(bed.now);
                let event = millpond_nodes::Event::Answered(millpond_nodes::Sent::First);
                let _ = bed.routing.hedging.on(&mut attempt, event, bed.now + Duration::from_millis(5));
            }
        }
        for (keys, steps) in calls {
            let mut call = FanOut::new("t", &keys, None, &mut bed.routing, bed.now).unwrap();
            let mut taken = Taken {
                versions: vec![None; keys.len()],
                under_way: Vec::new(),
                asked: vec![BTreeSet::new(); keys.len()],
                copies: 0,
            };
            prop_assert_eq!(call.is_complete(), keys.is_empty());
            taken.send_all(&mut call, &bed, &keys);
            for step in steps {
                match step {
                    Step::Answer(place) => taken.on(place, |server, send| server.answer(send.at_version), &mut call, &mut bed),
                    Step::Refuse(place) => taken.on(place, |_, _| Outcome::Refused("busy"), &mut call, &mut bed),
                    Step::Lose(place) => taken.on(place, |_, _| Outcome::Lost("closed"), &mut call, &mut bed),
                    Step::Lie(place) => taken.on(place, |_, send| Outcome::Rows {
                        version: send.at_version.map_or(1, |asked| asked + 7),
                        active: 1,
                    }, &mut call, &mut bed),
                    Step::Wait(wait_ms) => {
                        bed.now += Duration::from_millis(wait_ms);
                        if call.timer_at().is_some_and(|at| at <= bed.now) {
                            call.on_timer(&mut bed.routing, bed.now);
                        }
                    }
                    Step::Switch(node, holds) => {
                        let before = bed.servers[node].serves;
                        bed.servers[node] = Server { serves: before + 1, holds: holds.then_some(before) };
                    }
                }
                taken.send_all(&mut call, &bed, &keys);
            }
            // All that is under way is answered, until nothing is.
            while !taken.under_way.is_empty() {
                taken.on(0, |server, send| server.answer(send.at_version), &mut call, &mut bed);
                taken.send_all(&mut call, &bed, &keys);
            }
            prop_assert!(call.is_complete() && !call.is_outstanding());
            prop_assert_eq!(call.timer_at(), None);
            check_end(&call, &taken, &bed, &keys);
            // Each node is asked once for a key, but for one more time where it answered a later version, as often as the call began.
            prop_assert!(taken.copies <= 4 * 5 * 2 * 5);
            let map = bed.routing.map().clone();
            for name in 0..5 {
                let node = map.find(&format!("n{name}")).unwrap();
                prop_assert_eq!(bed.routing.replicas.outstanding(node), 0);
            }
        }
    }

    #[test]
    fn where_every_node_answers_each_is_asked_once_and_only_for_its_keys(keys in proptest::collection::vec(any::<u64>(), 1..200)) {
        let mut bed = bed(2);
        let mut call: FanOut<&str> = FanOut::new("t", &keys, Some(1), &mut bed.routing, bed.now).unwrap();
        let mut nodes = BTreeSet::new();
        let mut copies: Vec<CopyId> = Vec::new();
        while let Some(send) = call.next_send() {
            prop_assert!(nodes.insert(send.node));
            copies.push(send.copy);
        }
        let mut positions: Vec<u32> = copies.iter().flat_map(|copy| call.positions(*copy)).copied().collect();
        positions.sort_unstable();
        prop_assert_eq!(positions, (0..keys.len() as u32).collect::<Vec<_>>());
        for copy in copies {
            let outcome = Outcome::Rows { version: 1, active: 1 };
            prop_assert!(call.on(copy, outcome, &mut bed.routing, bed.now).take);
        }
        prop_assert!(call.is_complete() && call.missing().is_empty());
    }
}
