//! From input files to a version of a table.
//!
//! Knows no format. Its invariant: rows reach the writer in the order of the inputs, so that what is built follows from them alone.

mod rows;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use millpond_engines_features as features;
use millpond_engines_features::write::{Duplicates, MEMORY_BYTES, Position, Summary, Writer};
use millpond_engines_features::{Column, Keys, NotFinite, Numbers, Schema, Table};

use crate::error::{Error, Problem};
use crate::held::{self, Held};
use crate::input::{Block, Format, Given, Input, Source, VECTOR, Wanted, expand};
use crate::next_version;
use rows::Rows;

/// What to build from what.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// The input, in the order in which it is read: files, patterns such as `part-*.parquet`, pairs `keys.npy,rows.npy`. A delta that
    /// only removes has none.
    pub inputs: Vec<String>,
    /// Rows in memory, read before the inputs.
    pub given: Vec<Given>,
    /// The format of all inputs; that which the name of each tells, where it is not said.
    pub format: Option<&'static Format>,
    /// The folder of all tables; the version appears in `out_dir/name/`.
    pub out_dir: PathBuf,
    /// The table's name.
    pub name: String,
    /// The version's number; `None` is one more than the highest present, or 1.
    pub version: Option<u64>,
    /// The column of the keys, `key` by custom.
    pub key_column: String,
    /// What the keys are: what the first input has, or the base of a delta, where it is not said. Those of CSV are numbers then.
    pub keys: Option<Keys>,
    /// The columns of the table, in the order in which a row has them.
    pub columns: Vec<ColumnOptions>,
    /// Whether rows may hold NaN and infinities; a delta has what its base has.
    pub not_finite: NotFinite,
    /// The row that a lookup answers for keys that are not there, a number for each of all columns; zeros where it is not said. A delta
    /// has its base's.
    pub default_row: Option<Vec<f32>>,
    /// What becomes of rows that have the same key, in the order of the inputs; a removal comes behind all of them.
    pub duplicates: Duplicates,
    /// Builds a delta: what the input has is put into that version, of which everything else stays.
    pub base: Option<Base>,
    /// Input whose keys a delta removes from its base, behind all rows.
    pub remove: Vec<String>,
    /// The node that the version is for: keys that it does not hold are passed over. A delta is for the node of its base.
    pub held: Option<Held>,
    /// Rows in memory whose keys a delta removes, before those of `remove`.
    pub remove_given: Vec<Given>,
    /// Shard files, 1 to 1,024.
    pub shards: u32,
    /// Bytes of rows that are put in order at a time; fewer take more reading.
    pub memory_bytes: usize,
    /// Begins anew where a build of the same was broken off, and does not go on with that.
    pub restart: bool,
}

impl BuildOptions {
    /// Options for a table in one shard, without any input yet.
    pub fn new(out_dir: impl Into<PathBuf>, name: impl Into<String>) -> BuildOptions {
        BuildOptions {
            inputs: Vec::new(),
            given: Vec::new(),
            format: None,
            out_dir: out_dir.into(),
            name: name.into(),
            version: None,
            key_column: "key".to_owned(),
            keys: None,
            columns: vec![ColumnOptions::new(Source::Usual)],
            not_finite: NotFinite::Refused,
            default_row: None,
            duplicates: Duplicates::Refused,
            base: None,
            remove: Vec::new(),
            held: None,
            remove_given: Vec::new(),
            shards: 1,
            memory_bytes: MEMORY_BYTES,
            restart: false,
        }
    }
}

/// A column of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnOptions {
    /// Its name in the table.
    pub name: String,
    /// Where its numbers come from.
    pub source: Source,
    /// How they are stored: as 32-bit floats, or as the base of a delta has them, where it is not said.
    pub numbers: Option<Numbers>,
    /// Of [`Numbers::Bytes`]: how many bytes each row has; as many as the first has where it is not said.
    pub width: Option<usize>,
}

impl ColumnOptions {
    /// A column that is named as the one that its numbers come from, or `vector` where they come from several.
    pub fn new(source: Source) -> ColumnOptions {
        let name = match &source {
            Source::Columns(columns) if columns.len() == 1 => columns.concat(),
            _ => VECTOR.to_owned(),
        };
        ColumnOptions {
            name,
            source,
            numbers: None,
            width: None,
        }
    }

    /// How column `at` is stored, of a table or of a delta on `base`.
    fn stored(&self, at: usize, base: Option<&Table>) -> Numbers {
        let of_base = base.and_then(|base| base.schema().columns.get(at));
        let of_base = of_base.map(|column| column.numbers);
        self.numbers.or(of_base).unwrap_or(Numbers::F32)
    }
}

/// The version that a delta changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The highest there is.
    Newest,
    /// This one.
    Version(u64),
}

/// How far a build is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Rows read so far.
    pub rows: u64,
    /// How much of the input was read, from 0 to 1.
    pub share: f64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {:.0} % of the input", self.rows, self.share * 100.0)
    }
}

/// Builds a version of a table. `progress` is called every few thousand rows.
///
/// # Errors
/// Every case of [`Error`]; no version appears then, and no other is touched.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(Progress)) -> Result<Summary, Error> {
    let inputs = all(&options.given, &options.inputs, options.format)?;
    let remove = all(&options.remove_given, &options.remove, options.format)?;
    let base = options.base.map(|base| open_base(options, base)).transpose()?;
    let sources: Vec<&Source> = options.columns.iter().map(|column| &column.source).collect();
    let stored = (0..).zip(&options.columns);
    let stored = stored.map(|(at, column)| column.stored(at, base.as_deref()));
    let stored: Vec<Numbers> = stored.collect();
    let bytes: Vec<bool> = stored.iter().map(|numbers| numbers.is_bytes()).collect();
    let keys = options.keys.as_ref().or(base.as_deref().map(Table::keys));
    let wanted = Wanted {
        key: &options.key_column,
        keys,
        sources: &sources,
        bytes: &bytes,
        not_finite: base
            .as_deref()
            .map_or(options.not_finite, |base| base.schema().not_finite),
    };
    let identity = identity(options, &inputs, &remove);
    let mut rows = Rows::new(options, base.clone(), stored, identity.clone());
    each_block(&inputs, &wanted, progress, &mut |input, block, at| {
        rows.add_block(input, block, at)
    })?;
    let mut writer = match rows.writer {
        Some(writer) => writer,
        // A delta may only remove; its columns are its base's.
        None if base.is_some() && !remove.is_empty() => {
            create(options, base.clone(), None, &[], identity.as_deref())?
        }
        None => return Err(empty(&inputs)),
    };
    let input = inputs.len() as u64;
    writer.reached(Position { input, row: 0 }, true)?;
    let keys = writer.schema().keys.clone();
    let keys_alone = Wanted {
        keys: Some(&keys),
        sources: &[],
        bytes: &[],
        ..wanted
    };
    each_block(&remove, &keys_alone, &mut |_| {}, &mut |_, block, at| {
        let removed = (0..block.keys.len()).try_for_each(|at| {
            if !is_held(options, block, at) {
                return Ok(());
            }
            let removed = match (block.text(at), block.keys.get(at)) {
                (Some(text), _) => writer.remove_text(text),
                (None, key) => writer.remove(key.copied().unwrap_or_default()),
            };
            removed.map(drop).map_err(Error::from)
        });
        removed.map(|()| at)
    })?;
    writer.finish().map_err(|error| match error {
        features::Error::DuplicateKey { key } => {
            let all: Vec<Input> = inputs.iter().chain(&remove).cloned().collect();
            duplicate(&all, &keys_alone, key)
        }
        other => other.into(),
    })
}

/// Whether the version is to have the key of row `at`; of a text, its hash decides.
fn is_held(options: &BuildOptions, block: &Block, at: usize) -> bool {
    let key = block.keys.get(at).copied().unwrap_or_default();
    options.held.as_ref().is_none_or(|held| held.holds(key))
}

/// Rows in memory, and behind them the files.
fn all(given: &[Given], inputs: &[String], format: Option<&'static Format>) -> Result<Vec<Input>, Error> {
    let mut all: Vec<Input> = given.iter().map(Given::input).collect();
    all.extend(expand(inputs, format)?);
    Ok(all)
}

/// Visits the blocks of all inputs, in their order, each with the place of its first row. What is before the place that the visitor
/// returns needs no visit.
fn each_block(
    inputs: &[Input],
    wanted: &Wanted<'_>,
    progress: &mut dyn FnMut(Progress),
    visit: &mut dyn FnMut(&Input, &Block, Position) -> Result<Position, Error>,
) -> Result<(), Error> {
    let bytes_total: u64 = inputs.iter().map(|input| input.bytes).sum();
    let (mut block, mut rows, mut bytes) = (Block::default(), 0, 0);
    block.not_finite = wanted.not_finite;
    block.bytes = wanted.bytes.to_vec();
    let mut is_text = wanted.keys.map(|keys| match keys {
        Keys::U64 => false,
        Keys::Text { slot } => {
            block.slot.clone_from(slot);
            true
        }
    });
    let mut from = Position::default();
    for (number, input) in (0..).zip(inputs) {
        let mut at = Position {
            input: number,
            row: 0,
        };
        let mut reader = input.open(wanted)?;
        while from.input <= number && reader.read(&mut block)? {
            if block.is_text() != *is_text.get_or_insert(block.is_text()) {
                return Err(other_kind(input, wanted.key, &block));
            }
            from = visit(input, &block, at)?;
            let mut taken = block.keys.len() as u64;
            if from.input == number {
                taken += reader.skip(from.row.saturating_sub(at.row + taken))?;
            }
            rows += taken;
            at.row += taken;
            let read = bytes as f64 + reader.share() * input.bytes as f64;
            let share = (read / bytes_total.max(1) as f64).min(1.0);
            progress(Progress { rows, share });
        }
        bytes += input.bytes;
    }
    Ok(())
}

/// The error for texts among numbers, or numbers among texts.
fn other_kind(input: &Input, key_column: &str, block: &Block) -> Error {
    let problem = match (block.text(0), block.keys.first()) {
        (Some(text), _) => Problem::KeyKind {
            expected: "a number",
            found: format!("{text:?}"),
        },
        (None, key) => Problem::KeyKind {
            expected: "a text",
            found: key.copied().unwrap_or_default().to_string(),
        },
    };
    input.bad(block.place(0), key_column, problem)
}

/// Reads the inputs again, those of removals behind the others, for the second row that has a key.
fn duplicate(inputs: &[Input], wanted: &Wanted<'_>, key: u64) -> Error {
    let mut first: Option<String> = None;
    let found = each_block(inputs, wanted, &mut |_| {}, &mut |input, block, position| {
        for at in (0..block.keys.len()).filter(|&at| block.keys.get(at) == Some(&key)) {
            let place = block.place(at);
            if let Some(first) = first.take() {
                let text = block.text(at).map(|text| format!("{text:?}"));
                let key = text.unwrap_or(key.to_string());
                return Err(input.bad(place, wanted.key, Problem::DuplicateKey { key, first }));
            }
            first = Some(match inputs {
                [_] => place.to_string(),
                _ => format!("{}, {place}", input.path.display()),
            });
        }
        Ok(position)
    });
    // A file that changed meanwhile has no such row any more, and some rows in memory can be read but once.
    found
        .err()
        .filter(|error| !matches!(error, Error::Stream { .. }))
        .unwrap_or(Error::Table(features::Error::DuplicateKey { key }))
}

fn empty(inputs: &[Input]) -> Error {
    let path = inputs.first().map(|input| input.path.clone());
    Error::Empty {
        path: path.unwrap_or_default(),
    }
}

/// The version that a delta changes.
fn open_base(options: &BuildOptions, base: Base) -> Result<Arc<Table>, Error> {
    let version = match base {
        Base::Newest => None,
        Base::Version(version) => Some(version),
    };
    let base = Table::open_version(&options.out_dir.join(&options.name), version)?;
    if options.default_row.is_some() && options.default_row != base.schema().default_row {
        return Err(Error::Base {
            path: base.path().to_path_buf(),
            problem: "its default row is another; a delta has its base's, so leave it out".to_owned(),
        });
    }
    held::check_base(options.held.as_ref(), &base)?;
    match &options.keys {
        Some(keys) if keys != base.keys() => Err(Error::Base {
            path: base.path().to_path_buf(),
            problem: format!("its keys are {}; those of the delta, {keys}", base.keys()),
        }),
        _ => Ok(Arc::new(base)),
    }
}

/// Begins the version, or goes on with the one of the same identity that was broken off; `dims` are the numbers of each column, none where
/// a delta only removes.
fn create(
    options: &BuildOptions,
    base: Option<Arc<Table>>,
    keys: Option<Keys>,
    dims: &[usize],
    identity: Option<&str>,
) -> Result<Writer, Error> {
    let table_dir = &options.out_dir.join(&options.name);
    let version = options.version.map_or_else(|| next_version(table_dir), Ok)?;
    let writer = match base {
        Some(base) => {
            check_base(options, &base, dims)?;
            Writer::create_delta(table_dir, version, base, options.shards)?
        }
        None => {
            let columns = options.columns.iter().zip(dims).map(|(column, &dim)| Column {
                name: column.name.clone(),
                numbers: column.numbers.unwrap_or(Numbers::F32),
                dim,
            });
            let schema = Schema {
                keys: keys.unwrap_or_default(),
                columns: columns.collect(),
                not_finite: options.not_finite,
                default_row: options.default_row.clone(),
            };
            let share = options.held.as_ref().map(|held| held.share().clone());
            Writer::create(table_dir, &options.name, version, schema, options.shards)?.node(share)
        }
    };
    let removed = options.remove.iter().map(|input| format!("--remove {input}"));
    let given = options.given.iter().map(|given| format!("{given:?}"));
    let source: Vec<String> = given
        .chain(options.inputs.iter().cloned())
        .chain(removed)
        .collect();
    let writer = writer
        .source(source.join(" "))
        .duplicates(options.duplicates)
        .memory_bytes(options.memory_bytes);
    Ok(match identity {
        Some(identity) => writer.resumable(identity, options.restart)?,
        None => writer,
    })
}

/// What tells the rows of a build from those of any other: the inputs and what is read of them. None where that cannot be told, as of rows
/// in memory.
fn identity(options: &BuildOptions, inputs: &[Input], remove: &[Input]) -> Option<String> {
    let stamps = |inputs: &[Input]| inputs.iter().map(Input::stamp).collect::<Option<Vec<_>>>();
    let (inputs, remove) = (stamps(inputs)?, stamps(remove)?);
    let held = options.held.as_ref().map(Held::share);
    Some(format!(
        "inputs {inputs:?}\nremove {remove:?}\nkey column {:?}\nkeys {:?}\ncolumns {:?}\nheld {held:?}",
        options.key_column, options.keys, options.columns
    ))
}

/// A delta has the columns of its base.
fn check_base(options: &BuildOptions, base: &Table, dims: &[usize]) -> Result<(), Error> {
    // A delta that only removes has no row that says how long it is.
    if dims.is_empty() {
        return Ok(());
    }
    let there = &base.schema().columns;
    let wanted: Vec<Column> = (0..)
        .zip(options.columns.iter().zip(dims))
        .map(|(at, (column, &dim)): (usize, _)| Column {
            name: column.name.clone(),
            numbers: column.stored(at, Some(base)),
            dim,
        })
        .collect();
    if &wanted == there {
        return Ok(());
    }
    let shown = |columns: &[Column]| {
        let columns = columns
            .iter()
            .map(|column| format!("{:?}, {} of {}", column.name, column.dim, column.numbers.as_str()));
        columns.collect::<Vec<_>>().join("; ")
    };
    Err(Error::Base {
        path: base.path().to_path_buf(),
        problem: format!(
            "its columns are {}, those of the delta {}",
            shown(there),
            shown(&wanted)
        ),
    })
}
