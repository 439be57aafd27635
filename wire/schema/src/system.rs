//! The system methods `*ping`, `*status` and `*infos`: what a server says of itself.
//! Their invariant: they touch no engine, and are answered before everything else.

use crate::declare::schema;
use crate::field::{AnyMap, Bool, UInt};

schema! {
    /// The answer of `*ping`.
    answer Pong {
        /// The server's clock: milliseconds since the Unix epoch.
        ts: UInt,
    }
}

schema! {
    /// The answer of `*status`.
    answer IsServing {
        /// Whether the server is ready and not stopping.
        status: Bool,
    }
}

schema! {
    /// The answer of `*infos`: for people and press, not for monitoring (`/metrics` is). Every figure is a total since start.
    answer AllInfos {
        /// What FPNN's tools look for: {server: {base, tcp, log, stat, status}}.
        fpnn ("FPNN.status"): AnyMap,
        /// Empty.
        app ("APP.status"): AnyMap,
        /// What is running and what it has counted, with the quantiles of each method's time in microseconds, and of each stage of a pipeline the mean.
        millpond: AnyMap,
    }
}
