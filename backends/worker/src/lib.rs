//! Models in worker processes: a worker an instance, tensors over shared memory, and what a worker does wrong as the failure of one run.
//!
//! It is not a backend: a backend says by a [`Launch`] which program runs and what that loads, and its worker, if it is of this
//! workspace, calls [`serve`]. Others speak the protocol of `docs/formats/worker.md`. The invariant: nothing that a worker does, be it a
//! crash, a hang or a lie, is more than the failure of the run that it was at; and no worker outlives its server.
//!
//! ```no_run
//! use millpond_backends_worker::{Launch, SHARED_BYTES_MAX};
//! use std::process::Command;
//! use std::time::Duration;
//!
//! let launch = Launch {
//!     command: Box::new(|| Ok(Command::new("a-worker"))),
//!     what: r#"{"path": "model.file"}"#.to_owned(),
//!     path: "model.file".into(),
//!     start_max: Duration::from_secs(60),
//!     run_max: Duration::from_secs(10),
//!     memory_bytes_max: None,
//!     shared_bytes_max: SHARED_BYTES_MAX,
//!     takes_requests: false,
//! };
//! let model = launch.load()?;
//! let mut instance = model.instance()?; // a process
//! # Ok::<(), millpond_backends_interface::Error>(())
//! ```

mod backoff;
mod channel;
mod inherited;
mod instance;
mod log;
mod memory;
mod message;
mod outputs;
mod placed;
mod process;
mod serve;
mod signature;

pub use inherited::inherited;
pub use instance::Launch;
pub use serve::{end_with_server, serve};

/// Bytes that the inputs of a run may take, and its outputs, where nothing else is said.
pub const SHARED_BYTES_MAX: usize = 1 << 30;

/// How many requests of that signature one run can take that takes them unjoined: so many are named by one message.
pub fn requests_max(signature: &millpond_backends_interface::Signature) -> usize {
    placed::groups_max(signature, message::MESSAGE_BYTES_MAX - message::HEAD_BYTES)
}
