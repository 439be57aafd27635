//! What one run leaves behind: latencies, counts, and the processor time it cost.
//!
//! Nothing here sends, formats or draws. Each client thread has a [`Tally`] of its own and nobody else touches it while
//! the run lasts; [`Tally::merge`] joins them afterwards without loss. The one invariant: every request that was offered
//! is counted exactly once, as one of the outcomes of [`Counters`].
//!
//! ```
//! use millpond_press_recorder::Tally;
//!
//! let mut tally = Tally::default();
//! for us in 1..=2_000 {
//!     // Latency, service time and lateness in nanoseconds.
//!     tally.answer(0, us * 1_000, us * 1_000, 1);
//! }
//! tally.finish();
//! let us_p50 = tally.latency.quantile_us(0.5).unwrap_or(0.0);
//! assert!((us_p50 - 1_000.0).abs() < 1.0);
//! // Two samples lie beyond p99.9: too few to name it.
//! assert_eq!(tally.latency.quantile_us(0.999), None);
//! ```

mod buckets;
mod counters;
mod hlog;
mod latency;
mod live;
mod machine;
mod packed;
mod proc;
mod process;
mod resources;
mod silence;
mod stationary;
mod stats;
mod stored;
mod tally;
mod topology;

pub use counters::{Counters, ErrorKind};
pub use hlog::write_log;
pub use latency::{Latency, LatencySummary, Reached, SAMPLES_BEYOND_MIN};
pub use live::Live;
pub use machine::{LoadAverage, Machine};
pub use packed::PackedLatency;
pub use proc::Sampler;
pub use process::{CpuSample, kernel_slab_bytes, memory_bytes, process_tree};
pub use resources::{ResourceSecond, Resources, Side, ThreadUse, Used};
pub use silence::{Listening, SILENCE_NS_MIN, Silence, both_silent, longest_silence};
pub use stationary::{Window, is_growing, is_stationary};
pub use stats::Interval;
pub use tally::{Split, Tally};
pub use topology::Interference;
