//! `[methods."NAME"]`: methods that a configuration adds.
//! It answers none. Its invariant: a name that passes [`check`] is no built-in method's and fits into a frame.

use super::Config;
use crate::methods::is_built_in;
use millpond_wire_frame::{Map, Value};
use serde::Deserialize;

/// Bytes of a method's name: a frame has one byte for its length.
const NAME_BYTES_MAX: usize = 255;
/// Methods of one configuration: each has statistics of its own.
const METHODS_MAX: usize = 1000;

/// `[methods.NAME]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// What it answers; "constant" where there is an answer.
    pub kind: Option<Kind>,
    /// The map of a constant method, in the order of the file.
    pub answer: Option<toml::Table>,
}

/// What a configured method answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The map of its payload, as it came.
    Echo,
    /// One map, always.
    Constant,
}

pub(super) fn check(config: &Config) -> Result<(), String> {
    if config.methods.len() > METHODS_MAX {
        let found = config.methods.len();
        return Err(format!(
            "methods: {found} are defined; expected at most {METHODS_MAX}"
        ));
    }
    for (name, method) in &config.methods {
        let key = format!("methods.{name:?}");
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let found = name.len();
            return Err(format!(
                "{key}: the name has {found} bytes; expected 1 to {NAME_BYTES_MAX}"
            ));
        }
        if name.starts_with('*') || is_built_in(name) {
            return Err(format!(
                "{key}: the name is the server's own (built in, or with a leading \"*\"); choose another"
            ));
        }
        match (method.kind, &method.answer) {
            (Some(Kind::Echo), Some(_)) => {
                return Err(format!(
                    "{key}.answer: kind \"echo\" answers what it gets; leave answer out, or set kind = \"constant\""
                ));
            }
            (None | Some(Kind::Constant), None) => {
                return Err(format!(
                    "{key}.answer is missing; write answer = {{ key = \"value\" }}, or set kind = \"echo\""
                ));
            }
            (None | Some(Kind::Constant), Some(_)) | (Some(Kind::Echo), None) => {}
        }
    }
    Ok(())
}

/// A TOML value as payloads have it; times become text.
pub(crate) fn value_of(value: &toml::Value) -> Value<'static> {
    match value {
        toml::Value::String(text) => Value::Text(text.clone().into()),
        toml::Value::Integer(number) => u64::try_from(*number).map_or(Value::Int(*number), Value::UInt),
        toml::Value::Float(number) => Value::Float(*number),
        toml::Value::Boolean(value) => Value::Bool(*value),
        toml::Value::Datetime(time) => Value::Text(time.to_string().into()),
        toml::Value::Array(items) => Value::Array(items.iter().map(value_of).collect()),
        toml::Value::Table(entries) => Value::Map(map_of(entries)),
    }
}

/// A TOML table as payloads have it, in its own order.
pub(crate) fn map_of(entries: &toml::Table) -> Map<'static> {
    let entry = |(key, value): (&String, _)| (key.clone().into(), value_of(value));
    Map(entries.iter().map(entry).collect())
}
