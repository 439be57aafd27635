//! Several processes as one: started, spoken with, started again, stopped in time.
//!
//! A [`Process`] is any program in a group of its own. A [`Worker`] is this program once more, which reads orders from its
//! input and answers on its output, a JSON object a line; a [`Fleet`] has several of them by number. What they say, and
//! when one of them has failed, is the caller's. The invariant: no process outlives its parent. A worker ends when its input
//! does, and what is dropped here is killed.
//!
//! ```
//! use millpond_fleet::Process;
//! use std::process::Command;
//! use std::time::{Duration, Instant};
//!
//! let process = Process::start(Command::new("sleep").arg("100"))?;
//! process.terminate();
//! let ended = process.ended_by(Instant::now() + Duration::from_secs(60));
//! assert!(ended.is_some_and(|status| !status.success()));
//! # std::io::Result::Ok(())
//! ```

mod fleet;
mod message;
mod process;
mod worker;

pub use fleet::{Fleet, Stopper, Who, ended_in_order};
pub use message::{hear, say};
pub use process::Process;
pub use worker::{Heard, Worker};
