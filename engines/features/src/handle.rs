//! The active version of a table, and the switch to another.
//!
//! Does not watch the folder: someone asks for a switch. Invariant: a pinned version stays whole and open until its
//! last reader lets go, however often the table is switched.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::error::Error;
use crate::table::Table;
use crate::versions::{folder, versions};

/// The active version of one table; switching is one atomic pointer.
pub struct Handle {
    /// The table's folder, where other versions are found.
    table_dir: PathBuf,
    active: ArcSwap<Table>,
}

impl Handle {
    /// Opens a version in a table folder; `None` is the highest one present.
    ///
    /// # Errors
    /// [`Error::NoVersions`], [`Error::VersionNotFound`], or what [`Table::open`] finds.
    pub fn open(table_dir: &Path, version: Option<u64>) -> Result<Handle, Error> {
        let available = versions(table_dir)?;
        let version = version.or(available.last().copied()).unwrap_or_default();
        Ok(Handle {
            table_dir: table_dir.to_path_buf(),
            active: ArcSwap::from_pointee(open_version(table_dir, version, available)?),
        })
    }

    /// The active version, held until the returned pointer is dropped. Costs a few nanoseconds.
    pub fn pin(&self) -> Arc<Table> {
        self.active.load_full()
    }

    /// The versions in the table folder now, ascending.
    ///
    /// # Errors
    /// As [`versions`].
    pub fn versions(&self) -> Result<Vec<u64>, Error> {
        versions(&self.table_dir)
    }

    /// Opens a version, makes it resident (so it is verified) and makes it the active one. On an error the active
    /// version stays.
    ///
    /// # Errors
    /// As [`Handle::open`] and [`Table::make_resident`].
    pub fn activate(&self, version: u64) -> Result<Arc<Table>, Error> {
        let table = Arc::new(open_version(&self.table_dir, version, self.versions()?)?);
        table.make_resident()?;
        table.check_lengths()?;
        self.active.store(Arc::clone(&table));
        Ok(table)
    }
}

fn open_version(table_dir: &Path, version: u64, available: Vec<u64>) -> Result<Table, Error> {
    if !available.contains(&version) {
        return Err(Error::VersionNotFound {
            path: table_dir.to_path_buf(),
            version,
            available,
        });
    }
    Table::open(&table_dir.join(folder(version)))
}
