//! Places that callers have, moment by moment.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Bench, MS};
use crate::batcher::state::places::{Visit, Wake};
use crate::batcher::state::*;

impl Bench {
    /// The place that a caller of this source gets, if it gets one.
    fn visit(&mut self, source: u64) -> Option<usize> {
        let request = self.request(source, None);
        match self.state.visit(request, self.now).ok().unwrap() {
            Visit::Lent(lent) => Some(lent.place),
            Visit::Queued(accepted) => {
                if accepted.call {
                    self.state.called -= 1;
                    self.state.take_place();
                }
                None
            }
        }
    }

    fn give_back(&mut self, place: usize) -> Wake {
        self.state.give_back(place, None, true, self.now)
    }
}

#[test]
fn there_are_as_many_places_as_instances() {
    let mut bench = Bench::new(2, 4, 8);
    assert_eq!(bench.visit(1), Some(0));
    bench.submit(2, None).unwrap();
    assert_eq!(bench.next(1), [2]);
    assert_eq!((bench.visit(3), bench.state.occupancy().queued), (None, 1));
    // The instance is called that slept in this place's stead.
    assert_eq!(bench.give_back(0), Wake::Sleeper);
    assert_eq!((bench.state.idle, bench.state.called), (0, 1));
    bench.state.called -= 1;
    assert_eq!(bench.state.take_place(), 0);
    assert_eq!(bench.next(0), [3]);
    assert!(matches!(bench.act(1), Act::Rest));
    assert_eq!(bench.visit(4), Some(1));
    assert_eq!(bench.give_back(1), Wake::Nobody);
}

#[test]
fn nobody_passes_those_that_wait() {
    let mut bench = Bench::new(2, 1, 8);
    let request = bench.request(1, None);
    // Called, and not awake yet.
    assert!(bench.state.submit(request, bench.now).unwrap().call);
    assert_eq!(
        bench.visit(2),
        Some(0),
        "the called one has its request, and a place"
    );
    assert_eq!(bench.visit(3), None);
    bench.state.called -= 1;
    assert_eq!(bench.state.take_place(), 1);
    assert_eq!(bench.next(1), [1]);
    assert_eq!(bench.give_back(0), Wake::Sleeper);
    assert_eq!(bench.visit(4), None, "another is on its way for what waits");
}

#[test]
fn its_runs_tell_what_runs_take_unless_they_are_first_ones() {
    let mut bench = Bench::new(1, 1, 1000);
    for learns in [false, true] {
        let place = bench.visit(1).unwrap();
        bench.now += 5 * MS;
        bench.state.give_back(place, None, learns, bench.now);
        assert_eq!(bench.state.forecast.full_run(), learns.then_some(0.005));
    }
    // And while it runs, others wait for its end.
    bench.visit(1).unwrap();
    assert!(matches!(
        bench.submit(2, Some(8 * MS)),
        Err(Rejected::TooLate { wait_us: 5312, .. })
    ));
}

/// Runs of two milliseconds, and sources 1 and 2 that come back after a tenth of one.
fn known() -> Bench {
    let mut bench = Bench::new(1, 4, 8);
    for source in [1, 2].into_iter().flat_map(|source| [source; 6]) {
        let place = bench.visit(source).unwrap();
        bench.now += 2 * MS;
        bench.give_back(place);
        bench.now += MS / 10;
    }
    bench
}

#[test]
fn a_caller_does_not_run_ahead_of_others_that_are_due() {
    let mut bench = known();
    let place = bench.visit(1).unwrap();
    bench.submit(2, None).unwrap();
    bench.now += 2 * MS;
    assert_eq!(bench.give_back(place), Wake::Sleeper);
    bench.state.called -= 1;
    bench.state.take_place();
    // The instance waits for the caller, which joins.
    assert!(matches!(bench.act(0), Act::Hold(_)));
    bench.now += MS / 10;
    assert_eq!(bench.visit(1), None);
    assert_eq!(bench.next(0), [2, 1]);
    bench.now += 2 * MS;
    assert_eq!(bench.next(0), [0; 0]);
    // Both are due: neither runs alone.
    bench.now += MS / 20;
    assert_eq!(bench.visit(2), None);
    assert!(matches!(bench.act(0), Act::Hold(_)));
    assert_eq!(bench.visit(1), None);
    assert_eq!(bench.next(0), [2, 1]);
}

#[test]
fn a_place_that_becomes_free_takes_what_another_waits_with() {
    let mut bench = Bench::new(2, 4, 8);
    for source in [1, 2].into_iter().flat_map(|source| [source; 6]) {
        let place = bench.visit(source).unwrap();
        bench.now += 2 * MS;
        bench.give_back(place);
        bench.now += MS / 10;
    }
    // An instance runs source 1, a caller source 3; source 2 waits, and the instance for source 1.
    bench.submit(1, None).unwrap();
    assert_eq!(bench.next(0), [1]);
    bench.now += MS;
    let place = bench.visit(3).unwrap();
    bench.submit(2, None).unwrap();
    bench.now += MS;
    assert!(matches!(bench.act(0), Act::Hold(_)));
    assert_eq!(bench.give_back(place), Wake::Holder);
    assert!(!bench.state.holds(0.into()));
    assert_eq!((bench.state.idle, bench.state.called), (1, 1));
}

#[test]
fn instances_with_errands_hear_of_places_that_become_free() {
    let mut bench = Bench::new(1, 4, 8);
    let place = bench.visit(1).unwrap();
    bench.state.stopping = true;
    assert_eq!(bench.give_back(place), Wake::All);
}
