//! Models of known behaviour: a run lasts as long as configured, and its answers can be checked. For trying
//! out how a server behaves with a model that is not there yet.
//!
//! It reads no file and learns nothing. Its one invariant: output `i` is the sum of row `i`, however long that took.
//!
//! ```
//! use millpond_backends_interface::Backend;
//! use millpond_backends_practice::{Behaviour, Practice};
//! use millpond_tensor::Tensor;
//!
//! let practice = Practice {
//!     behaviour: Some(Behaviour::Wait),
//!     us: Some(100),
//!     us_per_row: 1,
//!     width: 2,
//! };
//! let model = practice.load()?;
//! assert_eq!(model.signature().inputs[0].to_string(), "x: f32[N, 2]");
//! let x = Tensor::new(vec![2, 2], vec![1.0_f32, 2.0, 3.0, 4.0])?;
//! let outputs = model.instance()?.run(vec![x])?;
//! assert_eq!(outputs[0].f32(), Some(&[3.0, 7.0][..]));
//! # Ok::<(), millpond_backends_interface::Error>(())
//! ```

mod cpu_clock;

use millpond_backends_interface::{Backend, Error, Instance, Model, Port, Signature};
use millpond_tensor::{ElementType, Tensor};
use rustix::thread::set_current_timer_slack;
use serde::Deserialize;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What a run takes at most, in microseconds: warming the model up must end.
const RUN_US_MAX: u64 = 10_000_000;
/// Elements of a row at most.
const WIDTH_MAX: usize = 1 << 16;

/// What a run does while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behaviour {
    /// It sleeps, as one that waits for an accelerator: no processor is used.
    Wait,
    /// It computes for that much of its thread's processor time: a thread that is kept from its processor is
    /// no faster for that.
    Compute,
}

/// `backend = "practice"`: a run takes `us`, and `us_per_row` for each of its rows, at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Practice {
    /// What a run does meanwhile; must be given.
    pub behaviour: Option<Behaviour>,
    /// Microseconds of each run; must be given.
    pub us: Option<u64>,
    /// Microseconds that each row adds.
    pub us_per_row: u64,
    /// Elements of a row of its one input, `x`.
    pub width: usize,
}

impl Default for Practice {
    fn default() -> Practice {
        Practice {
            behaviour: None,
            us: None,
            us_per_row: 0,
            width: 1,
        }
    }
}

impl Practice {
    /// Its keys in the configuration.
    pub const KEYS: &'static [&'static str] = &["behaviour", "us", "us_per_row", "width"];

    /// Microseconds of a run of `rows` rows.
    fn run_us(&self, rows: usize) -> u64 {
        let rows_us = self.us_per_row.saturating_mul(rows as u64);
        self.us.unwrap_or_default().saturating_add(rows_us)
    }
}

impl Backend for Practice {
    fn check(&self, at: &str, batch_size_max: usize) -> Result<(), String> {
        if self.behaviour.is_none() {
            return Err(format!(
                "{at}.behaviour is missing; backend \"practice\" needs \"wait\" or \"compute\""
            ));
        }
        if self.us.is_none() {
            return Err(format!(
                "{at}.us is missing; backend \"practice\" needs the microseconds of a run, as in us = 1000"
            ));
        }
        let found = self.run_us(batch_size_max);
        if found > RUN_US_MAX {
            return Err(format!(
                "{at}: a run of batch_size_max rows takes {found} us (us + batch_size_max * us_per_row); expected at most {RUN_US_MAX}"
            ));
        }
        match self.width {
            1..=WIDTH_MAX => Ok(()),
            width => Err(format!("{at}.width is {width}; expected 1 to {WIDTH_MAX}")),
        }
    }

    /// The model that behaves so: `x`, f32 `[N, width]`, to `y`, f32 `[N, 1]`, the sum of each row.
    fn load(&self) -> Result<Arc<dyn Model>, Error> {
        let port = |name: &str, width| Port {
            name: name.to_string(),
            element_type: ElementType::F32,
            shape: vec![None, Some(width)],
        };
        let signature = Signature {
            inputs: vec![port("x", self.width)],
            outputs: vec![port("y", 1)],
            batched: true,
        };
        Ok(Arc::new(PracticeModel {
            practice: *self,
            signature,
        }))
    }
}

struct PracticeModel {
    practice: Practice,
    signature: Signature,
}

struct PracticeInstance(Practice);

impl Model for PracticeModel {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        Ok(Box::new(PracticeInstance(self.practice)))
    }
}

impl Instance for PracticeInstance {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let width = self.0.width;
        let x = inputs
            .first()
            .filter(|x| x.shape().len() == 2 && x.shape()[1] == width);
        let Some((rows, elements)) = x.and_then(|x| Some((x.rows(), x.f32()?))) else {
            return Err(Error::Run {
                problem: format!("it takes one input, f32 [rows, {width}]"),
            });
        };
        let sums: Vec<f32> = elements
            .chunks_exact(width.max(1))
            .map(|row| row.iter().sum())
            .collect();
        let y = Tensor::new(vec![rows, 1], sums)?;
        let run = Duration::from_micros(self.0.run_us(rows));
        match self.0.behaviour {
            Some(Behaviour::Compute) => cpu_clock::spend(run),
            Some(Behaviour::Wait) | None => wait(run),
        }
        Ok(vec![y])
    }
}

/// Sleeps for so long, and not the 50 us longer that the kernel may put timers off to fire several at once: an accelerator's
/// interrupt is not put off either (timer slack, prctl(2)).
fn wait(run: Duration) {
    if run.is_zero() {
        return;
    }
    // Where it is refused the sleep is only less exact.
    let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
    thread::sleep(run);
    let _ = set_current_timer_slack(None);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::time::Instant;

    fn practice(behaviour: Behaviour) -> Practice {
        Practice {
            behaviour: Some(behaviour),
            us: Some(20_000),
            us_per_row: 5_000,
            width: 3,
        }
    }

    fn x(rows: usize, width: usize) -> Tensor {
        let elements: Vec<f32> = (0..rows * width).map(|at| at as f32).collect();
        Tensor::new(vec![rows, width], elements).unwrap()
    }

    /// Three rows take 35 ms at least, of which a part is processor time that depends on the behaviour.
    fn check(behaviour: Behaviour, cpu: std::ops::RangeInclusive<u64>) {
        let mut instance = practice(behaviour).load().unwrap().instance().unwrap();
        let (cpu_before, started) = (cpu_clock::now(), Instant::now());
        let outputs = instance.run(vec![x(3, 3)]).unwrap();
        assert!(started.elapsed() >= Duration::from_millis(35));
        let used = cpu_clock::now().saturating_sub(cpu_before);
        assert!(cpu.contains(&(used.as_millis() as u64)), "{used:?}");
        assert_eq!(outputs[0].shape(), [3, 1]);
        assert_eq!(outputs[0].f32(), Some(&[3.0, 12.0, 21.0][..]));
    }

    #[test]
    fn waiting_uses_no_processor_and_computing_uses_what_it_says() {
        check(Behaviour::Wait, 0..=34);
        check(Behaviour::Compute, 35..=u64::MAX);
    }

    /// More threads than processors: each still computes for the configured time.
    #[test]
    fn threads_that_share_a_processor_are_not_faster() {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| check(Behaviour::Compute, 35..=u64::MAX));
            }
        });
    }

    #[test]
    fn inputs_of_another_shape_are_refused() {
        let mut instance = practice(Behaviour::Wait).load().unwrap().instance().unwrap();
        for inputs in [vec![], vec![x(1, 2)]] {
            let error = instance.run(inputs).unwrap_err().to_string();
            assert!(error.contains("f32 [rows, 3]"), "{error}");
        }
    }
}
