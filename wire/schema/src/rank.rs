//! `rank`: `{pipeline?, user: map, items: [id …], top?: uint}` →
//! `{items: [id …], scores: [f32], model, versions: {table: uint}}`.
//! Ids are text or whole numbers and come back as they went in. Its invariant: items and scores of an answer have the
//! same length; with `top` they are sorted, best first.

use crate::frame::{Encoder, FieldError, Fields, Map, Reserved, Value};
use std::borrow::Cow;

/// Candidates one call may carry.
pub const ITEMS_MAX: usize = 10_000;

/// A decoded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// The pipeline; the default one when absent.
    pub pipeline: Option<Cow<'a, str>>,
    /// What is known of the user.
    pub user: Map<'a>,
    /// Candidates to score.
    pub items: Vec<Value<'a>>,
    /// Answer only this many, best first; all in the call's order when absent.
    pub top: Option<usize>,
}

impl<'a> Call<'a> {
    /// Reads the payload's map.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'a>) -> Result<(Self, Reserved<'a>), FieldError> {
        let (mut fields, reserved) = Fields::root(map)?;
        let pipeline = fields.optional_text("pipeline")?;
        let user = fields.map("user", "a map, at least {\"id\": …}")?;
        let items = decode_ids(&mut fields)?;
        if items.len() > ITEMS_MAX {
            return Err(FieldError::invalid(
                "items",
                format!("{} ids", items.len()),
                format!("at most {ITEMS_MAX}"),
            ));
        }
        let top = fields
            .optional_uint("top", ITEMS_MAX as u64)?
            .map(|top| top as usize);
        fields.finish()?;
        Ok((
            Call {
                pipeline,
                user,
                items,
                top,
            },
            reserved,
        ))
    }

    /// Writes the payload's map.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        out.map(2 + usize::from(self.pipeline.is_some()) + usize::from(self.top.is_some()));
        if let Some(pipeline) = &self.pipeline {
            out.key("pipeline");
            out.text(pipeline);
        }
        out.key("user");
        out.value(&Value::Map(self.user.clone()));
        out.key("items");
        out.array(self.items.len());
        self.items.iter().for_each(|item| out.value(item));
        out.end_array();
        if let Some(top) = self.top {
            out.key("top");
            out.uint(top as u64);
        }
        out.end_map();
    }
}

fn decode_ids<'a>(fields: &mut Fields<'a>) -> Result<Vec<Value<'a>>, FieldError> {
    let items = fields.array("items", "an array of ids")?;
    for (at, item) in items.iter().enumerate() {
        if !matches!(item, Value::Text(_) | Value::UInt(_) | Value::Int(_)) {
            return Err(FieldError::invalid(
                format!("items[{at}]"),
                item.kind(),
                "text or an integer",
            ));
        }
    }
    Ok(items)
}

/// What an answer holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<'a> {
    /// Ids, as in the call.
    pub items: Vec<Value<'a>>,
    /// One a item.
    pub scores: Vec<f32>,
    /// The model that scored.
    pub model: Cow<'a, str>,
    /// Table names and the versions that were read.
    pub versions: Vec<(String, u64)>,
}

impl<'a> Answer<'a> {
    /// Reads the answer.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'a>) -> Result<Self, FieldError> {
        let (mut fields, _) = Fields::root(map)?;
        let items = decode_ids(&mut fields)?;
        let scores = crate::infer::scores_field(&mut fields)?;
        if items.len() != scores.len() {
            let expected = format!("one for each of {} items", items.len());
            return Err(FieldError::invalid(
                "scores",
                format!("{} scores", scores.len()),
                expected,
            ));
        }
        let model = fields.text("model")?;
        let mut versions = Vec::new();
        for (table, version) in fields.map("versions", "a map of tables and their versions")?.0 {
            match version {
                Value::UInt(version) => versions.push((table.into_owned(), version)),
                other => return Err(fields.invalid(&format!("versions.{table}"), &other, "a version")),
            }
        }
        Ok(Answer {
            items,
            scores,
            model,
            versions,
        })
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Answer<'static> {
        Answer {
            items: self.items.into_iter().map(own).collect(),
            scores: self.scores,
            model: Cow::Owned(self.model.into_owned()),
            versions: self.versions,
        }
    }

    /// Writes the answer.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        out.map(4);
        out.key("items");
        out.array(self.items.len());
        self.items.iter().for_each(|item| out.value(item));
        out.end_array();
        out.key("scores");
        out.array(self.scores.len());
        self.scores.iter().for_each(|score| out.f32(*score));
        out.end_array();
        out.key("model");
        out.text(&self.model);
        out.key("versions");
        out.map(self.versions.len());
        for (table, version) in &self.versions {
            out.key(table);
            out.uint(*version);
        }
        out.end_map();
        out.end_map();
    }
}

fn own(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Nil => Value::Nil,
        Value::Bool(value) => Value::Bool(value),
        Value::UInt(value) => Value::UInt(value),
        Value::Int(value) => Value::Int(value),
        Value::Float(value) => Value::Float(value),
        Value::Text(value) => Value::Text(Cow::Owned(value.into_owned())),
        Value::Bytes(value) => Value::Bytes(Cow::Owned(value.into_owned())),
        Value::Array(items) => Value::Array(items.into_iter().map(own).collect()),
        Value::Map(map) => {
            let entries = map
                .0
                .into_iter()
                .map(|(key, value)| (Cow::Owned(key.into_owned()), own(value)));
            Value::Map(Map(entries.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::frame::{Encoding, decode_map};

    #[test]
    fn both_directions_round_trip() {
        let user = Map(vec![("id".into(), Value::Text("u".into()))]);
        let call = Call {
            pipeline: Some("rank".into()),
            user,
            items: vec![Value::UInt(5), Value::Text("x".into())],
            top: Some(1),
        };
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            call.encode(&mut Encoder::new(&mut bytes, encoding, false));
            assert_eq!(
                Call::decode(decode_map(encoding, &bytes).unwrap()).unwrap().0,
                call
            );
        }
        let answer = Answer {
            items: vec![Value::UInt(5)],
            scores: vec![0.25],
            model: "m".into(),
            versions: vec![("t".into(), 1)],
        };
        let mut bytes = Vec::new();
        answer.encode(&mut Encoder::new(&mut bytes, Encoding::Json, false));
        assert_eq!(
            bytes,
            br#"{"items":[5],"scores":[0.25],"model":"m","versions":{"t":1}}"#
        );
    }

    #[test]
    fn answers_round_trip() {
        let answer = Answer {
            items: vec![Value::UInt(5), Value::Text("x".into()), Value::Int(-1)],
            scores: vec![0.25, -3.0, 0.1],
            model: "m".into(),
            versions: vec![("t".into(), u64::MAX)],
        };
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            answer.encode(&mut Encoder::new(&mut bytes, encoding, false));
            let found = Answer::decode(decode_map(encoding, &bytes).unwrap()).unwrap();
            assert_eq!(found, answer);
            assert_eq!(found.into_owned(), answer);
        }
    }

    #[test]
    fn answers_that_do_not_fit_are_named() {
        for (json, expected) in [
            (
                r#"{"items": [1], "scores": []}"#,
                "key \"scores\" is 0 scores; expected one for each of 1 items",
            ),
            (
                r#"{"items": [], "scores": [], "model": "m", "versions": {"t": "x"}}"#,
                "key \"versions.t\" is text; expected a version",
            ),
        ] {
            let error = Answer::decode(decode_map(Encoding::Json, json.as_bytes()).unwrap()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn ids_are_text_or_whole() {
        let map = decode_map(Encoding::Json, br#"{"user": {}, "items": [1, 2.5]}"#).unwrap();
        let error = Call::decode(map).unwrap_err().to_string();
        assert_eq!(
            error,
            "key \"items[1]\" is a floating-point number; expected text or an integer"
        );
    }
}
