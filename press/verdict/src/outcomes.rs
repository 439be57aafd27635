//! How the requests of a point ended, each as a part of all that were offered.
//!
//! Nothing is judged here but what counts as a failure. Its invariant: answers, failures, refusals and requests that were never
//! sent add up to what was offered; what an interruption cut off is none of them.

use crate::Point;

/// The share of requests that may fail in a point whose figures are worth reading.
pub(crate) const FAILING: f64 = 0.01;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) offered: u64,
    /// Answers that are right as far as that is known.
    pub(crate) answers: u64,
    /// Wrong answers and errors, with those of `assumed`.
    pub(crate) failed: u64,
    pub(crate) refused: u64,
    pub(crate) not_sent: u64,
    /// Answers that were left unchecked and are taken for wrong, as large a part of them as of those that were checked.
    pub(crate) assumed: u64,
    /// Of `not_sent` those whose connection was lost and not refused; only where a connection has a number of its own to send.
    pub(crate) lost: u64,
}

impl Outcomes {
    pub(crate) fn of(point: &Point) -> Outcomes {
        let counters = &point.counters;
        let checked = u128::from(counters.ok) + u128::from(counters.wrong);
        let assumed = u128::from(counters.unchecked) * u128::from(counters.wrong) / checked.max(1);
        let assumed = u64::try_from(assumed).unwrap_or(u64::MAX);
        Outcomes {
            offered: counters.offered() - counters.cut,
            answers: counters.answers() - assumed,
            failed: counters.failed_total() + assumed,
            refused: counters.refused_total(),
            not_sent: counters.not_sent,
            assumed,
            lost: counters.not_sent_lost,
        }
    }

    /// A count as a part of what was offered.
    pub(crate) fn share(&self, count: u64) -> f64 {
        count as f64 / self.offered.max(1) as f64
    }

    /// Whether so many requests failed that the point is one of failures. Refusals are none.
    pub(crate) fn is_failing(&self) -> bool {
        self.share(self.failed + self.lost) > FAILING
    }

    /// Those that got no right answer: `12 of 1200 requests failed, 3 were refused`; nothing where there are none.
    pub(crate) fn unanswered_in_words(&self) -> Option<String> {
        let about = if self.assumed > 0 { "about " } else { "" };
        let kinds = [
            (self.failed, "failed"),
            (self.refused, "were refused"),
            (self.not_sent, "were never sent"),
        ];
        let mut words = Vec::new();
        for (count, what) in kinds.into_iter().filter(|(count, _)| *count > 0) {
            words.push(match words.is_empty() {
                true => format!("{about}{count} of {} requests {what}", self.offered),
                false => format!("{count} {what}"),
            });
        }
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> Point {
        let mut point = Point::default();
        point.counters.ok = 900;
        point
    }

    #[test]
    fn one_in_a_hundred_may_fail_and_any_number_be_refused() {
        let mut point = closed();
        point.counters.ok = 990;
        point.counters.wrong = 10;
        assert!(!Outcomes::of(&point).is_failing());
        point.counters.wrong = 11;
        assert!(Outcomes::of(&point).is_failing());
        let mut point = closed();
        point.counters.refused.insert(30_101, 9_100);
        let outcomes = Outcomes::of(&point);
        assert!(!outcomes.is_failing());
        assert_eq!(
            outcomes.unanswered_in_words().as_deref(),
            Some("9100 of 10000 requests were refused")
        );
        assert_eq!(Outcomes::of(&closed()).unanswered_in_words(), None);
        assert!(!Outcomes::of(&Point::default()).is_failing());
    }

    #[test]
    fn what_a_lost_connection_never_sent_failed() {
        let mut point = closed();
        point.counters.not_sent = 99;
        point.counters.connections_refused = 1;
        point.counters.refused.insert(30_101, 1);
        let outcomes = Outcomes::of(&point);
        assert!(!outcomes.is_failing());
        assert_eq!(
            outcomes.unanswered_in_words().as_deref(),
            Some("1 of 1000 requests were refused, 99 were never sent")
        );
        point.counters.not_sent_lost = 11;
        assert!(Outcomes::of(&point).is_failing(), "nobody refused these");
    }

    #[test]
    fn unchecked_answers_are_as_wrong_as_checked_ones() {
        let mut point = Point::default();
        (point.counters.ok, point.counters.wrong, point.counters.unchecked) = (8, 2, 990);
        let outcomes = Outcomes::of(&point);
        assert_eq!(
            (outcomes.assumed, outcomes.failed, outcomes.answers),
            (198, 200, 800)
        );
        assert_eq!(outcomes.answers + outcomes.failed, outcomes.offered);
        assert_eq!(
            outcomes.unanswered_in_words().as_deref(),
            Some("about 200 of 1000 requests failed")
        );
    }
}
