//! The answers of `infer`: named tensors, or scores.
//!
//! It is not the call. Its invariant: what is written here is read here.

use super::{Tensor, decode_tensors, encode_tensors, number};
use crate::frame::{Encoder, FieldError, Fields, Map, Value};

/// What the answer to a call with tensors holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The model that ran.
    pub model: String,
    /// Its version.
    pub version: u64,
    /// Outputs by name.
    pub outputs: Vec<(String, Tensor)>,
}

impl Answer {
    /// Reads the answer to a call with tensors.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'_>) -> Result<Answer, FieldError> {
        let (mut fields, _) = Fields::root(map)?;
        let model = fields.text("model")?.into_owned();
        let version = fields.optional_uint("version", u64::MAX)?.unwrap_or(0);
        let outputs = decode_tensors(&mut fields, "outputs", "a map of tensors")?;
        let outputs = outputs
            .into_iter()
            .map(|(name, tensor)| (name.into_owned(), tensor))
            .collect();
        Ok(Answer {
            model,
            version,
            outputs,
        })
    }
}

/// Reads the answer to a call with samples.
///
/// # Errors
/// [`FieldError`] naming the key.
pub fn decode_scores(map: Map<'_>) -> Result<Vec<f32>, FieldError> {
    scores_field(&mut Fields::root(map)?.0)
}

/// Takes "scores".
pub(crate) fn scores_field(fields: &mut Fields<'_>) -> Result<Vec<f32>, FieldError> {
    let scores = fields.required("scores", "an array of numbers")?;
    let read = |value: &Value<'_>| number(value).map(|value| value as f32);
    fields.as_numbers("scores", scores, "f32", read, f32::from_le_bytes)
}

/// Writes the answer to a call with tensors.
pub fn encode_answer<'t>(
    out: &mut Encoder<'_>,
    model: &str,
    version: u64,
    outputs: impl ExactSizeIterator<Item = (&'t str, &'t Tensor)>,
) {
    out.map(3);
    out.key("model");
    out.text(model);
    out.key("version");
    out.uint(version);
    out.key("outputs");
    encode_tensors(out, outputs);
    out.end_map();
}

/// Writes the answer to a call with samples.
pub fn encode_scores(out: &mut Encoder<'_>, scores: &[f32]) {
    out.map(1);
    out.key("scores");
    out.array(scores.len());
    scores.iter().for_each(|score| out.f32(*score));
    out.end_array();
    out.end_map();
}
