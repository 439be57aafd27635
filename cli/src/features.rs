//! `millpond features`: builds tables and deltas, says what they hold, switches and deletes versions.
//! It prints what the builder and the tables say of themselves.

mod fold;
mod held;
mod progress;
mod versions;

use clap::{Args, Subcommand};
use millpond_engines_features_build::notation::{self, Stored};
use millpond_engines_features_build::{
    Base, BuildOptions, ColumnOptions, Duplicates, Format, Keys, NotFinite, RandomOptions, Source, Summary,
    build, compact, describe_versions, diff, export, inspect, random, remove_abandoned, verify,
    version_at_start,
};
use std::path::{Path, PathBuf};

const BUILD_EXAMPLES: &str = "\
Examples:
  millpond features build --input embeddings.parquet --out tables --name embeddings
  millpond features build --input 'part-*.parquet' --input late.csv --out tables --name embeddings
  millpond features build --input items.csv --value-column price,age --out tables --name items
  millpond features build --input items.parquet --column image=embedding:f16 --column price=net,gross --out tables --name items
  millpond features build --input documents.parquet --column document=body:bytes --out tables --name documents
  millpond features build --input keys.npy,rows.npy --out tables --name embeddings
  millpond features build --input changed.parquet --remove gone.parquet --out tables --name embeddings --delta
  millpond features build --input embeddings.parquet --out tables-a --name embeddings --map map.toml --node a
  millpond features build --remove gone.parquet --out tables --name embeddings --delta
  millpond features build --compact --out tables --name embeddings";

const RANDOM_EXAMPLES: &str = "\
Examples:
  millpond features random --out tables --name items --rows 100000 --dim 16";

const INSPECT_EXAMPLES: &str = "\
Examples:
  millpond features inspect tables/embeddings
  millpond features inspect tables/embeddings/00000001";

const VERIFY_EXAMPLES: &str = "\
Examples:
  millpond features verify tables/embeddings";

const VERSIONS_EXAMPLES: &str = "\
Examples:
  millpond features versions tables/embeddings
  millpond features versions embeddings --server 127.0.0.1:13500";

const ACTIVATE_EXAMPLES: &str = "\
Examples:
  millpond features activate tables/embeddings
  millpond features activate embeddings 3 --server 127.0.0.1:13500 --token-file deploy.token";

const ROLLBACK_EXAMPLES: &str = "\
Examples:
  millpond features rollback tables/embeddings
  millpond features rollback embeddings --server 127.0.0.1:13500 --token-file deploy.token";

const DELETE_EXAMPLES: &str = "\
Examples:
  millpond features delete tables/embeddings 3
  millpond features delete embeddings 3 --server 127.0.0.1:13500 --token-file deploy.token";

const FOLD_EXAMPLES: &str = "\
Examples:
  millpond features fold tables/embeddings --log overlays/embeddings
  millpond features activate embeddings --server 127.0.0.1:13500 --token-file deploy.token";

const DIFF_EXAMPLES: &str = "\
Examples:
  millpond features diff tables/embeddings 1 2
  millpond features diff tables/embeddings 1 2 --show 100";

const EXPORT_EXAMPLES: &str = "\
Examples:
  millpond features export tables/embeddings --output embeddings.parquet
  millpond features export tables/embeddings --version 3 --output embeddings.csv";

/// What to do with a feature table.
#[derive(Subcommand)]
pub(crate) enum Features {
    /// Build a new version of a table from Parquet, Arrow, CSV, JSON lines or NPY files.
    #[command(after_help = BUILD_EXAMPLES)]
    Build(Build),
    /// Build a new version of a table from random rows, to try a server or to measure one.
    #[command(after_help = RANDOM_EXAMPLES)]
    Random(Random),
    /// Say what a table, or one version of it, holds.
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(Table),
    /// Read every byte of a table and check its checksums.
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(Table),
    /// List the versions of a table.
    #[command(after_help = VERSIONS_EXAMPLES)]
    Versions(versions::Place),
    /// Write what was upserted to a table as its next version.
    #[command(after_help = FOLD_EXAMPLES)]
    Fold(fold::Fold),
    /// Say which keys two versions of a table do not share, and which have other rows.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Diff),
    /// Write a version of a table to a Parquet, CSV or JSON lines file.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Export),
    /// Have a running server serve another version, or the next start.
    #[command(after_help = ACTIVATE_EXAMPLES)]
    Activate(versions::Activate),
    /// Go back to the version that served before; a second time undoes the first.
    #[command(after_help = ROLLBACK_EXAMPLES)]
    Rollback(versions::Place),
    /// Delete a version that is not active and that no delta stands on; a server that has it open goes on.
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(versions::Delete),
}

/// Builds the folder OUT/NAME/VERSION from a column of 64-bit keys and a column of equally long lists of numbers, or several of numbers
/// or bytes.
///
/// A delta (`--delta`, `--base`) holds what changes of an earlier version, which must stay beside it; `--compact` merges one and all
/// it was built on into a version of its own.
#[derive(Args)]
pub(crate) struct Build {
    /// A file, a pattern such as 'part-*.parquet' (its files are read in the order of their names), or two NPY files, KEYS.npy,ROWS.npy.
    /// Repeat it for more: they are read in the order given. A delta that only removes has none.
    #[arg(long, value_name = "FILES", required_unless_present_any = ["compact", "remove"])]
    input: Vec<String>,
    /// What the files are: parquet, arrow (IPC files and streams), csv, jsonl or npy; where left out, the end of each name says it.
    #[arg(long, value_parser = notation::parse_format)]
    format: Option<&'static Format>,
    /// The folder that holds tables.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The table's name.
    #[arg(long)]
    name: String,
    /// The version; the highest there is, plus one, when left out.
    #[arg(long)]
    version: Option<u64>,
    /// The column of keys: 64-bit integers, signed or unsigned, or texts. NPY has no names.
    #[arg(long, default_value = "key", value_name = "COLUMN")]
    key_column: String,
    /// What the keys are: u64, or text. Where left out, a CSV file has numbers, and others say it themselves.
    #[arg(long, value_parser = ["u64", "text"])]
    keys: Option<String>,
    /// The slot that texts are hashed in, as a pipeline's `hash` stage names it; empty when left out.
    #[arg(long, value_name = "NAME")]
    slot: Option<String>,
    /// The column of numbers or lists of them, or several with commas between, which stand behind each other in a row. Where left
    /// out: `vector`; or, in a CSV file that has no such column, all but the key's.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', requires = "input")]
    value_column: Vec<String>,
    /// A column of the table: its name; the input's columns that its numbers come from, with commas between; and how they are stored, where
    /// that is not as --type says. Repeat it for more: a row has them in that order. Bytes of any length (:bytes) are the only column of
    /// their table; those of a fixed length (:bytes:16) stand among others.
    #[arg(long, value_name = "NAME=COLUMNS[:TYPE]", conflicts_with = "value_column", requires = "input", value_parser = ColumnOptions::parse)]
    column: Vec<ColumnOptions>,
    /// How numbers are stored: f32 (the default), f16, bf16, or i8_scaled (signed bytes with one scale a row); or that there are none,
    /// but bytes of any length (bytes) or of a fixed one (bytes:16). A delta has its base's.
    #[arg(long = "type", value_name = "TYPE", requires = "input", value_parser = Stored::parse)]
    stored: Option<Stored>,
    /// Keep NaN and infinities, which are refused otherwise; a delta does as its base.
    #[arg(long, conflicts_with_all = ["delta", "base", "compact"])]
    keep_not_finite: bool,
    /// The row that lookups answer for keys that are not there, as 0.5,-1,0: a number for each of all columns, and one for each of their
    /// bytes; of bytes of any length the text itself. Zeros, or no bytes, when left out; a delta has its base's.
    #[arg(long, value_name = "ROW", allow_hyphen_values = true, conflicts_with_all = ["delta", "base", "compact"])]
    default_row: Option<String>,
    /// What becomes of rows that have the same key: error, first (the row that is read first stays) or last. A removal counts as a row
    /// behind all others.
    #[arg(long, value_name = "KEPT", default_value = "error", value_parser = notation::parse_duplicates)]
    duplicates: Duplicates,
    /// Build a delta on the highest version: the input's rows replace those of the same keys, or add to them.
    #[arg(long, conflicts_with = "base")]
    delta: bool,
    /// Build a delta on this version.
    #[arg(long, value_name = "VERSION")]
    base: Option<u64>,
    /// Files of keys that the delta removes, after all rows of --input, named as for --input; of NPY the one of keys.
    #[arg(long, value_name = "FILES")]
    remove: Vec<String>,
    /// Compact the highest version (or --base) and all it was built on into a new version.
    #[arg(long, conflicts_with_all = ["input", "format", "delta", "remove", "stored", "duplicates", "keys", "slot", "key_column", "value_column", "column", "map", "node"])]
    compact: bool,
    /// Files to spread the rows over.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: u32,
    #[command(flatten)]
    share: held::Share,
    /// Memory for putting rows in order, as 512MiB or 4GiB: less takes more reading. Up to 24 bytes a row or removal come on top.
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = notation::parse_memory)]
    memory: usize,
    /// Begin anew where the same build was killed or its disk was full, and do not go on with what that left.
    #[arg(long, conflicts_with = "compact")]
    restart: bool,
}

/// Builds the folder OUT/NAME/VERSION with the keys 0 to ROWS - 1 and floats from -1 to 1 that follow from the seed.
#[derive(Args)]
pub(crate) struct Random {
    /// The folder that holds tables.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The table's name.
    #[arg(long)]
    name: String,
    /// Rows.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Floats of a row.
    #[arg(long, default_value_t = 16)]
    dim: usize,
    /// What the rows are derived from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Files to spread the rows over.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: u32,
    /// Leave a table alone that has as many rows of as many floats.
    #[arg(long)]
    keep: bool,
}

/// A table's folder, or the folder of one version.
#[derive(Args)]
pub(crate) struct Table {
    /// The folder.
    dir: PathBuf,
}

/// Compares version TO with version FROM: counts of keys, and the lowest of each. Rows are compared by their bytes. Both versions are
/// read whole and verified.
#[derive(Args)]
pub(crate) struct Diff {
    /// The table's folder.
    dir: PathBuf,
    /// The version that is compared with.
    from: u64,
    /// The version that is compared.
    to: u64,
    /// How many keys of each kind to name at most, the lowest first.
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    show: usize,
}

/// Writes all rows of a version, its base's among them, as 32-bit floats: a column `key` of numbers, and a list for each column of the
/// table; columns of bytes as they are, in CSV and JSON lines as texts. `millpond features build` reads it. Of keys that are texts the table has the hashes, and so has the file.
#[derive(Args)]
pub(crate) struct Export {
    /// The table's folder.
    dir: PathBuf,
    /// The version; the highest there is when left out.
    #[arg(long)]
    version: Option<u64>,
    /// The file, which must not be there yet: its name ends in .parquet, .csv or .jsonl.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(features: Features) -> anyhow::Result<()> {
    match features {
        Features::Build(arguments) => crate::print(&built(arguments)?.to_string()),
        Features::Random(arguments) => {
            let options = RandomOptions {
                out_dir: arguments.out,
                name: arguments.name,
                rows: arguments.rows,
                dim: arguments.dim,
                seed: arguments.seed,
                shards: arguments.shards,
                keep: arguments.keep,
            };
            let mut shown = progress::Shown::new();
            let made = random(&options, &mut |progress| shown.show(progress));
            drop(shown);
            match made? {
                Some(summary) => crate::print(&summary.to_string()),
                None => crate::print("the table is there already, and was kept"),
            }
        }
        Features::Diff(Diff { dir, from, to, show }) => {
            crate::print(&diff(&dir, from, to, show)?.to_string());
        }
        Features::Export(Export { dir, version, output }) => {
            crate::print(&export(&dir, version, &output)?.to_string());
        }
        Features::Fold(arguments) => crate::print(&fold::folded(arguments)?),
        Features::Versions(place) => versions::list(&place)?,
        Features::Activate(arguments) => versions::activate(&arguments)?,
        Features::Rollback(place) => versions::roll_back(&place)?,
        Features::Delete(arguments) => versions::delete(&arguments)?,
        Features::Inspect(table) => crate::print(inspect(&table.dir)?.to_string().trim_end()),
        Features::Verify(table) => {
            let inspection = verify(&table.dir)?;
            crate::print(&format!(
                "{}\nevery checksum is right",
                inspection.to_string().trim_end()
            ));
        }
    }
    Ok(())
}

fn built(arguments: Build) -> anyhow::Result<Summary> {
    let Build { base, shards, .. } = arguments;
    let table_dir = arguments.out.join(&arguments.name);
    clear_abandoned(&table_dir);
    if arguments.compact {
        let version = arguments.version;
        warn_of_another(&table_dir, base, ("merges", ""));
        return Ok(compact(&table_dir, base, version, shards, arguments.memory)?);
    }
    anyhow::ensure!(
        arguments.delta || base.is_some() || arguments.remove.is_empty(),
        "--remove takes keys out of a version: say which by --delta or --base"
    );
    let newest = arguments.delta.then_some(Base::Newest);
    if arguments.delta {
        warn_of_another(&table_dir, None, ("changes", " in place of --delta"));
    }
    let mut columns = arguments.column;
    if columns.is_empty() {
        columns.push(ColumnOptions::new(match arguments.value_column.is_empty() {
            true => Source::Usual,
            false => Source::Columns(arguments.value_column),
        }));
    }
    for column in &mut columns {
        if let (None, Some(stored)) = (column.numbers, arguments.stored) {
            (column.numbers, column.width) = (Some(stored.numbers), stored.width);
        }
    }
    let row = arguments.default_row.as_deref();
    let default_row = row.map(|row| notation::parse_default_row(row, &columns));
    let default_row = default_row
        .transpose()
        .map_err(|problem| anyhow::anyhow!("--default-row: {problem}"))?;
    let options = BuildOptions {
        inputs: arguments.input,
        format: arguments.format,
        version: arguments.version,
        key_column: arguments.key_column,
        keys: match (arguments.keys.as_deref(), arguments.slot) {
            (Some("u64"), Some(_)) => anyhow::bail!("--slot is for keys that are texts"),
            (Some("u64"), None) => Some(Keys::U64),
            (None, None) => None,
            (_, slot) => Some(Keys::Text {
                slot: slot.unwrap_or_default(),
            }),
        },
        columns,
        not_finite: match arguments.keep_not_finite {
            true => NotFinite::Kept,
            false => NotFinite::Refused,
        },
        default_row,
        duplicates: arguments.duplicates,
        base: base.map(Base::Version).or(newest),
        remove: arguments.remove,
        held: arguments.share.held()?,
        shards,
        memory_bytes: arguments.memory,
        restart: arguments.restart,
        ..BuildOptions::new(arguments.out, arguments.name)
    };
    let mut shown = progress::Shown::new();
    let built = build(&options, &mut |progress| shown.show(progress));
    drop(shown);
    let built = built?;
    if let Some(resumed) = built.resumed {
        eprintln!("{resumed}");
    }
    Ok(built)
}

/// Removes what writers that were killed left in a table's folder, and says so.
fn clear_abandoned(table_dir: &Path) {
    match remove_abandoned(table_dir) {
        Ok(done) => {
            for path in done.removed {
                eprintln!(
                    "removed {}, which a fold or build that was killed had left",
                    path.display()
                );
            }
            for (path, why) in done.unclear {
                eprintln!(
                    "warning: {} stays: {why}; remove it once none is at work",
                    path.display()
                );
            }
        }
        // What is to be written says it where it matters.
        Err(error) => eprintln!("warning: {error}"),
    }
}

/// Says which version a build stands on, where a start serves another and nobody named one.
fn warn_of_another(table_dir: &Path, base: Option<u64>, (does, instead): (&str, &str)) {
    let highest = describe_versions(table_dir)
        .ok()
        .and_then(|all| all.last().map(|(version, _)| *version));
    let (None, Some(highest), Ok(active)) = (base, highest, version_at_start(table_dir)) else {
        return;
    };
    if active != highest {
        eprintln!(
            "warning: this {does} version {highest}, the highest, and a start serves version {active}; for that version give --base {active}{instead}"
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_engines_features::Numbers;

    /// The help of an argument of `build`.
    fn help(argument: &str) -> String {
        let command = Build::augment_args(clap::Command::new("build"));
        let mut found = command.get_arguments();
        let found = found.find(|found| found.get_long() == Some(argument)).unwrap();
        found.get_help().unwrap().to_string()
    }

    #[test]
    fn the_help_of_build_names_every_format_and_every_type() {
        let check = |argument, name: &str| {
            let help = help(argument);
            let mut words = help.split(|mark: char| !mark.is_alphanumeric() && mark != '_');
            assert!(words.any(|word| word == name), "{name} is not in {help}");
        };
        Format::all()
            .iter()
            .for_each(|format| check("format", format.name()));
        for (name, numbers) in Numbers::ALL {
            // Both kinds of bytes are written "bytes".
            check("type", if numbers.is_bytes() { "bytes" } else { name });
        }
    }
}
