//! What a figure was measured under: the verdict on its load, requests that were never sent, and what the hypervisor took meanwhile.
//!
//! Its invariant: a figure made of several points stands under the worst of their conditions.

use serde::Serialize;

use crate::judge::observed::Observed;
use crate::judge::{STEAL_PERCENT, was_kept_back};
use crate::{Judgement, Point};

/// What a figure is worth, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Conditions {
    /// What the figure is worth.
    pub standing: Standing,
    /// What the hypervisor took, in percent of one core; zero where the machine does not tell.
    pub steal_percent: f64,
}

impl Conditions {
    /// Those of a point of load.
    pub fn of(point: &Point) -> Conditions {
        let standing = match (point.counters.not_sent, point.verdict.judgement) {
            (0, judgement) => standing(judgement),
            // The machine or the press kept them back: another moment may tell.
            (_, Judgement::EnvDrift | Judgement::GeneratorBound) => Standing::Unfit,
            (_, Judgement::Unstable) if was_kept_back(point) => Standing::Unfit,
            _ => Standing::NotSent,
        };
        Conditions {
            standing,
            steal_percent: Conditions::steal_percent(point),
        }
    }

    /// Those of a point that measures the press itself, or a server that is made to stand still: that the press was the limit, or
    /// that nothing settled, is no fault of it.
    pub fn of_press_itself(point: &Point) -> Conditions {
        let conditions = Conditions::of(point);
        match conditions.standing {
            Standing::Unfit | Standing::Unsettled if point.counters.not_sent == 0 => {
                Conditions::without_load(conditions.steal_percent)
            }
            _ => conditions,
        }
    }

    /// Those of a point in which connections are meant to be refused: their further requests are never sent.
    pub fn with_refused_connections(point: &Point) -> Conditions {
        Conditions {
            standing: standing(point.verdict.judgement),
            steal_percent: Conditions::steal_percent(point),
        }
    }

    /// Those of a measurement that is no load of the press.
    pub fn without_load(steal_percent: f64) -> Conditions {
        let standing = match steal_percent < STEAL_PERCENT {
            true => Standing::Valid,
            false => Standing::Drifted,
        };
        Conditions {
            standing,
            steal_percent,
        }
    }

    /// Those of a figure that is made of both.
    pub fn and(self, other: Conditions) -> Conditions {
        Conditions {
            standing: self.standing.max(other.standing),
            steal_percent: self.steal_percent.max(other.steal_percent),
        }
    }

    /// The worse of both; what has none spoils none.
    pub(super) fn worse(one: Option<Conditions>, other: Option<Conditions>) -> Option<Conditions> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.and(other)),
            _ => one.or(other),
        }
    }

    /// What the hypervisor took over the seconds of a point, in percent of one core; zero where the machine does not tell.
    pub fn steal_percent(point: &Point) -> f64 {
        Observed::of(point).steal
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoadKind;
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
        // Not the server's doing.
        check(Judgement::EnvDrift, 1, Standing::Unfit);
        check(Judgement::GeneratorBound, 1, Standing::Unfit);
    }

    #[test]
    fn what_others_kept_back_is_not_the_servers_but_an_outage_is() {
        let check = |change: fn(&mut Point), expected| {
            let mut point = point(Judgement::Unstable, 9);
            point.offered.kind = LoadKind::Open;
            point.counters.ok = 91;
            point.resources.seconds.push(ResourceSecond {
                foreign_percent: Some(STEAL_PERCENT),
                ..ResourceSecond::default()
            });
            change(&mut point);
            assert_eq!(Conditions::of(&point).standing, expected);
            assert_eq!(crate::is_doubted(&point), expected == Standing::Unfit);
        };
        check(|_| {}, Standing::Unfit);
        check(|point| point.resources.seconds.clear(), Standing::NotSent);
        check(|point| point.counters.ok = 0, Standing::NotSent);
        // So few that the load was offered all the same.
        check(|point| point.counters.ok = 9_991, Standing::NotSent);
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
