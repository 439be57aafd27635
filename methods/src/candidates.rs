//! A `rank` call as its pipeline reads it: a user and items.
//!
//! It is not decoded here. Its invariant: text of a field is the same whether it came as text or as a whole number.

use millpond_pipelines::{Bytes, Error, Expected, Items, Request, RequestKind, Source, Value};
use millpond_wire_payload as payload;
use std::borrow::Cow;

/// A user's candidates.
pub(crate) struct Candidates<'a> {
    /// What is known of the user.
    pub(crate) user: &'a payload::Map<'a>,
    /// Ids, one a row.
    pub(crate) items: &'a [payload::Value<'a>],
}

impl Request for Candidates<'_> {
    fn rows(&self) -> usize {
        self.items.len()
    }

    fn check(&self, expected: Expected<'_>) -> Result<(), Error> {
        match expected.kind {
            RequestKind::Rank => Ok(()),
            RequestKind::Values => Err(Error::Request {
                problem: format!("pipeline {:?} takes named values; call run", expected.pipeline),
            }),
            RequestKind::Samples => Err(Error::Request {
                problem: format!(
                    "pipeline {:?} takes samples; call infer with {{\"samples\": [[…], …]}}",
                    expected.pipeline
                ),
            }),
        }
    }

    fn read(&self, source: &Source) -> Result<Value, Error> {
        match source {
            Source::Items => {
                let ids = self.items.iter().filter_map(text);
                Ok(Value::rows(Items::Bytes(ids.collect())))
            }
            Source::User(field) => Ok(Value::row(Items::Bytes(self.texts(field)?))),
            Source::UserText(field) => {
                let value = self.field(field)?;
                let one = text(value).ok_or_else(|| not_text(field, value.kind(), "text or an integer"))?;
                Ok(Value::row(Items::Bytes([one].into_iter().collect())))
            }
            Source::Sample(_) | Source::Input(_) => Err(Error::not_given("this kind of request")),
        }
    }
}

impl Candidates<'_> {
    fn field(&self, field: &str) -> Result<&payload::Value<'_>, Error> {
        self.user.get(field).ok_or_else(|| Error::Missing {
            field: field.to_owned(),
        })
    }

    /// A field of the user as one or several texts.
    fn texts(&self, field: &str) -> Result<Bytes, Error> {
        let invalid = |found| not_text(field, found, "text, an integer, or an array of them");
        match self.field(field)? {
            payload::Value::Array(items) => {
                let texts = items.iter().map(text).collect::<Option<Vec<_>>>();
                let texts = texts.ok_or_else(|| invalid("an array with something else in it"))?;
                Ok(texts.into_iter().collect())
            }
            value => {
                let one = text(value).ok_or_else(|| invalid(value.kind()))?;
                Ok([one].into_iter().collect())
            }
        }
    }
}

fn not_text(field: &str, found: &str, expected: &str) -> Error {
    let problem = format!("key \"user.{field}\" is {found}; expected {expected}");
    Error::Request { problem }
}

/// Text, or a whole number in decimal.
fn text<'v>(value: &'v payload::Value<'_>) -> Option<Cow<'v, str>> {
    match value {
        payload::Value::Text(text) => Some(Cow::Borrowed(text)),
        payload::Value::UInt(number) => Some(Cow::Owned(number.to_string())),
        payload::Value::Int(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}
