//! Models of known behaviour: a run lasts as long as configured, and its answers can be checked. For trying
//! out how a server behaves with a model that is not there yet.
//!
//! It reads no file and learns nothing. Its one invariant: output `i` is the sum of row `i`, however long that took.
//!
//! ```
//! use millpond_backends_interface::Model;
//! use millpond_backends_practice::{Behaviour, Practice};
//! use millpond_tensor::Tensor;
//! use std::time::Duration;
//!
//! let practice = Practice {
//!     behaviour: Behaviour::Wait,
//!     run: Duration::from_micros(100),
//!     row: Duration::from_micros(1),
//!     width: 2,
//! };
//! let model = practice.model();
//! assert_eq!(model.signature().inputs[0].to_string(), "x: f32[N, 2]");
//! let x = Tensor::new(vec![2, 2], vec![1.0_f32, 2.0, 3.0, 4.0])?;
//! let outputs = model.instance()?.run(vec![x])?;
//! assert_eq!(outputs[0].f32(), Some(&[3.0, 7.0][..]));
//! # Ok::<(), millpond_backends_interface::Error>(())
//! ```

mod cpu_clock;

use millpond_backends_interface::{Error, Instance, Model, Port, Signature};
use millpond_tensor::{ElementType, Tensor};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What a run does while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// It sleeps, as one that waits for an accelerator: no processor is used.
    Wait,
    /// It computes for that much of its thread's processor time: a thread that is kept from its processor is
    /// no faster for that.
    Compute,
}

/// A model's behaviour: a run takes `run` and `row` for each of its rows, at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Practice {
    /// What it does meanwhile.
    pub behaviour: Behaviour,
    /// What each run takes.
    pub run: Duration,
    /// What each row takes besides.
    pub row: Duration,
    /// Elements of a row of its one input, `x`.
    pub width: usize,
}

impl Practice {
    /// The name the configuration uses for it.
    pub const NAME: &'static str = "practice";

    /// The model that behaves so: `x`, f32 `[N, width]`, to `y`, f32 `[N, 1]`, the sum of each row.
    pub fn model(self) -> Arc<dyn Model> {
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
        Arc::new(PracticeModel {
            practice: self,
            signature,
        })
    }

    /// What a run of `rows` rows takes.
    pub fn run_of(self, rows: usize) -> Duration {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        self.run.saturating_add(self.row.saturating_mul(rows))
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
        let run = self.0.run_of(rows);
        match self.0.behaviour {
            Behaviour::Wait => thread::sleep(run),
            Behaviour::Compute => cpu_clock::spend(run),
        }
        Ok(vec![y])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::time::Instant;

    fn practice(behaviour: Behaviour) -> Practice {
        Practice {
            behaviour,
            run: Duration::from_millis(20),
            row: Duration::from_millis(5),
            width: 3,
        }
    }

    fn x(rows: usize, width: usize) -> Tensor {
        let elements: Vec<f32> = (0..rows * width).map(|at| at as f32).collect();
        Tensor::new(vec![rows, width], elements).unwrap()
    }

    /// Three rows take 35 ms at least, of which a part is processor time that depends on the behaviour.
    fn check(behaviour: Behaviour, cpu: std::ops::RangeInclusive<u64>) {
        let mut instance = practice(behaviour).model().instance().unwrap();
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
        let mut instance = practice(Behaviour::Wait).model().instance().unwrap();
        for inputs in [vec![], vec![x(1, 2)]] {
            let error = instance.run(inputs).unwrap_err().to_string();
            assert!(error.contains("f32 [rows, 3]"), "{error}");
        }
    }
}
