//! What becomes of the writes of a group: conditions, operations and space, in order, each write seeing those before it.
//!
//! Changes nothing but what it is told of the group. Invariant: a write is accepted with all that it changes, or refused whole.

use std::collections::HashMap;

use crate::batch::{Batch, Effect, Operation};
use crate::error::{WriteError, at_most};
use crate::index::{Index, Versioned};
use crate::put::{PUT_BYTES_MAX, Put};
use crate::record::Accepted;
use crate::space::Space;
use crate::write::Write;

/// Bytes of values that wait for the log in answers, or are written anew, beside those of one batch.
const FOUND_BYTES_MAX: usize = 16 << 20;

/// Why a write is refused.
pub(crate) struct Refusal {
    pub error: WriteError,
    /// The write met a change of this very group, or lacks the space that it takes: if the group fails, so does the reason to
    /// refuse.
    pub met_group: bool,
}

pub(crate) type Verdict = Result<Accepted, Refusal>;

/// Of one group.
pub(crate) struct Judge<'a> {
    index: &'a Index,
    space: Option<Space<'a>>,
    /// Where the last change of a key is: the write's place, and the change's in it. `None` where no write looks at a key.
    changed: Option<HashMap<Vec<u8>, (usize, usize)>>,
    verdicts: Vec<Verdict>,
    next_version: u64,
    /// When the group was judged.
    now_ms: u64,
    /// Of values that its batches have found.
    found_bytes: usize,
}

impl<'a> Judge<'a> {
    /// For a group of these writes.
    pub fn new<'w>(
        index: &'a Index,
        bytes_max: Option<u64>,
        next_version: u64,
        group: impl Iterator<Item = &'w Write> + Clone,
    ) -> Judge<'a> {
        let mut behind_first = group.clone().skip(1);
        Judge {
            index,
            changed: behind_first.any(Write::reads).then(HashMap::new),
            space: Space::of_group(index, bytes_max, group),
            verdicts: Vec::new(),
            next_version,
            now_ms: index.clock().now_ms(),
            found_bytes: 0,
        }
    }

    /// Judges the next write.
    pub fn judge(&mut self, write: Write) {
        let planned = match &write {
            Write::Put(put) => self.check(put).map(|()| Plan::default()),
            Write::Batch(batch) => Evaluation::of(self, batch).map(|evaluation| evaluation.plan),
        };
        self.found_bytes += planned
            .as_ref()
            .map_or(0, |plan| plan.read_bytes + plan.kept_bytes);
        let verdict = planned.and_then(|plan| {
            let (changes, effects) = plan.changes(write, self.now_ms);
            if let Some(space) = &mut self.space {
                space.take(&changes)?;
            }
            Ok(Accepted::new(changes, (self.next_version, self.now_ms), effects))
        });
        if let Ok(accepted) = &verdict {
            self.next_version += accepted.changes.len() as u64;
            if let Some(changed) = &mut self.changed {
                let keys = accepted.changes.iter().map(|change| change.key.clone());
                let places = (0..).map(|at| (self.verdicts.len(), at));
                changed.extend(keys.zip(places));
            }
        }
        self.verdicts.push(verdict);
    }

    /// Whether so much was found that what was judged is to be written and answered before more is.
    pub fn is_full(&self) -> bool {
        self.found_bytes >= FOUND_BYTES_MAX
    }

    /// What became of the writes, and the version behind them.
    pub fn finish(self) -> (Vec<Verdict>, u64) {
        (self.verdicts, self.next_version)
    }

    /// The first condition of a put that does not hold.
    fn check(&self, put: &Put) -> Result<(), Refusal> {
        if !put.is_conditional() {
            return Ok(());
        }
        let absent = put.if_absent.then_some(0);
        for (key, _) in &put.entries {
            let in_group = self.change_of(key);
            let found = in_group.map_or_else(
                || self.index.version_at(key, self.now_ms),
                |change| change.version,
            );
            let mut wanted = [absent, put.if_version].into_iter().flatten();
            if let Some(expected) = wanted.find(|expected| *expected != found) {
                return Err(Refusal {
                    error: conflict(key, expected, found),
                    met_group: in_group.is_some(),
                });
            }
        }
        Ok(())
    }

    /// What the group has made of a key so far.
    fn change_of(&self, key: &[u8]) -> Option<State<'_>> {
        let (write, at) = *self.changed.as_ref()?.get(key)?;
        let accepted = self.verdicts.get(write)?.as_ref().ok()?;
        let change = accepted.changes.get(at)?;
        Some(State {
            version: change
                .value
                .as_ref()
                .map_or(0, |_| accepted.first_version + at as u64),
            value: change.value.as_deref(),
            expires_ms: change.expires_ms,
        })
    }
}

/// A key as a change left it; of version 0 where it was removed.
#[derive(Clone, Copy)]
struct State<'v> {
    version: u64,
    value: Option<&'v [u8]>,
    expires_ms: u64,
}

impl State<'_> {
    fn versioned(self) -> Option<Versioned> {
        Some(Versioned {
            value: self.value?.to_vec(),
            version: self.version,
            expires_ms: Some(self.expires_ms).filter(|expires_ms| *expires_ms != 0),
        })
    }
}

/// When what lasts so long from then on expires; 0 where it does not.
pub(crate) fn expires_ms(now_ms: impl FnOnce() -> u64, ttl_ms: Option<u64>) -> u64 {
    ttl_ms.map_or(0, |ttl_ms| now_ms().saturating_add(ttl_ms))
}

fn conflict(key: &[u8], expected: u64, found: u64) -> WriteError {
    WriteError::Conflict {
        key: key.to_vec(),
        expected,
        found,
    }
}

/// What an operation makes of its key.
enum Made {
    /// The value of the put.
    AsPut,
    Value(Vec<u8>),
    Gone,
}

/// What a write that is accepted changes, and what its operations found or did; of a put both follow from it.
#[derive(Default)]
struct Plan {
    /// The place of the operation, what it makes of its key, and when that expires; ascending.
    made: Vec<(usize, Made, u64)>,
    effects: Vec<Effect>,
    /// Of values that were found.
    read_bytes: usize,
    /// Of values that stay, and are written with another time.
    kept_bytes: usize,
}

/// A key, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changed {
    pub key: Vec<u8>,
    /// `None` where it is removed.
    pub value: Option<Vec<u8>>,
    /// Milliseconds of Unix time; 0 where it does not expire.
    pub expires_ms: u64,
}

impl Changed {
    pub fn removed(key: Vec<u8>) -> Changed {
        Changed {
            key,
            value: None,
            expires_ms: 0,
        }
    }
}

impl Plan {
    fn changes(self, write: Write, now_ms: u64) -> (Vec<Changed>, Vec<Effect>) {
        let batch = match write {
            Write::Put(put) => {
                let expires_ms = expires_ms(|| now_ms, put.ttl_ms);
                let changed = |(key, value)| Changed {
                    key,
                    value: Some(value),
                    expires_ms,
                };
                return (put.entries.into_iter().map(changed).collect(), self.effects);
            }
            Write::Batch(batch) => batch,
        };
        let mut changes = Vec::with_capacity(self.made.len());
        let mut made = self.made.into_iter().peekable();
        for (at, operation) in batch.operations.into_iter().enumerate() {
            let Some((_, made, expires_ms)) = made.next_if(|(of, ..)| *of == at) else {
                continue;
            };
            let (key, put) = operation.into_parts();
            let value = match made {
                Made::AsPut => put,
                Made::Value(value) => Some(value),
                Made::Gone => None,
            };
            changes.push(Changed {
                key,
                value,
                expires_ms,
            });
        }
        (changes, self.effects)
    }
}

/// The operations of a batch, one behind the other.
struct Evaluation<'e> {
    judge: &'e Judge<'e>,
    batch: &'e Batch,
    plan: Plan,
    /// The last change of a key, as a place in the plan.
    own: HashMap<&'e [u8], usize>,
    met_group: bool,
    /// Of the batch, beside values that stay.
    batch_bytes: usize,
}

impl<'e> Evaluation<'e> {
    fn of(judge: &'e Judge<'e>, batch: &'e Batch) -> Result<Evaluation<'e>, Refusal> {
        let mut evaluation = Evaluation {
            judge,
            batch,
            plan: Plan::default(),
            own: HashMap::new(),
            met_group: false,
            batch_bytes: batch.bytes(),
        };
        for (at, operation) in batch.operations.iter().enumerate() {
            let effect = evaluation.evaluate(at, operation);
            let effect = effect.map_err(|error| Refusal {
                error,
                met_group: evaluation.met_group,
            })?;
            evaluation.plan.effects.push(effect);
        }
        Ok(evaluation)
    }

    fn evaluate(&mut self, at: usize, operation: &'e Operation) -> Result<Effect, WriteError> {
        let now_ms = self.judge.now_ms;
        Ok(match operation {
            Operation::Get { key } => Effect::Found(self.read(key)?),
            Operation::Put {
                key,
                if_version,
                if_absent,
                ttl_ms,
                ..
            } => {
                self.check(key, *if_version)?;
                self.check(key, if_absent.then_some(0))?;
                Effect::Put(self.change(at, key, Made::AsPut, expires_ms(|| now_ms, *ttl_ms)))
            }
            Operation::Remove { key, if_version } => {
                let found = self.check(key, *if_version)?;
                if found != 0 {
                    self.change(at, key, Made::Gone, 0);
                }
                Effect::WasThere(found != 0)
            }
            Operation::Increment { key, by, ttl_ms } => {
                let (value, lasts_ms) = self.number(key)?;
                let Some(value) = value.checked_add(*by) else {
                    return Err(WriteError::Overflow {
                        key: key.clone(),
                        value,
                        by: *by,
                    });
                };
                let expires_ms = ttl_ms.map_or(lasts_ms, |_| expires_ms(|| now_ms, *ttl_ms));
                let made = Made::Value(value.to_string().into_bytes());
                let version = self.change(at, key, made, expires_ms);
                Effect::Incremented { value, version }
            }
            Operation::Expire { key, ttl_ms } => {
                let found = self.value(key);
                let was_there = found.is_some();
                if let Some(Versioned { value, .. }) = found {
                    self.plan.kept_bytes += value.len();
                    let bytes = self.batch_bytes + self.plan.kept_bytes;
                    at_most("bytes of the batch", bytes, PUT_BYTES_MAX)?;
                    self.change(at, key, Made::Value(value), expires_ms(|| now_ms, *ttl_ms));
                }
                Effect::WasThere(was_there)
            }
        })
    }

    /// The version of a key, where it is the one that it must have.
    fn check(&mut self, key: &[u8], if_version: Option<u64>) -> Result<u64, WriteError> {
        let found = self.changed_version(key);
        let found = found.unwrap_or_else(|| self.judge.index.version_at(key, self.judge.now_ms));
        match if_version {
            Some(expected) if expected != found => Err(conflict(key, expected, found)),
            _ => Ok(found),
        }
    }

    fn read(&mut self, key: &[u8]) -> Result<Option<Versioned>, WriteError> {
        let found = self.value(key);
        self.plan.read_bytes += found.as_ref().map_or(0, |found| found.value.len());
        at_most(
            "bytes of the values that the batch reads",
            self.plan.read_bytes,
            self.batch.read_bytes_max,
        )?;
        Ok(found)
    }

    fn value(&mut self, key: &[u8]) -> Option<Versioned> {
        match self.changed(key) {
            Some(state) => state,
            None => self.judge.index.get_at(key, self.judge.now_ms),
        }
    }

    /// The whole number that a key holds, 0 where it is absent, and when that expires.
    fn number(&mut self, key: &[u8]) -> Result<(i64, u64), WriteError> {
        let Some(Versioned {
            value, expires_ms, ..
        }) = self.value(key)
        else {
            return Ok((0, 0));
        };
        let number = std::str::from_utf8(&value)
            .ok()
            .and_then(|text| text.parse().ok());
        // "+1" and "01" are texts that nobody's increment has left.
        let number = number.filter(|number: &i64| number.to_string().as_bytes() == value);
        let number = number.ok_or_else(|| WriteError::NotANumber { key: key.to_vec() })?;
        Ok((number, expires_ms.unwrap_or_default()))
    }

    /// The version of a key that the batch or the group has changed so far, 0 where it was removed.
    fn changed_version(&mut self, key: &[u8]) -> Option<u64> {
        if let Some(place) = self.own.get(key).copied() {
            let is_gone = matches!(self.plan.made.get(place)?, (_, Made::Gone, _));
            return Some(if is_gone { 0 } else { self.version(place) });
        }
        let state = self.judge.change_of(key)?;
        self.met_group = true;
        Some(state.version)
    }

    /// What a key holds that the batch or the group has changed so far.
    fn changed(&mut self, key: &[u8]) -> Option<Option<Versioned>> {
        if let Some(place) = self.own.get(key).copied() {
            let (at, made, expires_ms) = self.plan.made.get(place)?;
            let value = match (made, self.batch.operations.get(*at)?) {
                (Made::Value(value), _) | (Made::AsPut, Operation::Put { value, .. }) => {
                    Some(value.as_slice())
                }
                _ => None,
            };
            let state = State {
                version: self.version(place),
                value,
                expires_ms: *expires_ms,
            };
            return Some(state.versioned());
        }
        let state = self.judge.change_of(key)?;
        self.met_group = true;
        Some(state.versioned())
    }

    /// The version that a change of the plan gives its key.
    fn version(&self, place: usize) -> u64 {
        self.judge.next_version + place as u64
    }

    /// Notes a change; the version that it gives.
    fn change(&mut self, at: usize, key: &'e [u8], made: Made, expires_ms: u64) -> u64 {
        let place = self.plan.made.len();
        self.plan.made.push((at, made, expires_ms));
        self.own.insert(key, place);
        self.version(place)
    }
}
