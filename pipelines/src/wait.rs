//! What a stage waits for: a model's batcher. Its invariant: who waits is told exactly once.

use millpond_engines_batcher::{Answer, Batcher, Error, Priority, Request};
use millpond_tensor::Tensor;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Who asks a batcher, and how long the answer is worth something.
#[derive(Debug, Clone)]
pub struct Ask {
    /// As a number: sources are served in turn, and share a full queue.
    pub source: u64,
    /// Whom its requests go before while they wait, at each model.
    pub priority: Priority,
    /// When the answer becomes worthless.
    pub deadline: Option<Instant>,
    /// Set when nobody waits any more.
    pub gone: Arc<AtomicBool>,
    /// Bytes that are kept until the answer is there, beside the inputs.
    pub kept_bytes: usize,
}

/// What a stage keeps of a request while its model runs.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// For how many rows or items the model is to give as many; `None` where it gives what it likes.
    pub rows: Option<usize>,
    /// Of the value that went in.
    pub offsets: Option<Arc<[u32]>>,
    /// When its stage began.
    pub(crate) began: Option<Instant>,
}

/// A run of a model that was not asked for yet.
#[derive(Debug)]
pub struct Wait {
    batcher: Arc<Batcher>,
    /// In signature order, checked.
    inputs: Vec<Tensor>,
    rows: usize,
    pub(crate) kept: Kept,
}

impl Wait {
    /// A run of `rows` rows; `inputs` are in signature order, and fit.
    pub fn new(batcher: &Arc<Batcher>, inputs: Vec<Tensor>, rows: usize) -> Wait {
        Wait {
            batcher: Arc::clone(batcher),
            inputs,
            rows,
            kept: Kept::default(),
        }
    }

    /// The same, with what its stage needs when it finishes.
    pub fn keeping(self, kept: Kept) -> Wait {
        Wait { kept, ..self }
    }

    /// The request, and the batcher that it is for; `done` is called as [`Request::done`] is.
    pub fn request<D>(self, ask: Ask, done: D) -> (Arc<Batcher>, Request)
    where
        D: FnOnce(Result<Answer, Error>) + Send + 'static,
    {
        let request = Request {
            source: ask.source,
            priority: ask.priority,
            inputs: self.inputs,
            rows: self.rows,
            deadline: ask.deadline,
            gone: ask.gone,
            kept_bytes: ask.kept_bytes,
            done: Box::new(done),
        };
        (self.batcher, request)
    }
}

/// Hands a request to its batcher; one that is refused gets its answer here.
pub fn submit(batcher: &Batcher, request: Request) {
    if let Err((reason, request)) = batcher.submit(request) {
        request.refuse(batcher.name(), reason);
    }
}
