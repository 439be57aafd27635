//! The buffers that a net thread lends its connections for a turn.
//!
//! A connection owns what it has borrowed until it gives it back, so that several may hold answers at once, and a panic in
//! one takes nothing from another. Its invariant: what is kept for the next turn is empty, and bounded.

use super::SCRATCH_BYTES;
use crate::Mark;
use crate::connection::Timed;
use std::time::Instant;

/// Connections that are served before the answers of all of them are sent: as many may hold a buffer at once.
pub(super) const TURNS_TOGETHER: usize = 16;
/// Capacity of one buffer for answers that is kept.
pub(crate) const OUT_BYTES_KEPT: usize = 256 << 10;
/// Capacity of all of them together.
const OUT_BYTES_KEPT_TOTAL: usize = 512 << 10;
/// Measured answers of one buffer that is kept, and of all of them.
const TIMED_KEPT: usize = 1024;
const TIMED_KEPT_TOTAL: usize = 4 * TIMED_KEPT;
/// What a net thread keeps from turn to turn: what is read to, the spare buffers, and those of sessions and of TLS.
pub(crate) const KEPT_BYTES_MAX: usize =
    2 * SCRATCH_BYTES + OUT_BYTES_KEPT_TOTAL + OUT_BYTES_KEPT + TIMED_KEPT_TOTAL * size_of::<Timed>();

/// What connections borrow for one turn.
pub(crate) struct Buffers {
    /// When the thread's turn began.
    pub(crate) began: Option<Instant>,
    /// Where bytes are read to.
    pub(crate) read: Vec<u8>,
    /// Buffers for answers. A connection that has sent all of its own gives its buffer back, so that an idle one holds none.
    pub(crate) out: Spares<u8>,
    /// The same for the times of answers that are measured.
    pub(crate) timed: Spares<Timed>,
    /// Measured answers that have left: their marks, and since when they were ready.
    pub(crate) written: Vec<(Mark, Instant)>,
    /// Where sessions work.
    pub(crate) scratch: Vec<u8>,
    /// Answers that are being encrypted.
    pub(crate) plain: Vec<u8>,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers {
            began: None,
            read: vec![0; SCRATCH_BYTES],
            out: Spares::keeping(OUT_BYTES_KEPT, OUT_BYTES_KEPT_TOTAL),
            timed: Spares::keeping(TIMED_KEPT, TIMED_KEPT_TOTAL),
            written: Vec::new(),
            scratch: Vec::new(),
            plain: Vec::new(),
        }
    }
}

/// Empty buffers that wait to be lent again.
pub(crate) struct Spares<T> {
    spare: Vec<Vec<T>>,
    /// Capacity of all of them.
    capacity: usize,
    /// Bounds of one's capacity and of all.
    one_max: usize,
    all_max: usize,
}

impl<T> Spares<T> {
    fn keeping(one_max: usize, all_max: usize) -> Spares<T> {
        Spares {
            spare: Vec::new(),
            capacity: 0,
            one_max,
            all_max,
        }
    }

    /// The buffer that was given back last, as the processor's caches may still hold it; an empty one where there is none.
    #[inline]
    pub(crate) fn lend(&mut self) -> Vec<T> {
        let lent = self.spare.pop().unwrap_or_default();
        self.capacity -= lent.capacity();
        lent
    }

    /// Takes a buffer back, and keeps it within the bounds. What is in it is dropped.
    #[inline]
    pub(crate) fn take_back(&mut self, mut buffer: Vec<T>) {
        let capacity = buffer.capacity();
        let fits = capacity <= self.one_max && self.capacity + capacity <= self.all_max;
        if capacity > 0 && fits && self.spare.len() < TURNS_TOGETHER {
            buffer.clear();
            self.capacity += capacity;
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_empty_and_bounded() {
        let mut spares = Spares::keeping(1000, 2500);
        let check = |spares: &mut Spares<u8>, given: &[usize], kept: &[usize]| {
            for capacity in given {
                let mut buffer = Vec::with_capacity(*capacity);
                buffer.extend(std::iter::repeat_n(7, *capacity));
                spares.take_back(buffer);
            }
            let lent: Vec<Vec<u8>> = std::iter::repeat_with(|| spares.lend())
                .take_while(|lent| lent.capacity() > 0)
                .collect();
            let capacities: Vec<usize> = lent.iter().map(Vec::capacity).collect();
            assert_eq!(capacities, kept, "{given:?}");
            assert!(lent.iter().all(Vec::is_empty));
            assert_eq!(spares.capacity, 0);
        };
        check(&mut spares, &[100, 200, 300], &[300, 200, 100]);
        check(&mut spares, &[0, 1001, 1000], &[1000]);
        check(&mut spares, &[1000, 1000, 1000, 500, 1], &[500, 1000, 1000]);
        check(&mut spares, &[10; TURNS_TOGETHER + 2], &[10; TURNS_TOGETHER]);
    }
}
