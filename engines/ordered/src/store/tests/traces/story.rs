//! What a recorded trace has told so far, by a plain model of every kind of write.
//!
//! Invariants: what was acknowledged is applied as the model says, with the effects and versions that were answered; what is found at
//! any moment is that, and perhaps the first of the writes without an answer, each of them whole.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use super::super::*;
use crate::{Batch, Effect, Kind, Operation, Put};

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Bytes(Vec<u8>),
    /// The newest first.
    List(Vec<Vec<u8>>),
}

/// A key's value, its version, and whether it expires some day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub value: Value,
    pub version: u64,
    pub expires: bool,
}

pub type Contents = BTreeMap<Vec<u8>, Entry>;

#[derive(Debug, Clone)]
pub enum Note {
    /// The write of this number was handed in.
    Write(usize),
    /// It was answered so.
    Told(usize, Told),
    /// A process has opened the store with this in it, and so many versions given: writes of those before it that were open are
    /// there, or never will be.
    Opened(Contents, u64),
    /// Readers see this.
    Shown(Contents),
}

#[derive(Debug, Clone)]
pub enum Told {
    Written(Vec<Effect>),
    Conflict { key: Vec<u8>, found: u64 },
    Unwritten,
    Unknown,
}

pub fn told(answer: Result<Written, WriteError>) -> Told {
    match answer {
        Ok(written) => {
            let puts = written.versions.into_iter().map(Effect::Put);
            Told::Written(puts.chain(written.effects).collect())
        }
        Err(WriteError::Conflict { key, found, .. }) => Told::Conflict { key, found },
        Err(WriteError::Storage(_) | WriteError::ReadOnly(_)) => Told::Unwritten,
        Err(WriteError::OutcomeUnknown(_)) => Told::Unknown,
        Err(other) => panic!("{other}"),
    }
}

/// What a store without faults has.
#[derive(Clone, Default)]
struct State {
    contents: Contents,
    versions_given: u64,
}

impl State {
    /// What a write does, unless a condition stands against it.
    fn write(&mut self, write: &Write) -> Option<Vec<Effect>> {
        let before = self.clone();
        let effects = match write {
            Write::Put(put) => self.put(put),
            Write::Batch(batch) => self.batch(batch),
        };
        if effects.is_none() {
            *self = before;
        }
        effects
    }

    fn version(&self, key: &[u8]) -> u64 {
        self.contents.get(key).map_or(0, |found| found.version)
    }

    fn put(&mut self, put: &Put) -> Option<Vec<Effect>> {
        let wanted = [put.if_absent.then_some(0), put.if_version];
        let mut wanted = wanted.into_iter().flatten();
        if wanted.any(|wanted| put.entries.iter().any(|(key, _)| self.version(key) != wanted)) {
            return None;
        }
        let expires = put.ttl_ms.is_some();
        let entries = put.entries.iter();
        let effects =
            entries.map(|(key, value)| Effect::Put(self.hold(key, Value::Bytes(value.clone()), expires)));
        Some(effects.collect())
    }

    fn hold(&mut self, key: &[u8], value: Value, expires: bool) -> u64 {
        self.versions_given += 1;
        let version = self.versions_given;
        let entry = Entry {
            value,
            version,
            expires,
        };
        self.contents.insert(key.to_vec(), entry);
        version
    }

    fn batch(&mut self, batch: &Batch) -> Option<Vec<Effect>> {
        let operations = batch.operations.iter();
        operations.map(|operation| self.operate(operation)).collect()
    }

    fn operate(&mut self, operation: &Operation) -> Option<Effect> {
        let key = operation.key();
        let found = self.contents.get(key).cloned();
        let version = self.version(key);
        let expires = found.as_ref().is_some_and(|found| found.expires);
        let fits = |wanted: &Option<u64>| wanted.is_none_or(|wanted| wanted == version);
        match operation {
            Operation::Put {
                value,
                if_version,
                if_absent,
                ttl_ms,
                ..
            } => {
                let fits = fits(if_version) && !(*if_absent && found.is_some());
                let value = Value::Bytes(value.clone());
                fits.then(|| Effect::Put(self.hold(key, value, ttl_ms.is_some())))
            }
            Operation::Remove { if_version, .. } => fits(if_version).then(|| {
                self.versions_given += u64::from(found.is_some());
                Effect::WasThere(self.contents.remove(key).is_some())
            }),
            Operation::Expire { ttl_ms, .. } => {
                let was_there = Effect::WasThere(found.is_some());
                if let Some(found) = found {
                    self.hold(key, found.value, ttl_ms.is_some());
                }
                Some(was_there)
            }
            Operation::Increment { by, .. } => {
                let text = String::from_utf8(bytes(found)).unwrap();
                let value = by + text.parse::<i64>().unwrap_or(0);
                let version = self.hold(key, Value::Bytes(value.to_string().into_bytes()), expires);
                Some(Effect::Incremented { value, version })
            }
            Operation::Concatenate { value, .. } => {
                let whole = [bytes(found), value.clone()].concat();
                let bytes = whole.len();
                let version = self.hold(key, Value::Bytes(whole), expires);
                Some(Effect::Concatenated { bytes, version })
            }
            Operation::Append { items: new, keep, .. } => {
                let mut left: Vec<_> = new.iter().rev().cloned().chain(items(found)).collect();
                left.truncate(keep.map_or(usize::MAX, |keep| keep as usize));
                let count = left.len();
                let version = self.hold(key, Value::List(left), expires);
                Some(Effect::Listed { count, version })
            }
            // Up to the last item that is meant: the oldest are cut off.
            Operation::Trim { stop, .. } => {
                let mut left = items(found);
                let before = left.len();
                left.truncate(usize::try_from(*stop).unwrap() + 1);
                let count = left.len();
                let version = match count == before {
                    true => version,
                    false => self.hold(key, Value::List(left), expires),
                };
                Some(Effect::Listed { count, version })
            }
            other => panic!("not written here: {other:?}"),
        }
    }
}

/// Whether a write has a key once.
fn is_once(write: &Write, key: &[u8]) -> bool {
    match write {
        Write::Put(_) => true,
        Write::Batch(batch) => {
            let operations = batch.operations.iter();
            operations.filter(|operation| operation.key() == key).count() == 1
        }
    }
}

fn bytes(found: Option<Entry>) -> Vec<u8> {
    match found.map(|found| found.value) {
        None => Vec::new(),
        Some(Value::Bytes(bytes)) => bytes,
        Some(list) => panic!("{list:?}"),
    }
}

fn items(found: Option<Entry>) -> Vec<Vec<u8>> {
    match found.map(|found| found.value) {
        None => Vec::new(),
        Some(Value::List(items)) => items,
        Some(bytes) => panic!("{bytes:?}"),
    }
}

/// What the record has told so far.
#[derive(Clone, Default)]
pub struct Story {
    pub writes: Vec<Write>,
    /// Of the writes that were acknowledged.
    acknowledged: State,
    /// Handed in and not answered, or answered that nobody knows; in order.
    open: Vec<usize>,
    /// What readers saw last.
    shown: Contents,
    /// Versions that answers named and that no acknowledged write has reached yet.
    named: BTreeMap<Vec<u8>, u64>,
}

impl Story {
    pub fn hear(&mut self, note: &Note) {
        match note {
            Note::Write(number) => self.open.push(*number),
            Note::Told(_, Told::Unknown) => {}
            Note::Told(number, told) => {
                self.open.retain(|open| open != number);
                match told {
                    Told::Written(effects) => {
                        let written = self.acknowledged.write(&self.writes[*number]);
                        assert_eq!(written.as_ref(), Some(effects));
                    }
                    // A batch may stand against itself: then the version that it meets is its own.
                    Told::Conflict { key, found } if is_once(&self.writes[*number], key) => {
                        self.named.insert(key.clone(), *found);
                    }
                    Told::Conflict { .. } => {}
                    Told::Unwritten | Told::Unknown => {}
                }
                let acknowledged = &self.acknowledged;
                self.named
                    .retain(|key, version| acknowledged.version(key) < *version);
            }
            Note::Opened(contents, versions_given) => {
                self.holds(contents);
                self.acknowledged = State {
                    contents: contents.clone(),
                    versions_given: *versions_given,
                };
                self.shown.clone_from(contents);
                self.named.clear();
                self.open.clear();
            }
            Note::Shown(contents) => {
                let after = self.after(contents, 0);
                assert!(after.is_some(), "shown {}, {}", words(contents), self.words());
                self.shown.clone_from(contents);
            }
        }
    }

    /// How many of the open writes the store has with these contents, at least so many; `None` where it is none of them.
    fn after(&self, found: &Contents, least: usize) -> Option<usize> {
        let mut state = self.acknowledged.clone();
        for count in 0..=self.open.len() {
            if count >= least && state.contents == *found {
                return Some(count);
            }
            if let Some(next) = self.open.get(count) {
                state.write(&self.writes[*next]);
            }
        }
        None
    }

    /// What was found after an end must be what was acknowledged, and perhaps the first of the open writes, each of them whole; with all
    /// that was shown or named before.
    pub fn holds(&self, found: &Contents) {
        // What was shown may be behind what was acknowledged since.
        let shown = self.after(&self.shown, 0).unwrap_or(0);
        let Some(count) = self.after(found, shown) else {
            panic!(
                "found {}, shown {}, {}",
                words(found),
                words(&self.shown),
                self.words()
            );
        };
        let mut state = self.acknowledged.clone();
        let mut missing = self.named.clone();
        for open in self.open.iter().take(count) {
            state.write(&self.writes[*open]);
            missing.retain(|key, version| state.version(key) < *version);
        }
        assert!(missing.is_empty(), "named {missing:?}, found {}", words(found));
    }

    fn words(&self) -> String {
        let open: Vec<_> = self.open.iter().map(|open| &self.writes[*open]).collect();
        format!(
            "acknowledged {}, open {open:?}",
            words(&self.acknowledged.contents)
        )
    }
}

/// In few words: which write made each key, and its version.
pub fn words(contents: &Contents) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('.').to_owned();
    let word = |(key, entry): (&Vec<u8>, &Entry)| {
        let value = match &entry.value {
            Value::Bytes(bytes) => text(bytes),
            Value::List(items) => format!("{:?}", items.iter().map(|item| text(item)).collect::<Vec<_>>()),
        };
        format!("{}={value}@{}", text(key), entry.version)
    };
    contents.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// All that readers see, at a moment at which nothing is written.
pub fn contents(store: &Store) -> Contents {
    let mut found = Contents::new();
    let scan = Scan {
        limit: usize::MAX,
        ..Scan::default()
    };
    store.scan(&scan, &mut |key, _| {
        let entry = store.get(key).unwrap();
        let value = match entry.kind {
            Kind::Bytes => Value::Bytes(entry.value),
            Kind::List => Value::List(store.items(key, 0, -1, usize::MAX).unwrap()),
        };
        let (version, expires) = (entry.version, entry.expires_ms.is_some());
        let entry = Entry {
            value,
            version,
            expires,
        };
        found.insert(key.to_vec(), entry);
    });
    found
}
