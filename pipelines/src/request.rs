//! What pipelines are run for: a user with items, or samples of strings. It decodes nothing.
//!
//! Its invariant: a request that was checked has in every sample as many strings as the pipeline expects.

use crate::{Bytes, Error, Items, Source, Value};
use serde::Deserialize;
use std::borrow::Cow;

/// What a request to a pipeline holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// `{user: map, items: [id, ..]}`: one user, a row an item.
    Rank,
    /// `{samples: [[string, ..], ..]}`: a row a sample.
    Samples,
    /// `{inputs: {name: value}}`: values by name, each with rows of its own.
    Values,
}

/// What a pipeline expects of a request.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'p> {
    /// The pipeline's name.
    pub pipeline: &'p str,
    /// What the request holds.
    pub kind: RequestKind,
    /// Strings that each sample must have; 0 for `rank` requests.
    pub sample_width: usize,
}

/// One request, as the stages read it.
pub trait Request {
    /// Rows to score.
    fn rows(&self) -> usize;

    /// Whether it is what a pipeline expects.
    ///
    /// # Errors
    /// [`Error::Request`].
    fn check(&self, expected: Expected<'_>) -> Result<(), Error>;

    /// What stands at `source`.
    ///
    /// # Errors
    /// [`Error::Request`] and [`Error::Missing`], where a field is not as the stage needs it.
    fn read(&self, source: &Source) -> Result<Value, Error>;
}

/// A request of values.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// By name, as the pipeline's stages read them: `inputs.NAME`.
    pub inputs: Vec<(String, Value)>,
    /// Which of the pipeline's outputs are wanted; all where it is empty.
    pub outputs: Vec<String>,
}

/// Strings, a sample a row.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    /// All strings, sample by sample.
    pub texts: &'a [Cow<'a, [u8]>],
    /// Where each sample ends among them, ascending.
    pub ends: &'a [usize],
}

impl Samples<'_> {
    /// Strings of each sample.
    fn widths(&self) -> impl Iterator<Item = usize> {
        let starts = std::iter::once(&0).chain(self.ends);
        self.ends.iter().zip(starts).map(|(end, start)| end - start)
    }
}

impl Request for Samples<'_> {
    fn rows(&self) -> usize {
        self.ends.len()
    }

    fn check(&self, expected: Expected<'_>) -> Result<(), Error> {
        let width = expected.sample_width;
        let problem = match expected.kind {
            RequestKind::Rank => {
                format!(
                    "pipeline {:?} takes a user and items; call rank",
                    expected.pipeline
                )
            }
            RequestKind::Values => {
                format!("pipeline {:?} takes named values; call run", expected.pipeline)
            }
            RequestKind::Samples => match self.widths().enumerate().find(|(_, found)| *found != width) {
                None => return Ok(()),
                Some((at, found)) => {
                    format!("key \"samples[{at}]\" is {found} strings; expected {width}")
                }
            },
        };
        Err(Error::Request { problem })
    }

    fn read(&self, source: &Source) -> Result<Value, Error> {
        let Source::Sample(at) = source else {
            return Err(Error::not_given("this kind of request"));
        };
        // Every sample is as wide as the first: it was checked.
        let width = self.widths().next().unwrap_or(1).max(1);
        let column = || self.texts.iter().skip(*at).step_by(width);
        let mut bytes = Bytes::with_capacity(self.rows(), column().map(|text| text.len()).sum());
        column().for_each(|text| bytes.push(text));
        Ok(Value::rows(Items::Bytes(bytes)))
    }
}
