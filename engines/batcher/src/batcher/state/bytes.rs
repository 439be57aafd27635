//! The bound on the bytes of what waits and runs: who is refused, who gives way, and when bytes become free again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use std::sync::Arc;

/// A queue of any length that may hold so many bytes, one row a run.
struct Bench {
    state: State,
    now: Instant,
    cut: Cut,
}

impl Bench {
    fn new(instances: usize, queue_bytes_max: usize) -> Bench {
        let options = BatcherOptions {
            instances,
            batch_size_max: 1,
            queue_max: 1000,
            queue_bytes_max,
            cpus: Vec::new(),
        };
        let now = Instant::now();
        Bench {
            state: State::new(&options, now),
            now,
            cut: Cut::default(),
        }
    }

    /// A request of `source` that holds so many bytes; those that gave way, by source and bytes.
    fn submit(&mut self, source: u64, bytes: usize) -> Result<Vec<(u64, usize)>, Rejected> {
        let asked = Asked {
            source,
            rows: 1,
            bytes,
            deadline: None,
        };
        let told = self.state.refusal(&asked, self.now);
        let request = Request {
            source,
            inputs: Vec::new(),
            rows: 1,
            deadline: None,
            gone: Arc::default(),
            kept_bytes: bytes,
            done: Box::new(|_| ()),
        };
        let submitted = self.state.submit(request, self.now);
        assert_eq!(
            submitted.as_ref().err().map(|(rejected, _)| *rejected),
            told,
            "what is told beforehand"
        );
        let accepted = submitted.map_err(|(rejected, _)| rejected)?;
        if accepted.call {
            self.state.called -= 1; // it wakes at once
        }
        assert!(accepted.evicted.place.is_none());
        let gone = accepted.evicted.bytes.iter();
        Ok(gone
            .map(|waiting| (waiting.request.source, waiting.request.bytes()))
            .collect())
    }

    /// `instance` is through with what it had and cuts again.
    fn next(&mut self, instance: usize) {
        self.cut.batch.clear();
        self.cut.dropped.clear();
        self.state.ended(instance, self.now);
        self.state.cut(instance, self.now, &mut self.cut);
        if self.cut.batch.is_empty() && self.cut.dropped.is_empty() {
            self.state.rest();
        }
    }
}

#[test]
fn what_waits_and_runs_holds_no_more_than_may() {
    let mut bench = Bench::new(1, 100);
    assert_eq!(bench.submit(1, 60), Ok(vec![]));
    bench.next(0); // it runs, and holds its bytes
    assert_eq!(bench.submit(1, 30), Ok(vec![]));
    let full = Rejected::BytesFull {
        held: 90,
        bytes: 11,
        queue_bytes_max: 100,
    };
    assert_eq!(bench.submit(1, 11), Err(full));
    assert_eq!(bench.submit(1, 10), Ok(vec![]));
    bench.next(0); // the first is through, the second runs
    assert_eq!(bench.state.bytes_held(), 40);
    assert_eq!(bench.submit(1, 60), Ok(vec![]));
    (0..3).for_each(|_| bench.next(0));
    assert_eq!((bench.state.bytes_held(), bench.state.idle), (0, 1));
    // All of it, where nothing else is held; never more.
    assert_eq!(bench.submit(1, 100), Ok(vec![]));
    bench.next(0);
    bench.next(0);
    let too_many = Rejected::TooManyBytes {
        bytes: 101,
        queue_bytes_max: 100,
    };
    assert_eq!(bench.submit(1, 101), Err(too_many));
}

#[test]
fn an_idle_instance_gets_nothing_that_would_hold_too_much() {
    let mut bench = Bench::new(2, 100);
    assert_eq!(bench.submit(1, 60), Ok(vec![]));
    bench.next(0);
    assert!(matches!(
        bench.submit(2, 50),
        Err(Rejected::BytesFull { held: 60, .. })
    ));
    assert_eq!(bench.submit(2, 40), Ok(vec![]));
    bench.next(1);
    assert_eq!(bench.state.bytes_held(), 100);
}

#[test]
fn what_is_dropped_holds_its_bytes_until_it_is_answered() {
    let mut bench = Bench::new(1, 100);
    bench.submit(1, 50).unwrap();
    bench.next(0);
    bench.submit(1, 50).unwrap();
    let waits = bench.state.waiting.front().unwrap();
    waits
        .request
        .gone
        .store(true, std::sync::atomic::Ordering::Release);
    bench.next(0);
    assert_eq!((bench.cut.dropped.len(), bench.state.bytes_held()), (1, 50));
    bench.next(0);
    assert_eq!(bench.state.bytes_held(), 0);
}

#[test]
fn the_source_that_holds_most_bytes_gives_its_newest_up() {
    let mut bench = Bench::new(1, 100);
    bench.submit(9, 0).unwrap();
    bench.next(0);
    // Many small ones hold less than three that are large.
    for _ in 0..10 {
        bench.submit(1, 1).unwrap();
    }
    for bytes in [40, 30, 20] {
        bench.submit(2, bytes).unwrap();
    }
    assert_eq!(bench.submit(3, 5), Ok(vec![(2, 20)]));
    assert_eq!(bench.submit(3, 15), Ok(vec![]));
    // Who would then hold more than is left to the one that gives gets nothing, and nobody loses anything.
    assert!(matches!(
        bench.submit(3, 30),
        Err(Rejected::BytesFull { held: 100, .. })
    ));
    assert!(bench.submit(2, 1).is_err());
    assert_eq!(bench.state.waiting.load().requests, 14);
    // As many as it takes.
    let mut bench = Bench::new(1, 100);
    bench.submit(9, 0).unwrap();
    bench.next(0);
    for _ in 0..10 {
        bench.submit(1, 10).unwrap();
    }
    assert_eq!(bench.submit(2, 25), Ok(vec![(1, 10); 3]));
    assert_eq!(bench.state.bytes_held(), 95);
}
