//! The small traits every model backend implements: [`Backend`] loads a model as the configuration says,
//! [`Model`] is what was loaded, [`Instance`] runs it.
//!
//! It is not a backend and knows no file format: it only says how signatures and
//! failures look, so that the batcher above and the backends below never meet. Its one
//! invariant: inputs that a [`Signature`] lets through fit the model.
//!
//! ```
//! use millpond_backends_interface::{Port, Signature};
//! use millpond_tensor::{ElementType, Tensor};
//!
//! let signature = Signature {
//!     inputs: vec![Port {
//!         name: "x".into(),
//!         element_type: ElementType::F32,
//!         shape: vec![None, Some(2)], // None: the batch dimension
//!     }],
//!     outputs: vec![],
//!     batched: true,
//! };
//! let x = Tensor::new(vec![3, 2], vec![0.5_f32; 6])?;
//! let ordered = signature.check_inputs(vec![("x".to_string(), x)])?;
//! assert_eq!(ordered[0].rows(), 3);
//!
//! let short = Tensor::new(vec![3, 1], vec![0.5_f32; 3])?;
//! let refused = signature.check_inputs(vec![("x".to_string(), short)]).unwrap_err();
//! assert!(refused.to_string().contains("input `x`"));
//! # Ok::<(), millpond_backends_interface::Error>(())
//! ```

mod error;
pub mod foreign;
pub mod host;
mod signature;

pub use error::{Error, Loss};
pub use signature::{Port, Signature};

use millpond_tensor::Tensor;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// A backend's own keys of `[models.NAME]`, which are all that it takes to load the model.
pub trait Backend {
    /// The files that it names, which the configuration names relative to its own folder.
    fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        Vec::new()
    }

    /// What is known to be wrong before the model is loaded. `at` is the section, as in `models.ranker`; a run has
    /// `batch_size_max` rows at most.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    fn check(&self, at: &str, batch_size_max: usize) -> Result<(), String>;

    /// Reads and prepares the model.
    ///
    /// # Errors
    /// A missing, damaged or unsupported file; the error names the file and a hint.
    fn load(&self) -> Result<Arc<dyn Model>, Error>;
}

/// A loaded model: immutable and shared; weights live here once.
pub trait Model: Send + Sync {
    /// What goes in and what comes out, in the order that [`Instance::run`] uses.
    fn signature(&self) -> &Signature;

    /// A new place to run it: the scratch memory of one thread.
    ///
    /// # Errors
    /// When the backend cannot prepare another one.
    fn instance(&self) -> Result<Box<dyn Instance>, Error>;

    /// Devices that its instances are spread over: so many of them are made for each that is configured.
    fn devices(&self) -> usize {
        1
    }

    /// Whether threads that bring requests may run it themselves: an instance more costs little, and a run is the work of the
    /// thread that calls. Not where it has threads of its own or waits for a device.
    fn runs_inline(&self) -> bool {
        true
    }

    /// Whether a run takes requests as they are, by [`Instance::run_requests`]: they are not joined, each counts as one row, and
    /// their shapes may differ. Its signature is not batched.
    fn takes_requests(&self) -> bool {
        false
    }

    /// Whether a run has lasted longer than it may and goes on, although it was told to end.
    fn is_overdue(&self) -> bool {
        false
    }

    /// How often worker processes of its instances were started again, where it has such.
    fn worker_restarts(&self) -> u64 {
        0
    }
}

/// One thread's way to run a model.
pub trait Instance: Send {
    /// Runs the model once. `inputs` are in signature order; of a batched model all share dimension 0 (the rows).
    /// The outputs come in signature order, and have the same dimension 0.
    ///
    /// # Errors
    /// When the model cannot run on these inputs; the instance stays usable.
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error>;

    /// The same, of a run whose outputs nobody waits for after `deadline`: one that hangs may be ended then, where it can be ended.
    ///
    /// # Errors
    /// As [`Instance::run`], and when it was ended.
    fn run_by(&mut self, inputs: Vec<Tensor>, deadline: Option<Instant>) -> Result<Vec<Tensor>, Error> {
        let _ = deadline;
        self.run(inputs)
    }

    /// Runs the model once for several requests that are not joined, each with its own inputs, of which nobody waits after
    /// `deadline`. It gives one result a request, in their order, and one that fails is one request's alone. Another number of
    /// results, none for one, is the failure of the run: its requests are run apart. An error alone says by what several requests
    /// failed. It is called where [`Model::takes_requests`] says so.
    fn run_requests(
        &mut self,
        requests: Vec<Vec<Tensor>>,
        deadline: Option<Instant>,
    ) -> Vec<Result<Vec<Tensor>, Error>> {
        let runs = requests.into_iter();
        runs.map(|inputs| self.run_by(inputs, deadline)).collect()
    }
}
