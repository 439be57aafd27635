//! `millpond features build|inspect|verify`.
//! It prints what the builder and the tables say of themselves.

use clap::{Args, Subcommand};
use millpond_engines_features_build::{
    BuildOptions, Progress, RandomOptions, build, inspect, random, verify,
};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BUILD_EXAMPLES: &str = "\
Examples:
  millpond features build --input embeddings.parquet --out tables --name embeddings";

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

/// What to do with a feature table.
#[derive(Subcommand)]
pub(crate) enum Features {
    /// Build a new version of a table from a Parquet file.
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
}

/// Builds the folder OUT/NAME/VERSION from a column of 64-bit keys and a column of equally long lists of floats.
#[derive(Args)]
pub(crate) struct Build {
    /// The Parquet file.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// The folder that holds tables.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The table's name.
    #[arg(long)]
    name: String,
    /// The version; the highest there is, plus one, when left out.
    #[arg(long)]
    version: Option<u64>,
    /// The column of keys (INT64 or UINT64).
    #[arg(long, default_value = "key", value_name = "COLUMN")]
    key_column: String,
    /// The column of vectors (a list of floats).
    #[arg(long, default_value = "vector", value_name = "COLUMN")]
    value_column: String,
    /// Files to spread the rows over.
    #[arg(long, default_value_t = 1)]
    shards: u32,
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
    #[arg(long, default_value_t = 1)]
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

pub(crate) fn run(features: Features) -> anyhow::Result<()> {
    match features {
        Features::Build(arguments) => {
            let options = BuildOptions {
                input: arguments.input,
                out_dir: arguments.out,
                name: arguments.name,
                version: arguments.version,
                key_column: arguments.key_column,
                value_column: arguments.value_column,
                shards: arguments.shards,
            };
            let summary = build(&options, &mut shown_each_second())?;
            crate::print(&summary.to_string());
        }
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
            match random(&options, &mut shown_each_second())? {
                Some(summary) => crate::print(&summary.to_string()),
                None => crate::print("the table is there already, and was kept"),
            }
        }
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

/// Shows how far a build is, at most once a second.
fn shown_each_second() -> impl FnMut(Progress) {
    let mut shown = Instant::now();
    move |progress| {
        if shown.elapsed() > Duration::from_secs(1) {
            shown = Instant::now();
            eprintln!("{progress}");
        }
    }
}
