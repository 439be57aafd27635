//! Runs one model's requests in batches, under admission.
//!
//! It never sees a socket, a wire type or another engine, and it knows nothing of how inputs are made; that is for pipelines.
//! Its one invariant: every accepted request is answered exactly once.
//!
//! ```
//! use millpond_backends_interface::{Error, Instance, Model, Port, Signature};
//! use millpond_engines_batcher::{Batcher, BatcherOptions, Priority, Request};
//! use millpond_tensor::{ElementType, Tensor};
//! use std::sync::{Arc, mpsc};
//!
//! /// A model that doubles `x`.
//! struct Double(Signature);
//! struct Doubling;
//! impl Model for Double {
//!     fn signature(&self) -> &Signature {
//!         &self.0
//!     }
//!     fn instance(&self) -> Result<Box<dyn Instance>, Error> {
//!         Ok(Box::new(Doubling))
//!     }
//! }
//! impl Instance for Doubling {
//!     fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
//!         let doubled: Vec<f32> = inputs[0].f32().unwrap_or_default().iter().map(|x| x * 2.0).collect();
//!         Ok(vec![Tensor::new(inputs[0].shape().to_vec(), doubled)?])
//!     }
//! }
//!
//! let port = |name: &str| Port { name: name.into(), element_type: ElementType::F32, shape: vec![None] };
//! let model = Arc::new(Double(Signature { inputs: vec![port("x")], outputs: vec![port("y")], batched: true }));
//! let batcher = Batcher::start("double", model, BatcherOptions::default())?;
//!
//! let (answers, answer) = mpsc::sync_channel(1);
//! let x = Tensor::new(vec![3], vec![1.0_f32, 2.0, 3.0])?;
//! let request = Request {
//!     source: 0,
//!     priority: Priority::default(),
//!     inputs: vec![x],
//!     rows: 3,
//!     deadline: None,
//!     gone: Arc::default(),
//!     kept_bytes: 0,
//!     done: Box::new(move |result| drop(answers.send(result))),
//! };
//! assert!(batcher.submit(request).is_ok());
//! assert_eq!(answer.recv()??.outputs[0].f32(), Some(&[2.0, 4.0, 6.0][..]));
//! batcher.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod affinity;
mod batcher;
mod error;
mod priority;

pub use batcher::{
    Answer, Batcher, BatcherOptions, Done, Ragged, Rejected, Request, Stats, Sweep, Timing, WarmUpRun, Worked,
};
pub use error::{Error, FailureCause};
pub use priority::Priority;
