//! What a store without faults holds, by a plain model, and what it answers.
//!
//! Its invariant: a version that is known is that of an answer or of a look behind a start.

use super::write::{Condition, Operation, Write};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Bytes, here text.
    Bytes(String),
    /// A list, the newest first.
    List(Vec<String>),
}

/// A moment that lies between two, in milliseconds of Unix time: the server's clock is seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// No sooner than this.
    pub from: u64,
    /// No later than this.
    pub to: u64,
}

impl Span {
    fn later(self, ms: u64) -> Span {
        Span {
            from: self.from + ms,
            to: self.to + ms,
        }
    }
}

/// A key that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// What it holds.
    pub value: Value,
    /// Its version, where one was answered.
    pub version: Option<u64>,
    /// When it expires, if it does.
    pub expires: Option<Span>,
}

/// The keys of a lane.
pub type Cells = BTreeMap<String, Cell>;

/// What a write is answered: the new versions of its keys follow from the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The key's new version.
    Version,
    /// Whether it was there; `None` where time alone says.
    WasThere(Option<bool>),
    /// A number: a sum, or a count.
    Number(i64),
}

fn text(cell: Option<&Cell>) -> String {
    match cell.map(|cell| &cell.value) {
        Some(Value::Bytes(text)) => text.clone(),
        _ => String::new(),
    }
}

fn list(cell: Option<&Cell>) -> Vec<String> {
    match cell.map(|cell| &cell.value) {
        Some(Value::List(items)) => items.clone(),
        _ => Vec::new(),
    }
}

fn holds(condition: Condition, found: Option<&Cell>) -> bool {
    match condition {
        Condition::None => true,
        Condition::Absent => found.is_none(),
        Condition::Present => found.is_some(),
        // What nobody knows is none that was chosen.
        Condition::Version(version) => match found {
            None => version == 0,
            Some(cell) => cell.version == Some(version),
        },
    }
}

/// Does what a write does at a moment; `None`, and no change, where a condition does not hold.
pub fn apply(cells: &mut Cells, write: &Write, at: Span) -> Option<Vec<Effect>> {
    let mut after = cells.clone();
    let operations = write.operations.iter();
    let effects: Option<Vec<Effect>> = operations
        .map(|operation| operate(&mut after, operation, at))
        .collect();
    if effects.is_some() {
        *cells = after;
    }
    effects
}

fn operate(cells: &mut Cells, operation: &Operation, at: Span) -> Option<Effect> {
    let key = operation.key();
    let found = cells.get(key);
    let lasted = found.and_then(|cell| cell.expires);
    let (value, expires, effect) = match operation {
        Operation::Put {
            value,
            condition,
            ttl_ms,
            ..
        } => {
            if !holds(*condition, found) {
                return None;
            }
            let expires = ttl_ms.map(|ttl_ms| at.later(ttl_ms));
            (Value::Bytes(value.clone()), expires, Effect::Version)
        }
        Operation::Remove { .. } => {
            let may_be_over = lasted.is_some_and(|over| over.from <= at.to);
            let was_there = (!may_be_over).then_some(found.is_some());
            cells.remove(key);
            return Some(Effect::WasThere(was_there));
        }
        Operation::Increment { by, .. } => {
            let sum = by + text(found).parse::<i64>().unwrap_or(0);
            (Value::Bytes(sum.to_string()), lasted, Effect::Number(sum))
        }
        Operation::Append { items, keep, .. } => {
            let mut left: Vec<String> = items.iter().rev().cloned().chain(list(found)).collect();
            left.truncate(*keep as usize);
            let count = left.len() as i64;
            (Value::List(left), lasted, Effect::Number(count))
        }
        Operation::Trim { stop, .. } => {
            let mut left = list(found);
            let before = left.len();
            left.truncate(*stop as usize + 1);
            let count = Effect::Number(left.len() as i64);
            if left.len() == before {
                return Some(count);
            }
            (Value::List(left), lasted, count)
        }
        Operation::Concatenate { value, .. } => {
            let whole = text(found) + value;
            let bytes = whole.len() as i64;
            (Value::Bytes(whole), lasted, Effect::Number(bytes))
        }
        Operation::Expire { ttl_ms, .. } => {
            let Some(found) = found else {
                return Some(Effect::WasThere(Some(false)));
            };
            let expires = ttl_ms.map(|ttl_ms| at.later(ttl_ms));
            (found.value.clone(), expires, Effect::WasThere(Some(true)))
        }
    };
    let cell = Cell {
        value,
        version: None,
        expires,
    };
    cells.insert(key.to_owned(), cell);
    Some(effect)
}

/// Holds a good answer against what a write does, and notes the versions that it tells. They are above `floor`, and the highest is returned.
///
/// # Errors
/// What differs, in words.
pub fn hear(
    cells: &mut Cells,
    write: &Write,
    effects: &[Effect],
    answer: &Json,
    floor: u64,
) -> Result<u64, String> {
    let told: Vec<&Json> = match answer["results"].as_array().or(answer["versions"].as_array()) {
        Some(many) => many.iter().collect(),
        None => ["value", "count", "bytes", "removed", "changed"]
            .into_iter()
            .filter_map(|name| answer.get(name))
            .collect(),
    };
    if told.len() != effects.len() {
        return Err(format!("{} effects are answered {answer}", effects.len()));
    }
    let mut highest = floor;
    for ((operation, effect), told) in write.operations.iter().zip(effects).zip(told) {
        let was_there = told.as_bool().or(told.as_u64().map(|count| count == 1));
        let version = match effect {
            Effect::Version => Some(told.as_u64().ok_or_else(|| format!("{told} is no version"))?),
            Effect::WasThere(expected) if expected.is_none() || was_there == *expected => None,
            // A trim may have changed nothing.
            Effect::Number(expected) if told.as_i64() == Some(*expected) => match operation {
                Operation::Trim { .. } => None,
                _ => answer["version"].as_u64(),
            },
            _ => {
                return Err(format!(
                    "{operation:?} is answered {told}; expected was {effect:?}"
                ));
            }
        };
        if let Some(version) = version {
            if version <= highest {
                return Err(format!("{operation:?} got version {version} behind {highest}"));
            }
            highest = version;
        }
        // The last operation of a key says what it has, or nobody does.
        if let Some(cell) = cells.get_mut(operation.key()) {
            cell.version = version;
        }
    }
    Ok(highest)
}
