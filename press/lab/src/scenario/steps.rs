//! The loads that are offered on the same connections, one after the other: listed rates, or those of report R3's "auto boost".
//!
//! Its invariant: there is at least one, each needs no other to have been offered, and there are at most [`STEPS_MAX`].

use std::time::Duration;

use super::checks::positive;
use super::keys;
use millpond_press_load::Amount;

/// Loads on the same connections.
const STEPS_MAX: usize = 10_000;
/// Pauses above this shrink by `boost.step_s`, others by `boost.fine_step_ms`.
const FINE_BELOW_S: f64 = 2.0;

/// One load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    /// Requests a second; nothing in a closed loop, or for a recording at its own rate.
    pub(crate) rate: Option<f64>,
    /// Its length where that is not the one of all loads.
    length: Option<Duration>,
}

/// Where rates come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rates {
    /// A closed loop, or a recording at its own rate.
    None,
    /// Requests a second.
    Of(Vec<f64>),
    /// Requests a second of each connection.
    Each(Vec<f64>),
    /// Pauses of each connection, in seconds, and the length of the first load.
    Pauses(Vec<f64>, Option<Duration>),
}

impl Step {
    /// How much is sent, where `usual` is what all other loads send.
    pub(crate) fn amount(&self, usual: Amount) -> Amount {
        self.length.map_or(usual, Amount::For)
    }
}

impl keys::OwnLoad {
    /// A target's load of this number: of its own rates where it has some, else of those of all; nothing behind the last.
    pub(crate) fn step(&self, number: usize, all: &[Step]) -> Option<Step> {
        if self.rates.is_empty() {
            return all.get(number).copied();
        }
        self.rates.get(number).map(|&rate| Step {
            rate: Some(rate),
            length: None,
        })
    }
}

impl Rates {
    /// Of keys that were checked.
    pub(super) fn of(file: &keys::File) -> Rates {
        let load = &file.load;
        match (load.rate.as_slice(), load.rate_per_connection.as_slice()) {
            (_, [slowest, ..]) if file.boost.auto => {
                let first = file.boost.first_s.map(Duration::from_secs_f64);
                Rates::Pauses(pauses(1.0 / slowest, &file.boost), first)
            }
            ([], []) => Rates::None,
            ([], each) => Rates::Each(each.to_vec()),
            (rates, _) => Rates::Of(rates.to_vec()),
        }
    }

    /// The loads on so many connections, in their order.
    pub(crate) fn steps(&self, connections: usize) -> Vec<Step> {
        let step = |rate| Step { rate, length: None };
        let count = connections as f64;
        match self {
            Rates::None => vec![step(None)],
            Rates::Of(rates) => rates.iter().map(|&rate| step(Some(rate))).collect(),
            Rates::Each(rates) => rates.iter().map(|rate| step(Some(rate * count))).collect(),
            Rates::Pauses(pauses, first) => {
                let mut steps: Vec<Step> = pauses.iter().map(|pause| step(Some(count / pause))).collect();
                if let Some(step) = steps.first_mut() {
                    step.length = *first;
                }
                steps
            }
        }
    }
}

/// Pauses that shrink as report R3's do: by whole steps while they are long, by fine ones to the shortest.
fn pauses(longest: f64, boost: &keys::Boost) -> Vec<f64> {
    // Whole nanoseconds: what seconds leave behind when they are taken away again and again would be a step of its own.
    let ns = |seconds: f64| (seconds * 1e9).round() as u64;
    let shortest = ns(boost.pause_ms_min / 1e3);
    let mut pause = ns(longest);
    let mut pauses = vec![longest];
    while pause > shortest && pauses.len() < STEPS_MAX {
        let step = match pause.checked_sub(ns(FINE_BELOW_S)) {
            // No step leaps over the pauses that shrink finely.
            Some(above) if above > 0 => ns(boost.step_s).min(above),
            _ => ns(boost.fine_step_ms / 1e3),
        };
        pause = pause.saturating_sub(step.max(1)).max(shortest);
        pauses.push(pause as f64 / 1e9);
    }
    pauses
}

/// What cannot be meant.
pub(super) fn check(file: &keys::File) -> Result<(), String> {
    let (load, boost) = (&file.load, &file.boost);
    if !load.rate.is_empty() && !load.rate_per_connection.is_empty() {
        return Err("[load] takes one of `rate` and `rate_per_connection`, and not both".into());
    }
    positive("boost.step_s", boost.step_s, 60.0)?;
    positive("boost.fine_step_ms", boost.fine_step_ms, 2_000.0)?;
    positive("boost.pause_ms_min", boost.pause_ms_min, 60_000.0)?;
    if (boost.auto || boost.until_missed) && file.slo.is_none() {
        return Err(
            "[boost] raises the rate until the slo is missed, and there is none; write slo = \"p99 < 5ms, errors < 0.1%\" at \
             the top of the file"
                .into(),
        );
    }
    if (boost.auto || boost.until_missed) && !file.targets.is_empty() {
        return Err("[boost] takes one [target]: several would end at different rates".into());
    }
    match (boost.auto, load.rate_per_connection.as_slice()) {
        (false, _) if boost.first_s.is_some() => Err(
            "boost.first_s is for boost.auto = true; all listed rates are offered for load.duration_s".into(),
        ),
        (true, [_]) | (false, _) => Ok(()),
        (true, found) => Err(format!(
            "boost.auto begins at one load.rate_per_connection and makes the others itself; found {}",
            found.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shrunk(longest: f64, boost: &keys::Boost) -> Vec<f64> {
        let pauses = pauses(longest, boost);
        pauses.iter().map(|pause| (pause * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn pauses_shrink_as_in_report_r3() {
        let found = shrunk(5.0, &keys::Boost::default());
        assert_eq!(found[..5], [5.0, 4.0, 3.0, 2.0, 1.995]);
        assert_eq!(found[found.len() - 2..], [0.01, 0.005]);
        assert_eq!(found.len(), 3 + 400);
        let coarse = keys::Boost {
            step_s: 20.0,
            fine_step_ms: 900.0,
            pause_ms_min: 300.0,
            ..keys::Boost::default()
        };
        assert_eq!(shrunk(50.0, &coarse), [50.0, 30.0, 10.0, 2.0, 1.1, 0.3]);
        assert_eq!(shrunk(0.001, &coarse), [0.001], "a pause never grows");
    }

    #[test]
    fn a_target_has_rates_of_its_own() {
        let all = Rates::Of(vec![1.0, 2.0, 3.0]).steps(1);
        let rates = |own: &keys::OwnLoad| -> Vec<Option<f64>> {
            (0..4)
                .map(|number| own.step(number, &all).and_then(|step| step.rate))
                .collect()
        };
        let mut own = keys::OwnLoad::default();
        assert_eq!(rates(&own), [Some(1.0), Some(2.0), Some(3.0), None]);
        own.rates = vec![7.0];
        assert_eq!(rates(&own), [Some(7.0), None, None, None]);
    }

    #[test]
    fn steps_follow_the_connections() {
        let rates =
            |rates: &Rates| -> Vec<Option<f64>> { rates.steps(200).iter().map(|step| step.rate).collect() };
        assert_eq!(rates(&Rates::None), [None]);
        assert_eq!(rates(&Rates::Of(vec![7.0])), [Some(7.0)]);
        assert_eq!(rates(&Rates::Each(vec![0.02, 0.5])), [Some(4.0), Some(100.0)]);
        let first = Duration::from_secs(600);
        let boosted = Rates::Pauses(vec![50.0, 40.0], Some(first));
        assert_eq!(rates(&boosted), [Some(4.0), Some(5.0)]);
        let usual = Amount::For(Duration::from_secs(60));
        let lengths: Vec<Option<Duration>> = boosted
            .steps(1)
            .iter()
            .map(|step| match step.amount(usual) {
                Amount::For(length) => Some(length),
                Amount::Requests(_) => None,
            })
            .collect();
        assert_eq!(lengths, [Some(first), Some(Duration::from_secs(60))]);
    }
}
