//! Why a pipeline cannot run, or did not run for one request. Not a wire status: the server maps these.

use millpond_engines_batcher as batcher;
use millpond_engines_ordered::TakesCopy;

/// A description that cannot run, or a request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A description whose stages do not fit together.
    #[error("pipeline `{pipeline}`, {place}: {problem}; {hint}")]
    Description {
        /// The pipeline's name.
        pipeline: String,
        /// The position of the stage that is at fault, and its key, `hash.from`; empty for the stage as a whole.
        stage: Option<Box<(usize, String)>>,
        /// `stage `x`, key `hash.from`` or a part of it.
        place: String,
        /// What is wrong.
        problem: String,
        /// What to write instead.
        hint: String,
    },
    /// A table, store or model that does not fit the pipeline, or is not there.
    #[error("pipelines.{pipeline}: {problem}")]
    Unfit {
        /// The pipeline's name.
        pipeline: String,
        /// What does not fit what.
        problem: String,
    },
    /// The request holds something else than the pipeline reads.
    #[error("{problem}")]
    Request {
        /// What is wrong with which key.
        problem: String,
    },
    /// The request lacks a field of the user.
    #[error("key \"user.{field}\" is missing; the pipeline reads it")]
    Missing {
        /// The field.
        field: String,
    },
    /// What is stored does not fit, or a stage got what no plan lets through.
    #[error("{problem}")]
    Internal {
        /// What happened.
        problem: String,
    },
    /// The store that is read takes in a copy of its leader's.
    #[error(transparent)]
    TakesCopy(#[from] TakesCopy),
    /// The model's batcher refused the request or failed.
    #[error(transparent)]
    Model(#[from] batcher::Error),
}

impl Error {
    /// Plans are checked when the server starts; this is what is left to say if one slipped through.
    pub fn not_given(expected: &str) -> Error {
        let problem =
            format!("a stage does not get {expected}; check the pipeline with millpond check-config");
        Error::Internal { problem }
    }
}
