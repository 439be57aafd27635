//! Reads a store's log back into memory.
//!
//! Changes nothing on disk, and does not judge segments: that is the log's (`millpond-wal`). Invariant: what it returns is the
//! effect of all records up to one point of the log, each of them sound and following from the one before.

use std::fmt;
use std::path::Path;

use millpond_wal::{BrokenRun, Record, Recovered, TornTail};

use crate::Error;
use crate::index::Index;
use crate::record::{FORMAT, Logged};

/// What opening a store found in its log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segment files read.
    pub segments: usize,
    /// Sound records, one for each write that changed something.
    pub records: u64,
    /// Entries in those records.
    pub entries: u64,
    /// Keys they left.
    pub keys: usize,
    /// The unfinished end that was cut off, if there was one.
    pub torn_tail: Option<TornTail>,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "recovered {} keys from {} records ({} entries) in {} segments",
            self.keys, self.records, self.entries, self.segments
        )?;
        match &self.torn_tail {
            None => Ok(()),
            Some(torn) => write!(f, "; {torn}"),
        }
    }
}

/// Reads all segments of a folder.
pub(crate) fn read(dir: &Path) -> Result<(Recovered, Index, Recovery), Error> {
    let index = Index::default();
    let (mut entries, mut last_ms) = (0, 0);
    let mut apply = |record: &Record<'_>, next_version| {
        let write = Logged::of(record);
        BrokenRun::check("version", next_version, write.first_version)?;
        write.replay(&index);
        entries += u64::from(write.entry_count);
        last_ms = write.time_ms.max(last_ms);
        Ok(next_version + u64::from(write.entry_count))
    };
    let recovered = millpond_wal::read(&FORMAT, dir, &mut apply)?;
    let recovery = Recovery {
        segments: recovered.segments,
        records: recovered.records,
        entries,
        keys: index.len(),
        torn_tail: recovered.torn_tail.clone(),
    };
    Ok((recovered, index.from(last_ms), recovery))
}
