//! `millpond features versions`, `activate`, `rollback` and `delete`: on a table's folder, or on a running server.
//! Its invariant: without --server nothing that runs is changed, and what is printed says so.

use crate::connect::{TlsFiles, call, token_in};
use clap::Args;
use millpond_client_rust::schema::features_versions::{Answer, Version};
use millpond_client_rust::schema::{
    FeaturesActivate, FeaturesDelete, FeaturesRollback, FeaturesVersions, Method,
};
use millpond_client_rust::{CallError, Code};
use millpond_engines_features_build::{
    Active, CheckedLayers, Described, activate_at_start, delete_at_start, describe_versions, hidden_at_start,
    roll_back_at_start, version_at_start,
};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A table, and the server that has it.
#[derive(Args)]
pub(crate) struct Place {
    /// The table's folder; with --server its name there.
    #[arg(value_name = "TABLE")]
    table: String,
    #[command(flatten)]
    at: Server,
}

/// A table and perhaps a version, and the server that has it.
#[derive(Args)]
pub(crate) struct Activate {
    /// The table's folder; with --server its name there.
    #[arg(value_name = "TABLE")]
    table: String,
    /// The version; the highest in the folder when left out.
    version: Option<u64>,
    #[command(flatten)]
    at: Server,
}

/// A table and a version of it, and the server that has it.
#[derive(Args)]
pub(crate) struct Delete {
    /// The table's folder; with --server its name there.
    #[arg(value_name = "TABLE")]
    table: String,
    /// The version.
    version: u64,
    /// Delete it also where it is the only one that has upserts which were folded into it.
    #[arg(long)]
    lose_upserts: bool,
    #[command(flatten)]
    at: Server,
}

/// A running server.
#[derive(Args)]
struct Server {
    /// Have a running server do it: HOST:PORT, unix:PATH or tls://HOST:PORT. Without it the folder alone changes, and a server
    /// follows when it is started again.
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
    /// The file that holds the server's token for it.
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
    /// Give up after this long; the server goes on.
    #[arg(long, default_value_t = 600, value_name = "SECONDS", requires = "server",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
    #[command(flatten)]
    tls: TlsFiles,
}

impl Server {
    /// Has the server do it, where one is named.
    fn ask<M: Method<Answer = Answer<'static>>>(
        &self,
        mut payload: serde_json::Value,
    ) -> anyhow::Result<Option<String>> {
        let Some(addr) = &self.server else {
            anyhow::ensure!(
                !self.tls.are_named(),
                "--tls-ca says how to reach a server: name it by --server"
            );
            return Ok(None);
        };
        if let Some(file) = &self.token_file {
            payload["_token"] = json!(token_in(file)?);
        }
        let timeout = Duration::from_secs(self.timeout_s);
        let answer = call::<M>((addr, &self.tls), &payload, timeout, |error| {
            self.explained(error)
        })?;
        warn(answer.warning.as_deref());
        Ok(Some(told(&answer)))
    }

    /// Says how to give a token that the server asks for.
    fn explained(&self, error: CallError) -> anyhow::Error {
        match &error {
            CallError::Status(status)
                if status.code == Code::Unauthenticated && self.token_file.is_none() =>
            {
                anyhow::anyhow!("{status}; give --token-file FILE")
            }
            _ => error.into(),
        }
    }
}

/// A table's folder, where no server is named.
fn folder(table: &str) -> anyhow::Result<&Path> {
    let folder = Path::new(table);
    anyhow::ensure!(
        folder.is_dir(),
        "there is no folder {table}; name a table's folder, or name a server with --server"
    );
    Ok(folder)
}

pub(crate) fn list(place: &Place) -> anyhow::Result<()> {
    let told = match place.at.ask::<FeaturesVersions>(json!({"table": place.table}))? {
        Some(told) => told,
        None => listed(folder(&place.table)?)?,
    };
    crate::print(&told);
    Ok(())
}

pub(crate) fn activate(arguments: &Activate) -> anyhow::Result<()> {
    let mut payload = json!({"table": arguments.table});
    if let Some(version) = arguments.version {
        payload["version"] = json!(version);
    }
    let told = match arguments.at.ask::<FeaturesActivate>(payload)? {
        Some(told) => told,
        None => {
            let folder = folder(&arguments.table)?;
            at_start(folder, activate_at_start(folder, arguments.version)?)
        }
    };
    crate::print(&told);
    Ok(())
}

pub(crate) fn roll_back(place: &Place) -> anyhow::Result<()> {
    let told = match place.at.ask::<FeaturesRollback>(json!({"table": place.table}))? {
        Some(told) => told,
        None => {
            let folder = folder(&place.table)?;
            at_start(folder, roll_back_at_start(folder)?)
        }
    };
    crate::print(&told);
    Ok(())
}

pub(crate) fn delete(arguments: &Delete) -> anyhow::Result<()> {
    let Delete {
        table,
        version,
        lose_upserts,
        at,
    } = arguments;
    let payload = json!({"table": table, "version": version, "lose_upserts": lose_upserts});
    let told = match at.ask::<FeaturesDelete>(payload)? {
        Some(told) => told,
        None => {
            let lost = delete_at_start(folder(table)?, *version, *lose_upserts)?;
            warn(lost.map(|lost| lost.deleted()));
            format!("version {version} is deleted")
        }
    };
    crate::print(&told);
    Ok(())
}

fn warn(problem: Option<impl std::fmt::Display>) {
    if let Some(problem) = problem {
        eprintln!("warning: {problem}");
    }
}

/// Says what a start hides. What was changed stays changed where that cannot be looked at.
fn warn_of_hidden(folder: &Path) {
    match hidden_at_start(folder) {
        Ok(hidden) => warn(hidden),
        Err(error) => warn(Some(format!(
            "whether a start hides folded upserts cannot be said: {error}"
        ))),
    }
}

fn at_start(folder: &Path, active: Active) -> String {
    warn_of_hidden(folder);
    let before = active
        .before
        .map_or(String::new(), |before| format!(" (before: {before})"));
    format!(
        "a start serves version {}{before}; a server that runs goes on with its own, --server switches it",
        active.version
    )
}

/// The versions of a folder, a line each.
fn listed(table_dir: &Path) -> anyhow::Result<String> {
    let described = describe_versions(table_dir)?;
    // What does not open is listed as such below.
    warn(hidden_at_start(table_dir).ok().flatten());
    // A damaged ACTIVE is to hide no version.
    let active = version_at_start(table_dir);
    let mut layers = CheckedLayers::default();
    let line = |(version, info): Described| {
        let active = match &active {
            Ok(active) if *active == version => ", a start serves it",
            _ => "",
        };
        match info {
            Ok(info) => {
                let shown = shown(version, info.rows, info.bytes, info.base, &info.source) + active;
                match layers.check(table_dir, version) {
                    Ok(()) => shown,
                    Err(error) if error.is_out_of_resources() => {
                        format!("{shown}, could not be checked: {error}")
                    }
                    Err(error) => format!("{shown}, does not open: {error}"),
                }
            }
            Err(error) => format!("{version}: {error}{active}"),
        }
    };
    let mut lines: Vec<String> = described.into_iter().map(line).collect();
    lines.extend(active.as_ref().err().map(ToString::to_string));
    Ok(lines.join("\n"))
}

/// What a server says, a line a version.
fn told(answer: &Answer<'_>) -> String {
    let line = |version: &Version<'_>| {
        let source = version.source.as_deref().unwrap_or_default();
        let figures = shown(version.version, version.rows, version.bytes, version.base, source);
        let state = match version.held {
            _ if version.version == answer.active => ", serves",
            true => ", held",
            false => "",
        };
        match &version.problem {
            Some(problem) if version.rows == 0 && version.bytes == 0 => {
                format!("{}: {problem}{state}", version.version)
            }
            Some(problem) => format!("{figures}{state}, does not open: {problem}"),
            None => figures + state,
        }
    };
    let mut lines: Vec<String> = answer.versions.iter().map(line).collect();
    if let Some(why_not) = &answer.why_not {
        lines.push(format!(
            "version {} serves until a restart: {why_not}",
            answer.active
        ));
    }
    lines.join("\n")
}

fn shown(version: u64, rows: u64, bytes: u64, base: Option<u64>, source: &str) -> String {
    let base = base.map_or(String::new(), |base| format!(", delta on {base}"));
    let source = match source {
        "" => String::new(),
        source => format!(", from {source}"),
    };
    format!("{version}: {rows} rows, {bytes} bytes{base}{source}")
}
