//! What a write's record holds in the log, as docs/formats/ordered-log.md draws it.
//!
//! Not the frame around it, nor segments: those are the log's (`millpond-wal`). Invariant: what encodes decodes to the same, and
//! no input makes decoding panic or allocate.

use std::collections::BTreeSet;

use millpond_wal::{Body, Fault, Format, Record};

use crate::Durability;
use crate::batch::Effect;
use crate::change::Changed;
use crate::index::Index;
use crate::put::PUT_BYTES_MAX;
use crate::tree::{Change, Near};
use crate::write::Written;

mod entry;

pub(crate) use entry::{Entry, What};

/// Entries are set.
const KIND_PUT: u8 = 1;
/// Some are removed.
const KIND_CHANGES: u8 = 2;
/// Some expire.
const KIND_EXPIRING: u8 = 3;
/// Some are made of what their keys held, or are lists.
const KIND_EDITS: u8 = 4;
/// Count and first version, before the entries; in the last two kinds the store's time behind them.
const HEADER_BYTES: usize = 12;
const TIME_BYTES: usize = 8;

/// The ordered store's log, format 2.
pub(crate) static FORMAT: Format = Format {
    keeper: "ordered store",
    magic: b"MPLG",
    version: 2,
    history_from: Some(2),
    body_bytes_min: HEADER_BYTES,
    body_bytes_max: PUT_BYTES_MAX + HEADER_BYTES + TIME_BYTES,
    kinds: &[KIND_PUT, KIND_CHANGES, KIND_EXPIRING, KIND_EDITS],
    check: |kind, body| decode(kind, body).map(drop),
    number: "version",
    first_number: 1,
    may_begin_late: false,
};

/// A write that met its conditions, with its versions. It passed its check: that is what makes the lengths fit their fields.
pub(crate) struct Accepted {
    pub changes: Vec<Changed>,
    pub first_version: u64,
    /// What removes the keys that give way to it: a record before its own, and of the same group.
    evicted: Option<Box<Accepted>>,
    /// Of a batch.
    effects: Vec<Effect>,
    /// The store's, when it was judged.
    time_ms: u64,
    kind: u8,
    /// Bytes of its record's body.
    bytes: usize,
}

impl Accepted {
    pub fn new(
        changes: Vec<Changed>,
        (first_version, time_ms): (u64, u64),
        effects: Vec<Effect>,
    ) -> Accepted {
        let kinds = changes.iter().map(|change| Entry::of(change).kind());
        // Each can say what those before it can.
        let kind = kinds.max().unwrap_or(KIND_PUT);
        Accepted::of_kind(kind, changes, (first_version, time_ms), effects)
    }

    fn of_kind(
        kind: u8,
        changes: Vec<Changed>,
        (first_version, time_ms): (u64, u64),
        effects: Vec<Effect>,
    ) -> Accepted {
        let entries: usize = changes.iter().map(|change| Entry::of(change).bytes(kind)).sum();
        Accepted {
            changes,
            first_version,
            evicted: None,
            effects,
            time_ms,
            kind,
            bytes: HEADER_BYTES + time_bytes(kind) + entries,
        }
    }

    /// Removals of what has expired or gives way, with the time by which it has: a clock that is set back shows none of it again.
    pub fn removing(
        keys: impl IntoIterator<Item = Vec<u8>>,
        (first_version, time_ms): (u64, u64),
    ) -> Accepted {
        let changes = keys.into_iter().map(Changed::removed).collect();
        Accepted::of_kind(KIND_EXPIRING, changes, (first_version, time_ms), Vec::new())
    }

    /// The same behind the removal of keys, which get the versions before its own.
    pub fn behind(self, evicted: BTreeSet<Vec<u8>>) -> Accepted {
        if evicted.is_empty() {
            return self;
        }
        let (first_version, count) = (self.first_version, evicted.len() as u64);
        let versions = (first_version, self.time_ms);
        let effects = self.effects.into_iter();
        Accepted {
            evicted: Some(Box::new(Accepted::removing(evicted, versions))),
            first_version: first_version + count,
            effects: effects.map(|effect| effect.later(first_version, count)).collect(),
            ..self
        }
    }

    /// Its records in order.
    pub fn records(&self) -> impl Iterator<Item = &Accepted> {
        self.evicted.as_deref().into_iter().chain([self])
    }

    /// Makes its changes, those that it stands for at one moment; where it is but one, its key is near.
    pub fn apply_to(&self, index: &Index, near: Near<'_>) {
        if let Some(evicted) = &self.evicted {
            index.remove_in_parts(evicted.changes());
        }
        match self.changes.as_slice() {
            [only] => index.apply_one(&only.change(self.first_version), near),
            _ => index.apply(self.changes()),
        }
    }

    /// How many keys give way to it.
    pub fn evicted(&self) -> usize {
        self.evicted.as_ref().map_or(0, |evicted| evicted.changes.len())
    }

    /// The version behind its own.
    pub fn next_version(&self) -> u64 {
        self.first_version + self.changes.len() as u64
    }

    /// The changes in order.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        let (changes, versions) = (self.changes.iter().enumerate(), self.first_version);
        changes.map(move |(at, change)| change.change(versions + at as u64))
    }

    /// What its caller learns once it is as durable as configured.
    pub fn written(self, durability: Durability) -> Written {
        let versions = match self.effects.is_empty() {
            true => (self.first_version..).take(self.changes.len()).collect(),
            false => Vec::new(),
        };
        Written {
            versions,
            effects: self.effects,
            durability,
        }
    }
}

/// Bytes of the store's time in records of a kind.
fn time_bytes(kind: u8) -> usize {
    match kind {
        KIND_EXPIRING | KIND_EDITS => TIME_BYTES,
        _ => 0,
    }
}

impl Body for Accepted {
    fn kind(&self) -> u8 {
        self.kind
    }

    fn number(&self) -> u64 {
        self.first_version
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.changes.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.first_version.to_le_bytes());
        if time_bytes(self.kind) > 0 {
            out.extend_from_slice(&self.time_ms.to_le_bytes());
        }
        for change in &self.changes {
            Entry::of(change).encode(self.kind, out);
        }
    }
}

/// A sound write; its entries still lie in the buffer it was read to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logged<'a> {
    pub entry_count: u32,
    pub first_version: u64,
    /// The store's time when it was written, in kinds that have it; else 0.
    pub time_ms: u64,
    kind: u8,
    entries: &'a [u8],
}

impl<'a> Logged<'a> {
    /// Of a record that was read: it was checked then.
    pub fn of(record: &Record<'a>) -> Logged<'a> {
        Logged::sound(record.kind, record.body)
    }

    /// Of a body that was checked.
    pub fn sound(kind: u8, body: &'a [u8]) -> Logged<'a> {
        split(kind, body).unwrap_or(Logged {
            entry_count: 0,
            first_version: 0,
            time_ms: 0,
            kind,
            entries: &[],
        })
    }

    /// In the write's order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let (mut rest, kind) = (self.entries, self.kind);
        std::iter::from_fn(move || {
            let (entry, behind) = Entry::split(kind, rest)?;
            rest = behind;
            Some(entry)
        })
    }

    /// Whether some of it is made of what keys held.
    pub fn has_edits(&self) -> bool {
        self.kind == KIND_EDITS
    }

    fn check_entries(&self) -> Result<(), Fault> {
        let mut count = 0u32;
        let mut rest = self.entries;
        while let Some((entry, behind)) = Entry::split(self.kind, rest) {
            if !entry.is_sound(self.kind) {
                return Err(Fault::Malformed(format!("entry {count} is beyond the limits")));
            }
            count += 1;
            rest = behind;
        }
        if count != self.entry_count || count == 0 || !rest.is_empty() {
            return Err(Fault::Malformed(format!(
                "{} entries announced, {count} found, {} bytes behind them",
                self.entry_count,
                rest.len()
            )));
        }
        if self.first_version.checked_add(count.into()).is_none() {
            return Err(Fault::Malformed(format!("version {}", self.first_version)));
        }
        Ok(())
    }
}

pub(crate) fn decode(kind: u8, body: &[u8]) -> Result<Logged<'_>, Fault> {
    let logged = split(kind, body)?;
    logged.check_entries()?;
    Ok(logged)
}

/// Its entries are not looked at.
fn split(kind: u8, body: &[u8]) -> Result<Logged<'_>, Fault> {
    let too_few = || Fault::Malformed(format!("{} bytes, too few for a write", body.len()));
    let (header, mut entries) = body.split_first_chunk::<HEADER_BYTES>().ok_or_else(too_few)?;
    let mut time_ms = 0;
    if time_bytes(kind) > 0 {
        let (time, behind) = entries.split_first_chunk::<TIME_BYTES>().ok_or_else(too_few)?;
        (time_ms, entries) = (u64::from_le_bytes(*time), behind);
    }
    Ok(Logged {
        entry_count: u32_at(header, 0),
        first_version: u64::from(u32_at(header, 4)) | u64::from(u32_at(header, 8)) << 32,
        time_ms,
        kind,
        entries,
    })
}

// The arrays below are of fixed size and `at` is a constant of the format at every call.
fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
