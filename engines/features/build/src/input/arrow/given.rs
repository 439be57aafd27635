//! Rows in memory: record batches that the caller hands over, as a stream of Arrow does.
//!
//! Copies none of them. Its invariant: the batches of one stream have one schema, which is asked for once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;

use super::{Batches, guarded};
use crate::error::Error;
use crate::input::{Input, arrow};

/// What messages call the rows.
const NAME: &str = "the rows given";

/// A stream of record batches.
pub type Stream = Box<dyn RecordBatchReader + Send>;

type Open = dyn Fn() -> Result<Stream, String> + Send + Sync;

/// Rows in memory, of which a stream can be had: a second time where two rows have the same key, to say where they are.
#[derive(Clone)]
pub struct Given(Arc<Open>);

impl Given {
    /// Rows whose streams `open` makes.
    pub fn new(open: impl Fn() -> Result<Stream, String> + Send + Sync + 'static) -> Given {
        Given(Arc::new(open))
    }

    /// They as an input.
    pub(crate) fn input(&self) -> Input {
        Input {
            path: PathBuf::from(NAME),
            rows_path: None,
            given: Some(self.clone()),
            format: &arrow::FORMAT,
            bytes: 0,
        }
    }

    pub(super) fn batches(&self, path: &Path) -> Result<GivenBatches, Error> {
        let stream = (self.0)().map_err(|problem| broken(path, 0, problem))?;
        Ok(GivenBatches {
            path: path.to_path_buf(),
            schema: stream.schema(),
            stream,
        })
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

/// A stream that is read.
pub(super) struct GivenBatches {
    path: PathBuf,
    schema: SchemaRef,
    stream: Stream,
}

impl Batches for GivenBatches {
    fn next(&mut self, row: u64) -> Result<Option<RecordBatch>, Error> {
        let next = guarded(|| self.stream.next().transpose());
        next.map_err(|error| broken(&self.path, row, error))
    }

    fn schema(&self) -> Option<SchemaRef> {
        Some(self.schema.clone())
    }

    /// How many rows there are is not known.
    fn share(&self) -> f64 {
        0.0
    }
}

fn broken(path: &Path, row: u64, problem: impl ToString) -> Error {
    Error::Stream {
        path: path.to_path_buf(),
        row,
        problem: problem.to_string(),
    }
}
