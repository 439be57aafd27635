//! What an overlay's log is found to hold, and where it goes on.
//!
//! Judging segments is the log's. Invariant: a sequence is given once in a history, whatever became of the log's files.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millpond_wal::{Disk, Log, Record, Recovered, TornTail, create_dir, lock, sync_folders};

use super::compact::Segments;
use super::folded::{Folded, Settled};
use super::index::Entry;
use super::owner;
use super::record::{self, FORMAT, LogRecord};
use super::section::OverlaySection;
use super::stamp::Stamp;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::table::Table;
use crate::versions::{version_dir, versions};

/// The log of an overlay as it was found, and where it goes on.
pub(super) struct Opened {
    pub log: Option<Log>,
    pub lock: Option<File>,
    pub found: Found,
    pub history: u64,
    pub next_sequence: u64,
    pub records: u64,
    pub torn_tail: Option<TornTail>,
}

impl Opened {
    pub fn empty(history: u64) -> Opened {
        Opened {
            log: None,
            lock: None,
            found: Found::default(),
            history,
            next_sequence: 1,
            records: 0,
            torn_tail: None,
        }
    }

    /// Takes the folder's lock, reads the log in it, and goes on with it.
    pub fn recover(
        disk: Arc<dyn Disk>,
        dir: &Path,
        section: &OverlaySection,
        table: &Table,
        layout: u64,
    ) -> Result<Opened, Error> {
        create_dir(&FORMAT, dir).map_err(Error::OverlayLog)?;
        let lock = lock(&FORMAT, dir).map_err(Error::OverlayLog)?;
        let is_named = owner::check(dir, table)?;
        let (mut recovered, mut found) = read_all(dir, layout)?;
        let folded = begin(&mut recovered, table, dir)?;
        found.drop_folded(folded, recovered.has_begun());
        if !is_named {
            name(dir, table);
        }
        // The process that made them may have ended before this sync; nothing is shown before it.
        sync_folders(&FORMAT, &*disk, dir).map_err(Error::OverlayLog)?;
        let log = Log::open(
            &FORMAT,
            disk,
            dir,
            section.durability,
            section.segment_bytes_max,
            &recovered,
        );
        let mut log = log.map_err(Error::OverlayLog)?;
        log.sync_every(section.sync_every_ms.map(Duration::from_millis));
        let history = recovered.next_number;
        found.folded.history = history;
        Ok(Opened {
            log: Some(log),
            lock: Some(lock),
            found,
            history,
            next_sequence: recovered.next_sequence,
            records: recovered.records,
            torn_tail: recovered.torn_tail,
        })
    }
}

fn read_all(dir: &Path, layout: u64) -> Result<(Recovered, Found), Error> {
    let mut found = Found::default();
    let read = millpond_wal::read(&FORMAT, dir, &mut |record, history| {
        found.apply(record, u64::MAX, layout);
        Ok(history)
    });
    let recovered = read.map_err(Error::OverlayLog)?;
    if found.has_other_layout {
        return Err(Error::Overlay {
            path: dir.to_path_buf(),
            problem: "its log has rows of other columns than the table's version; serve the version that they were written over, fold them, \
                and begin with an empty folder"
                .to_owned(),
        });
    }
    Ok((recovered, found))
}

/// Has the log name its table. A full disk keeps no server from starting: a log without a name is opened too.
fn name(dir: &Path, table: &Table) {
    if let Err(error) = owner::write(dir, table) {
        tracing::warn!(table = table.name(), %error, "the log of an overlay does not name its table; the next start tries again");
    }
}

/// What a log leaves of its records.
#[derive(Default)]
pub(super) struct Found {
    pub entries: HashMap<u64, Entry>,
    /// Keys that were upserted behind the sequence up to which it was read.
    pub later: HashMap<u64, Later>,
    /// The latest time of a record.
    pub time_ms: u64,
    pub has_other_layout: bool,
    /// The highest stamp of an upsert.
    pub stamp: Stamp,
    /// What its segments hold.
    pub segments: Segments,
    /// What is in force of the records up to this sequence stands further behind once more.
    pub copied: u64,
    /// Up to there its rows are in a version, and may be in the log no more.
    pub folded: Folded,
    /// What it says of the other replicas.
    pub settled: Settled,
}

/// The last upsert of a key that was written behind the sequence up to which the log was read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Later {
    pub sequence: u64,
    pub stamp: Stamp,
    pub written_ms: u64,
}

impl Found {
    /// Leaves out what the table's version has, where no other version that is open may need it.
    fn drop_folded(&mut self, folded: Folded, has_begun: bool) {
        // Of upserts over nodes other versions that are open may have less: they go by `forget`. A log that is gone may have been
        // folded too.
        if !has_begun || folded.before_ms == 0 && !self.stamp.is_some() {
            self.entries
                .retain(|_, entry| !folded.has(entry.sequence, entry.stamp));
            if folded.covers(self.folded) {
                self.folded = folded;
            }
        }
    }

    /// Takes a record in, but nothing that was written behind the sequence `last`.
    pub fn apply(&mut self, record: &Record<'_>, last: u64, layout: u64) {
        // It was checked when it was read.
        let Ok(said) = record::decode(record.kind, record.body) else {
            return;
        };
        let said = self.note(said, record.sequence, last);
        let (said, written) = said.upserted(record.sequence).unwrap_or((said, record.sequence));
        // What is kept was written before, and may be nowhere else.
        let written = written.min(record.sequence);
        if written > last {
            self.note_later(said, written);
            return;
        }
        self.segments.note(record.segment, said);
        self.time_ms = self.time_ms.max(said.time_ms());
        self.change(said, written, layout);
    }

    /// Takes in what counts wherever it stands, and bounds what a fold says by the record's own sequence.
    fn note<'r>(&mut self, said: LogRecord<'r>, at: u64, last: u64) -> LogRecord<'r> {
        match said {
            LogRecord::Kept { copied, .. } => {
                self.copied = self.copied.max(copied);
                said
            }
            LogRecord::Folded {
                time_ms,
                sequence,
                before_ms,
            } => {
                // What comes behind it was not folded, whatever it says.
                let sequence = sequence.min(at);
                // Counts where it is left out, too: segments may be gone for it.
                self.folded = self.folded.or_further(sequence, before_ms);
                LogRecord::Folded {
                    time_ms,
                    sequence,
                    before_ms,
                }
            }
            // Where it comes first behind the last group that is certain, all that it is about is before it, and true whether it stays.
            LogRecord::Settled { settled, .. } if at <= last.saturating_add(1) => {
                self.settled = self.settled.max(settled);
                said
            }
            said => said,
        }
    }

    /// Takes in of which keys something is left out.
    fn note_later(&mut self, said: LogRecord<'_>, sequence: u64) {
        if let LogRecord::Expired { written_ms, .. } = said {
            self.later.retain(|_, later| later.written_ms > written_ms);
        }
        let (written_ms, stamp) = (said.written_ms(), said.stamp());
        for (key, _) in said.changes() {
            let later = self.later.entry(key).or_default();
            *later = Later {
                sequence: sequence.max(later.sequence),
                stamp: stamp.max(later.stamp),
                written_ms: written_ms.max(later.written_ms),
            };
        }
    }

    /// Does to the entries what a record says, which was written first at that sequence.
    fn change(&mut self, said: LogRecord<'_>, written: u64, layout: u64) {
        match said {
            LogRecord::Kept { .. } | LogRecord::Settled { .. } => {}
            LogRecord::Folded {
                sequence, before_ms, ..
            } => {
                let folded = Folded {
                    sequence,
                    before_ms,
                    ..Folded::default()
                };
                self.entries
                    .retain(|_, entry| !folded.has(entry.sequence, entry.stamp));
            }
            LogRecord::Expired { written_ms, .. } => {
                self.entries.retain(|_, entry| entry.written_ms > written_ms)
            }
            LogRecord::Upsert {
                stamp, layout: found, ..
            } => {
                self.has_other_layout |= found != layout;
                self.stamp = self.stamp.max(stamp);
                let written_ms = said.written_ms();
                for (key, row) in said.changes() {
                    // As when it was written; and what is kept was written before.
                    let is_behind = |entry: &Entry| match stamp.is_some() {
                        true => (entry.stamp, entry.sequence) > (stamp, written),
                        false => entry.sequence > written,
                    };
                    if self.entries.get(&key).is_some_and(is_behind) {
                        continue;
                    }
                    let entry = Entry {
                        key,
                        sequence: written,
                        written_ms,
                        stamp,
                        row: row.map(Box::from),
                    };
                    self.entries.insert(key, entry);
                }
            }
        }
    }
}

/// Where the log goes on, or begins; and up to where the table's version has what is in it.
fn begin(recovered: &mut Recovered, table: &Table, dir: &Path) -> Result<Folded, Error> {
    let folded = table.folded();
    if !recovered.has_begun() {
        // Sequences are never given twice: a version may have those of a log that is gone.
        match folded {
            Some(folded) => {
                let (_, last) = furthest(table, folded.history).unwrap_or((table.version(), folded.sequence));
                recovered.begin_at(last.saturating_add(1), folded.history);
            }
            None => recovered.begin_at(1, random_history()),
        }
        return Ok(folded.unwrap_or_default());
    }
    let history = recovered.next_number;
    // A version that is not served now may be later: what the log would give its sequences to would be taken for what it has.
    if let Some((version, last)) = furthest(table, history)
        && last >= recovered.next_sequence
    {
        return Err(Error::Overlay {
            path: dir.to_path_buf(),
            problem: format!(
                "its log ends at sequence {}, and version {version} has it folded up to {last}: restore the log's files, or, with that \
                 version active, remove them to begin behind that",
                recovered.next_sequence - 1,
            ),
        });
    }
    Ok(folded
        .filter(|folded| folded.history == history)
        .unwrap_or_default())
}

/// The version that has most of a log folded, whether it is served or not, and up to which sequence. One that cannot be read is passed over: it
/// cannot be served.
fn furthest(table: &Table, history: u64) -> Option<(u64, u64)> {
    let table_dir = table.path().parent()?;
    let folded_of = |version: u64| {
        let (manifest, _) = Manifest::read(&version_dir(table_dir, version)).ok()?;
        let folded = manifest.folded().filter(|folded| folded.history == history)?;
        Some((version, folded.sequence))
    };
    let found = versions(table_dir).ok()?.into_iter().filter_map(folded_of);
    found.max_by_key(|(_, sequence)| *sequence)
}

/// Never zero.
pub(super) fn random_history() -> u64 {
    RandomState::new().hash_one(0_u8) | 1
}
