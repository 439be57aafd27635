//! `millpond features build|inspect|verify`.
//! It prints what the builder and the tables say of themselves.

use clap::{Args, Subcommand};
use millpond_engines_features_build::{BuildOptions, Progress, build, inspect, verify};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to do with a feature table.
#[derive(Subcommand)]
pub(crate) enum Features {
    /// Build a new version of a table from a Parquet file.
    Build(Build),
    /// Say what a table, or one version of it, holds.
    Inspect(Table),
    /// Read every byte of a table and check its checksums.
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
            let mut shown = Instant::now();
            let summary = build(&options, &mut |progress: Progress| {
                if shown.elapsed() > Duration::from_secs(1) {
                    shown = Instant::now();
                    eprintln!("{progress}");
                }
            })?;
            crate::print(&summary.to_string());
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
