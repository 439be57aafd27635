//! Folds an overlay into a version: a delta of all that its log holds up to a sequence.
//!
//! It changes neither the log nor the overlay: that is the activation's. Invariant: what is folded was acknowledged, and the
//! version's manifest says up to which sequence.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millpond_wal::{Clock, is_held, sync_segments};

use super::folded::Folded;
use super::hidden::version_with;
use super::index::Entry;
use super::is_old;
use super::owner;
use super::record::{FORMAT, layout_of};
use super::recovered::{Found, random_history};
use crate::error::Error;
use crate::layer::LayerEntry;
use crate::table::Table;
use crate::versions::versions;
use crate::write::{Summary, Writer};

/// How often the log is read again while somebody writes it, and after how long: a segment that was listed may be gone when it is
/// read, and one that is cut after a failed write may be read half before and half after.
const TRIES_MAX: usize = 50;
const AGAIN: Duration = Duration::from_millis(20);

/// What a fold takes.
#[derive(Debug, Clone)]
pub struct Fold<'a> {
    /// The folder of the overlay's log.
    pub log: &'a Path,
    /// Up to this sequence; all that was acknowledged for certain when left out.
    pub sequence: Option<u64>,
    /// Of upserts over nodes those that were made before this time, in milliseconds of Unix time; as many as the log says that all
    /// replicas have when left out.
    pub before_ms: Option<u64>,
    /// The base was built from versions of other nodes that have all before `before_ms`, so nothing of the log is written.
    pub is_rebuilt: bool,
    /// Rows older than that are left out.
    pub ttl_ms: Option<u64>,
    /// Files of the version.
    pub shards: u32,
}

/// The version that has what was to be folded.
#[derive(Debug)]
pub enum FoldVersion {
    /// The one that was written.
    Written {
        /// What was written.
        summary: Summary,
        /// Up to where it has the log.
        folded: Folded,
        /// Keys of which the log has upserts that are left to the next fold, those that may still fail among them.
        keys_left: u64,
    },
    /// An earlier fold wrote it as this one would, or has more, and none was written.
    Had(u64),
    /// The log has no row or removal that the base lacks and that is to be folded, and none was written.
    NothingNew {
        /// The base.
        base: u64,
        /// As in [`FoldVersion::Written`].
        keys_left: u64,
        /// The base has the log further than the limit that was given.
        is_past_limit: bool,
    },
}

impl FoldVersion {
    /// What was written, if anything was.
    pub fn written(self) -> Option<(Summary, Folded)> {
        match self {
            FoldVersion::Written { summary, folded, .. } => Some((summary, folded)),
            FoldVersion::Had(_) | FoldVersion::NothingNew { .. } => None,
        }
    }
}

/// Writes the content of an overlay's log as the next version, a delta on `base`; nothing where the base, or the highest version, has
/// it, whatever the log says beside rows and removals. Keys that `holds` does not say yes to are left out: the base may be for one node. A server may write to the log meanwhile:
/// its last group is left to the next fold then, because it may still fail.
///
/// # Errors
/// As [`Writer::create_delta`] and [`Writer::finish`]; [`Error::OverlayLog`], [`Error::Overlay`].
pub fn fold(
    base: Arc<Table>,
    table_dir: &Path,
    version: u64,
    fold: &Fold<'_>,
    holds: &dyn Fn(u64) -> bool,
) -> Result<FoldVersion, Error> {
    let (found, last) = read(&base, fold)?;
    let known = base.folded().filter(|known| known.history == last.history);
    let known = known.unwrap_or_default();
    let folded = Folded {
        before_ms: before(&found, fold, known)?,
        ..last
    };
    let now_ms = Clock::new(found.time_ms).now_ms();
    let counts = |key, written_ms| !is_old(written_ms, fold.ttl_ms, now_ms) && holds(key);
    let nothing_new = |found: &Found| FoldVersion::NothingNew {
        base: base.version(),
        keys_left: keys_left(found, known, &counts),
        is_past_limit: !folded.covers(known),
    };
    if !folded.covers(known) || known.covers(folded) {
        return Ok(nothing_new(&found));
    }
    let is_in = if fold.is_rebuilt { folded } else { known };
    if !is_in.covers(found.folded) {
        let wanted = Folded {
            history: folded.history,
            ..found.folded
        };
        let onto = match version_with(table_dir, wanted) {
            Some(version) => format!("fold onto version {version}, which has them (--base {version})"),
            None => "restore a version that has them, and fold onto that".to_owned(),
        };
        return Err(problem(
            fold,
            format!(
                "its rows up to {} are in a version, and version {} has them up to {}: {onto}",
                described(found.folded),
                base.version(),
                described(known)
            ),
        ));
    }
    let is_new = |entry: &Entry| {
        !is_in.has(entry.sequence, entry.stamp)
            && folded.has(entry.sequence, entry.stamp)
            && counts(entry.key, entry.written_ms)
    };
    // The sequence also counts what the log notes for itself, such as that a fold serves. A later time alone is worth a version: all
    // nodes of a table write one of the same number.
    if folded.before_ms == known.before_ms && !found.entries.values().any(is_new) {
        return Ok(nothing_new(&found));
    }
    let keys_left = keys_left(&found, folded, &counts);
    let mut entries: Vec<_> = found.entries.into_values().collect();
    entries.retain(is_new);
    if let Some(highest) = highest_above(&base, table_dir)
        && has_all(&highest, &base, folded, fold, &entries)
    {
        return Ok(FoldVersion::Had(highest.version()));
    }
    // A version that is durable before the log that it has would hide what a power cut has written again.
    sync_segments(&FORMAT, fold.log).map_err(Error::OverlayLog)?;
    let summary = write(base, table_dir, version, fold.shards, folded, entries)?;
    Ok(FoldVersion::Written {
        summary,
        folded,
        keys_left,
    })
}

/// Keys of which the log has upserts that a version folded so far has not.
fn keys_left(found: &Found, folded: Folded, counts: &dyn Fn(u64, u64) -> bool) -> u64 {
    let later = found
        .later
        .iter()
        .filter(|(key, later)| !folded.has(later.sequence, later.stamp) && counts(**key, later.written_ms));
    let not_yet = found.entries.values().filter(|entry| {
        !folded.has(entry.sequence, entry.stamp)
            && !found.later.contains_key(&entry.key)
            && counts(entry.key, entry.written_ms)
    });
    (later.count() + not_yet.count()) as u64
}

fn write(
    base: Arc<Table>,
    table_dir: &Path,
    version: u64,
    shards: u32,
    folded: Folded,
    mut entries: Vec<Entry>,
) -> Result<Summary, Error> {
    // The same log gives the same bytes.
    entries.sort_unstable_by_key(|entry| entry.key);
    let writer = Writer::create_delta(table_dir, version, base, shards)?;
    let mut writer = writer
        .source(format!("overlay up to {}", described(folded)))
        .folded(folded);
    for entry in entries {
        match &entry.row {
            Some(row) => writer.push_stored(entry.key, row)?,
            None => drop(writer.remove_stored(entry.key)?),
        }
    }
    writer.finish()
}

/// The highest version, where it is above the base. One that does not open has nothing that a fold could leave to it.
fn highest_above(base: &Table, table_dir: &Path) -> Option<Table> {
    let highest = versions(table_dir).ok()?.last().copied()?;
    let is_above = highest > base.version();
    is_above
        .then(|| Table::open_beside(table_dir, Some(highest), Some(base)).ok())
        .flatten()
}

/// Whether an earlier fold onto the same base wrote the version, and it is as this one would be, or has more where no limit was given.
fn has_all(highest: &Table, base: &Table, folded: Folded, fold: &Fold<'_>, entries: &[Entry]) -> bool {
    let Some(theirs) = highest.folded() else {
        return false;
    };
    if theirs.history != folded.history || highest.chain().get(1) != Some(&base.version()) {
        return false;
    }
    if highest.own_shards().count() != fold.shards as usize {
        return false;
    }
    let has_limit = fold.sequence.is_some() || fold.before_ms.is_some() || fold.ttl_ms.is_some();
    // Where the time is the limit, upserts that came since and are left out change the sequence alone.
    let is_as_far = theirs == folded || theirs.before_ms == folded.before_ms && folded.before_ms > 0;
    if is_as_far && has_same(highest, entries) {
        return true;
    }
    // Such as one of a log that nobody wrote to, before a server began to.
    !has_limit && theirs != folded && theirs.covers(folded)
}

/// Whether the version's own files change just these entries: rows that are too old are in some folds and not in others.
fn has_same(version: &Table, entries: &[Entry]) -> bool {
    let Some(layer) = version.layers().first() else {
        return false;
    };
    let mut found: u64 = 0;
    let is_same = entries.iter().all(|entry| {
        let said = layer.find(entry.key);
        found += u64::from(!matches!(said, LayerEntry::Nothing));
        match (&entry.row, said) {
            (Some(row), LayerEntry::Row(said)) => **row == *said,
            // Of a key that the base does not have nothing is written.
            (None, LayerEntry::Removed) => true,
            (None, LayerEntry::Nothing) => !version.contains(entry.key),
            _ => false,
        }
    });
    is_same && found == layer.entries.iter().map(|shard| shard.rows).sum::<u64>()
}

/// For people: up to where.
fn described(folded: Folded) -> String {
    let Folded {
        sequence, before_ms, ..
    } = folded;
    match before_ms {
        0 => format!("sequence {sequence}"),
        _ => format!("sequence {sequence}, and before {before_ms} ms of Unix time"),
    }
}

fn problem(fold: &Fold<'_>, problem: String) -> Error {
    Error::Overlay {
        path: fold.log.to_path_buf(),
        problem,
    }
}

/// The time before which upserts over nodes are folded: no later than all replicas have them.
fn before(found: &Found, fold: &Fold<'_>, known: Folded) -> Result<u64, Error> {
    let most = found.settled.foldable_ms;
    match (fold.before_ms, fold.sequence) {
        (Some(before_ms), _) if fold.is_rebuilt => Ok(before_ms),
        (None, _) if fold.is_rebuilt => Err(problem(
            fold,
            "say by before_ms up to which time the versions have it that the base was built from".to_owned(),
        )),
        (None, _) if !found.stamp.is_some() => Ok(known.before_ms),
        (_, Some(sequence)) => Err(problem(
            fold,
            format!(
                "its upserts up to sequence {sequence} went to several servers, and those are folded by their time: say before_ms in the \
                 place of the sequence"
            ),
        )),
        _ if most == 0 => Err(problem(
            fold,
            "it does not say up to when all replicas have upserts over nodes: that needs all nodes of the table's buckets to run and to reach \
             each other for longer than nodes.settle_ms, so try again later (a node that is gone has to go from the map)"
                .to_owned(),
        )),
        (Some(before_ms), None) if before_ms > most => Err(problem(
            fold,
            format!(
                "all replicas have its upserts that were made before {most} ms of Unix time; fold up to that at most, not {before_ms}, or \
                 try again later"
            ),
        )),
        (Some(before_ms), None) => Ok(before_ms),
        (None, None) => Ok(most),
    }
}

/// What the log has up to the sequence, and that sequence.
pub(super) fn read(base: &Table, fold: &Fold<'_>) -> Result<(Found, Folded), Error> {
    if !fold.log.is_dir() {
        return Err(problem(
            fold,
            "there is no such folder; features.NAME.overlay.path of the server's configuration names it"
                .to_owned(),
        ));
    }
    owner::check(fold.log, base)?;
    let mut tries = 1;
    loop {
        let was_held = is_held(fold.log);
        let read = read_once(base, fold, was_held);
        let is_passing = matches!(read, Err(Error::OverlayLog(_))) && (was_held || is_held(fold.log));
        if !is_passing || tries >= TRIES_MAX {
            return read;
        }
        tries += 1;
        std::thread::sleep(AGAIN);
    }
}

fn read_once(base: &Table, fold: &Fold<'_>, was_held: bool) -> Result<(Found, Folded), Error> {
    let last = last_certain(fold.log, was_held)?;
    let sequence = match fold.sequence {
        Some(sequence) if sequence > last => {
            return Err(problem(
                fold,
                format!(
                    "its log has sequences up to {last} for certain; fold up to at most that, not {sequence}"
                ),
            ));
        }
        Some(sequence) => sequence,
        None => last,
    };
    let layout = layout_of(base.schema());
    let mut found = Found::default();
    let read = millpond_wal::read(&FORMAT, fold.log, &mut |record, history| {
        found.apply(record, sequence, layout);
        Ok(history)
    });
    let recovered = read.map_err(Error::OverlayLog)?;
    if found.has_other_layout {
        return Err(problem(
            fold,
            format!(
                "its log has rows of other columns than version {} of {}; fold them onto the version that they were written over",
                base.version(),
                base.name()
            ),
        ));
    }
    // A log that was not written to yet takes its history from the version.
    let history = match recovered.has_begun() {
        true => recovered.next_number,
        false => base.folded().map_or_else(random_history, |folded| folded.history),
    };
    let folded = Folded {
        history,
        sequence,
        before_ms: 0,
    };
    Ok((found, folded))
}

/// The last sequence that no failure can take back: of the last group but one while somebody writes, and of the last else.
fn last_certain(log: &Path, was_held: bool) -> Result<u64, Error> {
    let (mut last, mut group_first) = (0, 1);
    let read = millpond_wal::read(&FORMAT, log, &mut |record, history| {
        last = record.sequence;
        group_first = record.sequence.saturating_sub(record.group_index.into());
        Ok(history)
    });
    read.map_err(Error::OverlayLog)?;
    // A server may have been started meanwhile.
    Ok(match was_held || is_held(log) {
        true => group_first.saturating_sub(1).min(last),
        false => last,
    })
}
