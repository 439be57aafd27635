//! Lulls: a net thread that refuses most of what it is asked leaves its sockets alone for a moment after each look at them.
//!
//! What a refusal costs is taken from the work of the calls that were let in, and a part of it is the wake-up before it.
//! Requests that gather in a lull share one wake-up, and those of one connection one read and one send too. Its invariant: a
//! lull follows a look that brought more refusals than other calls, ends [`LULL_MAX`] after that look at the latest, and keeps
//! no answer and no order waiting.

use std::cell::Cell;
use std::time::Duration;

/// The longest one, from the look before it: by so much a refusal may come later.
pub(crate) const LULL_MAX: Duration = Duration::from_micros(400);

/// What came of the calls since it was last asked.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    calls: Cell<u32>,
    refusals: Cell<u32>,
}

impl Tally {
    /// Counts a call.
    pub(crate) fn count(&self, is_refused: bool) {
        self.calls.set(self.calls.get().saturating_add(1));
        if is_refused {
            self.refusals.set(self.refusals.get().saturating_add(1));
        }
    }

    /// Whether more of them were refused than not; it begins anew.
    pub(crate) fn is_mostly_refusals(&self) -> bool {
        let (calls, refusals) = (self.calls.take(), self.refusals.take());
        refusals > calls / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(refused: &[bool]) -> bool {
        let tally = Tally::default();
        refused.iter().for_each(|is_refused| tally.count(*is_refused));
        let told = tally.is_mostly_refusals();
        assert!(!tally.is_mostly_refusals(), "it begins anew");
        told
    }

    #[test]
    fn most_of_the_calls_decide() {
        assert!(!told(&[]));
        assert!(!told(&[false]) && told(&[true]));
        assert!(!told(&[true, false]) && told(&[true, false, true]));
    }
}
