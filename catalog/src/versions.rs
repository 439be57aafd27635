//! What is kept of a table beside the version that serves: versions that were served before it.
//!
//! It decides no switch. Its invariant: a version that is held was verified when it was opened, and answers as long as it is
//! held, whatever becomes of its files.

use crate::{Catalog, Error};
use millpond_engines_features::{self as features, Active, Overlay, Schema, Table};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

millpond_metrics::counters! {
    /// What a table's switches have come to.
    #[derive(Debug, Default)]
    pub struct SwitchCounts {
        /// For the page of metrics.
        METRICS {
            pub done: std::sync::atomic::AtomicU64 = counter("millpond_table_switches_total",
                "Switches to another version that this table's callers asked for, and that were made."),
            pub failed: std::sync::atomic::AtomicU64 = counter("millpond_table_switches_failed_total",
                "Switches that were asked for, and after which the version before went on serving."),
            pub arrived: std::sync::atomic::AtomicU64 = counter("millpond_table_arrivals_total",
                "New versions that the watcher of this table's folder found, and that served then."),
            pub arrivals_refused: std::sync::atomic::AtomicU64 = counter("millpond_table_arrivals_refused_total",
                "New versions that the watcher found and that could not be served."),
            pub fetched: std::sync::atomic::AtomicU64 = counter("millpond_table_fetches_total",
                "Versions that came from this table's source."),
            pub fetched_bytes: std::sync::atomic::AtomicU64 = counter("millpond_table_fetched_bytes_total",
                "Bytes of theirs that were fetched."),
            pub fetches_failed: std::sync::atomic::AtomicU64 = counter("millpond_table_fetches_failed_total",
                "Looks at the source that failed, and versions there that were refused."),
        }
    }
}

/// What a table serves, and the version that a way back leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// The version that serves.
    pub version: u64,
    /// The version that served before it.
    pub before: Option<u64>,
    /// The highest version that ever served.
    pub highest: u64,
}

/// The past of a table that is served.
#[derive(Clone, Default)]
pub struct Past {
    /// Versions that still answer calls that name them, the one served last first.
    pub held: Vec<Arc<Table>>,
    /// The version served before, to which a way back leads; it may be held no more.
    pub before: Option<u64>,
    /// The highest version that ever served: what a rollback left behind is no new version.
    pub highest: u64,
    /// The table's own, whatever version it has.
    pub counts: Arc<SwitchCounts>,
}

impl Past {
    /// The version of that number, if it is held.
    pub fn held(&self, version: u64) -> Option<&Arc<Table>> {
        self.held.iter().find(|table| table.version() == version)
    }
}

/// Whether the version of that number that serves is the one of its folder: a switch to it says what a restart serves. A folder
/// that is gone says nothing else.
pub(crate) fn check_is_of_folder(catalog: &Catalog, name: &str, version: u64) -> Result<(), Error> {
    let Some(Served { section, table, .. }) = Served::of(catalog, name) else {
        return Ok(());
    };
    if table.version() != version || !table.path().exists() {
        return Ok(());
    }
    table.check_stands_in(&section.path).map_err(|error| {
        Error::Unfit(format!(
            "features.{name}: version {version} serves, and its folder has been replaced since it was opened ({error}); build it \
             under a number of its own, or restart the server"
        ))
    })
}

/// What serves under a name before a change.
pub(crate) struct Served<'c> {
    section: &'c features::Section,
    table: &'c Arc<Table>,
    past: Past,
}

impl<'c> Served<'c> {
    pub(crate) fn of(catalog: &'c Catalog, name: &str) -> Option<Served<'c>> {
        Some(Served {
            section: catalog.sections().features.get(name)?,
            table: catalog.tables.get(name)?,
            past: catalog.past.get(name).cloned().unwrap_or_default(),
        })
    }

    /// What it held, and is to hold beside `table`, which serves now.
    fn past_of(self, table: &Arc<Table>, held_max: usize) -> Past {
        let mut past = self.past;
        if !Arc::ptr_eq(self.table, table) {
            past.before = Some(self.table.version());
            past.held.insert(0, Arc::clone(self.table));
        }
        past.highest = past.highest.max(self.table.version()).max(table.version());
        past.held.retain(|held| held.version() != table.version());
        past.held.truncate(held_max);
        past
    }

    /// The version that it has open under that number, if that is still the one of the folder; one whose folder is gone is
    /// the last there is of it.
    fn opened(&self, section: &features::Section) -> Option<Arc<Table>> {
        let version = section.version?;
        if version == self.table.version() {
            return Some(Arc::clone(self.table));
        }
        let held = self.past.held(version)?;
        let is_the_same = held.check_stands_in(&section.path).is_ok() || !held.path().exists();
        (is_the_same && held.check_whole().is_ok()).then(|| Arc::clone(held))
    }

    /// What may replace it while it is served: callers and pipelines see the same keys and columns.
    fn check_fits(&self, name: &str, next: &Table) -> Result<(), Error> {
        let columns = |schema: &Schema| {
            let columns = schema.columns.iter();
            let columns = columns.map(|column| format!("{} ({})", column.name, column.dim));
            columns.collect::<Vec<_>>().join(", ")
        };
        let problem = if next.name() != self.table.name() {
            format!("is of table {:?}, expected {:?}", next.name(), self.table.name())
        } else if next.keys() != self.table.keys() {
            format!(
                "has keys that are {}, expected {} as in version {}, which serves",
                next.keys(),
                self.table.keys(),
                self.table.version()
            )
        } else if !next.schema().answers_like(self.table.schema()) {
            format!(
                "has the columns {}, expected {} as in version {}, which serves",
                columns(next.schema()),
                columns(self.table.schema()),
                self.table.version()
            )
        } else {
            return Ok(());
        };
        Err(Error::Unfit(format!(
            "features.{name}: version {} {problem}; a table keeps its keys and columns while it is served: restart the server with that \
             version (`millpond features activate`), or build one that fits",
            next.version()
        )))
    }
}

/// The table of a section, and its past: `served` of the same folder is shared as far as it is the same.
pub(crate) fn open(
    name: &str,
    section: &features::Section,
    served: Option<Served<'_>>,
    upsert_bytes_max: usize,
) -> Result<(Arc<Table>, Past), Error> {
    let overlay = served.as_ref().map(|served| served.table.overlay().cloned());
    check_same(name, section, overlay.as_ref())?;
    let over = Over {
        overlay: overlay.flatten(),
        upsert_bytes_max,
    };
    let of_this_folder = |served: &Served<'_>| {
        (&served.section.path, served.section.memory) == (&section.path, section.memory)
    };
    let (counts, served) = match served {
        Some(served) => (
            Arc::clone(&served.past.counts),
            Some(served).filter(of_this_folder),
        ),
        None => (Arc::default(), None),
    };
    let Some(served) = served else {
        let table = Arc::new(opened(name, section, None, &over)?);
        let active = match (Active::read(&section.path), section.version) {
            (Ok(active), _) => active,
            // It decided nothing: the version is given.
            (Err(_), Some(_)) => None,
            (Err(error), None) => return Err(Error::part("features", name)(error)),
        };
        let said = active.as_ref();
        let highest = said.map_or(0, |active| active.highest).max(table.version());
        let active = active.filter(|active| active.version == table.version());
        let (before, held) = active.map_or((None, Vec::new()), |active| (active.before, active.held));
        let past = Past {
            held: reopened(name, section, &table, &held),
            before,
            highest,
            counts,
        };
        return Ok((table, past));
    };
    let table = match served.opened(section) {
        Some(table) => table,
        None => {
            let table = opened(name, section, Some(&served), &over)?;
            Arc::new(table)
        }
    };
    let past = served.past_of(&table, section.versions_held);
    Ok((table, past))
}

/// Opens the versions that were held when the server ended. One that cannot be held any more is passed over: what serves does not
/// depend on it.
fn reopened(name: &str, section: &features::Section, table: &Arc<Table>, held: &[u64]) -> Vec<Arc<Table>> {
    let reopen = |version: u64| {
        let section = features::Section {
            version: Some(version),
            ..section.clone()
        };
        let served = Served {
            section: &section,
            table,
            past: Past::default(),
        };
        let over = Over {
            overlay: table.overlay().cloned(),
            upsert_bytes_max: 0,
        };
        let opened = opened(name, &section, Some(&served), &over);
        let problem = match opened {
            Ok(held) => return Some(Arc::new(held)),
            Err(error) => error.to_string(),
        };
        tracing::warn!(
            table = name,
            version,
            problem,
            "a version that was held is not any more"
        );
        None
    };
    let held = held.iter().copied().filter(|held| *held != table.version());
    held.take(section.versions_held).filter_map(reopen).collect()
}

/// Opens a version and makes it ready, which checks every byte that what is served does not have, too.
fn opened(
    name: &str,
    section: &features::Section,
    served: Option<&Served<'_>>,
    over: &Over,
) -> Result<Table, Error> {
    let beside = served.map(|served| &**served.table);
    let failed = |error| {
        let error = Error::part("features", name)(error);
        match served {
            Some(_) => error,
            None => with_fix(error, section),
        }
    };
    let mut table = section.open(beside).map_err(failed)?;
    if let Some(served) = served {
        served.check_fits(name, &table)?;
    }
    let (version, rows, dim) = (table.version(), table.rows(), table.dim());
    tracing::info!(table = name, version, rows, dim, "table opened");
    let started = Instant::now();
    section.ready(&mut table).map_err(failed)?;
    let ms = started.elapsed().as_millis() as u64;
    let memory = section.memory.unwrap_or_default().as_str();
    tracing::info!(table = name, ms, memory, "table ready, checksums right");
    if let Some(overlay) = over.opened(name, section, &table)? {
        table.see(&overlay).map_err(Error::part("features", name))?;
    }
    Ok(table)
}

/// The error of a start, with how to have it serve another version that is there.
fn with_fix(error: Error, section: &features::Section) -> Error {
    let (None, Ok(mut others)) = (section.version, features::versions(&section.path)) else {
        return error;
    };
    // A file that says nothing that can be followed has its own advice.
    let Ok(active) = Active::read(&section.path) else {
        return error;
    };
    let serves = active
        .as_ref()
        .map(|active| active.version)
        .or(others.last().copied());
    others.retain(|version| Some(*version) != serves);
    // The start has failed: there is time to read what is proposed.
    let is_whole = |version: &u64| {
        let opened = Table::open_version(&section.path, Some(*version));
        opened.and_then(|table| table.verify()).is_ok()
    };
    let before = active.and_then(|active| active.before);
    // Whoever quotes it has a path that a shell takes as one word.
    let path = format!("'{}'", section.path.display());
    let fix = match others.into_iter().rev().find(is_whole) {
        Some(highest) if before == Some(highest) => {
            format!(
                "version {highest} served before: `millpond features rollback {path}` has a start serve it"
            )
        }
        Some(highest) => format!(
            "`millpond features activate {path} {highest}` has a start serve version {highest}, the highest other that is whole; what was \
             folded into later ones is not in it"
        ),
        None => return error,
    };
    Error::Start {
        source: Box::new(error),
        fix,
    }
}

/// An overlay has one log, which stays open: it is what it was opened as.
fn check_same(
    name: &str,
    section: &features::Section,
    served: Option<&Option<Arc<Overlay>>>,
) -> Result<(), Error> {
    let Some(served) = served else { return Ok(()) };
    match served.as_ref().map(|overlay| overlay.section()) == section.overlay.as_ref() {
        true => Ok(()),
        false => Err(Error::Unfit(format!(
            "features.{name}.overlay: an overlay stays as it was opened, because its folder has one log; change it by a restart"
        ))),
    }
}

/// What lies over the versions of a table, once it is opened, and the bytes of upserts that may wait for it.
struct Over {
    overlay: Option<Arc<Overlay>>,
    upsert_bytes_max: usize,
}

impl Over {
    /// The overlay of the section: the one that is there, or opened over this version.
    fn opened(
        &self,
        name: &str,
        section: &features::Section,
        table: &Table,
    ) -> Result<Option<Arc<Overlay>>, Error> {
        let (None, Some(described)) = (&self.overlay, &section.overlay) else {
            return Ok(self.overlay.clone());
        };
        let opened = Overlay::open(described, table, self.upsert_bytes_max);
        let (overlay, recovery) = opened.map_err(Error::part("features", name))?;
        if let Some(torn) = &recovery.torn_tail {
            tracing::warn!(table = name, file = %torn.file.display(), offset = torn.offset, bytes = torn.bytes, "torn tail cut from the overlay's log");
        }
        tracing::info!(
            table = name,
            durability = overlay.durability().as_str(),
            entries = recovery.entries,
            records = recovery.records,
            sequence = overlay.sequence(),
            "overlay opened"
        );
        Ok(Some(overlay))
    }
}
