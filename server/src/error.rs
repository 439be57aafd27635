//! Why a server does not start. Each case says what, where, and the mend.
//! It is not the wire's table of errors; its invariant: after one of these no port is left bound.

use thiserror::Error;

/// A start that failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The configuration.
    #[error("{place}: {problem}")]
    Config {
        /// The file, flag or variable.
        place: String,
        /// What is wrong and the mend.
        problem: String,
    },
    /// A port or a thread.
    #[error(transparent)]
    Transport(#[from] millpond_wire_transport::Error),
    /// A feature table.
    #[error("features.{name}: {source}")]
    Features {
        /// The table.
        name: String,
        /// The engine's words.
        source: millpond_engines_features::Error,
    },
    /// An ordered store.
    #[error("ordered.{name}: {source}")]
    Ordered {
        /// The store.
        name: String,
        /// The engine's words.
        source: millpond_engines_ordered::Error,
    },
    /// A model's file.
    #[error("models.{name}: {source}")]
    Model {
        /// The model.
        name: String,
        /// The backend's words.
        source: millpond_backends_interface::Error,
    },
    /// A model's batcher.
    #[error(transparent)]
    Batcher(#[from] millpond_engines_batcher::Error),
    /// A pipeline.
    #[error(transparent)]
    Pipeline(Box<millpond_pipelines::Error>),
    /// Parts that do not fit each other.
    #[error("{0}")]
    Unfit(String),
    /// One of several processes.
    #[error("{0}")]
    Process(String),
    /// The log's file.
    #[error(
        "log.file: cannot append to {path}: {source}; name a writable file, or leave log.file out for standard error"
    )]
    Log {
        /// The file.
        path: String,
        /// The system's words.
        source: std::io::Error,
    },
}

impl From<millpond_pipelines::Error> for Error {
    fn from(error: millpond_pipelines::Error) -> Error {
        Error::Pipeline(Box::new(error))
    }
}

impl Error {
    pub(crate) fn config(place: &str, problem: impl Into<String>) -> Error {
        Error::Config {
            place: place.to_owned(),
            problem: problem.into(),
        }
    }
}
