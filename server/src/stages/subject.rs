//! The request as the stages see it: a user with items, or samples of strings.
//! It is not decoded here. Its invariant: text of a field is the same whether it came as text or as a whole number.

use millpond_engines_infer::pipeline::RequestKind;
use millpond_wire_frame::{Map, Value};
use millpond_wire_schema::{Code, Status};
use std::borrow::Cow;

/// What is to be scored.
pub enum Subject<'a> {
    /// A user's candidates.
    Rank {
        /// What is known of the user.
        user: &'a Map<'a>,
        /// Ids, one a row.
        items: &'a [Value<'a>],
    },
    /// Strings, a sample a row.
    Samples(&'a [Vec<Cow<'a, str>>]),
}

impl<'a> Subject<'a> {
    /// Rows to score.
    pub fn rows(&self) -> usize {
        match self {
            Subject::Rank { items, .. } => items.len(),
            Subject::Samples(samples) => samples.len(),
        }
    }

    /// Whether a pipeline can take it.
    pub(super) fn check(&self, kind: RequestKind, sample_width: usize, pipeline: &str) -> Result<(), Status> {
        let wrong = |ex: String| Err(Status::new(Code::BadArgument, ex));
        match (self, kind) {
            (Subject::Rank { .. }, RequestKind::Samples) => wrong(format!(
                "pipeline {pipeline:?} takes samples; call infer with {{\"samples\": [[…], …]}}"
            )),
            (Subject::Samples(_), RequestKind::Rank) => {
                wrong(format!("pipeline {pipeline:?} takes a user and items; call rank"))
            }
            (Subject::Samples(samples), RequestKind::Samples) => {
                match samples.iter().position(|sample| sample.len() != sample_width) {
                    Some(at) => {
                        let found = samples[at].len();
                        wrong(format!(
                            "key \"samples[{at}]\" is {found} strings; expected {sample_width}"
                        ))
                    }
                    None => Ok(()),
                }
            }
            (Subject::Rank { .. }, RequestKind::Rank) => Ok(()),
        }
    }

    /// A field of the user as one text.
    pub(super) fn user_text(&self, field: &str) -> Option<Cow<'a, str>> {
        match self {
            Subject::Rank { user, .. } => user.get(field).and_then(text),
            Subject::Samples(_) => None,
        }
    }

    /// The error for a field that [`Subject::user_text`] does not give.
    pub(super) fn no_text(&self, field: &str) -> Status {
        let value = match self {
            Subject::Rank { user, .. } => user.get(field),
            Subject::Samples(_) => None,
        };
        match value {
            None => missing_field(field),
            Some(value) => {
                let found = value.kind();
                let ex = format!("key \"user.{field}\" is {found}; expected text or an integer");
                Status::new(Code::BadArgument, ex)
            }
        }
    }

    /// A field of the user as one or several texts.
    pub(super) fn user_texts(&self, field: &str) -> Result<Vec<Cow<'a, str>>, Status> {
        let invalid = |found: &str| {
            let ex =
                format!("key \"user.{field}\" is {found}; expected text, an integer, or an array of them");
            Status::new(Code::BadArgument, ex)
        };
        let value = match self {
            Subject::Rank { user, .. } => user.get(field),
            Subject::Samples(_) => None,
        };
        match value {
            None => Err(missing_field(field)),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| text(item).ok_or_else(|| invalid("an array with something else in it")))
                .collect(),
            Some(value) => Ok(vec![text(value).ok_or_else(|| invalid(value.kind()))?]),
        }
    }
}

/// The error for a user field that a pipeline reads and a request lacks.
fn missing_field(field: &str) -> Status {
    Status::new(
        Code::KeyNotFound,
        format!("key \"user.{field}\" is missing; the pipeline reads it"),
    )
}

/// Text, or a whole number in decimal.
pub(super) fn text<'v>(value: &'v Value<'_>) -> Option<Cow<'v, str>> {
    match value {
        Value::Text(text) => Some(Cow::Borrowed(text)),
        Value::UInt(number) => Some(Cow::Owned(number.to_string())),
        Value::Int(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}
