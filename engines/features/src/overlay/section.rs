//! `[features.NAME.overlay]`: whether a table takes fresh rows, where their log is, and how much they may take.
//!
//! It opens nothing. Its invariant: a section that passes [`OverlaySection::check`] has a folder exactly if upserts are to survive.

use std::path::PathBuf;

use millpond_wal::Durability;
use serde::Deserialize;

use crate::error::Error;

/// Fresh rows are numbered by 32 bits, and none takes less than 40 bytes.
const BYTES_MAX: u64 = 1 << 37;

/// Fresh rows of one table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverlaySection {
    /// The folder of the log; made when absent. Left out with durability "memory".
    pub path: Option<PathBuf>,
    /// What an acknowledged upsert survives.
    pub durability: Durability,
    /// Milliseconds between two syncs with durability "logged"; segments' ends and the close only when left out.
    pub sync_every_ms: Option<u64>,
    /// Memory that fresh rows and removals may take; further ones are refused.
    pub bytes_max: u64,
    /// How long a fresh row shows; until it is folded into a version when left out.
    pub ttl_ms: Option<u64>,
    /// Upserts waiting for the log; further ones are refused.
    pub queue_max: usize,
    /// Bytes of one log file.
    pub segment_bytes_max: u64,
}

impl Default for OverlaySection {
    fn default() -> OverlaySection {
        OverlaySection {
            path: None,
            durability: Durability::Synced,
            sync_every_ms: None,
            bytes_max: 256 << 20,
            ttl_ms: None,
            queue_max: 1024,
            segment_bytes_max: 64 << 20,
        }
    }
}

impl OverlaySection {
    /// What is known to be wrong before anything is opened. `at` is the section, as in `features.films.overlay`.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    pub fn check(&self, at: &str) -> Result<(), String> {
        match (&self.path, self.durability.has_log()) {
            (None, true) => {
                return Err(format!(
                    "{at}.path is missing; name a folder for its log, or set durability = \"memory\""
                ));
            }
            (Some(_), false) => {
                return Err(format!(
                    "{at}: an overlay with durability \"memory\" keeps no file; leave path out, or choose \"logged\" or \"synced\""
                ));
            }
            (None, false) | (Some(_), true) => {}
        }
        millpond_wal::check_sync_every(at, self.durability, self.sync_every_ms)?;
        if self.bytes_max > BYTES_MAX {
            return Err(format!(
                "{at}.bytes_max is {}; expected at most {BYTES_MAX}",
                self.bytes_max
            ));
        }
        for (key, found) in [
            ("bytes_max", self.bytes_max),
            ("queue_max", self.queue_max as u64),
            ("segment_bytes_max", self.segment_bytes_max),
            ("ttl_ms", self.ttl_ms.unwrap_or(1)),
        ] {
            if found == 0 {
                return Err(format!("{at}.{key} is 0; expected at least 1"));
            }
        }
        Ok(())
    }

    /// What is known to be wrong once the table is open, whose rows take `least` bytes each.
    pub(super) fn check_holds(&self, least: u64) -> Result<(), Error> {
        if self.bytes_max >= least {
            return Ok(());
        }
        let expected = format!("at least {least}, the bytes of one row");
        Err(Error::argument("overlay.bytes_max", expected, self.bytes_max))
    }
}
