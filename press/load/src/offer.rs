//! One load, and the part of it that each thread plays.
//!
//! Its invariant: the parts depend on the load, the number of a thread and the number of all threads alone, so that it does
//! not matter which process a thread is in.

use std::time::Duration;

use millpond_press_workload::{Arrivals, Schedule};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::plan::{Amount, Pace, Phase};

/// One load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Offer {
    /// How requests arrive and how many a second; nothing in a closed loop.
    pub open: Option<(Arrivals, Option<f64>)>,
    /// The pause of a connection in a closed loop.
    pub think: Duration,
    /// How much is sent.
    pub amount: Amount,
    /// The longest warm-up; none where it is zero.
    pub warmup_max: Duration,
    /// How long after the end of a schedule what waited until then may still be sent; zero leaves it unsent.
    pub late_max: Duration,
    /// What the schedule is derived from.
    pub seed: u64,
}

/// The threads of a load generator that one process holds: every `of`-th, beginning with number `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The number of its first thread.
    pub index: usize,
    /// How many processes there are.
    pub of: usize,
}

impl Part {
    /// All threads.
    pub const WHOLE: Part = Part { index: 0, of: 1 };

    /// The numbers of its threads, of `all` that there are.
    pub fn threads(self, all: usize) -> impl Iterator<Item = usize> {
        (self.index..all).step_by(self.of)
    }
}

impl Offer {
    /// What each of these threads plays, of `all` that there are; their begin is not known yet.
    pub(crate) fn phases(
        &self,
        threads: impl Iterator<Item = usize>,
        all: usize,
    ) -> Result<Vec<Phase>, Error> {
        let phase = |pace| Phase {
            begin: 0,
            amount: self.amount,
            late_max: self.late_max,
            pace,
        };
        let (Some((arrivals, rate)), Amount::For(length)) = (&self.open, self.amount) else {
            let think_ns = self.think.as_nanos() as u64;
            return Ok(threads.map(|_| phase(Pace::Closed { think_ns })).collect());
        };
        let make = |length: Duration, seed: u64| {
            if length.is_zero() {
                return Ok(None);
            }
            Schedule::make(arrivals, *rate, length, seed)
                .map(Some)
                .map_err(Error::Schedule)
        };
        let warm_up = make(self.warmup_max, self.seed ^ 0x5eed)?;
        let measured = make(length, self.seed)?;
        let part = |schedule: &Option<Schedule>, index| {
            schedule
                .as_ref()
                .map(|schedule| schedule.part(index, all))
                .unwrap_or_default()
        };
        let pace = |index| Pace::Open {
            warm_up: part(&warm_up, index),
            measured: part(&measured, index),
        };
        Ok(threads.map(|index| phase(pace(index))).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn offer() -> Offer {
        Offer {
            open: Some((Arrivals::Pareto { shape: 1.7 }, Some(1_234.567_8))),
            think: Duration::ZERO,
            amount: Amount::For(Duration::from_millis(700)),
            warmup_max: Duration::from_millis(300),
            late_max: Duration::ZERO,
            seed: 11,
        }
    }

    fn times(phases: &[Phase]) -> Vec<(Vec<u64>, Vec<u64>)> {
        phases
            .iter()
            .map(|phase| match &phase.pace {
                Pace::Open { warm_up, measured } => (warm_up.clone(), measured.clone()),
                Pace::Closed { .. } => Default::default(),
            })
            .collect()
    }

    #[test]
    fn processes_play_what_threads_would() {
        let whole = times(&offer().phases(Part::WHOLE.threads(5), 5).unwrap());
        let mut spread = vec![Default::default(); 5];
        for index in 0..2 {
            let part = Part { index, of: 2 };
            // As it arrives in another process.
            let told = serde_json::to_string(&offer()).unwrap();
            let told: Offer = serde_json::from_str(&told).unwrap();
            let phases = times(&told.phases(part.threads(5), 5).unwrap());
            for (at, times) in part.threads(5).zip(phases) {
                spread[at] = times;
            }
        }
        assert_eq!(spread, whole);
        assert!(whole.iter().all(|(_, measured)| !measured.is_empty()));
    }
}
