//! `[features.NAME]`: which table is served, and which of its versions.
//!
//! It watches no folder. Its invariant: a section that passes [`Section::check`] names a folder that was there.

use crate::{Error, Table};
use serde::Deserialize;
use std::path::PathBuf;

/// One table of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The table's folder, as `millpond features build` made it.
    pub path: PathBuf,
    /// The version to serve; the highest when left out.
    pub version: Option<u64>,
}

impl Section {
    /// What is known to be wrong before anything is opened. `at` is the section, as in `features.films`.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    pub fn check(&self, at: &str) -> Result<(), String> {
        if self.path.is_dir() {
            return Ok(());
        }
        let path = self.path.display();
        Err(format!(
            "{at}.path: {path} is no folder; build the table with `millpond features build`"
        ))
    }

    /// Opens the version.
    ///
    /// # Errors
    /// As [`Table::open_version`].
    pub fn open(&self) -> Result<Table, Error> {
        Table::open_version(&self.path, self.version)
    }
}
