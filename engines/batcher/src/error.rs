//! What the batcher refuses or fails with. Not a wire
//! status: the server maps these. A request's failure is one of the cases from
//! [`Error::DeadlinePassed`] to [`Error::ModelFailed`]; the others stop a start.

use millpond_backends_interface::{self as interface, Loss};

/// Why the model gave a request that ran no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// Inputs that no run can have.
    Input,
    /// The backend said so.
    Backend,
    /// Its process ended.
    Crash,
    /// Its process was not there yet, so that nothing was run.
    Absent,
    /// It did not end in time, and was ended: by its backend, or with its process.
    Hang,
    /// It panicked.
    Panic,
    /// Outputs of another number, shape or type than its signature promises.
    Output,
    /// Outputs with a NaN or an infinity.
    NotFinite,
}

impl FailureCause {
    pub(crate) const COUNT: usize = FailureCause::NotFinite as usize + 1;
}

impl From<Loss> for FailureCause {
    fn from(loss: Loss) -> FailureCause {
        match loss {
            Loss::Crash => FailureCause::Crash,
            Loss::Absent => FailureCause::Absent,
            Loss::Hang => FailureCause::Hang,
            Loss::Panic => FailureCause::Panic,
        }
    }
}

/// A refused configuration or a failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option that no batcher can run with.
    #[error("{problem}")]
    Option {
        /// What is wrong, its key, and what to do.
        problem: String,
    },
    /// An instance could not be started.
    #[error("model `{model}`: instance {instance} cannot start: {problem}")]
    Start {
        /// The model's name.
        model: String,
        /// Which instance.
        instance: usize,
        /// Why, with a hint.
        problem: String,
    },
    /// The request was not accepted.
    #[error("model `{model}`: {reason}")]
    Rejected {
        /// The model's name.
        model: String,
        /// Why.
        reason: crate::Rejected,
    },
    /// The batcher is stopping.
    #[error("model `{model}` is stopping; ask again elsewhere")]
    Stopping {
        /// The model's name.
        model: String,
    },
    /// The request's deadline passed while it waited; it did not run.
    #[error(
        "the deadline passed after {waited_us} us in the queue of model `{model}`; allow more time or offer less load"
    )]
    DeadlinePassed {
        /// The model's name.
        model: String,
        /// How long it had waited.
        waited_us: u64,
    },
    /// The request gave way to one of a source that had fewer waiting; it did not run.
    #[error(
        "model `{model}`: the queue was full (queue_max is {queue_max}) and this request's connection had most of it, so its newest request gave way to another connection's after {waited_us} us; keep fewer requests in flight on a connection, or raise queue_max"
    )]
    Evicted {
        /// The model's name.
        model: String,
        /// Requests that may wait.
        queue_max: usize,
        /// How long it had waited.
        waited_us: u64,
    },
    /// The request's client went away while it waited; it did not run.
    #[error("the client of a request to model `{model}` went away before it ran")]
    ClientGone {
        /// The model's name.
        model: String,
    },
    /// The model ran, or tried to, and this request has no answer.
    #[error("model `{model}` failed: {problem}")]
    ModelFailed {
        /// The model's name.
        model: String,
        /// Whose fault it is.
        cause: FailureCause,
        /// What went wrong: the backend's words, the panic's, or which output is not finite.
        problem: String,
    },
    /// Warming up failed in the backend.
    #[error("model `{model}`: warm-up at {rows} rows failed: {source}")]
    WarmUp {
        /// The model's name.
        model: String,
        /// The batch size.
        rows: usize,
        /// What the backend said.
        source: interface::Error,
    },
}
