//! `template = { text = "query: {inputs.question}" }`: a text for each row, with the request's texts and those of stages in it.
//!
//! It is no language: no conditions, no loops. Its invariant: a text of one item is repeated, and others are as many as each other.

use super::by_item::at_stage;
use crate::planner::Place;
use crate::source::{Part, parts};
use crate::{
    Bytes, Describe, Error, Form, Given, Items, Kind, Opened, Opening, PerRow, Rows, Source, Stage, Step,
    Value,
};
use millpond_backends_interface::Port;
use serde::Deserialize;

/// Bytes of all texts of a request.
const BYTES_MAX: usize = 64 << 20;

/// Texts with others in them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as template = { text = \"query: {inputs.question}\" }"
)]
pub struct Template {
    /// `{inputs.NAME}`, `{user.FIELD}` and `{STAGE}` stand for their texts.
    text: String,
}

/// What stands between the fields of a template, and behind the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Between(Vec<String>);

impl Template {
    fn parts(&self) -> Result<Vec<Part<'_>>, String> {
        parts(&self.text)
    }

    /// What stands before each field, and behind the last one.
    fn between(&self) -> Result<Between, String> {
        let mut between = vec![String::new()];
        for part in self.parts()? {
            match (part, between.last_mut()) {
                (Part::Text(text), Some(last)) => last.push_str(text),
                _ => between.push(String::new()),
            }
        }
        Ok(Between(between))
    }
}

impl Describe for Template {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let key = "template.text";
        let hint = "write text with {inputs.NAME}, {user.FIELD} or {STAGE} in it";
        let parts = self.parts().map_err(|problem| place.error(key, problem, hint))?;
        let mut given = Form {
            kind: Kind::Texts,
            rows: Rows::One,
            per_row: PerRow::One,
        };
        let mut has_field = false;
        for part in parts {
            let Part::Field(field) = part else { continue };
            has_field = true;
            let source = field
                .strip_prefix("user.")
                .map(|field| Source::UserText(field.to_owned()));
            let form = match source {
                Some(source) if source.request() == place.request() => place.read(source),
                Some(_) => {
                    let problem = format!("`{field}` is not in the request of this pipeline");
                    return Err(place.error(key, problem, hint));
                }
                None => place.take(key, field, Kind::Texts)?,
            };
            if form.rows == Rows::Each || form.per_row != PerRow::One {
                given = Form {
                    kind: Kind::Texts,
                    ..form
                };
            }
        }
        match has_field {
            true => Ok(given),
            false => Err(place.error(key, "there is no field in it", hint)),
        }
    }

    fn reads(&self) -> Vec<&str> {
        let parts = self.parts().unwrap_or_default().into_iter();
        parts
            .filter_map(|part| match part {
                Part::Field(field) => Some(field),
                Part::Text(_) => None,
            })
            .collect()
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let between = self.between().map_err(|problem| opening.unfit(problem))?;
        let stage = stage.to_owned();
        Ok(Opened::plain(Filling { stage, between }))
    }
}

struct Filling {
    stage: String,
    between: Between,
}

impl Stage for Filling {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let values: Vec<(&Value, &Bytes)> = given
            .values()
            .map(|value| value.bytes().map(|bytes| (value, bytes)))
            .collect::<Result<_, _>>()?;
        let is_one = |bytes: &Bytes| bytes.len() == 1;
        let several = values.iter().find(|(_, bytes)| !is_one(bytes));
        let rows = several.map_or(1, |(_, bytes)| bytes.len());
        if let Some((_, other)) = values
            .iter()
            .find(|(_, bytes)| !is_one(bytes) && bytes.len() != rows)
        {
            let problem = format!(
                "it gets {rows} texts and {}; give all as many, or one",
                other.len()
            );
            return Err(at_stage(&self.stage, &problem));
        }
        let Between(between) = &self.between;
        let fixed: usize = between.iter().map(String::len).sum();
        let mut size = fixed.saturating_mul(rows);
        for (_, bytes) in &values {
            let held: usize = bytes.iter().map(<[u8]>::len).sum();
            let times = if is_one(bytes) { rows } else { 1 };
            size = size.saturating_add(held.saturating_mul(times));
        }
        if size > BYTES_MAX {
            let problem =
                format!("its texts would have {size} bytes; {BYTES_MAX} in one request are the limit");
            return Err(at_stage(&self.stage, &problem));
        }
        let mut filled = Bytes::with_capacity(rows, size);
        let mut text = Vec::new();
        let mut texts: Vec<_> = values.iter().map(|(_, bytes)| bytes.iter()).collect();
        for _ in 0..rows {
            text.clear();
            for ((before, (_, bytes)), texts) in between.iter().zip(&values).zip(&mut texts) {
                text.extend_from_slice(before.as_bytes());
                let field = if is_one(bytes) {
                    bytes.iter().next()
                } else {
                    texts.next()
                };
                text.extend_from_slice(field.unwrap_or_default());
            }
            text.extend_from_slice(between.last().map_or(&[][..], |last| last.as_bytes()));
            filled.push(&text);
        }
        let like = several.or(values.first()).map(|(value, _)| *value);
        let items = Items::Bytes(filled);
        Ok(Step::Value(like.map_or_else(
            || Value::rows(items.clone()),
            |like| like.with(items.clone()),
        )))
    }
}
