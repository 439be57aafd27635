//! What one run leaves behind: latencies, counts, and the processor time it cost.
//!
//! Nothing here sends, formats or draws. Each client thread has a [`Tally`] of its own and nobody else touches it while
//! the run lasts; [`Tally::merge`] joins them afterwards without loss. The one invariant: every request that was offered
//! is counted exactly once, as one of the outcomes of [`Counters`].
//!
//! ```
//! use std::time::Duration;
//! use millpond_press_recorder::{Percentile, Tally};
//!
//! let mut tally = Tally::default();
//! for us in 1..=2_000 {
//!     tally.ok(Duration::from_micros(us));
//! }
//! assert_eq!(tally.latency.percentile_us(Percentile::P50), Some(1_000));
//! // Two samples lie beyond p99.9: too few to name it.
//! assert_eq!(tally.latency.percentile_us(Percentile::P99_9), None);
//! ```

mod counters;
mod latency;
mod live;
mod machine;
mod process;
mod tally;

pub use counters::{Counters, ErrorKind, WarmUp};
pub use latency::{Latency, LatencySummary, Percentile, SAMPLES_BEYOND_MIN};
pub use live::Live;
pub use machine::{Load, Machine};
pub use process::{CpuSample, cpu_time, memory_bytes, own_cpu_time};
pub use tally::Tally;

/// Why a recorder could not be made or read back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line of a stored histogram is not `us,count`.
    #[error(
        "line {line} of the stored latencies is {found:?}, expected `us,count` with us between 1 and 60000000"
    )]
    BadLatencies {
        /// The line, counted from 1.
        line: usize,
        /// What stands there.
        found: String,
    },
}
