//! What a figure was measured under: the press' verdict on its load, requests that were never sent, and what the hypervisor
//! took meanwhile.
//!
//! Its invariant: a figure made of several points stands under the worst of their conditions.

use millpond_press_report::{Judgement, Point};

/// Steal from which a measurement without a press is another machine's, in percent of one core: as the press has it.
const STEAL_PERCENT_MAX: f64 = 25.0;

/// What a figure is worth, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    /// It is the server's.
    Valid,
    /// Something else on the machine took part: ENV-DRIFT.
    Drifted,
    /// It did not settle, or too many requests failed: that is the server's too, so the figure may fail a bar, but pass none.
    Unsettled,
    /// The press could not keep up, or the machine kept requests back: the figure is not the server's.
    Unfit,
    /// Requests were never sent: the load was not the one that was asked for.
    NotSent,
}

/// The conditions of one figure.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(crate) struct Conditions {
    pub(crate) standing: Standing,
    /// In percent of one core; zero where the machine does not tell.
    pub(crate) steal_percent: f64,
}

impl Conditions {
    /// Those of a point of load.
    pub(crate) fn of(point: &Point) -> Conditions {
        let standing = match (point.counters.not_sent, point.verdict.judgement) {
            (0, judgement) => standing(judgement),
            // The machine or the press kept them back: another moment may tell.
            (_, Judgement::EnvDrift | Judgement::GeneratorBound) => Standing::Unfit,
            // The press names a load that was not offered before it names what else took part.
            (_, Judgement::Unstable) if was_disturbed(point) => Standing::Unfit,
            _ => Standing::NotSent,
        };
        Conditions {
            standing,
            steal_percent: steal_percent(point),
        }
    }

    /// Those of a point that measures the press itself, or a server that is made to stand still: that the press was the limit, or
    /// that nothing settled, is no fault of it.
    pub(crate) fn of_press_itself(point: &Point) -> Conditions {
        let conditions = Conditions::of(point);
        match conditions.standing {
            Standing::Unfit | Standing::Unsettled if point.counters.not_sent == 0 => {
                Conditions::without_load(conditions.steal_percent)
            }
            _ => conditions,
        }
    }

    /// Those of a point in which connections are meant to be refused: their further requests are never sent.
    pub(crate) fn with_refused_connections(point: &Point) -> Conditions {
        Conditions {
            standing: standing(point.verdict.judgement),
            steal_percent: steal_percent(point),
        }
    }

    /// Those of a measurement that is no load of the press.
    pub(crate) fn without_load(steal_percent: f64) -> Conditions {
        let standing = match steal_percent < STEAL_PERCENT_MAX {
            true => Standing::Valid,
            false => Standing::Drifted,
        };
        Conditions {
            standing,
            steal_percent,
        }
    }

    /// Those of a figure that is made of both.
    pub(crate) fn and(self, other: Conditions) -> Conditions {
        Conditions {
            standing: self.standing.max(other.standing),
            steal_percent: self.steal_percent.max(other.steal_percent),
        }
    }
}

fn standing(judgement: Judgement) -> Standing {
    match judgement {
        Judgement::Valid => Standing::Valid,
        Judgement::EnvDrift => Standing::Drifted,
        Judgement::Unstable | Judgement::Failing => Standing::Unsettled,
        Judgement::GeneratorBound => Standing::Unfit,
    }
}

/// Whether other processes or the hypervisor took so much that the press calls it drift.
fn was_disturbed(point: &Point) -> bool {
    let seconds = &point.resources.seconds;
    let foreign: f64 = seconds.iter().filter_map(|second| second.foreign_percent).sum();
    let foreign_percent = foreign / seconds.len().max(1) as f64;
    steal_percent(point).max(foreign_percent) >= STEAL_PERCENT_MAX
}

/// The hypervisor's share over the seconds of a point, in percent of one core; zero where the machine does not tell.
pub(crate) fn steal_percent(point: &Point) -> f64 {
    let seconds = &point.resources.seconds;
    let sum: f64 = seconds.iter().filter_map(|second| second.steal_percent).sum();
    sum / seconds.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_press_recorder::ResourceSecond;

    fn point(judgement: Judgement, not_sent: u64) -> Point {
        let mut point = Point::default();
        point.verdict.judgement = judgement;
        point.counters.not_sent = not_sent;
        point
    }

    #[test]
    fn a_points_verdict_and_its_unsent_requests_decide() {
        let check = |judgement, not_sent, expected| {
            assert_eq!(Conditions::of(&point(judgement, not_sent)).standing, expected);
        };
        check(Judgement::Valid, 0, Standing::Valid);
        check(Judgement::EnvDrift, 0, Standing::Drifted);
        check(Judgement::Unstable, 0, Standing::Unsettled);
        check(Judgement::Failing, 0, Standing::Unsettled);
        check(Judgement::GeneratorBound, 0, Standing::Unfit);
        check(Judgement::Valid, 1, Standing::NotSent);
        check(Judgement::Unstable, 1, Standing::NotSent);
        check(Judgement::Failing, 1, Standing::NotSent);
        let mut disturbed = point(Judgement::Unstable, 1);
        disturbed.resources.seconds.push(ResourceSecond {
            foreign_percent: Some(STEAL_PERCENT_MAX),
            ..ResourceSecond::default()
        });
        assert_eq!(Conditions::of(&disturbed).standing, Standing::Unfit);
        // Not the server's doing.
        check(Judgement::EnvDrift, 1, Standing::Unfit);
        check(Judgement::GeneratorBound, 1, Standing::Unfit);
    }

    #[test]
    fn a_bar_of_the_press_itself_asks_for_the_machine_alone() {
        let check = |judgement, not_sent, expected| {
            let found = Conditions::of_press_itself(&point(judgement, not_sent));
            assert_eq!(found.standing, expected);
        };
        check(Judgement::GeneratorBound, 0, Standing::Valid);
        check(Judgement::Unstable, 0, Standing::Valid);
        check(Judgement::Failing, 0, Standing::Valid);
        check(Judgement::EnvDrift, 0, Standing::Drifted);
        check(Judgement::GeneratorBound, 1, Standing::Unfit);
        check(Judgement::Valid, 1, Standing::NotSent);
    }

    #[test]
    fn refused_connections_leave_requests_unsent() {
        let found = Conditions::with_refused_connections(&point(Judgement::EnvDrift, 7));
        assert_eq!(found.standing, Standing::Drifted);
    }

    #[test]
    fn the_worst_of_several_counts() {
        let (good, bad) = (Conditions::without_load(1.0), Conditions::without_load(30.0));
        let both = good.and(bad);
        assert_eq!((both.standing, both.steal_percent), (Standing::Drifted, 30.0));
        assert_eq!(bad.and(good), both);
    }
}
