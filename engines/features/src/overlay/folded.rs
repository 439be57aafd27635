//! What of a log a version has, and what a log says of the other replicas: up to which time it may be folded.
//!
//! It reads and writes nothing. Invariant: an entry that a version is said to have is in it, or a newer one of its key is.

use super::stamp::Stamp;

/// Up to where a version has what was upserted: in which log's history, up to which sequence, and below which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Folded {
    /// The log's; 0 of none.
    pub history: u64,
    /// The last sequence that was looked at.
    pub sequence: u64,
    /// Of upserts over nodes those that were made before this time are in, in milliseconds of Unix time.
    pub before_ms: u64,
}

impl Folded {
    /// Whether an entry is in.
    #[inline]
    pub(crate) fn has(&self, sequence: u64, stamp: Stamp) -> bool {
        sequence <= self.sequence && (!stamp.is_some() || stamp.ms() < self.before_ms)
    }

    /// Whether it has all that another one has of the same log.
    pub fn covers(&self, other: Folded) -> bool {
        self.sequence >= other.sequence && self.before_ms >= other.before_ms
    }

    /// This, or what a record says of the same log where that is no less.
    #[must_use]
    pub(super) fn or_further(self, sequence: u64, before_ms: u64) -> Folded {
        let further = Folded {
            sequence,
            before_ms,
            ..self
        };
        if further.covers(self) { further } else { self }
    }

    /// What both have.
    #[must_use]
    pub fn shared_with(self, other: Folded) -> Folded {
        Folded {
            sequence: self.sequence.min(other.sequence),
            before_ms: self.before_ms.min(other.before_ms),
            ..self
        }
    }

    /// Whether it has anything.
    pub fn is_some(&self) -> bool {
        self.sequence > 0 || self.before_ms > 0
    }
}

/// What the replicas of a table have said of their upserts, as milliseconds of Unix time; zeros before they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Every acknowledged upsert of this node's keys that was made before this time is in its log.
    pub whole_ms: u64,
    /// And in those of the other replicas: up to this time the log may be folded.
    pub foldable_ms: u64,
}

impl Settled {
    /// The later times of both.
    #[must_use]
    pub fn max(self, other: Settled) -> Settled {
        Settled {
            whole_ms: self.whole_ms.max(other.whole_ms),
            foldable_ms: self.foldable_ms.max(other.foldable_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_version_goes_by_sequence_and_by_time() {
        let of = |sequence, before_ms| Folded {
            history: 1,
            sequence,
            before_ms,
        };
        let stamp = |ms: u64| Stamp {
            time: ms << 16 | 3,
            origin: 7,
        };
        let check = |folded: Folded, sequence, stamp, expected| {
            assert_eq!(
                folded.has(sequence, stamp),
                expected,
                "{folded:?} {sequence} {stamp:?}"
            );
        };
        check(of(5, 0), 5, Stamp::default(), true);
        check(of(5, 0), 5, stamp(1), false);
        check(of(5, 9), 6, Stamp::default(), false);
        check(of(5, 9), 5, stamp(8), true);
        check(of(5, 9), 5, stamp(9), false);
        // It came late, so the version does not have it.
        check(of(5, 9), 6, stamp(8), false);
        assert!(of(5, 9).covers(of(5, 8)) && !of(5, 9).covers(of(4, 10)));
        assert_eq!(of(5, 9).shared_with(of(4, 10)), of(4, 9));
        assert_eq!(of(5, 9).or_further(6, 9), of(6, 9));
        assert_eq!(of(5, 9).or_further(4, 10), of(5, 9));
    }
}
