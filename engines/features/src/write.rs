//! Writes a version folder: rows in, an immutable version out.
//!
//! Not an updater: a version that has its name is never touched again. Invariant: the version's name appears only when
//! everything under it is synced, and so are the folders that new ones were made in; whatever fails before leaves no version
//! and no folder of one.

mod abandoned;
pub(crate) mod arrange;
mod behind;
mod buckets;
mod cells;
mod compact;
mod finish;
mod gather;
mod incoming;
mod journal;
mod pilots;
mod removals;
mod resume;
mod section;
mod shard;
mod texts;
mod unfinished;
mod varying;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::Error;
use crate::hash::{hash, shard_of};
use crate::header::{KEY_BYTES, SHARDS_MAX};
use crate::node_share::NodeShare;
use crate::overlay::Folded;
use crate::rows;
use crate::schema::{Keys, NotFinite, ROW_BYTES_MAX, Schema, check_name};
use crate::table::{LAYERS_MAX, Table};
use crate::versions::folder;
pub use abandoned::{Abandoned, remove_abandoned};
pub use compact::compact;
use journal::Journal;
pub use journal::Position;
pub use resume::Resumed;
use shard::ShardWriter;
pub use texts::TEXT_BYTES_MAX;
use unfinished::{Unfinished, exists, make_dir};

/// Bytes of rows that are put in order at a time, where nothing else is said.
pub const MEMORY_BYTES: usize = 1 << 30;
/// Of rows on their way to the files of all shards.
const BUFFERS_BYTES: usize = 16 << 20;
/// The part of the memory that rows may take as they come.
const KEPT: (usize, usize) = (9, 19);

/// What becomes of rows that have the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// The version is refused.
    #[default]
    Refused,
    /// The row that was pushed first stays.
    First,
    /// The row that was pushed last stays.
    Last,
}

impl Duplicates {
    /// Every kind, by its name on the command line.
    pub const ALL: [(&'static str, Duplicates); 3] = [
        ("error", Duplicates::Refused),
        ("first", Duplicates::First),
        ("last", Duplicates::Last),
    ];
}

/// Writes one version of a table.
///
/// Rows are kept as they come, in memory where about half of what it may take has room for all, else on disk, and are written in the
/// order of their slots when all are there. Up to 24 bytes a row or removal stay in memory; a writer that is dropped before it
/// has finished removes what it wrote.
pub struct Writer {
    table_dir: PathBuf,
    name: String,
    version: u64,
    schema: Schema,
    /// Of a delta: the version that it changes.
    base: Option<Arc<Table>>,
    duplicates: Duplicates,
    source: String,
    node: Option<NodeShare>,
    folded: Option<Folded>,
    oldest_base: Option<u64>,
    created_unix_s: u64,
    memory_bytes: usize,
    /// Bytes of rows in memory; none once they are in files.
    kept_bytes: Option<usize>,
    /// Where the files are until they are whole.
    unfinished: Unfinished,
    /// There for its lock alone, unless a later writer can go on with the version; gone once the version is whole.
    journal: Option<Journal>,
    /// Up to where the rows of the inputs are in files, as the journal says.
    position: Position,
    /// Rows so far, and bytes of them since the journal's last line.
    rows: u64,
    bytes_since: usize,
    resumed: Option<Resumed>,
    /// By number.
    shards: Vec<ShardWriter>,
    /// The bytes of the row at hand.
    row: Vec<u8>,
    /// After a failed write a shard has lost a row.
    failed: bool,
}

/// A finished version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The version's folder.
    pub path: PathBuf,
    /// The table's name.
    pub name: String,
    /// The version's number.
    pub version: u64,
    /// Numbers in a row.
    pub dim: usize,
    /// What a row has, for people.
    each: String,
    /// Rows in all shards.
    pub rows: u64,
    /// Shard files.
    pub shards: u32,
    /// Length of all shard files together.
    pub bytes: u64,
    /// What it has of a build that was broken off.
    pub resumed: Option<Resumed>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table {} version {}: {} rows of {} in {} shard(s), {} bytes, in {}",
            self.name,
            self.version,
            self.rows,
            self.each,
            self.shards,
            self.bytes,
            self.path.display()
        )
    }
}

impl Writer {
    /// Begins version `version` in `table_dir`, which is made if it is absent.
    ///
    /// # Errors
    /// [`Error::Argument`] for a name, schema or number of shards (1 to 1,024) outside the limits,
    /// [`Error::VersionExists`], [`Error::Io`].
    pub fn create(
        table_dir: &Path,
        name: &str,
        version: u64,
        schema: Schema,
        shards: u32,
    ) -> Result<Writer, Error> {
        Writer::begin(table_dir, name, version, schema, None, shards)
    }

    /// Begins version `version` as a delta on `base`, which must stand in `table_dir`: rows that are pushed replace those of
    /// the same keys there or add to them, and keys may be removed. The base is read once, to verify it, and not copied.
    ///
    /// # Errors
    /// [`Error::Argument`] for a version that is not above the base's, a chain of more than [`LAYERS_MAX`] versions, or a
    /// number of shards (1 to 1,024) outside the limits; [`Error::Base`] where another base or none stands there;
    /// [`Error::Damaged`], because the base is read whole; [`Error::VersionExists`], [`Error::Io`].
    pub fn create_delta(
        table_dir: &Path,
        version: u64,
        base: Arc<Table>,
        shards: u32,
    ) -> Result<Writer, Error> {
        if version <= base.version() {
            let expected = format!("above its base's, {}", base.version());
            return Err(Error::argument("version of a delta", expected, version));
        }
        if base.chain().len() == LAYERS_MAX {
            let expected = format!(
                "at most {LAYERS_MAX} versions on each other (compact them with `millpond features build --compact`)"
            );
            return Err(Error::argument("base", expected, format!("{:?}", base.chain())));
        }
        base.check_stands_in(table_dir)?;
        // What it has of a key decides what the delta says.
        base.verify()?;
        let (name, schema) = (base.name().to_owned(), base.schema().clone());
        Writer::begin(table_dir, &name, version, schema, Some(base), shards)
    }

    fn begin(
        table_dir: &Path,
        name: &str,
        version: u64,
        schema: Schema,
        base: Option<Arc<Table>>,
        shards: u32,
    ) -> Result<Writer, Error> {
        check_name("name", name)?;
        schema.check()?;
        if shards == 0 || shards > SHARDS_MAX {
            return Err(Error::argument("shards", format!("1 to {SHARDS_MAX}"), shards));
        }
        let (unfinished, journal) = loop {
            let is_new = make_dir(table_dir)?;
            if table_dir.join(folder(version)).exists() {
                return Err(exists(table_dir, version));
            }
            let unfinished = Unfinished::create(table_dir, version, is_new)?;
            match Journal::create(&unfinished.path) {
                // Another writer took it for a dead one's, as it was not locked yet.
                Err(_) if !unfinished.path.exists() => {}
                made => break (unfinished, made?),
            }
        };
        let buffer_bytes = BUFFERS_BYTES / shards as usize;
        let shards = (0..shards).map(|number| ShardWriter::new(&unfinished.path, number, buffer_bytes));
        let shards = shards.collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Ok(Writer {
            table_dir: table_dir.to_path_buf(),
            name: name.to_owned(),
            version,
            row: Vec::with_capacity(schema.row_bytes()),
            schema,
            node: base.as_ref().and_then(|base| base.node().cloned()),
            base,
            duplicates: Duplicates::Refused,
            source: String::new(),
            folded: None,
            oldest_base: None,
            created_unix_s: source_date().unwrap_or(now.map_or(0, |now| now.as_secs())),
            memory_bytes: MEMORY_BYTES,
            kept_bytes: Some(0),
            unfinished,
            journal: Some(journal),
            position: Position::default(),
            rows: 0,
            bytes_since: 0,
            resumed: None,
            shards,
            failed: false,
        })
    }

    /// The columns of its rows, and what its keys are.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Says what the version is built from, for people.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Writer {
        self.source = source.into();
        self
    }

    /// Says that the version has the keys of one node alone; a delta is for the node of its base.
    #[must_use]
    pub fn node(mut self, node: Option<NodeShare>) -> Writer {
        self.node = node;
        self
    }

    /// Says up to where the version has what was upserted to an overlay.
    #[must_use]
    pub(crate) fn folded(mut self, folded: Folded) -> Writer {
        self.folded = Some(folded);
        self
    }

    /// Says at which version the chain ends that this is a compaction of.
    #[must_use]
    pub(crate) fn oldest_base(mut self, version: u64) -> Writer {
        self.oldest_base = Some(version);
        self
    }

    /// Adds a row as it is stored.
    pub(crate) fn push_stored(&mut self, key: u64, row: &[u8]) -> Result<(), Error> {
        self.row.clear();
        self.row.extend_from_slice(row);
        self.push_encoded(key)
    }

    /// Removes a key, whatever it is to those who look it up.
    pub(crate) fn remove_stored(&mut self, key: u64) -> Result<bool, Error> {
        self.remove_key(key)
    }

    /// Sets when the version was made, in seconds of Unix time; `SOURCE_DATE_EPOCH`, or now, where it is not set.
    #[must_use]
    pub fn created_unix_s(mut self, created: u64) -> Writer {
        self.created_unix_s = created;
        self
    }

    /// Sets how many bytes of rows are put in order at a time ([`MEMORY_BYTES`]). Fewer take more reading.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Writer {
        self.memory_bytes = bytes;
        self
    }

    /// Sets what becomes of rows that have the same key ([`Duplicates::Refused`]). A removal counts as a row.
    #[must_use]
    pub fn duplicates(mut self, duplicates: Duplicates) -> Writer {
        self.duplicates = duplicates;
        self
    }

    /// Adds a row of as many numbers as the schema has. A key that was there before is found by [`Writer::finish`].
    ///
    /// # Errors
    /// [`Error::Dim`] and [`Error::NotFinite`] leave the writer as it was, so the caller may go on; after [`Error::Io`]
    /// it cannot be finished. [`Error::Argument`] where keys are texts.
    pub fn push(&mut self, key: u64, row: &[f32]) -> Result<(), Error> {
        self.check_number(key)?;
        self.encode(key, row)?;
        self.push_encoded(key)
    }

    /// Adds the rows of some keys, one behind another in `rows`, as [`Writer::push`] adds each.
    ///
    /// # Errors
    /// As [`Writer::push`], with the number of the row; those before it were added.
    pub fn push_rows(&mut self, keys: &[u64], rows: &[f32]) -> Result<(), (usize, Error)> {
        let dim = self.schema.dim().max(1);
        let is_even = rows.len() == keys.len() * dim && matches!(self.schema.keys, Keys::U64);
        // Without an end at the first that is not, several numbers are looked at together.
        let is_fit = || {
            let is_finite = |all: bool, number: &f32| all & number.is_finite();
            self.schema.not_finite == NotFinite::Kept || rows.iter().fold(true, is_finite)
        };
        if !(is_even && self.base.is_none() && self.schema.is_floats() && is_fit()) {
            let mut rows = keys.iter().zip(rows.chunks(dim)).enumerate();
            return rows.try_for_each(|(at, (&key, row))| self.push(key, row).map_err(|error| (at, error)));
        }
        // What is the same in all rows is not asked for of each.
        let pushed = match self.shards.as_mut_slice() {
            [only] => only.push_floats(keys, rows, dim),
            shards => {
                let count = shards.len() as u32;
                let mut rows = keys.iter().zip(rows.chunks_exact(dim)).enumerate();
                rows.try_for_each(|(at, (key, row))| {
                    let number = shard_of(hash(*key), count) as usize;
                    let pushed = shards[number].push_floats(std::slice::from_ref(key), row, dim);
                    pushed.map_err(|(_, error)| (at, error))
                })
            }
        };
        pushed.map_err(|(at, error)| (at, self.broken(error)))?;
        let kept = self.keep(keys.len(), size_of_val(rows) + size_of_val(keys));
        kept.map_err(|error| (keys.len(), self.broken(error)))
    }

    /// Adds the row of a text. That it was there before, or has the key of another text, is found by [`Writer::finish`].
    ///
    /// # Errors
    /// As [`Writer::push`]; [`Error::Argument`] for a text of more than [`TEXT_BYTES_MAX`] bytes, or where keys are numbers.
    pub fn push_text(&mut self, text: &str, row: &[f32]) -> Result<(), Error> {
        let key = self.key_of(text)?;
        self.encode(key, row)?;
        self.keep_text(key, text)?;
        self.push_encoded(key)
    }

    /// Removes the key of a delta's base; whether there is such a row. Where there is none, the removal counts against rows of
    /// the key that are pushed, as [`Writer::duplicates`] says, and takes no space in the version.
    ///
    /// # Errors
    /// [`Error::Argument`] where this is no delta or keys are texts; [`Error::Io`].
    pub fn remove(&mut self, key: u64) -> Result<bool, Error> {
        self.check_number(key)?;
        self.remove_key(key)
    }

    /// Removes the key of a text, as [`Writer::remove`].
    ///
    /// # Errors
    /// As [`Writer::remove`]; [`Error::Argument`] for a text that is too long, or where keys are numbers.
    pub fn remove_text(&mut self, text: &str) -> Result<bool, Error> {
        let key = self.key_of(text)?;
        if self.base.is_some() {
            self.keep_text(key, text)?;
        }
        self.remove_key(key)
    }

    fn check_number(&self, key: u64) -> Result<(), Error> {
        match self.schema.keys {
            Keys::U64 => Ok(()),
            Keys::Text { .. } => Err(Error::argument("key", "a text, as the table has", key)),
        }
    }

    fn key_of(&self, text: &str) -> Result<u64, Error> {
        let key = self.schema.keys.of_text(text);
        key.ok_or_else(|| Error::argument("key", "a number, as the table has", format!("{text:?}")))
    }

    fn keep_text(&mut self, key: u64, text: &str) -> Result<(), Error> {
        let number = shard_of(hash(key), self.shards.len() as u32) as usize;
        let Keys::Text { slot } = &self.schema.keys else {
            return Ok(());
        };
        let kept = self.shards[number].push_text(slot, text);
        kept.map_err(|error| match error {
            error @ Error::Io { .. } => self.broken(error),
            error => error,
        })
    }

    /// Leaves the bytes of a row at hand.
    fn encode(&mut self, key: u64, row: &[f32]) -> Result<(), Error> {
        let dim = match self.schema.is_varying() {
            true => row.len().min(ROW_BYTES_MAX),
            false => self.schema.dim(),
        };
        if row.len() != dim {
            return Err(Error::Dim {
                key,
                expected: dim,
                found: row.len(),
            });
        }
        self.row.clear();
        rows::encode(&self.schema, row, &mut self.row).map_err(|unfit| unfit.of(key))
    }

    fn remove_key(&mut self, key: u64) -> Result<bool, Error> {
        let Some(base) = &self.base else {
            let expected = "none in a version that is no delta";
            return Err(Error::argument("keys to remove", expected, key));
        };
        if !base.contains(key) {
            let number = shard_of(hash(key), self.shards.len() as u32);
            self.shards[number as usize].remove_absent(key);
            return Ok(false);
        }
        self.row.clear();
        match self.schema.is_varying() {
            true => varying::frame(&mut self.row),
            false => self.row.resize(self.schema.row_bytes(), 0),
        }
        self.row.push(1);
        self.push_slot(key)?;
        Ok(true)
    }

    /// Adds the row whose bytes are at hand.
    fn push_encoded(&mut self, key: u64) -> Result<(), Error> {
        if self.schema.is_varying() {
            varying::frame(&mut self.row);
        }
        if self.base.is_some() {
            self.row.push(0);
        }
        self.push_slot(key)
    }

    fn push_slot(&mut self, key: u64) -> Result<(), Error> {
        let number = shard_of(hash(key), self.shards.len() as u32);
        let pushed = self.shards[number as usize].push(key, &self.row);
        let kept = pushed.and_then(|()| self.keep(1, KEY_BYTES + self.row.len()));
        kept.map_err(|error| self.broken(error))
    }

    /// Counts what came; from the row on for which there is no room in memory, rows are kept in files.
    fn keep(&mut self, rows: usize, bytes: usize) -> Result<(), Error> {
        self.rows += rows as u64;
        self.bytes_since += bytes;
        let Some(kept_bytes) = &mut self.kept_bytes else {
            return Ok(());
        };
        *kept_bytes += bytes;
        // The other part is for the rows in their order, among which there are empty slots.
        if *kept_bytes <= self.memory_bytes / KEPT.1 * KEPT.0 {
            return Ok(());
        }
        self.kept_bytes = None;
        self.shards.iter_mut().try_for_each(ShardWriter::spill)
    }
}

/// When the sources of a build that is to be the same again were made (reproducible-builds.org).
fn source_date() -> Option<u64> {
    std::env::var("SOURCE_DATE_EPOCH").ok()?.parse().ok()
}
