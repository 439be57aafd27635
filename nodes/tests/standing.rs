//! A node that stands still for a second, in virtual time: what it costs the calls of that second, by count.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_nodes::{BucketMap, CopyId, FanOut, HedgeOptions, NodeIndex, Outcome, RetryOptions, Routing};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODES: usize = 10;
/// Calls of a second.
const CALLS: usize = 1_000;
const SECOND_US: u64 = 1_000_000;
const KEYS: u64 = 100;

/// What happens next, at a time in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Answer(usize, CopyId),
    Timer(usize),
    Begin(usize),
}

/// Calls to ten nodes with two replicas each.
struct World {
    routing: Routing,
    start: Instant,
    events: BinaryHeap<Reverse<(u64, What)>>,
    calls: Vec<Option<FanOut<()>>>,
    began_us: Vec<u64>,
    took_us: Vec<Option<u64>>,
    /// The state of the generator of latencies.
    random: u64,
    standing: NodeIndex,
    /// Copies sent to the node while it stood still.
    sent_there: usize,
    hedges: usize,
    copies: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let node = |number: usize| {
            let (pair, first) = (number / 2, number / 2 * 100);
            format!(
                "[[nodes]]\nname = \"n{pair}-{}\"\naddresses = [\"n:{}\"]\nbuckets = \"{first}-{}\"\n",
                number % 2,
                number + 1,
                first + 99
            )
        };
        let nodes: String = (0..2 * NODES).map(node).collect();
        let map = BucketMap::from_toml(&format!("version = 1\nbuckets = 1000\n{nodes}")).unwrap();
        let standing = map.find("n3-1").unwrap();
        let count = 3 * CALLS;
        World {
            routing: Routing::new(Arc::new(map), HedgeOptions::default(), RetryOptions::default()),
            start: Instant::now(),
            events: BinaryHeap::new(),
            calls: (0..count).map(|_| None).collect(),
            began_us: vec![0; count],
            took_us: vec![None; count],
            random: seed,
            standing,
            sent_there: 0,
            hedges: 0,
            copies: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % below
    }

    fn at(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }

    /// When a copy that is sent now is answered. One in thirty is late, and every 50 ms all nodes stop for 3 ms, so that the
    /// budget of hedges is spent as fast as it is earned.
    fn answered_at(&mut self, node: NodeIndex, now: u64) -> u64 {
        let service = 300
            + self.random(400)
            + if self.random(30) == 0 {
                self.random(3_000)
            } else {
                0
            };
        let mut at = now + service;
        if at % 50_000 < 3_000 {
            at = at / 50_000 * 50_000 + 3_000;
        }
        let stands = node == self.standing && (SECOND_US..2 * SECOND_US).contains(&at);
        if stands { 2 * SECOND_US + 500 } else { at }
    }

    fn run(&mut self) {
        for number in 0..self.calls.len() {
            let at = number as u64 * SECOND_US / CALLS as u64;
            self.events.push(Reverse((at, What::Begin(number))));
        }
        while let Some(Reverse((us, what))) = self.events.pop() {
            let now = self.at(us);
            let number = match what {
                What::Begin(number) => {
                    let keys: Vec<u64> = (0..KEYS).map(|key| number as u64 * KEYS + key).collect();
                    let call = FanOut::new("t", &keys, Some(1), &mut self.routing, now).unwrap();
                    self.calls[number] = Some(call);
                    self.began_us[number] = us;
                    number
                }
                What::Answer(number, copy) => {
                    let call = self.calls[number].as_mut().unwrap();
                    let rows = Outcome::Rows {
                        version: 1,
                        active: 1,
                    };
                    let _ = call.on(copy, rows, &mut self.routing, now);
                    number
                }
                What::Timer(number) => {
                    let call = self.calls[number].as_mut().unwrap();
                    call.on_timer(&mut self.routing, now);
                    number
                }
            };
            self.follow(number, us);
        }
    }

    /// Sends what a call has to send, and has it called when it is due.
    fn follow(&mut self, number: usize, us: u64) {
        while let Some(send) = self.calls[number].as_mut().unwrap().next_send() {
            self.copies += 1;
            self.hedges += usize::from(send.is_hedge);
            let stands = (SECOND_US..2 * SECOND_US).contains(&us);
            self.sent_there += usize::from(send.node == self.standing && stands);
            let at = self.answered_at(send.node, us);
            self.events.push(Reverse((at, What::Answer(number, send.copy))));
        }
        let call = self.calls[number].as_ref().unwrap();
        if call.is_complete() {
            assert_eq!(call.missing(), [], "no call fails");
            let took = us - self.began_us[number];
            self.took_us[number].get_or_insert(took);
        } else if let Some(due) = call.timer_at() {
            // Timers are due in whole microseconds here.
            let due = (due.duration_since(self.start).as_nanos() as u64).div_ceil(1_000);
            self.events.push(Reverse((due.max(us + 1), What::Timer(number))));
        }
    }

    /// What the calls of a second took, the least first.
    fn took(&self, second: usize) -> Vec<u64> {
        let calls = &self.took_us[second * CALLS..(second + 1) * CALLS];
        let mut took: Vec<u64> = calls.iter().map(|us| us.expect("every call ends")).collect();
        took.sort_unstable();
        took
    }
}

#[test]
fn a_node_that_stands_still_costs_those_calls_alone_that_it_has() {
    for seed in [1, 4, 5] {
        let mut world = World::new(seed);
        world.run();
        let usual_p99 = world.took(0)[CALLS * 99 / 100];
        let of_second = world.took(1);
        let slower = of_second.iter().filter(|us| **us > 3 * usual_p99).count();
        assert_eq!(slower, 0, "seed {seed}: {:?}", of_second.last());
        // What was sent before a call to it was overdue. Hedges of calls that its other replica is slow with are none of that.
        assert!(world.sent_there <= 5, "seed {seed}: {}", world.sent_there);
        assert!(
            world.hedges * 20 <= world.copies + 20 * 10,
            "seed {seed}: {}",
            world.hedges
        );
    }
}
