//! Why a catalog does not open or change. Each case says what, where, and what to do.

use thiserror::Error;

/// A catalog that could not be opened or changed; what serves is as it was.
#[derive(Debug, Error)]
pub enum Error {
    /// A table, a store or a model that cannot be opened.
    #[error("{at}: {source}")]
    Part {
        /// Its section, as in `models.ranker`.
        at: String,
        /// The engine's or backend's words.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The version that a start serves does not open, and the table has others.
    #[error("{source}; {fix}")]
    Start {
        /// What keeps it from opening.
        source: Box<Error>,
        /// How to have a start serve another version.
        fix: String,
    },
    /// Sections that do not fit each other, or what serves now.
    #[error("{0}")]
    Unfit(String),
}

impl Error {
    /// What wraps an error of the part that `section.name` describes.
    pub fn part<E>(section: &str, name: &str) -> impl Fn(E) -> Error
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let at = format!("{section}.{name}");
        move |error| Error::Part {
            at: at.clone(),
            source: Box::new(error),
        }
    }
}

/// It names its model itself.
impl From<millpond_engines_batcher::Error> for Error {
    fn from(error: millpond_engines_batcher::Error) -> Error {
        Error::Unfit(error.to_string())
    }
}

/// It names its pipeline itself.
impl From<millpond_pipelines::Error> for Error {
    fn from(error: millpond_pipelines::Error) -> Error {
        Error::Unfit(error.to_string())
    }
}
