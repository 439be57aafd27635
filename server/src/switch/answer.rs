//! What a call on versions is answered: the version that serves, and all that are there.
//!
//! It changes nothing. Its invariant: but for what kept a switch from being written it names no file of this machine, because who
//! lists versions needs no token.

use super::{fixed, parts};
use crate::Shared;
use millpond_catalog::Handle;
use millpond_engines_features::{self as features, CheckedLayers, Table};
use millpond_wire_schema::Status;
use millpond_wire_schema::features_versions::{Answer, Version};
use std::path::Path;

/// What there is now; `lost` is what to say of a deletion before it, and `why_not` what kept the last switch from being written.
pub(super) fn answer(
    shared: &Shared,
    handle: &Handle,
    table: &str,
    lost: Option<&str>,
    why_not: Option<String>,
) -> Result<Answer<'static>, Status> {
    let catalog = handle.pin();
    let (active, past, section) = parts(&catalog, table)?;
    let at_start = match fixed(shared, table) {
        Some(version) => Ok((
            version,
            format!("features.{table}.version of the configuration is {version}"),
        )),
        None => features::version_at_start(&section.path)
            .map(|version| (version, format!("a restart serves version {version}"))),
    };
    let mut checks = Checks::default();
    let why_not = match at_start {
        Ok((version, _)) if version == active.version() => {
            checks.problem(&section.path, version).map(|problem| {
                let why_not =
                    why_not.unwrap_or_else(|| format!("version {version} does not open: {problem}"));
                format!("a restart fails: {why_not}")
            })
        }
        Ok((_, derived)) => Some(match why_not {
            Some(why_not) => format!("{derived}: {why_not}"),
            None => derived,
        }),
        Err(error) if error.is_out_of_resources() => {
            checks.note(&error);
            why_not
        }
        Err(_) => Some(why_not.unwrap_or_else(|| {
            "ACTIVE in the table's folder is damaged, or names a version that is not there".to_owned()
        })),
    };
    let described = features::describe_versions(&section.path).unwrap_or_default();
    let mut versions: Vec<Version<'static>> = described
        .into_iter()
        .map(|described| on_disk(&section.path, described, &mut checks))
        .collect();
    for open in catalog.versions(table) {
        match versions
            .iter_mut()
            .find(|version| version.version == open.version())
        {
            Some(version) => version.held = true,
            None => versions.push(in_memory(open)),
        }
    }
    versions.sort_by_key(|version| version.version);
    let hidden = catalog.hidden(table).map(|hidden| hidden.to_string());
    let warnings: Vec<String> = lost
        .map(str::to_owned)
        .into_iter()
        .chain(hidden)
        .chain(checks.unchecked)
        .collect();
    Ok(Answer {
        active: active.version(),
        before: past.before,
        persistent: why_not.is_none(),
        why_not: why_not.map(Into::into),
        warning: (!warnings.is_empty()).then(|| warnings.join("; ").into()),
        versions,
    })
}

/// What a listing has found of the files.
#[derive(Default)]
struct Checks {
    layers: CheckedLayers,
    /// Why some could not be looked at.
    unchecked: Option<String>,
}

impl Checks {
    /// Why a version does not open, if so.
    fn problem(&mut self, table_dir: &Path, version: u64) -> Option<String> {
        let error = self.layers.check(table_dir, version).err()?;
        if error.is_out_of_resources() {
            self.note(&error);
            return None;
        }
        Some(problem(&error))
    }

    /// That the server had too few files or too little memory says nothing of a version.
    fn note(&mut self, error: &features::Error) {
        let why = match error {
            features::Error::Io { source, .. } => source.to_string(),
            _ => "too few files or too little memory".to_owned(),
        };
        self.unchecked = Some(format!("whether all versions open could not be checked: {why}"));
    }
}

fn on_disk(table_dir: &Path, (version, info): features::Described, checks: &mut Checks) -> Version<'static> {
    let none = Version {
        version,
        base: None,
        rows: 0,
        bytes: 0,
        created: 0,
        source: None,
        held: false,
        problem: None,
    };
    match info {
        Ok(info) => Version {
            base: info.base,
            rows: info.rows,
            bytes: info.bytes,
            created: info.created_unix_s,
            source: Some(info.source)
                .filter(|source| !source.is_empty())
                .map(Into::into),
            problem: checks.problem(table_dir, version).map(Into::into),
            ..none
        },
        Err(error) if error.is_out_of_resources() => {
            checks.note(&error);
            none
        }
        Err(_) => Version {
            problem: Some("its manifest cannot be read; `millpond features verify` says why".into()),
            ..none
        },
    }
}

/// Why a version does not open, without the folders of this machine.
fn problem(error: &features::Error) -> String {
    use features::Error::{Base, Damaged, Format, Io, VersionNotFound};
    // With the version's folder: a delta needs those of its base too.
    let file = |path: &Path| {
        let folder = path
            .parent()
            .and_then(Path::file_name)
            .unwrap_or_default()
            .display();
        format!("{folder}/{}", path.file_name().unwrap_or_default().display())
    };
    let problem = match error {
        Damaged {
            path,
            what,
            expected,
            found,
        } => format!(
            "{} is damaged: {what}: expected {expected}, found {found}",
            file(path)
        ),
        Io {
            action, path, source, ..
        } => format!("cannot {action} {}: {source}", file(path)),
        Base { version, .. } => {
            format!("version {version}, which it stands on, is not as it was or cannot be read")
        }
        Format { path, found, .. } => format!(
            "{} has format {found}, which this build does not read",
            file(path)
        ),
        VersionNotFound { .. } => return "its folder is gone".to_owned(),
        _ => "its files are not as they were written".to_owned(),
    };
    format!("{problem}; `millpond features verify` on the server says more")
}

/// A version whose folder is gone.
fn in_memory(table: &Table) -> Version<'static> {
    let source = Some(table.source().to_owned());
    Version {
        version: table.version(),
        base: table.chain().get(1).copied(),
        rows: table.rows(),
        bytes: table.own_shards().map(|shard| shard.bytes).sum(),
        created: table.created_unix_s(),
        source: source.filter(|source| !source.is_empty()).map(Into::into),
        held: true,
        problem: Some("its folder is gone".into()),
    }
}
