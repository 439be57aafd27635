//! Why a request is not accepted. No wire status: the server maps these. Its invariant: each says what to change.

/// Why a request was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// All instances are busy and the queue is full.
    #[error("{queued} requests wait and {queue_max} may; offer less load or raise queue_max")]
    QueueFull {
        /// Requests that wait.
        queued: usize,
        /// The limit.
        queue_max: usize,
    },
    /// The bytes of requests that wait and run, and of this one, exceed their limit.
    #[error(
        "requests that wait and run hold {held} bytes, this one {bytes}, and {queue_bytes_max} may be held; offer less load or raise queue_bytes_max"
    )]
    BytesFull {
        /// Bytes that are held.
        held: usize,
        /// Bytes of this request.
        bytes: usize,
        /// The limit.
        queue_bytes_max: usize,
    },
    /// The request alone exceeds the limit on bytes: it is refused at any time.
    #[error(
        "this request holds {bytes} bytes, and all that wait and run may hold {queue_bytes_max}; send fewer rows at a time or raise queue_bytes_max"
    )]
    TooManyBytes {
        /// Bytes of this request.
        bytes: usize,
        /// The limit.
        queue_bytes_max: usize,
    },
    /// Its deadline would pass before its answer: what is ahead of it takes too long.
    #[error(
        "the predicted wait is {wait_us} us and the run {run_us} us, the deadline is in {left_us} us; allow more time (_deadline_ms), offer less load, or add instances"
    )]
    TooLate {
        /// Predicted time until its run begins.
        wait_us: u64,
        /// Predicted duration of that run.
        run_us: u64,
        /// Time until its deadline.
        left_us: u64,
    },
    /// It would be in time, but the model has had more requests than it can serve for a while: until its queue has
    /// drained, a request may wait for a few runs.
    #[error(
        "the predicted wait is {wait_us} us, and {target_us} us at most may be waited until a queue that stands has drained, although the deadline is in {left_us} us; offer less load, or add instances"
    )]
    Standing {
        /// Predicted time until its run begins.
        wait_us: u64,
        /// The longest wait that is let in.
        target_us: u64,
        /// Time until its deadline.
        left_us: u64,
    },
    /// [`Batcher::stop`](crate::Batcher::stop) was called.
    #[error("the model is stopping; ask again elsewhere")]
    Stopping,
}
