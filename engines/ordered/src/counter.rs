//! Sums that many threads add to, and the number by which each thread has a place of its own in them.
//!
//! Not exact while others add. Invariant: a sum that is read behind an own addition has all additions made before that one.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Threads that add without a wait for each other's cache lines, mostly.
const PLACES: usize = 8;

static NEXT: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
}

/// The same in each call of a thread; threads count up from 0.
pub(crate) fn thread_number() -> usize {
    NUMBER.with(|number| *number)
}

/// Two lines, as processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Place(AtomicI64);

/// A sum that does not fall below 0.
#[derive(Default)]
pub(crate) struct Counter {
    places: [Place; PLACES],
}

impl Counter {
    pub fn add(&self, value: i64) {
        if let (true, Some(place)) = (value != 0, self.places.get(thread_number() % PLACES)) {
            place.0.fetch_add(value, Ordering::SeqCst);
        }
    }

    pub fn sum(&self) -> u64 {
        let places = self.places.iter();
        let sum: i64 = places.map(|place| place.0.load(Ordering::SeqCst)).sum();
        // Places are read one behind the other: what was added to one may be missing where its end was taken from another.
        sum.max(0).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_threads_add_is_summed() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * PLACES {
                scope.spawn(|| {
                    for value in 0..1000 {
                        counter.add(value);
                        counter.add(-value / 2);
                    }
                });
            }
        });
        let each: i64 = (0..1000).map(|value| value - value / 2).sum();
        assert_eq!(counter.sum(), 2 * PLACES as u64 * each.cast_unsigned());
    }
}
