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
    /// Sound records, one for each put.
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
    let mut entries = 0;
    let mut apply = |record: &Record<'_>, next_version| {
        let put = Logged::of(record);
        BrokenRun::check("version", next_version, put.first_version)?;
        let of_put: Vec<(&[u8], &[u8])> = put.entries().collect();
        index.apply(&of_put, put.first_version);
        entries += u64::from(put.entry_count);
        Ok(next_version + u64::from(put.entry_count))
    };
    let recovered = millpond_wal::read(&FORMAT, dir, &mut apply)?;
    let recovery = Recovery {
        segments: recovered.segments,
        records: recovered.records,
        entries,
        keys: index.len(),
        torn_tail: recovered.torn_tail.clone(),
    };
    Ok((recovered, index, recovery))
}
