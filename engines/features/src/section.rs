//! `[features.NAME]`: which table is served, and which of its versions.
//!
//! It watches no folder itself. Its invariant: a section that passes [`Section::check`] names a folder that was there.

use crate::{Error, OverlaySection, Source, Table, version_at_start};
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// One table of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The table's folder, as `millpond features build` made it; empty where it is on other servers alone.
    #[serde(default)]
    pub path: PathBuf,
    /// Its keys are on several servers, of which this one may be one.
    #[serde(default)]
    pub spread: bool,
    /// The version to serve; the active one when left out, and the highest where none was made active.
    pub version: Option<u64>,
    /// Where its rows are while they are served. When left out, [`Memory::Resident`] with one process, else [`Memory::Mapped`].
    pub memory: Option<Memory>,
    /// What SELECT of RESP calls it by; it is not served there when left out.
    pub resp_database: Option<u32>,
    /// How its keys are written there; [`RespKeys::Decimal`] when left out.
    pub resp_keys: Option<RespKeys>,
    /// Versions that stay open when another is switched to, for calls that name them and for the way back.
    #[serde(default = "versions_held")]
    pub versions_held: usize,
    /// Whether a server serves versions by itself that appear in the folder, above all that it has served.
    #[serde(default)]
    pub watch: bool,
    /// Where else versions come from, which are fetched into the folder and served like those that appear there.
    pub source: Option<Source>,
    /// How often it looks; [`WATCH_EVERY_MS`] when left out.
    pub watch_every_ms: Option<u64>,
    /// Fresh rows over its versions; none when left out.
    pub overlay: Option<OverlaySection>,
}

/// How often a watched folder is looked at.
pub const WATCH_EVERY_MS: u64 = 1000;
/// How often it may be: no more often than is of use, and often enough that a mistake in units shows.
const WATCH_EVERY_MS_RANGE: RangeInclusive<u64> = 10..=3_600_000;

/// How keys are written in RESP's commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RespKeys {
    /// Decimal digits.
    #[default]
    Decimal,
    /// The eight bytes of the number, little-endian.
    Raw,
    /// The text that the table's keys are the hashes of.
    Text,
}

/// Versions held at most: each takes memory like the one that serves.
const VERSIONS_HELD_MAX: usize = 16;

fn versions_held() -> usize {
    2
}

/// Where the rows of a served table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// In memory of the process, in huge pages where there are any: the fastest, and safe from the disk.
    #[default]
    Resident,
    /// In the system's cache of files, shared by all processes that serve it: for tables larger than memory.
    Mapped,
}

impl Memory {
    /// Its name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Memory::Resident => "resident",
            Memory::Mapped => "mapped",
        }
    }
}

impl Section {
    /// The table in that folder, with the defaults for everything else.
    pub fn of(path: PathBuf) -> Section {
        Section {
            path,
            spread: false,
            version: None,
            memory: None,
            versions_held: versions_held(),
            resp_database: None,
            resp_keys: None,
            watch: false,
            source: None,
            watch_every_ms: None,
            overlay: None,
        }
    }

    /// How often its folder is looked at, where it is watched.
    pub fn watched_every(&self) -> Option<Duration> {
        let every = self.watch_every_ms.unwrap_or(WATCH_EVERY_MS);
        let is_watched = self.watch || self.source.is_some();
        is_watched.then(|| Duration::from_millis(every))
    }

    /// Of these keys alone: what says nothing, or is out of range.
    fn check_watch(&self, at: &str) -> Result<(), String> {
        match self.watch_every_ms {
            Some(every) if !WATCH_EVERY_MS_RANGE.contains(&every) => Err(format!(
                "{at}.watch_every_ms is {every}; expected {} to {}",
                WATCH_EVERY_MS_RANGE.start(),
                WATCH_EVERY_MS_RANGE.end()
            )),
            Some(_) if self.watched_every().is_none() => Err(format!(
                "{at}.watch_every_ms says nothing without {at}.watch; set that to true"
            )),
            _ => Ok(()),
        }
    }

    /// Whether other servers alone have it.
    pub fn is_elsewhere(&self) -> bool {
        self.spread && self.path.as_os_str().is_empty()
    }

    /// What is known to be wrong before anything is opened. `at` is the section, as in `features.films`.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    pub fn check(&self, at: &str) -> Result<(), String> {
        if self.resp_keys.is_some() && self.resp_database.is_none() {
            return Err(format!(
                "{at}.resp_keys says nothing without {at}.resp_database; give the number that SELECT calls it by"
            ));
        }
        if self.versions_held > VERSIONS_HELD_MAX {
            return Err(format!(
                "{at}.versions_held is {}; expected at most {VERSIONS_HELD_MAX}",
                self.versions_held
            ));
        }
        self.check_watch(at)?;
        if let Some(source) = &self.source {
            source.check(&format!("{at}.source"))?;
        }
        if let Some(overlay) = &self.overlay {
            overlay.check(&format!("{at}.overlay"))?;
        }
        // The first version makes the folder.
        if self.path.is_dir() || (self.source.is_some() && !self.path.exists()) {
            return Ok(());
        }
        if self.path.as_os_str().is_empty() {
            return Err(format!(
                "{at}.path is missing; name the table's folder, or set {at}.spread = true where other servers alone have it"
            ));
        }
        let path = self.path.display();
        Err(format!(
            "{at}.path: {path} is no folder; build the table with `millpond features build`"
        ))
    }

    /// Opens the version; its data is not read before [`Section::ready`]. What it has in common with `served`, a version that
    /// was made ready in the same way, it shares.
    ///
    /// # Errors
    /// As [`Table::open_version`] and [`version_at_start`].
    pub fn open(&self, served: Option<&Table>) -> Result<Table, Error> {
        let version = match self.version {
            Some(version) => version,
            None => version_at_start(&self.path)?,
        };
        Table::open_beside(&self.path, Some(version), served)
    }

    /// Reads and verifies every byte of an opened version, into memory unless the section says otherwise.
    ///
    /// # Errors
    /// As [`Table::verify`] and [`Table::make_resident`].
    pub fn ready(&self, table: &mut Table) -> Result<(), Error> {
        match self.memory.unwrap_or_default() {
            Memory::Resident => table.make_resident(),
            Memory::Mapped => table.make_mapped(),
        }
    }
}
