//! `[methods."NAME"]`: methods that a configuration adds.
//! It answers none. Its invariant: a name that passes [`check`] is no built-in method's and fits into a frame.

use millpond_wire_payload::{Map, Value};
use millpond_wire_schema::METHODS;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Bytes of a method's name: a frame has one byte for its length.
const NAME_BYTES_MAX: usize = 255;
/// How long a caller may take that is called itself, unless said otherwise: FPNN's default (its core/Config.h).
pub(super) const DUPLEX_TIMEOUT_MS: u64 = 5000;
/// A day is for ever to a call.
const DUPLEX_TIMEOUT_MS_MAX: u64 = 86_400_000;
/// Methods of one configuration: each has statistics of its own.
const METHODS_MAX: usize = 1000;

/// `[methods.NAME]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// What it answers; "constant" where there is an answer.
    pub kind: Option<Kind>,
    /// The map of a constant method, or of one that answers early, in the order of the file.
    pub answer: Option<toml::Table>,
    /// The method of the caller that a duplex method calls.
    pub push: Option<String>,
    /// The map that it is called with; that of its own call when left out.
    pub payload: Option<toml::Table>,
    /// How long it may take; 5000 when left out.
    pub timeout_ms: Option<u64>,
    /// Whether a duplex method answers before it calls its caller.
    #[serde(default)]
    pub early: bool,
    /// Whether it asks its caller for no answer; one that answers early can.
    #[serde(default)]
    pub oneway: bool,
}

/// What a configured method answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The map of its payload, as it came.
    Echo,
    /// One map, always.
    Constant,
    /// What its caller answers, when it is called over the same connection.
    Duplex,
}

/// What is known to be wrong with the methods of a configuration.
///
/// # Errors
/// The problem, its key, and what to do.
pub fn check(methods: &BTreeMap<String, Section>) -> Result<(), String> {
    if methods.len() > METHODS_MAX {
        let found = methods.len();
        return Err(format!(
            "methods: {found} are defined; expected at most {METHODS_MAX}"
        ));
    }
    for (name, method) in methods {
        let key = format!("methods.{name:?}");
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let found = name.len();
            return Err(format!(
                "{key}: the name has {found} bytes; expected 1 to {NAME_BYTES_MAX}"
            ));
        }
        if name.starts_with('*') || METHODS.iter().any(|method| method.name == name) {
            return Err(format!(
                "{key}: the name is the server's own (built in, or with a leading \"*\"); choose another"
            ));
        }
        match (method.kind, &method.answer) {
            (Some(Kind::Duplex), _) => check_duplex(&key, method)?,
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
            (None | Some(Kind::Constant), Some(_)) | (Some(Kind::Echo), None) => {
                check_no_duplex(&key, method)?
            }
        }
    }
    Ok(())
}

/// A method that calls its caller.
fn check_duplex(key: &str, method: &Section) -> Result<(), String> {
    let Some(push) = &method.push else {
        return Err(format!(
            "{key}.push is missing; kind \"duplex\" needs the method of its caller, as in push = \"duplex quest\""
        ));
    };
    if push.is_empty() || push.len() > NAME_BYTES_MAX {
        let found = push.len();
        return Err(format!(
            "{key}.push: the name has {found} bytes; expected 1 to {NAME_BYTES_MAX}"
        ));
    }
    let unfit = method
        .timeout_ms
        .filter(|ms| !(1..=DUPLEX_TIMEOUT_MS_MAX).contains(ms));
    if let Some(found) = unfit {
        return Err(format!(
            "{key}.timeout_ms is {found}; expected 1 to {DUPLEX_TIMEOUT_MS_MAX}"
        ));
    }
    if method.oneway && !method.early {
        return Err(format!(
            "{key}.oneway: nothing is answered to a oneway push, so there is nothing to wait for; set early = true too"
        ));
    }
    if method.answer.is_some() && !method.early {
        return Err(format!(
            "{key}.answer: the caller's own answer is answered; leave answer out, or set early = true"
        ));
    }
    Ok(())
}

/// A method that does not.
fn check_no_duplex(key: &str, method: &Section) -> Result<(), String> {
    let for_duplex = [
        ("push", method.push.is_some()),
        ("payload", method.payload.is_some()),
        ("timeout_ms", method.timeout_ms.is_some()),
        ("early", method.early),
        ("oneway", method.oneway),
    ];
    match for_duplex.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "{key}.{name} is for kind \"duplex\"; leave it out, or set kind = \"duplex\""
        )),
    }
}

/// A TOML value as payloads have it; times become text.
fn value_of(value: &toml::Value) -> Value<'static> {
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
pub(super) fn map_of(entries: &toml::Table) -> Map<'static> {
    let entry = |(key, value): (&String, _)| (key.clone().into(), value_of(value));
    Map(entries.iter().map(entry).collect())
}
