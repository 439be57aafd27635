//! Lines of the log that anybody can cause by a connection: of each kind one a second is written, the others are counted.
//!
//! Its invariant: lines left out are counted in the next line of their kind, or in a line of their own.

pub use millpond_threads::LeftOut;
use millpond_threads::LineLimit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes a line of that level and kind, unless there was one a moment ago: fields in brackets, then the text.
#[macro_export]
macro_rules! limited {
    ($level:ident, $quiet:expr, $of:expr, [$($field:tt)*], $($text:tt)*) => {
        if let Some($crate::LeftOut(left_out)) = $quiet.admits($of) {
            $crate::tracing::$level!($($field)*, left_out, $($text)*);
        }
    };
}
pub(crate) use limited;

/// What lines are about that have no protocol.
pub(crate) const NOT_TLS: &str = "TLS that failed";
pub(crate) const CUT_SHORT: &str = "peers that closed in the middle of a request";
pub(crate) const PARTIAL: &str = "too much held of requests that are not whole";
pub(crate) const SLOW_READER: &str = "peers that do not read their answers";
pub(crate) const WRITE_BUFFERS: &str = "too much waiting for all peers";
pub(crate) const DROPPED: &str = "connections that could not begin";
pub(crate) const NOT_ACCEPTED: &str = "connections that could not be accepted";
pub(crate) const OVER_LIMIT: &str = "connections over the limit";
pub(crate) const NOT_TAKEN: &str = "connections that no net thread took";
pub(crate) const PANICKED: &str = "panics in serving a connection";

/// The lines of each kind, by what they are about. There are few kinds, and a line costs more than to find its own.
#[derive(Debug, Default)]
pub struct Quiet(Mutex<Vec<(&'static str, LineLimit)>>);

impl Quiet {
    fn limits(&self) -> MutexGuard<'_, Vec<(&'static str, LineLimit)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a line of that kind may be written now; with how many before it were left out.
    pub fn admits(&self, of: &'static str) -> Option<LeftOut> {
        let mut limits = self.limits();
        if let Some((_, limit)) = limits.iter().find(|(known, _)| *known == of) {
            return limit.admits();
        }
        let limit = LineLimit::default();
        let admitted = limit.admits();
        limits.push((of, limit));
        admitted
    }

    /// Tells of lines that were left out, where no further one has.
    pub(crate) fn tell(&self) {
        for (of, limit) in self.limits().iter() {
            if let Some(left_out) = limit.untold() {
                tracing::info!(left_out, of, "lines about connections were left out");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_lines_of_its_own() {
        let quiet = Quiet::default();
        for of in [NOT_TLS, CUT_SHORT, PARTIAL] {
            assert_eq!(quiet.admits(of), Some(LeftOut(None)), "{of}");
        }
        assert_eq!(quiet.admits(NOT_TLS), None);
    }
}
