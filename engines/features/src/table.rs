//! One opened version: a base, and the deltas on it.
//!
//! Not a cache: nothing is copied out of its shards until it is asked for. Invariant: each layer is the one that the delta
//! above it was built on, so what a lookup finds is the version that was built.

pub(crate) mod open;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::active::not_found;
use crate::counts::{Counts, LookupStart};
use crate::error::Error;
use crate::layer::{Layer, LayerEntry};
use crate::manifest::{Base, FILE, Manifest};
use crate::node_share::{HeldBuckets, NodeShare};
use crate::overlay::{Folded, View};
use crate::projection::Projection;
use crate::rows::{Reader, Row};
use crate::schema::{Keys, Schema};
use crate::shard::Shard;
use crate::versions::{folder, versions};
use millpond_metrics::{Kind, Metric};

/// A base and seven deltas: a lookup asks all of them.
pub const LAYERS_MAX: usize = 8;

/// One immutable, opened version of a table: all its shards, mapped, or in memory ([`Table::make_resident`]).
///
/// It can be shared between threads. Its files must not be changed or cut while they are mapped.
pub struct Table {
    name: String,
    format: u32,
    schema: Schema,
    /// Of all columns: how long a row of an answer is.
    dim: usize,
    /// What most answers have of it: all columns, as 32-bit floats.
    floats: Projection,
    /// What a lookup answers for a key that is not there, as a slot would have it; zeros where there is none.
    default_row: Option<Vec<u8>>,
    rows: u64,
    created_unix_s: u64,
    source: String,
    /// Where it has the keys of one node alone.
    node: Option<NodeShare>,
    held: Option<HeldBuckets>,
    /// The version's own first, its base last; never empty. Versions that have one in common may share it.
    layers: Vec<Arc<Layer>>,
    /// Fresh rows over it.
    pub(crate) view: Option<View>,
    /// Up to where it has what was upserted.
    folded: Option<Folded>,
    /// From which version on others may have what it lacks ([`Table::oldest_base`]).
    oldest_base: u64,
    /// Whether a shard is mapped, so that its file being cut would matter.
    is_mapped: bool,
    /// What lookups counted.
    counts: Counts,
}

/// What is known of a shard without reading its data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardInfo {
    /// Name of the file in the version's folder.
    pub file: String,
    /// Length of the file.
    pub bytes: u64,
    /// Rows in it.
    pub rows: u64,
    /// Slots for them.
    pub slots: u64,
}

impl Table {
    /// What a page and `*infos` have of it. Several processes map the same table.
    pub const METRICS: &'static [Metric<Table>] = &[
        Metric::gauge(
            "millpond_table_version",
            "The version served.",
            |table: &Table| table.version() as f64,
        )
        .max(),
        Metric::gauge("millpond_table_rows", "Rows of it.", |table: &Table| {
            table.rows as f64
        })
        .max()
        .info("rows"),
        Metric::gauge(
            "millpond_table_cut",
            "1 once a lookup met a mapped file that had been cut, else 0.",
            |table: &Table| f64::from(u8::from(table.check_whole().is_err())),
        )
        .max(),
    ];

    /// What a page has of each version that is open, the held ones too.
    pub const VERSION_METRICS: &'static [Metric<Table>] = &[
        Metric::counter(
            "millpond_table_keys_total",
            "Keys that this version was asked for.",
            |table: &Table| table.counts.keys() as f64,
        ),
        Metric::counter(
            "millpond_table_hits_total",
            "Keys of these that it has.",
            |table: &Table| table.counts.hits() as f64,
        ),
        Metric::counter(
            "millpond_table_misses_total",
            "Keys of these that it does not have.",
            |table: &Table| table.counts.misses() as f64,
        ),
        Metric::samples(
            "millpond_table_lookup_seconds",
            Kind::Histogram,
            "What the table took of lookups, of one in 16: from the keys to the rows, or to what is pooled of them.",
            |table: &Table, samples| samples.octave_times(&[], &table.counts.times()),
        ),
        Metric::gauge(
            "millpond_table_created_seconds",
            "When the version was written, in seconds of Unix time; 0 where it does not say.",
            |table: &Table| table.created_unix_s as f64,
        )
        .max(),
        Metric::gauge(
            "millpond_table_age_seconds",
            "Seconds since the version was written; 0 where it does not say.",
            |table: &Table| table.age_s() as f64,
        )
        .max(),
        Metric::gauge(
            "millpond_table_bytes",
            "Length of the files of the version and of those it was built on.",
            |table: &Table| table.bytes() as f64,
        )
        .max(),
        Metric::gauge(
            "millpond_table_resident_bytes",
            "Of these, what stands in memory of the server's own; the rest is mapped.",
            |table: &Table| table.resident_bytes() as f64,
        ),
    ];

    /// Opens a version in a table's folder; `None` is the highest one present.
    ///
    /// # Errors
    /// [`Error::NoVersions`], [`Error::VersionNotFound`], or as [`Table::open`].
    pub fn open_version(table_dir: &Path, version: Option<u64>) -> Result<Table, Error> {
        Table::open_beside(table_dir, version, None)
    }

    /// Opens a version as [`Table::open_version`] does, and shares what it has in common with an opened one: a base under a
    /// new delta is not read again.
    ///
    /// # Errors
    /// As [`Table::open_version`].
    pub fn open_beside(
        table_dir: &Path,
        version: Option<u64>,
        opened: Option<&Table>,
    ) -> Result<Table, Error> {
        let available = versions(table_dir)?;
        let version = version.or(available.last().copied()).unwrap_or_default();
        if !available.contains(&version) {
            return Err(not_found(table_dir, version, available));
        }
        open::open_layers(&table_dir.join(folder(version)), opened)
    }

    /// Opens the version in a folder such as `tables/embeddings/00000001`.
    ///
    /// The manifest and the shards' headers are checked, each against itself and against the other; the data is not
    /// read (see [`Table::verify`]). A delta's base must stand beside it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`] or [`Error::Format`], each with the file's name; [`Error::Base`].
    pub fn open(version_dir: &Path) -> Result<Table, Error> {
        open::open_layers(version_dir, None)
    }

    /// Reads all data and compares it with its checksums; of each file its length first.
    ///
    /// # Errors
    /// [`Error::Damaged`], naming the first shard file that differs.
    pub fn verify(&self) -> Result<(), Error> {
        self.shards().try_for_each(Shard::verify)
    }

    /// Reads every file into memory and verifies it there, so that no lookup waits for a disk, and what happens to the
    /// files later does not matter. What is shared with another version stays as that has it.
    ///
    /// # Errors
    /// As [`Table::verify`], and [`Error::Io`] where there is not enough memory.
    pub fn make_resident(&mut self) -> Result<(), Error> {
        self.own_layers()
            .flat_map(|layer| &mut layer.shards)
            .try_for_each(Shard::make_resident)?;
        let is_mapped = self.shards().any(Shard::is_mapped);
        self.is_mapped = is_mapped;
        Ok(())
    }

    /// Reads and verifies the data that it does not share with another version, where it lies.
    ///
    /// # Errors
    /// As [`Table::verify`].
    pub fn make_mapped(&mut self) -> Result<(), Error> {
        self.own_layers()
            .flat_map(|layer| &layer.shards)
            .try_for_each(Shard::verify)
    }

    fn own_layers(&mut self) -> impl Iterator<Item = &mut Layer> {
        self.layers.iter_mut().filter_map(Arc::get_mut)
    }

    /// Whether a file of it is mapped, so that a lookup may meet a place that is gone ([`Table::check_whole`]).
    pub fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// A lookup that is to be counted begins: of a few of them the time is taken.
    #[inline]
    pub fn begin(&self) -> LookupStart {
        self.counts.begin()
    }

    /// Counts a lookup: keys asked for, and found. It takes no lock.
    #[inline]
    pub fn count(&self, begun: LookupStart, keys: usize, hits: usize) {
        self.counts.add(begun, keys, hits);
    }

    /// Lets its counts begin at zero.
    pub fn forget_counts(&self) {
        self.counts.forget();
    }

    /// Seconds since it was written; 0 where it does not say, or says a time to come.
    pub fn age_s(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        match self.created_unix_s {
            0 => 0,
            created => now.saturating_sub(created),
        }
    }

    /// Length of its files, its base's among them.
    pub fn bytes(&self) -> u64 {
        self.shards().map(Shard::file_bytes).sum()
    }

    /// Bytes of these that stand in memory of this process's own. What versions share counts for each of them.
    pub fn resident_bytes(&self) -> u64 {
        let resident = self.shards().filter(|shard| !shard.is_mapped());
        resident.map(Shard::file_bytes).sum()
    }

    /// Whether what lookups have read so far was all there. A mapped file that is cut reads as zeros where it is gone;
    /// ask after a lookup, before its answer is used.
    ///
    /// # Errors
    /// [`Error::Cut`], naming the first such file; from then on always.
    #[inline]
    pub fn check_whole(&self) -> Result<(), Error> {
        if !self.is_mapped {
            return Ok(());
        }
        match self.shards().find(|shard| shard.was_cut()) {
            Some(shard) => Err(shard.cut()),
            None => Ok(()),
        }
    }

    /// Whether every mapped file is still as long as it was when it was opened; the last thing before a version is served.
    ///
    /// # Errors
    /// [`Error::Damaged`], naming the first shard file of another length; [`Error::Io`].
    pub fn check_lengths(&self) -> Result<(), Error> {
        self.shards().try_for_each(Shard::check_length)
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of this version.
    pub fn version(&self) -> u64 {
        self.layers.first().map_or(0, |layer| layer.version)
    }

    /// The versions whose files it needs: its own first, its base last.
    pub fn chain(&self) -> Vec<u64> {
        self.layers.iter().map(|layer| layer.version).collect()
    }

    /// Its columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The row of a key that is not there.
    pub(crate) fn default_row(&self) -> Option<Row<'_>> {
        self.default_row.as_deref()
    }

    /// All columns as 32-bit floats.
    pub fn floats(&self) -> &Projection {
        &self.floats
    }

    /// What its keys are to those who look them up.
    pub fn keys(&self) -> &Keys {
        &self.schema.keys
    }

    /// Numbers in a row, all columns together.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The format of its files (docs/formats).
    pub fn format(&self) -> u32 {
        self.format
    }

    /// When the version was written, in seconds of Unix time; 0 where it does not say.
    pub fn created_unix_s(&self) -> u64 {
        self.created_unix_s
    }

    /// What it was built from, for people; empty where it does not say.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The node that it was built for, where it has the keys of one alone.
    pub fn node(&self) -> Option<&NodeShare> {
        self.node.as_ref()
    }

    /// The buckets that it has, where it was built for one node.
    #[inline]
    pub fn held_buckets(&self) -> Option<&HeldBuckets> {
        self.held.as_ref()
    }

    /// Rows, without those that its deltas replaced or removed.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Up to where it has what was upserted to an overlay, if a version of its chain was folded from one.
    pub fn folded(&self) -> Option<Folded> {
        self.folded
    }

    /// The version whose sources its oldest rows are from: that at the end of its chain, or of the one that was compacted into it.
    pub(crate) fn oldest_base(&self) -> u64 {
        self.oldest_base
    }

    /// The version's folder.
    pub fn path(&self) -> &Path {
        self.layers.first().map_or(Path::new(""), |layer| &layer.path)
    }

    /// The shards of its own files, by number; those of a delta's base belong to that version.
    pub fn own_shards(&self) -> impl Iterator<Item = ShardInfo> + '_ {
        let layer = self.layers.first().into_iter();
        layer
            .flat_map(|layer| layer.entries.iter().zip(&layer.shards))
            .map(|(entry, shard)| ShardInfo {
                file: entry.file.clone(),
                bytes: entry.bytes,
                rows: entry.rows,
                slots: shard.header.places.slots,
            })
    }

    /// Whether there is a row of that key.
    pub fn contains(&self, key: u64) -> bool {
        self.row(key).is_some()
    }

    /// The row of a key, as it lies in its slot.
    pub fn row(&self, key: u64) -> Option<Row<'_>> {
        let mut said = self.layers.iter().map(|layer| layer.find(key));
        match said.find(|said| !matches!(said, LayerEntry::Nothing)) {
            Some(LayerEntry::Row(row)) => Some(row),
            _ => None,
        }
    }

    /// Writes the numbers of a row to `values`, which has [`Table::dim`] of them.
    pub fn decode(&self, row: Row<'_>, values: &mut [f32]) {
        Reader::new(&self.schema).copy(row, values);
    }

    /// Visits every row, in no order but the same each time. Of a file that is cut the rows read as zeros: ask [`Table::check_whole`] after
    /// it.
    ///
    /// # Errors
    /// What `visit` returns, which ends the visits.
    pub fn each_row<E>(&self, visit: &mut dyn FnMut(u64, Row<'_>) -> Result<(), E>) -> Result<(), E> {
        for (at, layer) in self.layers.iter().enumerate() {
            let newer = self.layers.get(..at).unwrap_or_default();
            layer.each(&mut |key, said| match said {
                LayerEntry::Row(row)
                    if newer
                        .iter()
                        .all(|newer| matches!(newer.find(key), LayerEntry::Nothing)) =>
                {
                    visit(key, row)
                }
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Its layers, its own first.
    pub(crate) fn layers(&self) -> &[Arc<Layer>] {
        &self.layers
    }

    /// How a delta on it names it.
    pub(crate) fn as_base(&self) -> Base {
        Base {
            version: self.version(),
            checksum: self
                .layers
                .first()
                .map_or(String::new(), |layer| layer.checksum.clone()),
        }
    }

    /// Whether the version of its number in that folder is this one, as far as manifests tell.
    ///
    /// # Errors
    /// [`Error::Base`] with what is there instead.
    pub fn check_stands_in(&self, table_dir: &Path) -> Result<(), Error> {
        let path = table_dir.join(folder(self.version()));
        let problem = match Manifest::read(&path) {
            Ok((_, checksum)) if checksum == self.as_base().checksum => return Ok(()),
            Ok(_) => "another version of that number stands there".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(Error::Base {
            path: table_dir.to_path_buf(),
            version: self.version(),
            problem,
        })
    }

    /// The error for a manifest whose number of rows is not that of the shards.
    pub(crate) fn miscounted(&self, found: u64) -> Error {
        Error::damaged(&self.path().join(FILE), "rows", self.rows, found)
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.layers.iter().flat_map(|layer| &layer.shards)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { dim, rows, .. } = self;
        let (path, version) = (self.path(), self.version());
        write!(
            f,
            "Table({}, version {version}, {rows} rows of {dim})",
            path.display()
        )
    }
}
