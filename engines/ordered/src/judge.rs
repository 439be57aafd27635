//! What becomes of the writes of a group: conditions, operations and space, in order, each write seeing those before it.
//!
//! Changes nothing but what it is told of the group. Invariant: a write is accepted with all that it changes, or refused whole.

use std::collections::{HashMap, HashSet};

use crate::change::{Changed, Held};
use crate::error::WriteError;
use crate::evaluate::Evaluation;
use crate::eviction::{Eviction, Room};
use crate::index::Index;
use crate::plan::Plan;
use crate::put::Put;
use crate::record::Accepted;
use crate::space::{Space, Taking};
use crate::tree::Near;
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

/// Why there is no plan of a write.
pub(crate) enum Unplanned {
    Refused(Refusal),
    /// It copies more than [`Judge::copied_bytes_max`].
    CopiesMuch,
}

/// Of a key that gave way to a write of the group.
static EVICTED: Changed = Changed {
    key: Vec::new(),
    held: Held::Nothing,
    edit: None,
    expires_ms: 0,
};

pub(crate) type Verdict = Result<Accepted, Refusal>;

/// Of one group.
pub(crate) struct Judge<'a> {
    pub index: &'a Index,
    eviction: Eviction,
    space: Option<Space<'a>>,
    /// Where the last change of a key is: the write's place, and the change's in it. `None` where no write looks at a key.
    changed: Option<HashMap<Vec<u8>, (usize, usize)>>,
    verdicts: Vec<Verdict>,
    pub next_version: u64,
    /// When the group was judged.
    pub now_ms: u64,
    /// Of values that its batches have found.
    found_bytes: usize,
    /// Bytes of values that one batch may copy.
    pub copied_bytes_max: usize,
}

impl<'a> Judge<'a> {
    /// For a group of these writes.
    pub fn new<'w>(
        index: &'a Index,
        room: &'a Room,
        next_version: u64,
        group: impl Iterator<Item = &'w Write> + Clone,
    ) -> Judge<'a> {
        let mut behind_first = group.clone().skip(1);
        Judge {
            index,
            changed: behind_first.any(Write::reads).then(HashMap::new),
            eviction: room.eviction,
            space: Space::of_group(index, room, group),
            verdicts: Vec::new(),
            next_version,
            now_ms: index.clock().now_ms(),
            found_bytes: 0,
            copied_bytes_max: usize::MAX,
        }
    }

    /// Judges the next write. It comes back where it copies more than it may, or lacks space that it may have once what was judged before it is
    /// written: it is to be the first of another group.
    pub fn judge(&mut self, write: Write) -> Option<Write> {
        let again = self.may_need_another(&write).then(|| write.clone());
        let planned = match &write {
            Write::Put(put) => self.check(put),
            Write::Batch(batch) => match Evaluation::of(self, batch) {
                Ok(evaluation) => Ok(evaluation.into_plan()),
                Err(Unplanned::Refused(refusal)) => Err(refusal),
                Err(Unplanned::CopiesMuch) => return Some(write),
            },
        };
        self.found_bytes += planned.as_ref().map_or(0, Plan::copied_bytes);
        let touched = self.touched(&write);
        let verdict = planned.and_then(|plan| {
            let (changes, effects) = plan.changes(write, self.now_ms);
            let (now_ms, next_version) = (self.now_ms, self.next_version);
            let taking = Taking {
                changes: &changes,
                touched: &touched,
                now_ms,
            };
            let evicted = self.space.as_mut().map(|space| space.take(&taking)).transpose()?;
            let accepted = Accepted::new(changes, (next_version, now_ms), effects);
            Ok(accepted.behind(evicted.unwrap_or_default()))
        });
        let is_full = |refusal: &Refusal| matches!(refusal.error, WriteError::Full { .. });
        if let (Some(write), true) = (again, verdict.as_ref().is_err_and(is_full)) {
            return Some(write);
        }
        if let Ok(accepted) = &verdict {
            self.next_version = accepted.next_version();
            if let Some(changed) = &mut self.changed {
                let keys = accepted.changes.iter().map(|change| change.key.clone());
                let places = (0..).map(|at| (self.verdicts.len(), at));
                changed.extend(keys.zip(places));
            }
        }
        self.verdicts.push(verdict);
        None
    }

    /// Whether a write may lack space only because of what was judged before it. A group is small: so are copies of its writes.
    fn may_need_another(&self, write: &Write) -> bool {
        let space = self.space.as_ref();
        space.is_some_and(|space| space.keeps_some() && space.may_be_short_for(write))
    }

    /// The keys that a batch names, where some may have to give way to it: not these.
    fn touched(&self, write: &Write) -> HashSet<Vec<u8>> {
        match write {
            Write::Batch(batch) if self.space.is_some() && self.eviction != Eviction::None => {
                let operations = batch.operations.iter();
                operations.map(|operation| operation.key().to_vec()).collect()
            }
            // A put changes all of its keys.
            _ => HashSet::new(),
        }
    }

    /// Whether so much was found, or written where others have to give way, that what was judged is to be written and answered before more
    /// is.
    pub fn is_full(&self) -> bool {
        let has_written_much = self.space.as_ref().is_some_and(Space::has_written_much);
        has_written_much || self.found_bytes >= FOUND_BYTES_MAX
    }

    /// What became of the writes, and the version behind them.
    pub fn finish(self) -> (Vec<Verdict>, u64) {
        (self.verdicts, self.next_version)
    }

    /// When the entries of a put expire, where they last as long as what was there; or the first condition that does not hold.
    fn check(&self, put: &Put) -> Result<Plan, Refusal> {
        let mut plan = Plan::default();
        if put.is_conditional() {
            for (key, _) in &put.entries {
                self.check_key(key, put)?;
            }
        }
        if put.keeps_ttl() {
            let keys = put.entries.iter().map(|(key, _)| key);
            plan.lasts_ms = keys.map(|key| self.expires_ms(key)).collect();
        }
        Ok(plan)
    }

    fn check_key(&self, key: &[u8], put: &Put) -> Result<(), Refusal> {
        let in_group = self.change_of(key);
        let found = in_group.map_or_else(
            || self.index.version_at(key, self.now_ms),
            |(change, version)| if change.is_there() { version } else { 0 },
        );
        let conditions = Conditions {
            if_version: put.if_version,
            if_absent: put.if_absent,
            if_present: put.if_present,
        };
        conditions.check(key, found).map_err(|error| Refusal {
            error,
            met_group: in_group.is_some(),
        })
    }

    /// When a key expires; 0 where it does not, or is absent.
    fn expires_ms(&self, key: &[u8]) -> u64 {
        match self.change_of(key) {
            Some((change, _)) => change.expires_ms,
            None => self.index.look_at((key, Near::default()), self.now_ms).expires_ms,
        }
    }

    /// What the group has made of a key so far, and the version that it gave.
    pub fn change_of(&self, key: &[u8]) -> Option<(&Changed, u64)> {
        let Some(&(write, at)) = self.changed.as_ref()?.get(key) else {
            let has_evicted = self.space.as_ref().is_some_and(|space| space.has_evicted(key));
            return has_evicted.then_some((&EVICTED, 0));
        };
        let accepted = self.verdicts.get(write)?.as_ref().ok()?;
        Some((accepted.changes.get(at)?, accepted.first_version + at as u64))
    }
}

/// When what lasts so long from then on expires; 0 where it does not.
pub(crate) fn expires_ms(now_ms: impl FnOnce() -> u64, ttl_ms: Option<u64>) -> u64 {
    ttl_ms.map_or(0, |ttl_ms| now_ms().saturating_add(ttl_ms))
}

/// What a key must be for a put.
pub(crate) struct Conditions {
    pub if_version: Option<u64>,
    pub if_absent: bool,
    pub if_present: bool,
}

impl Conditions {
    /// The first that a key of this version, 0 where it is absent, does not meet.
    pub fn check(&self, key: &[u8], found: u64) -> Result<(), WriteError> {
        let absent = self.if_absent.then_some(0);
        let mut wanted = [absent, self.if_version].into_iter().flatten();
        if let Some(expected) = wanted.find(|expected| *expected != found) {
            return Err(conflict(key, expected, found));
        }
        match self.if_present && found == 0 {
            true => Err(WriteError::Absent { key: key.to_vec() }),
            false => Ok(()),
        }
    }
}

pub(crate) fn conflict(key: &[u8], expected: u64, found: u64) -> WriteError {
    WriteError::Conflict {
        key: key.to_vec(),
        expected,
        found,
    }
}
