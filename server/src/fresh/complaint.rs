//! What was said last of why this node cannot catch up with a replica, which it tries several times a second.
//!
//! Pure: it writes no line, and time is passed in. Its invariant: the same problem is said once a minute at most, whatever numbers it has.

use std::time::{Duration, Instant};

/// Between two lines of the same problem: whoever looks at the end of the log finds it.
const AGAIN: Duration = Duration::from_secs(60);

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    /// Without its numbers, such as those of bytes, which change from one try to the next.
    said: Option<(String, Instant)>,
}

impl Complaint {
    /// Whether it is to be said now; then it counts as said.
    pub(super) fn is_to_be_said(&mut self, problem: &str, now: Instant) -> bool {
        let gist: String = problem.chars().filter(|c| !c.is_ascii_digit()).collect();
        let is_said = self
            .said
            .as_ref()
            .is_some_and(|(said, at)| *said == gist && now.saturating_duration_since(*at) < AGAIN);
        if !is_said {
            self.said = Some((gist, now));
        }
        !is_said
    }

    /// The problem is over: it is said when it comes again.
    pub(super) fn is_over(&mut self) {
        self.said = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_said_when_it_is_another_one_or_a_minute_old() {
        let (now, mut complaint) = (Instant::now(), Complaint::default());
        let mut check = |problem: &str, s, expected| {
            let at = now + Duration::from_secs(s);
            assert_eq!(
                complaint.is_to_be_said(problem, at),
                expected,
                "{problem:?} at {s}"
            );
        };
        check("full: 90 bytes, 20 more", 0, true);
        check("full: 90 bytes, 20 more", 1, false);
        check("full: 95 bytes, 7 more", 59, false);
        check("full: 95 bytes, 7 more", 60, true);
        check("no answer", 61, true);
        check("full: 95 bytes, 7 more", 62, true);
        complaint.is_over();
        assert!(complaint.is_to_be_said("full: 95 bytes, 7 more", now));
    }
}
