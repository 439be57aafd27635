//! What was said last of why this node cannot catch up with a replica, which it tries several times a second.
//!
//! Pure: it writes no line, and time is passed in. Its invariants: the same problem is said once a minute at most, whatever numbers
//! it has; and no more than so many problems are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Between two lines of the same problem: whoever looks at the end of the log finds it.
const AGAIN: Duration = Duration::from_secs(60);
/// Problems of a replica that are said in that time. More of them would be the same one in other words.
const SAID_MAX: usize = 16;

/// Problems of one replica that were logged lately, so that each is logged once a minute.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    /// When each was said, by its gist.
    said: BTreeMap<String, Instant>,
}

/// A problem without its numbers, such as those of bytes, which change from one try to the next. What is in quotes stays: tables and
/// nodes may differ in a digit alone.
fn gist(problem: &str) -> String {
    let parts = problem.split('"').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => part.replace(|c: char| c.is_ascii_digit(), ""),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("\"")
}

impl Complaint {
    /// Whether it is to be said now; then it counts as said.
    pub(super) fn is_to_be_said(&mut self, problem: &str, now: Instant) -> bool {
        self.said
            .retain(|_, at| now.saturating_duration_since(*at) < AGAIN);
        let gist = gist(problem);
        let is_new = !self.said.contains_key(&gist) && self.said.len() < SAID_MAX;
        if is_new {
            self.said.insert(gist, now);
        }
        is_new
    }

    /// The problems are over: each is said when it comes again.
    pub(super) fn is_over(&mut self) {
        self.said.clear();
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
        check("full: 95 bytes, 7 more", 62, false);
        check("no answer", 63, false);
        check("table \"t1\": 3 bytes", 64, true);
        check("table \"t2\": 3 bytes", 64, true);
        check("table \"t1\": 4 bytes", 65, false);
        check("table \"t2\": 4 bytes", 65, false);
        for at in 0..100 {
            check(&format!("\"{at}\""), 66, at < 12);
        }
        complaint.is_over();
        assert!(complaint.is_to_be_said("full: 95 bytes, 7 more", now));
    }
}
