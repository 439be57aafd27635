//! The operations of a batch, one behind the other, and what they come to.
//!
//! Invariants: an operation sees those before it; whatever a batch does with a key, its value is copied out of the index at most once to be
//! changed.

mod lists;
mod own;

use std::collections::HashMap;

use crate::batch::{Batch, Effect, Operation};
use crate::change::{Edit, Held};
use crate::decimal::{DECIMAL_BYTES_MAX, Decimal};
use crate::error::{WriteError, WrongKind, at_most};
use crate::index::Versioned;
use crate::inspect::Looked;
use crate::judge::{Conditions, Judge, Refusal, Unplanned, conflict, expires_ms};
use crate::list::{Kind, List};
use crate::plan::{Made, Plan, Step};
use crate::put::{PUT_BYTES_MAX, VALUE_BYTES_MAX};
use crate::tree::{BROUGHT_AT_ONCE, Near};
use own::{Own, Value, value_of_put};

/// Largest initial capacity of `own`.
const OWN_AT_FIRST: usize = 1024;

/// The operations of a batch, one behind the other.
pub(crate) struct Evaluation<'e> {
    judge: &'e Judge<'e>,
    batch: &'e Batch,
    plan: Plan,
    own: HashMap<&'e [u8], Own>,
    met_group: bool,
    /// Of the batch, beside values that were there.
    batch_bytes: usize,
    /// Items of lists.
    items_read: usize,
    /// Where the key of the operation is.
    near: Near<'e>,
    /// Whether it copies more than it may.
    copies_much: bool,
}

impl<'e> Evaluation<'e> {
    pub fn of(judge: &'e Judge<'e>, batch: &'e Batch) -> Result<Evaluation<'e>, Unplanned> {
        let mut evaluation = Evaluation {
            judge,
            batch,
            plan: Plan::default(),
            own: HashMap::with_capacity(batch.operations.len().min(OWN_AT_FIRST)),
            met_group: false,
            batch_bytes: batch.bytes(),
            items_read: 0,
            near: Near::default(),
            copies_much: false,
        };
        evaluation.plan.effects.reserve(batch.operations.len());
        let mut found = Vec::with_capacity(batch.operations.len().min(BROUGHT_AT_ONCE));
        let operations = batch.operations.chunks(BROUGHT_AT_ONCE);
        for (first, operations) in (0..).step_by(BROUGHT_AT_ONCE).zip(operations) {
            let looked_at = operations.iter().filter(|operation| !operation.is_blind());
            found.clear();
            judge.index.bring(looked_at.map(Operation::key), &mut found);
            let mut found = found.iter();
            for (at, operation) in (first..).zip(operations) {
                let near = (!operation.is_blind()).then(|| found.next()).flatten();
                evaluation.near = near.copied().unwrap_or_default();
                let effect = evaluation.evaluate(at, operation);
                let effect = effect.map_err(|error| evaluation.unplanned(error))?;
                evaluation.plan.effects.push(effect);
            }
        }
        Ok(evaluation)
    }

    /// Why there is no plan.
    fn unplanned(&self, error: WriteError) -> Unplanned {
        match self.copies_much {
            true => Unplanned::CopiesMuch,
            false => Unplanned::Refused(Refusal {
                error,
                met_group: self.met_group,
            }),
        }
    }

    /// What it comes to.
    pub fn into_plan(self) -> Plan {
        let mut plan = self.plan;
        for own in self.own.into_values() {
            let step = own.step.and_then(|step| plan.steps.get_mut(step));
            let Some(Step {
                made: Made::Edited(_, held),
                ..
            }) = step
            else {
                continue;
            };
            *held = match own.value {
                Value::Bytes(value) => Held::Bytes(value),
                Value::List(list) => Held::List(list.into_value()),
                // Neither is made by an edit.
                Value::Nothing | Value::OfPut(_) => Held::Nothing,
            };
        }
        plan
    }

    fn evaluate(&mut self, at: usize, operation: &'e Operation) -> Result<Effect, WriteError> {
        let now_ms = self.judge.now_ms;
        Ok(match operation {
            Operation::Get { key } => Effect::Found(self.read(key)?),
            Operation::Put {
                key,
                ttl_ms,
                keep_ttl,
                ..
            } => {
                let found = self.check_put(key, operation)?;
                let expires_ms = match (ttl_ms, keep_ttl) {
                    (None, true) => found.expires_ms,
                    _ => expires_ms(|| now_ms, *ttl_ms),
                };
                Effect::Put(self.set((at, key), (Made::AsPut, Value::OfPut(at)), expires_ms))
            }
            Operation::Remove { key, if_version } => {
                let found = self.check(key, *if_version)?.version;
                if found != 0 {
                    self.remove(at, key);
                }
                Effect::WasThere(found != 0)
            }
            Operation::Increment { key, by, ttl_ms } => self.increment((at, key), *by, *ttl_ms)?,
            Operation::Expire { key, ttl_ms } => {
                let was_there = self.own(key)?.is_some();
                if was_there {
                    self.edit((at, key), Edit::Expire, expires_ms(|| now_ms, *ttl_ms));
                }
                Effect::WasThere(was_there)
            }
            Operation::Append {
                key,
                items,
                keep,
                ttl_ms,
            } => self.append((at, key), (items, keep.unwrap_or(u32::MAX)), *ttl_ms)?,
            Operation::Items { key, start, stop } => Effect::Items(self.items(key, (*start, *stop))?),
            Operation::Trim { key, start, stop } => self.trim((at, key), (*start, *stop))?,
            Operation::Concatenate { key, value } => self.concatenate((at, key), value)?,
            Operation::IncrementDecimal { key, by } => self.increment_decimal((at, key), by)?,
            Operation::Inspect { key } => Effect::Inspected(self.look(key).inspected(now_ms)),
        })
    }

    /// What a key is, where it has the version that it must have.
    fn check(&mut self, key: &[u8], if_version: Option<u64>) -> Result<Looked, WriteError> {
        let found = self.look(key);
        match if_version {
            Some(expected) if expected != found.version => Err(conflict(key, expected, found.version)),
            _ => Ok(found),
        }
    }

    fn check_put(&mut self, key: &[u8], operation: &Operation) -> Result<Looked, WriteError> {
        if operation.is_blind() {
            return Ok(Looked::default());
        }
        let Operation::Put {
            if_version,
            if_absent,
            if_present,
            ..
        } = operation
        else {
            return Ok(self.look(key));
        };
        let conditions = Conditions {
            if_version: *if_version,
            if_absent: *if_absent,
            if_present: *if_present,
        };
        let found = self.look(key);
        conditions.check(key, found.version)?;
        Ok(found)
    }

    /// What a key is by now.
    fn look(&mut self, key: &[u8]) -> Looked {
        if let Some(own) = self.own.get(key) {
            return own.looked(self.batch);
        }
        let Some((change, version)) = self.judge.change_of(key) else {
            return self.judge.index.look_at((key, self.near), self.judge.now_ms);
        };
        self.met_group = true;
        let looked = Looked {
            version,
            expires_ms: change.expires_ms,
            ..Looked::default()
        };
        match &change.held {
            Held::Bytes(value) => Looked {
                kind: Some(Kind::Bytes),
                value_bytes: value.len(),
                ..looked
            },
            Held::List(value) => Looked {
                kind: Some(Kind::List),
                value_bytes: value.len(),
                count: crate::list::number(value),
                ..looked
            },
            Held::Nothing | Held::Later => Looked::default(),
        }
    }

    /// The same of a key that holds a kind of value, or is absent.
    fn look_for(&mut self, key: &[u8], kind: Kind) -> Result<Looked, WriteError> {
        let looked = self.look(key);
        looked.kind.map_or(Ok(()), |found| is_of(key, found, kind))?;
        Ok(looked)
    }

    /// What a key holds by now, encoded.
    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        if let Some(own) = self.own.get(key) {
            return match &own.value {
                Value::Nothing => None,
                Value::OfPut(at) => Some(value_of_put(self.batch, *at).to_vec()),
                Value::Bytes(value) => Some(value.clone()),
                Value::List(list) => Some(list.clone().into_value()),
            };
        }
        match self.judge.change_of(key) {
            Some((change, _)) => match &change.held {
                Held::Bytes(value) | Held::List(value) => Some(value.clone()),
                Held::Nothing | Held::Later => None,
            },
            None => self.judge.index.held(key).map(|(value, _)| value),
        }
    }

    fn read(&mut self, key: &[u8]) -> Result<Option<Versioned>, WriteError> {
        if !self.own.contains_key(key) && self.judge.change_of(key).is_none() {
            let left = self.batch.read_bytes_max.saturating_sub(self.plan.read_bytes);
            let left = left.min(
                self.judge
                    .copied_bytes_max
                    .saturating_sub(self.plan.copied_bytes()),
            );
            let found = self.judge.index.get_at((key, self.near), self.judge.now_ms, left);
            let Some(found) = found.or_else(|bytes| self.count_read(bytes).map(|()| None))? else {
                return Ok(None);
            };
            is_of(key, found.kind, Kind::Bytes)?;
            self.count_read(found.value.len())?;
            return Ok(Some(found));
        }
        let looked = self.look_for(key, Kind::Bytes)?;
        self.count_read(looked.value_bytes)?;
        if looked.kind.is_none() {
            return Ok(None);
        }
        Ok(self.value(key).map(|value| Versioned {
            value,
            kind: Kind::Bytes,
            version: looked.version,
            expires_ms: Some(looked.expires_ms).filter(|expires_ms| *expires_ms != 0),
        }))
    }

    fn count_read(&mut self, bytes: usize) -> Result<(), WriteError> {
        self.plan.read_bytes += bytes;
        at_most(
            "bytes of the values that the batch reads",
            self.plan.read_bytes,
            self.batch.read_bytes_max,
        )?;
        self.check_copied()
    }

    /// Whether what it has copied may be so much.
    fn check_copied(&mut self) -> Result<(), WriteError> {
        let (copied, max) = (self.plan.copied_bytes(), self.judge.copied_bytes_max);
        self.copies_much = copied > max;
        at_most("bytes that the batch copies", copied, max)
    }

    fn increment(
        &mut self,
        (at, key): (usize, &'e [u8]),
        by: i64,
        ttl_ms: Option<u64>,
    ) -> Result<Effect, WriteError> {
        let (value, lasts_ms) = self.number(key)?;
        let Some(value) = value.checked_add(by) else {
            return Err(WriteError::Overflow {
                key: key.to_vec(),
                value,
                by,
            });
        };
        let expires_ms = ttl_ms.map_or(lasts_ms, |_| expires_ms(|| self.judge.now_ms, ttl_ms));
        let text = value.to_string().into_bytes();
        let made = Made::Held(Held::Bytes(text.clone()));
        let version = self.set((at, key), (made, Value::Bytes(text)), expires_ms);
        Ok(Effect::Incremented { value, version })
    }

    /// The whole number that a key holds, 0 where it is absent, and when that expires.
    fn number(&mut self, key: &[u8]) -> Result<(i64, u64), WriteError> {
        let looked = self.look_for(key, Kind::Bytes)?;
        if looked.kind.is_none() {
            return Ok((0, 0));
        }
        let not_a_number = || WriteError::NotANumber { key: key.to_vec() };
        if looked.value_bytes > crate::batch::NUMBER_BYTES_MAX {
            return Err(not_a_number());
        }
        let value = self.value(key).unwrap_or_default();
        let number = std::str::from_utf8(&value)
            .ok()
            .and_then(|text| text.parse().ok());
        // "+1" and "01" are texts that nobody's increment has left.
        let number = number.filter(|number: &i64| number.to_string().as_bytes() == value);
        Ok((number.ok_or_else(not_a_number)?, looked.expires_ms))
    }

    fn increment_decimal(&mut self, (at, key): (usize, &'e [u8]), by: &[u8]) -> Result<Effect, WriteError> {
        let looked = self.look_for(key, Kind::Bytes)?;
        let held = match looked.kind {
            None => Decimal::parse(b"0"),
            Some(_) if looked.value_bytes > DECIMAL_BYTES_MAX => None,
            Some(_) => Decimal::parse(&self.value(key).unwrap_or_default()),
        };
        let numbers = held.zip(Decimal::parse(by));
        let (held, by) = numbers.ok_or_else(|| WriteError::NotADecimal { key: key.to_vec() })?;
        let sum = held.plus(by);
        let sum = sum.ok_or_else(|| WriteError::DecimalOverflow { key: key.to_vec() })?;
        let text = sum.text().into_bytes();
        let made = Made::Held(Held::Bytes(text.clone()));
        let version = self.set((at, key), (made, Value::Bytes(text.clone())), looked.expires_ms);
        Ok(Effect::IncrementedDecimal { value: text, version })
    }

    fn concatenate(&mut self, (at, key): (usize, &'e [u8]), added: &[u8]) -> Result<Effect, WriteError> {
        let looked = self.look_for(key, Kind::Bytes)?;
        let bytes = looked.value_bytes + added.len();
        at_most("bytes of a value", bytes, VALUE_BYTES_MAX)?;
        let batch = self.batch;
        let version = match self.own(key)? {
            None => {
                let made = Made::Held(Held::Bytes(added.to_vec()));
                self.set((at, key), (made, Value::Bytes(added.to_vec())), 0)
            }
            Some(own) => {
                own.take_from_put(batch);
                if let Value::Bytes(value) = &mut own.value {
                    value.extend_from_slice(added);
                }
                self.edit((at, key), Edit::Concatenate(added.to_vec()), looked.expires_ms)
            }
        };
        Ok(Effect::Concatenated { bytes, version })
    }

    /// A key that is there, with a copy of its value that the batch may change.
    fn own(&mut self, key: &'e [u8]) -> Result<Option<&mut Own>, WriteError> {
        let looked = self.look(key);
        let Some(kind) = looked.kind else {
            return Ok(None);
        };
        if !self.own.contains_key(key) {
            self.plan.kept_bytes += looked.value_bytes;
            at_most(
                "bytes of the batch, with the values that it changes in part",
                self.batch_bytes + self.plan.kept_bytes,
                PUT_BYTES_MAX,
            )?;
            self.check_copied()?;
            let value = self.value(key).unwrap_or_default();
            let own = Own {
                step: None,
                version: looked.version,
                expires_ms: looked.expires_ms,
                value: match kind {
                    Kind::Bytes => Value::Bytes(value),
                    Kind::List => Value::List(List::of(value).unwrap_or_default()),
                },
            };
            self.own.insert(key, own);
        }
        Ok(self.own.get_mut(key))
    }

    fn remove(&mut self, at: usize, key: &'e [u8]) {
        self.set((at, key), (Made::Held(Held::Nothing), Value::Nothing), 0);
    }

    /// Adds a step and returns its index and version.
    fn step(&mut self, at: usize, made: Made, expires_ms: u64) -> (usize, u64) {
        let step = self.plan.steps.len();
        self.plan.steps.push(Step { at, made, expires_ms });
        (step, self.judge.next_version + step as u64)
    }

    /// Notes a change that leaves nothing of what was there; the version that it gives.
    fn set(&mut self, (at, key): (usize, &'e [u8]), (made, value): (Made, Value), expires_ms: u64) -> u64 {
        let (step, version) = self.step(at, made, expires_ms);
        let own = Own {
            step: Some(step),
            version,
            expires_ms,
            value,
        };
        self.own.insert(key, own);
        version
    }

    /// Notes a change of what the batch has copied; the version that it gives.
    fn edit(&mut self, (at, key): (usize, &'e [u8]), edit: Edit, expires_ms: u64) -> u64 {
        let (step, version) = self.step(at, Made::Edited(edit, Held::Later), expires_ms);
        let batch = self.batch;
        if let Some(own) = self.own.get_mut(key) {
            (own.step, own.version, own.expires_ms) = (Some(step), version, expires_ms);
            own.take_from_put(batch);
        }
        version
    }
}

/// Whether a key holds a kind of value.
fn is_of(key: &[u8], found: Kind, kind: Kind) -> Result<(), WriteError> {
    if found == kind {
        return Ok(());
    }
    let key = key.to_vec();
    Err(WriteError::WrongKind(WrongKind { key, found }))
}
