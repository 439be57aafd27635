//! What the processes of both sides use, read from `/proc` while they run.
//!
//! `text`, `state` and `machine` understand what the kernel writes, `threads` and `host` read and keep it, and the
//! [`Sampler`] makes figures of it, with what `accelerator` hears from a driver. Its invariant: reading changes nothing, and what cannot be read is left out.

mod accelerator;
mod host;
mod machine;
mod reader;
mod sampler;
mod state;
pub(crate) mod text;
mod threads;

pub use sampler::Sampler;
