//! What can go wrong between a caller and a model. Not how a wire reports it:
//! the server maps these. Every message says what, where, and a hint.

use millpond_tensor::ElementType;
use std::path::PathBuf;

/// How a run was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Its process ended, or spoke nonsense.
    Crash,
    /// Its process is not there yet: nothing was run.
    Absent,
    /// The run did not end in time, and was ended: by its backend, or with its process.
    Hang,
    /// It panicked in this process, and its instance is dropped.
    Panic,
}

/// A failure to load or run a model, or inputs that do not fit it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model file cannot be served. `problem` says why, `hint` what to do.
    #[error("model file {}: {problem}; {hint}", .path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// The model ran and failed, or could not start.
    #[error("the model failed: {problem}")]
    Run {
        /// What the backend said.
        problem: String,
    },
    /// The run came to nothing, because what ran it was lost or had to be ended.
    #[error("the model failed: {problem}")]
    Lost {
        /// How it was lost.
        loss: Loss,
        /// What is known of it.
        problem: String,
    },
    /// An input that the model has was not given.
    #[error("input `{name}` is missing: the model takes {expected}; add it")]
    InputMissing {
        /// The input's name.
        name: String,
        /// All inputs, written out.
        expected: String,
    },
    /// An input was given that the model does not have.
    #[error("input `{name}` is unknown: the model takes {expected}; remove or rename it")]
    InputUnknown {
        /// The name that was given.
        name: String,
        /// All inputs, written out.
        expected: String,
    },
    /// An input was given more than once.
    #[error("input `{name}` is given twice; give it once")]
    InputTwice {
        /// The input's name.
        name: String,
    },
    /// An input has another element type than the model's.
    #[error("input `{name}` must be {expected}, found {found}; send it as {expected}")]
    InputType {
        /// The input's name.
        name: String,
        /// What the model takes.
        expected: ElementType,
        /// What was given.
        found: ElementType,
    },
    /// An input has another shape than the model's.
    #[error("input `{name}` must have shape {expected}, found {found}; {free}")]
    InputShape {
        /// The input's name.
        name: String,
        /// What the model takes, `[N, 80]` for one.
        expected: String,
        /// What was given.
        found: String,
        /// Which sizes are free.
        free: &'static str,
    },
    /// Inputs of one request have different numbers of rows.
    #[error(
        "input `{name}` has {found} rows, input `{first}` has {expected}; all inputs need the same first dimension"
    )]
    InputRows {
        /// The input that differs.
        name: String,
        /// The first input.
        first: String,
        /// Rows of the first input.
        expected: usize,
        /// Rows of this one.
        found: usize,
    },
    /// A request without rows.
    #[error("input `{name}` has 0 rows; send at least one")]
    InputEmpty {
        /// The input's name.
        name: String,
    },
    /// An input holds a NaN or an infinity.
    #[error("input `{name}` is {value} at element {index}; every value must be finite")]
    InputNotFinite {
        /// The input's name.
        name: String,
        /// Flat, row-major position of the first such element.
        index: usize,
        /// `NaN`, `inf` or `-inf`.
        value: String,
    },
    /// A shape and elements that do not belong together.
    #[error(transparent)]
    Tensor(#[from] millpond_tensor::Error),
}
