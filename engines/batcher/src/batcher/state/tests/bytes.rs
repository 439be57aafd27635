//! The bound on the bytes of what waits and runs: who is refused, and when bytes become free again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::batcher::state::*;
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
            ..BatcherOptions::default()
        };
        let now = Instant::now();
        Bench {
            state: State::new(&options, now),
            now,
            cut: Cut::default(),
        }
    }

    /// A request of `source` that holds so many bytes.
    fn submit(&mut self, source: u64, bytes: usize) -> Result<(), Rejected> {
        let asked = Asked {
            source,
            priority: Priority::DEFAULT,
            rows: 1,
            bytes,
            deadline: None,
        };
        let told = self.state.refusal(&asked, self.now);
        let request = Request {
            source,
            priority: Priority::DEFAULT,
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
            self.state.take_place();
        }
        assert!(accepted.evicted.is_none());
        Ok(())
    }

    /// `instance` is through with what it had and cuts again.
    fn next(&mut self, instance: usize) {
        self.cut.batch.clear();
        self.cut.dropped.clear();
        self.state.next(instance.into(), self.now, &mut self.cut);
    }
}

#[test]
fn what_waits_and_runs_holds_no_more_than_may() {
    let mut bench = Bench::new(1, 100);
    assert_eq!(bench.submit(1, 60), Ok(()));
    bench.next(0); // it runs, and holds its bytes
    assert_eq!(bench.submit(1, 30), Ok(()));
    let full = Rejected::BytesFull {
        held: 90,
        bytes: 11,
        queue_bytes_max: 100,
    };
    assert_eq!(bench.submit(1, 11), Err(full));
    assert_eq!(bench.submit(1, 10), Ok(()));
    bench.next(0); // the first is through, the second runs
    assert_eq!(bench.state.bytes_held(), 40);
    assert_eq!(bench.submit(1, 60), Ok(()));
    (0..3).for_each(|_| bench.next(0));
    assert_eq!((bench.state.bytes_held(), bench.state.idle), (0, 1));
    // All of it, where nothing else is held; never more.
    assert_eq!(bench.submit(1, 100), Ok(()));
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
    assert_eq!(bench.submit(1, 60), Ok(()));
    bench.next(0);
    assert!(matches!(
        bench.submit(2, 50),
        Err(Rejected::BytesFull { held: 60, .. })
    ));
    assert_eq!(bench.submit(2, 40), Ok(()));
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
