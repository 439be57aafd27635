//! The requests of a run: where they come from, in which order each connection sends them, and when.
//!
//! This crate knows nothing of the product, of sockets or of clocks; a request is some bytes, a time is a number. Its one invariant: the
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
//!
//! A mix of reads and writes of keys, and the times to send them at:
//!
//! ```
//! use std::time::Duration;
//!
//! use millpond_press_workload::{
//!     Arrivals, Keys, Operation, Popularity, Schedule, Sizes, Template, mix, value_of,
//! };
//!
//! let operation = |name: &str, weight, writes, parts: &[&str]| {
//!     let parts = parts.iter().map(|part| Template::parse(part)).collect::<Result<_, _>>()?;
//!     Ok::<_, millpond_press_workload::Error>(Operation { name: name.into(), weight, writes, parts })
//! };
//! let operations = [
//!     operation("read", 0.0, false, &["/keys/{key}"])?,
//!     operation("write", 1.0, true, &["/keys/{key}", r#"{"value":"{value}"}"#])?,
//! ];
//! let mut keys = Keys::new(1_000_000, &Popularity::Zipf(0.99))?;
//! let sizes = Sizes::Uniform(10, 100);
//! let mixed = mix(7, 50, &operations, &mut keys, &sizes)?;
//!
//! let mut value = Vec::new();
//! value_of(7, mixed.keys_of(0)[0], &sizes, &mut value);
//! assert!(mixed.requests.get(0).ends_with(&[&value[..], br#""}"#].concat()));
//!
//! let schedule = Schedule::make(&Arrivals::Constant, Some(100.0), Duration::from_secs(2), 7)?;
//! assert_eq!(schedule.times_ns().len(), 200);
//! assert_eq!(schedule.part(0, 4)[..2], [0, 40_000_000]);
//! # Ok::<(), millpond_press_workload::Error>(())
//! ```

mod draw;
mod error;
mod fill;
mod keys;
mod mix;
mod order;
mod random;
mod ranks;
mod recorded;
mod requests;
mod rows;
mod samples;
mod schedule;
mod sizes;
mod template;
mod weights;

pub use draw::Draw;
pub use error::Error;
pub use fill::fill;
pub use keys::{KEYS_MAX, Keys, Popularity};
pub use mix::{Mixed, Operation, mix};
pub use order::Order;
pub use random::Random;
pub use requests::{BYTES_MAX, RequestSet};
pub use rows::{DIM_MAX, RandomRows};
pub use samples::{Feature, Samples};
pub use schedule::{ARRIVALS_MAX, Arrivals, RATE_MAX, Schedule};
pub use sizes::{SIZE_MAX, Sizes, value_of};
pub use template::{KEYS_EACH_MAX, Template};
