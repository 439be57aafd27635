//! When requests are sent: every arrival of a run, made ahead of time.
//!
//! A schedule never waits for an answer, so a slow server cannot slow down what it is asked (an open loop). Its invariant:
//! the times depend on the description, the rate, the length and the seed alone, they ascend, and all are before the end.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::recorded::Recording;
use crate::{Error, Random};

/// The largest number of arrivals in one schedule: 400 MB of times.
pub const ARRIVALS_MAX: usize = 50_000_000;

/// The largest rate, in requests per second.
pub const RATE_MAX: f64 = 1e8;

/// How the gaps between requests are distributed. In a description: `"poisson"`, or `{ pareto = { shape = 1.5 } }`.
#[derive(Deserialize, Serialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Equal gaps: request `i` at `i / rate`.
    Constant,
    /// Exponential gaps, the Poisson process: many independent users.
    #[default]
    Poisson,
    /// Pareto gaps, the heavy-tailed arrivals measured on real networks (Paxson and Floyd 1995, "Wide-Area Traffic: The
    /// Failure of Poisson Modeling"). A gap longer than the run counts as the run's length, and the scale is chosen so
    /// that the mean of the gaps so cut is `1 / rate`; a single run still strays far from it.
    Pareto {
        /// The tail index, above 1 so that the mean is finite; the nearer to 1 the heavier the tail.
        shape: f64,
    },
    /// `size` requests at the same moment, then a gap of `size / rate`; the first burst at the start.
    Bursts {
        /// Requests of a burst; at least 1.
        size: u32,
    },
    /// The arrivals of a text file: one time in seconds a line, ascending, `#` begins a comment. Its first arrival is the
    /// start of the run; when the run is longer it is repeated a mean gap after its end; its time is stretched so
    /// that the mean rate of the whole recording is the asked one, if one is asked.
    Recorded {
        /// The file, as the process can open it.
        file: PathBuf,
    },
}

impl Arrivals {
    /// Checks what can be checked without reading a file or making the times.
    ///
    /// # Errors
    /// The rate is absent (but for [`Arrivals::Recorded`]), not above 0 or above [`RATE_MAX`]; the length is zero or above
    /// 584 years; a number of the description is impossible; or `rate × length` is above [`ARRIVALS_MAX`].
    pub fn check(&self, rate_per_s: Option<f64>, length: Duration) -> Result<(), Error> {
        if length.is_zero() || u64::try_from(length.as_nanos()).is_err() {
            return Err(Error::setting(
                "length",
                format!("{length:?}"),
                "more than 0 and at most 584 years",
            ));
        }
        match self {
            Arrivals::Pareto { shape } if !shape.is_finite() || *shape <= 1.0 => {
                return Err(Error::setting(
                    "arrivals.pareto.shape",
                    shape,
                    "a finite number above 1, such as 1.5: at 1 or below the gaps have no mean",
                ));
            }
            Arrivals::Bursts { size: 0 } => {
                return Err(Error::setting("arrivals.bursts.size", 0, "at least 1"));
            }
            _ => {}
        }
        match (rate_per_s, self) {
            (None, Arrivals::Recorded { .. }) => Ok(()),
            (None, _) => Err(Error::setting(
                "rate",
                "absent",
                "requests per second; only recorded arrivals have a rate of their own",
            )),
            (Some(rate), _) if !(rate > 0.0 && rate <= RATE_MAX) => Err(Error::setting(
                "rate",
                rate,
                format!("requests per second, above 0 and at most {RATE_MAX}"),
            )),
            (Some(rate), _) => check_count(rate, length),
        }
    }
}

/// Refuses a rate and a length that are sure to need too many arrivals before any is made.
fn check_count(rate_per_s: f64, length: Duration) -> Result<(), Error> {
    let length_s = length.as_secs_f64();
    if rate_per_s * length_s > ARRIVALS_MAX as f64 {
        return Err(Error::too_many_arrivals(rate_per_s, length_s));
    }
    Ok(())
}

/// The arrivals of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    times_ns: Vec<u64>,
}

impl Schedule {
    /// Makes the times of a run of `length` at a mean of `rate_per_s` requests per second.
    ///
    /// A schedule may be empty when the rate is low for the length.
    ///
    /// # Errors
    /// What [`Arrivals::check`] refuses, a recording that cannot be read, or more than [`ARRIVALS_MAX`] arrivals.
    pub fn make(
        arrivals: &Arrivals,
        rate_per_s: Option<f64>,
        length: Duration,
        seed: u64,
    ) -> Result<Schedule, Error> {
        arrivals.check(rate_per_s, length)?;
        let recording = match arrivals {
            Arrivals::Recorded { file } => Some(Recording::read(file)?),
            _ => None,
        };
        let recorded_per_s = recording.as_ref().map(Recording::rate_per_s);
        let rate = rate_per_s.or(recorded_per_s).unwrap_or(1.0);
        check_count(rate, length)?;
        let mut filling = Filling::new(rate, length);
        let mut random = Random::of(seed, b"arrivals", 0);
        match (arrivals, recording) {
            (Arrivals::Bursts { size }, _) => filling.bursts(u64::from(*size))?,
            (Arrivals::Poisson, _) => filling.gaps(|| exponential(&mut random) * 1e9 / rate)?,
            (Arrivals::Pareto { shape }, _) => {
                let cap_ns = filling.length_ns as f64;
                let scale_ns = pareto_scale(1e9 / rate, *shape, cap_ns);
                filling.gaps(|| pareto(&mut random, scale_ns, *shape).min(cap_ns))?;
            }
            (Arrivals::Recorded { .. }, Some(recording)) => {
                let stretch = recording.rate_per_s() / rate;
                filling.all(recording.times_ns(stretch))?;
            }
            (Arrivals::Constant | Arrivals::Recorded { .. }, _) => filling.bursts(1)?,
        }
        Ok(Schedule {
            times_ns: filling.times_ns,
        })
    }

    /// The length of the run in which so many requests arrive, the last of them at its very end: a schedule of this length and of the
    /// same description, rate and seed has that number of arrivals.
    ///
    /// # Errors
    /// What [`Arrivals::check`] refuses, more than [`ARRIVALS_MAX`] requests or none, and arrivals that depend on the length of the run:
    /// all but [`Arrivals::Poisson`] and [`Arrivals::Constant`].
    pub fn length_of(arrivals: &Arrivals, rate_per_s: f64, count: u64, seed: u64) -> Result<Duration, Error> {
        let is_independent = matches!(arrivals, Arrivals::Poisson | Arrivals::Constant);
        if !is_independent {
            let expected = "\"poisson\" or \"constant\" with a number of requests: the others follow from the length of the run";
            return Err(Error::setting("arrivals", format!("{arrivals:?}"), expected));
        }
        if count == 0 || count > ARRIVALS_MAX as u64 {
            return Err(Error::setting(
                "the number of requests",
                count,
                format!("1 to {ARRIVALS_MAX}"),
            ));
        }
        // A rate that is none gives a length that is refused.
        let about = Duration::try_from_secs_f64(count as f64 / rate_per_s.max(f64::MIN_POSITIVE));
        arrivals.check(Some(rate_per_s), about.unwrap_or(Duration::MAX))?;
        let last_ns = match arrivals {
            Arrivals::Constant => moment_ns(count - 1, rate_per_s),
            _ => {
                let mut random = Random::of(seed, b"arrivals", 0);
                let mut at_ns = 0.0;
                (0..count).for_each(|_| at_ns += exponential(&mut random) * 1e9 / rate_per_s);
                at_ns as u64
            }
        };
        Ok(Duration::from_nanos(last_ns + 1))
    }

    /// The arrivals in nanoseconds since the start: ascending, several may share a moment, all before the length.
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// The share of thread `index` of `of` threads: every `of`-th arrival, beginning with number `index`. Empty when
    /// `index` is not below `of`.
    pub fn part(&self, index: usize, of: usize) -> Vec<u64> {
        if index >= of {
            return Vec::new();
        }
        self.times_ns.iter().copied().skip(index).step_by(of).collect()
    }
}

/// A schedule while it grows.
struct Filling {
    times_ns: Vec<u64>,
    length_ns: u64,
    rate_per_s: f64,
}

impl Filling {
    fn new(rate_per_s: f64, length: Duration) -> Filling {
        let expected = (rate_per_s * length.as_secs_f64()) as usize;
        Filling {
            // Three standard deviations of a Poisson process more, so that most schedules never move.
            times_ns: Vec::with_capacity(expected + 3 * expected.isqrt() + 1),
            length_ns: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX),
            rate_per_s,
        }
    }

    /// Adds an arrival; false when it is past the end.
    fn push(&mut self, at_ns: u64) -> Result<bool, Error> {
        if at_ns >= self.length_ns {
            return Ok(false);
        }
        if self.times_ns.len() == ARRIVALS_MAX {
            let length_s = self.length_ns as f64 / 1e9;
            return Err(Error::too_many_arrivals(self.rate_per_s, length_s));
        }
        self.times_ns.push(at_ns);
        Ok(true)
    }

    fn all(&mut self, times_ns: impl Iterator<Item = u64>) -> Result<(), Error> {
        for at_ns in times_ns {
            if !self.push(at_ns)? {
                break;
            }
        }
        Ok(())
    }

    fn gaps(&mut self, mut next_ns: impl FnMut() -> f64) -> Result<(), Error> {
        let mut at_ns = 0.0;
        self.all(std::iter::repeat_with(|| {
            at_ns += next_ns();
            at_ns as u64
        }))
    }

    fn bursts(&mut self, size: u64) -> Result<(), Error> {
        let rate = self.rate_per_s;
        self.all((0u64..).map(|index| moment_ns(index - index % size, rate)))
    }
}

/// The moment of arrival `index` of a constant rate, from its number alone so that no rounding adds up.
fn moment_ns(index: u64, rate_per_s: f64) -> u64 {
    if rate_per_s.fract() == 0.0 {
        // A whole rate is at least 1, so the quotient fits as long as the index is a number of arrivals.
        (u128::from(index) * 1_000_000_000 / rate_per_s as u128) as u64
    } else {
        (index as f64 * 1e9 / rate_per_s) as u64
    }
}

/// An exponential number of mean 1, by inversion.
fn exponential(random: &mut Random) -> f64 {
    -(-random.unit()).ln_1p()
}

/// A Pareto number of at least `scale`, by inversion.
fn pareto(random: &mut Random, scale: f64, shape: f64) -> f64 {
    scale * (exponential(random) / shape).exp()
}

/// The scale at which Pareto numbers cut at `cap` have the mean `mean`, by bisection; without the cut where none has it.
fn pareto_scale(mean: f64, shape: f64, cap: f64) -> f64 {
    if mean >= cap {
        return mean * (shape - 1.0) / shape;
    }
    let (mut low, mut high) = (0.0, cap);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        let cut_mean = middle * (shape - (middle / cap).powf(shape - 1.0)) / (shape - 1.0);
        if cut_mean < mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests;
