//! The requests of a run: where they come from and in which order each connection sends them.
//!
//! This crate knows nothing of the product, of sockets or of time; a request is a line of bytes. Its one invariant: the
//! same description and the same seed give the same requests in the same order, on every machine and in every version.
//!
//! ```
//! use millpond_press_workload::{Feature, Order, Samples};
//!
//! let feature = |prefix: &str| Feature { prefix: prefix.into(), ids: 1_000, zipf: 1.0 };
//! let samples = Samples {
//!     field: "samples".into(),
//!     requests: 50,
//!     samples: 15,
//!     features: vec![feature("u"), feature("i")],
//! };
//! let set = samples.generate(7)?;
//! assert_eq!(set.len(), 50);
//! assert_eq!(set.distinct(), 50);
//!
//! let mut order = Order::new(7, 0, set.len());
//! let first = set.get(order.next());
//! assert!(first.starts_with(br#"{"samples":[["u"#));
//! # Ok::<(), millpond_press_workload::Error>(())
//! ```

mod order;
mod random;
mod requests;
mod samples;
mod zipf;

pub use order::Order;
pub use random::Random;
pub use requests::{BYTES_MAX, RequestSet};
pub use samples::{Feature, Samples};
pub use zipf::{IDS_MAX, Zipf};

use std::path::PathBuf;

/// Why a set of requests could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is absent or unreadable.
    #[error("cannot read the request file {}: {source}; give the path of a JSONL file", path.display())]
    Read {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is not a JSON value of its own.
    #[error("{}, line {line}: not JSON ({reason}); every line must be one complete JSON body", path.display())]
    NotJson {
        /// The file as it was named.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What the parser said.
        reason: String,
    },
    /// The file holds no request.
    #[error("{} holds no request; every line must be one complete JSON body", path.display())]
    Empty {
        /// The file as it was named.
        path: PathBuf,
    },
    /// The set would not fit the bound on memory.
    #[error("{what} needs more than {BYTES_MAX} bytes of memory; use fewer or smaller requests")]
    TooLarge {
        /// The file or the generator.
        what: String,
    },
    /// A number of the generator is impossible.
    #[error("the generator's {key} is {found}, expected {expected}")]
    BadGenerator {
        /// The key of the description.
        key: &'static str,
        /// What was given.
        found: String,
        /// What is possible.
        expected: String,
    },
    /// The generator cannot make so many different requests.
    #[error(
        "the generator found only {found} different requests where {expected} were asked; raise ids or samples, or lower zipf"
    )]
    NotDistinct {
        /// How many there were when it gave up.
        found: usize,
        /// How many were asked for.
        expected: usize,
    },
}
