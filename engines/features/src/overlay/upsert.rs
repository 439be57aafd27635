//! One upsert: what is written, checked before it waits for the log, and how it ends.
//!
//! Not how it is written (`commit`). Invariant: an upsert that was made fits its table's rows and one record of the log.

use std::sync::Arc;

use millpond_wal::{Durability, QueueError, Work};

use super::folded::{Folded, Settled};
use super::record::{UPSERT_BYTES_MAX, layout_of};
use super::stamp::Stamp;
use super::stored::{self, VARYING, row_bytes_of};
use crate::error::Error;
use crate::rows::{self, Reader};
use crate::schema::{NotFinite, Numbers, ROW_BYTES_MAX, Schema};
use crate::table::Table;

/// Where columns lie in a row: offset and length of each.
pub(super) type Parts = Vec<(usize, usize)>;

/// Rows that are written, and keys that are removed behind them: all of it or nothing.
#[derive(Debug)]
pub struct Upsert {
    pub(super) keys: Vec<u64>,
    /// As stored: whole rows, or `parts` of them.
    pub(super) rows: Vec<u8>,
    /// Where the bytes of a row go where it does not have all columns.
    pub(super) parts: Option<Parts>,
    pub(super) remove: Vec<u64>,
    /// Of one that goes to several servers.
    pub(super) stamp: Stamp,
    /// What a row is that has only some columns here; the version that served when the call came.
    pub(super) base: Arc<Table>,
}

/// An upsert that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upserted {
    /// Counts upserts of the table, from 1; lookups say up to which they see them.
    pub sequence: u64,
    /// What it has survived to.
    pub durability: Durability,
    /// Of a stamped upsert: the highest stamp of a row that is newer than its own and stays in its place; else none.
    pub newer: Stamp,
}

/// Why an upsert was not acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UpsertError {
    /// Fresh rows may take no more memory. Nothing was written.
    #[error(
        "the overlay is full: its rows take {bytes} bytes of memory, the upsert needs {more} more, and {max} are allowed; raise \
         bytes_max, {}",
        way_out(*can_be_folded)
    )]
    Full {
        /// What its rows take now.
        bytes: u64,
        /// What the upsert would add.
        more: u64,
        /// The limit.
        max: u64,
        /// Whether there is a log.
        can_be_folded: bool,
    },
    /// The queue before the log is full or closed, or the log thread ended.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The log could not be written, and nothing of the upsert will be found.
    #[error(transparent)]
    Storage(Arc<millpond_wal::Error>),
    /// The log failed, and what was written of the upsert could not be cut off: it may be found after a restart.
    #[error("the outcome of the upsert is unknown: {0}")]
    OutcomeUnknown(Arc<millpond_wal::Error>),
    /// The columns that the upsert does not have cannot be read from the version that served. Nothing was written.
    #[error("the row's other columns cannot be read: {0}")]
    Base(Arc<Error>),
    /// An earlier failure ended the writing of the log.
    #[error("upsert refused: {0}")]
    ReadOnly(Arc<millpond_wal::Error>),
}

fn way_out(can_be_folded: bool) -> &'static str {
    match can_be_folded {
        true => "or fold them into a version (`millpond features fold`) and activate it",
        false => "or have rows show for a shorter time (ttl_ms)",
    }
}

impl Upsert {
    /// An upsert of `values`, a row of all named columns for each key (of all the table's where none is named), and of keys to
    /// remove.
    ///
    /// # Errors
    /// [`Error::Argument`] names what does not fit, [`Error::NotFinite`] the number that the table's schema refuses;
    /// [`Error::TooLarge`] is for a call of more than [`UPSERT_BYTES_MAX`] bytes.
    pub fn new(
        base: &Arc<Table>,
        keys: Vec<u64>,
        columns: &[impl AsRef<str>],
        values: &[f32],
        remove: Vec<u64>,
    ) -> Result<Upsert, Error> {
        let schema = base.schema();
        let (named, parts) = named(schema, columns)?;
        if let Some(column) = named.bytes_column().filter(|_| !keys.is_empty()) {
            let expected = format!("none, because column {:?} holds bytes; send `rows`", column.name);
            return Err(Error::argument(
                "values",
                expected,
                format!("{} numbers", values.len()),
            ));
        }
        let rows_bytes = keys.len().saturating_mul(schema.row_bytes());
        check_size((&keys, &remove), rows_bytes)?;
        let dim = named.dim();
        if values.len() != keys.len().saturating_mul(dim) {
            let expected = format!("{dim} for each of {} keys", keys.len());
            return Err(Error::argument(
                "values",
                expected,
                format!("{} numbers", values.len()),
            ));
        }
        let mut stored = Vec::with_capacity(keys.len() * named.row_bytes());
        for (&key, row) in keys.iter().zip(values.chunks_exact(dim.max(1))) {
            rows::encode(&named, row, &mut stored).map_err(|unfit| unfit.of(key))?;
        }
        Ok(Upsert {
            keys,
            rows: stored,
            parts,
            remove,
            stamp: Stamp::default(),
            base: Arc::clone(base),
        })
    }

    /// An upsert of rows as they are stored, of all named columns or all the table's: where rows vary in length, `offsets` says where each one
    /// begins and the last ends in `rows`, as a lookup answers them.
    ///
    /// # Errors
    /// As [`Upsert::new`].
    pub fn of_bytes(
        base: &Arc<Table>,
        keys: Vec<u64>,
        columns: &[impl AsRef<str>],
        (rows, offsets): (&[u8], Option<&[u32]>),
        remove: Vec<u64>,
    ) -> Result<Upsert, Error> {
        let schema = base.schema();
        let (named, parts) = named(schema, columns)?;
        let row_bytes = row_bytes_of(schema);
        let rows_bytes = match row_bytes {
            VARYING => rows
                .len()
                .saturating_add(keys.len().saturating_mul(stored::LENGTH_BYTES)),
            row_bytes => keys.len().saturating_mul(row_bytes),
        };
        check_size((&keys, &remove), rows_bytes)?;
        let stored = match (row_bytes, offsets) {
            (VARYING, offsets) => framed(keys.len(), offsets.unwrap_or_default(), rows)?,
            (_, Some(_)) => {
                let found = "some of a table whose rows do not vary in length";
                return Err(Error::argument("offsets", "none", found));
            }
            (_, None) => {
                let row_bytes = named.row_bytes();
                if rows.len() != keys.len().saturating_mul(row_bytes) {
                    let expected = format!("{row_bytes} bytes for each of {} keys", keys.len());
                    return Err(Error::argument("rows", expected, format!("{} bytes", rows.len())));
                }
                check_numbers(&named, &keys, rows)?;
                rows.to_vec()
            }
        };
        Ok(Upsert {
            keys,
            rows: stored,
            parts: parts.filter(|_| row_bytes != VARYING),
            remove,
            stamp: Stamp::default(),
            base: Arc::clone(base),
        })
    }

    /// An upsert of rows as another server has them stored: a row for each of the first keys, and removals of the others.
    ///
    /// # Errors
    /// [`Error::Argument`]: the other server stores its rows in another way, or it is not whole.
    pub fn of_stored(
        base: &Arc<Table>,
        layout: u64,
        mut keys: Vec<u64>,
        rows: Vec<u8>,
        stamp: Stamp,
    ) -> Result<Upsert, Error> {
        let own = layout_of(base.schema());
        if layout != own {
            return Err(Error::argument(
                "layout",
                format!("{own:#018x}, the columns of version {}", base.version()),
                format!("{layout:#018x}"),
            ));
        }
        let row_bytes = row_bytes_of(base.schema());
        let bytes = rows.len().saturating_add(keys.len().saturating_mul(8));
        let count = stored::count(row_bytes, &rows).filter(|count| *count <= keys.len() as u64);
        let Some(count) = count.filter(|_| bytes <= UPSERT_BYTES_MAX) else {
            return Err(Error::argument(
                "rows",
                format!("{} of at most {} keys", base.schema().describe_row(), keys.len()),
                format!("{} bytes", rows.len()),
            ));
        };
        let remove = keys.split_off(count as usize);
        Ok(Upsert {
            keys,
            rows,
            parts: None,
            remove,
            stamp,
            base: Arc::clone(base),
        })
    }

    /// The same with the stamp that all servers give it.
    #[must_use]
    pub fn stamped(mut self, stamp: Stamp) -> Upsert {
        self.stamp = stamp;
        self
    }
}

fn check_size((keys, remove): (&[u64], &[u64]), rows_bytes: usize) -> Result<(), Error> {
    if keys.is_empty() && remove.is_empty() {
        let expected = "at least one key, or one to remove";
        return Err(Error::argument("keys", expected, "none"));
    }
    let bytes = rows_bytes.saturating_add((keys.len() + remove.len()).saturating_mul(8));
    match bytes > UPSERT_BYTES_MAX {
        true => Err(Error::TooLarge {
            bytes,
            max: UPSERT_BYTES_MAX,
        }),
        false => Ok(()),
    }
}

/// Rows that vary in length, each behind its own length.
fn framed(keys: usize, offsets: &[u32], bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let wrong = |expected: String, found: String| Error::argument("offsets", expected, found);
    if offsets.len() != keys + 1 && !(keys == 0 && offsets.is_empty()) {
        let expected = format!(
            "{}: where each of {keys} rows begins, and where the last ends",
            keys + 1
        );
        return Err(wrong(expected, offsets.len().to_string()));
    }
    let (first, last) = (offsets.first().copied(), offsets.last().copied());
    if first.unwrap_or_default() != 0 || last.unwrap_or_default() as usize != bytes.len() {
        let expected = format!("0 first and {}, the bytes of `rows`, last", bytes.len());
        return Err(wrong(expected, format!("{first:?} and {last:?}")));
    }
    let mut rows = Vec::with_capacity(bytes.len() + keys * stored::LENGTH_BYTES);
    for pair in offsets.array_windows::<2>() {
        let row = bytes.get(pair[0] as usize..pair[1] as usize);
        let Some(row) = row.filter(|row| row.len() <= ROW_BYTES_MAX) else {
            let expected = format!("ascending, and at most {ROW_BYTES_MAX} bytes a row");
            return Err(wrong(expected, format!("{} before {}", pair[0], pair[1])));
        };
        stored::push(VARYING, row, &mut rows);
    }
    Ok(rows)
}

/// What a writer of numbers would refuse: NaN and infinities where the schema does, and in scales.
fn check_numbers(named: &Schema, keys: &[u64], rows: &[u8]) -> Result<(), Error> {
    let (is_refused, reader) = (named.not_finite == NotFinite::Refused, Reader::new(named));
    let columns = || {
        named
            .columns
            .iter()
            .flat_map(|column| std::iter::repeat_n(column, column.dim))
    };
    if !columns().any(|column| is_refused || column.numbers == Numbers::I8Scaled) {
        return Ok(());
    }
    let mut numbers = vec![0.0; named.dim()];
    for (&key, row) in keys.iter().zip(rows.chunks_exact(named.row_bytes().max(1))) {
        reader.copy(row, &mut numbers);
        for (position, (&value, column)) in numbers.iter().zip(columns()).enumerate() {
            if !value.is_finite() && (is_refused || column.numbers == Numbers::I8Scaled) {
                return Err(Error::NotFinite { key, position, value });
            }
        }
    }
    Ok(())
}

/// The schema of the named columns alone, and where they lie in a row; nothing where they are the whole row.
fn named(schema: &Schema, names: &[impl AsRef<str>]) -> Result<(Schema, Option<Parts>), Error> {
    if names.is_empty() {
        return Ok((schema.clone(), None));
    }
    let (mut columns, mut parts) = (Vec::new(), Vec::new());
    for (column, offset) in schema.select(names)? {
        columns.push(column.clone());
        parts.push((offset, column.bytes()));
    }
    let named = Schema {
        columns,
        default_row: None,
        ..schema.clone()
    };
    Ok((named, Some(parts)))
}

/// What the log thread is asked to do.
pub(super) enum Job {
    Upsert(Upsert),
    /// What the versions have that are open.
    Folded(Folded),
    /// What the other replicas have.
    Settled(Settled),
}

impl Work for Job {
    type Outcome = Upserted;
    type Error = UpsertError;

    fn bytes(&self) -> usize {
        match self {
            // Rows of some columns are made whole before they are written, by the group.
            Job::Upsert(upsert) => {
                let rows = upsert.keys.len().saturating_mul(upsert.base.schema().row_bytes());
                128 + rows.max(upsert.rows.len()) + (upsert.keys.len() + upsert.remove.len()) * 8
            }
            Job::Folded(_) | Job::Settled(_) => 128,
        }
    }
}
