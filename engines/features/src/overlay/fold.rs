//! Folds an overlay into a version: a delta of all that its log holds up to a sequence.
//!
//! It changes neither the log nor the overlay: that is the activation's. Invariant: what is folded was acknowledged, and the
//! version's manifest says up to which sequence.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millpond_wal::is_held;

use super::clock::Clock;
use super::record::{FORMAT, layout_of};
use super::recovered::Found;
use super::{Folded, is_old};
use crate::error::Error;
use crate::table::Table;
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
    /// Rows older than that are left out.
    pub ttl_ms: Option<u64>,
    /// Files of the version.
    pub shards: u32,
}

/// Writes the content of an overlay's log as the next version, a delta on `base`; nothing where there is none that the base does
/// not have. Keys that `holds` does not say yes to are left out: the base may be for one node. A server may write to the log meanwhile:
/// its last group is left to the next fold then, because it may still fail. Upserts over nodes are refused.
///
/// # Errors
/// As [`Writer::create_delta`] and [`Writer::finish`]; [`Error::OverlayLog`], [`Error::Overlay`].
pub fn fold(
    base: Arc<Table>,
    table_dir: &Path,
    version: u64,
    fold: &Fold<'_>,
    holds: &dyn Fn(u64) -> bool,
) -> Result<Option<(Summary, Folded)>, Error> {
    let (found, folded) = read(&base, fold)?;
    if found.stamp.is_some() {
        return Err(Error::Overlay {
            path: fold.log.to_path_buf(),
            problem: "its upserts went to several servers, and a version does not say which of two rows of a key is newer, so it is not \
                folded: build a version from sources that have all rows, or give the overlay a ttl_ms"
                .to_owned(),
        });
    }
    let known = base.folded().filter(|known| known.history == folded.history);
    let floor = known.map_or(0, |known| known.sequence);
    if folded.sequence <= floor {
        return Ok(None);
    }
    if found.folded > floor {
        return Err(Error::Overlay {
            path: fold.log.to_path_buf(),
            problem: format!(
                "its rows up to sequence {} are in a version, and version {} has them up to {floor}: fold onto the version that has them all",
                found.folded,
                base.version()
            ),
        });
    }
    let now_ms = Clock::new(found.time_ms).now_ms();
    let mut entries: Vec<_> = found.entries.into_values().collect();
    entries.retain(|entry| entry.sequence > floor && !is_old(entry.written_ms, fold.ttl_ms, now_ms));
    entries.retain(|entry| holds(entry.key));
    // The same log gives the same bytes.
    entries.sort_unstable_by_key(|entry| entry.key);
    let writer = Writer::create_delta(table_dir, version, base, fold.shards)?;
    let source = format!("overlay up to sequence {}", folded.sequence);
    let mut writer = writer.source(source).folded(folded);
    for entry in entries {
        match &entry.row {
            Some(row) => writer.push_stored(entry.key, row)?,
            None => drop(writer.remove_stored(entry.key)?),
        }
    }
    Ok(Some((writer.finish()?, folded)))
}

/// What the log has up to the sequence, and that sequence.
pub(super) fn read(base: &Table, fold: &Fold<'_>) -> Result<(Found, Folded), Error> {
    if !fold.log.is_dir() {
        return Err(Error::Overlay {
            path: fold.log.to_path_buf(),
            problem: "there is no such folder".to_owned(),
        });
    }
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
    let problem = |problem: String| Error::Overlay {
        path: fold.log.to_path_buf(),
        problem,
    };
    let sequence = match fold.sequence {
        Some(sequence) if sequence > last => {
            return Err(problem(format!(
                "its log has sequences up to {last} for certain; fold up to at most that, not {sequence}"
            )));
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
        return Err(problem(format!(
            "its log has rows of other columns than version {} of {}; fold them onto the version that they were written over",
            base.version(),
            base.name()
        )));
    }
    let history = recovered.next_number;
    Ok((found, Folded { history, sequence }))
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
