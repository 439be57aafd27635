//! Opens a version and what it was built on, down to the base.
//!
//! It reads no row. Invariant: each manifest has the name and the checksum by which the delta above it names its base.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{LAYERS_MAX, Table};
use crate::counts::Counts;
use crate::error::Error;
use crate::layer::Layer;
use crate::manifest::{Base, FILE, Manifest};
use crate::node_share::NodeShare;
use crate::overlay::Folded;
use crate::projection::{Answered, Projection};
use crate::shard::Shard;
use crate::versions::{folder, number};

/// Opens a version; layers that `opened` has are shared.
pub(super) fn open_layers(version_dir: &Path, opened: Option<&Table>) -> Result<Table, Error> {
    // `.` has no folder beside it.
    let whole = version_dir
        .file_name()
        .is_none()
        .then(|| fs::canonicalize(version_dir));
    let whole = whole.transpose().map_err(Error::io("find", version_dir))?;
    let version_dir = whole.as_deref().unwrap_or(version_dir);
    let (top, bases) = chain(version_dir)?;
    let layers = iter::once(&top)
        .chain(&bases)
        .map(|described| layer(described, opened));
    let layers = layers.collect::<Result<Vec<_>, Error>>()?;
    let Origin { folded, oldest_base } = origin(&top, &bases);
    let top = top.manifest;
    let is_mapped = layers
        .iter()
        .flat_map(|layer| &layer.shards)
        .any(Shard::is_mapped);
    let schema = top.schema();
    Ok(Table {
        view: None,
        folded,
        oldest_base,
        is_mapped,
        counts: Counts::default(),
        name: top.name,
        format: top.format,
        dim: schema.dim(),
        floats: Projection::all(&schema, Answered::F32),
        default_row: schema.default_bytes()?,
        schema,
        rows: top.rows,
        created_unix_s: top.created_unix_s,
        source: top.source,
        held: top.node.as_ref().map(NodeShare::held_buckets),
        node: top.node,
        layers,
    })
}

/// A layer as its manifest describes it; no file of it was opened.
pub(crate) struct LayerManifest {
    /// The version's folder.
    pub(crate) path: PathBuf,
    pub(crate) manifest: Manifest,
    /// That of the manifest, as a delta names its base.
    pub(crate) checksum: String,
}

/// What the rows of a version are of.
pub(crate) struct Origin {
    /// Up to where it has what was upserted, as the newest layer says that says it.
    pub(crate) folded: Option<Folded>,
    /// The version that was built from sources, which may have been compacted into the last layer.
    pub(crate) oldest_base: u64,
}

/// Of a version and what it was built on.
pub(crate) fn origin(top: &LayerManifest, bases: &[LayerManifest]) -> Origin {
    let last = &bases.last().unwrap_or(top).manifest;
    Origin {
        folded: iter::once(top)
            .chain(bases)
            .find_map(|layer| layer.manifest.folded()),
        oldest_base: last.oldest_base.unwrap_or(last.version),
    }
}

/// A version, and what it was built on, down to the base.
pub(crate) fn chain(version_dir: &Path) -> Result<(LayerManifest, Vec<LayerManifest>), Error> {
    let (manifest, checksum) = Manifest::read(version_dir)?;
    check_folder(version_dir, manifest.version)?;
    let top = LayerManifest {
        path: version_dir.to_path_buf(),
        manifest,
        checksum,
    };
    let mut bases: Vec<LayerManifest> = Vec::new();
    loop {
        let LayerManifest { path, manifest, .. } = bases.last().unwrap_or(&top);
        let Some(base) = &manifest.base else {
            return Ok((top, bases));
        };
        if bases.len() + 1 == LAYERS_MAX {
            let problem = format!("it would be layer {} of at most {LAYERS_MAX}", LAYERS_MAX + 1);
            return Err(broken(path, base, problem));
        }
        let below = read_base(path, manifest, base)?;
        bases.push(below);
    }
}

/// The version that a delta in the folder `path` was built on.
fn read_base(path: &Path, delta: &Manifest, base: &Base) -> Result<LayerManifest, Error> {
    let base_dir = path.parent().unwrap_or(Path::new(".")).join(folder(base.version));
    let read = Manifest::read(&base_dir);
    let (manifest, found) = read.map_err(|error| match error.is_out_of_resources() {
        true => error,
        false => broken(path, base, error.to_string()),
    })?;
    if found != base.checksum {
        let problem = format!("it has checksum {found}, expected {}", base.checksum);
        return Err(broken(path, base, problem));
    }
    if manifest.schema() != delta.schema() || manifest.name != delta.name {
        let problem = "it has another name, other keys or other columns".to_owned();
        return Err(broken(path, base, problem));
    }
    let changes = delta.entries();
    if delta.rows.abs_diff(manifest.rows) > changes {
        let expected = format!(
            "at most {changes} more or fewer than the {} of its base",
            manifest.rows
        );
        return Err(Error::damaged(&path.join(FILE), "rows", expected, delta.rows));
    }
    check_folder(&base_dir, manifest.version)?;
    Ok(LayerManifest {
        path: base_dir,
        manifest,
        checksum: found,
    })
}

/// The error for a delta in the folder `path` whose base does not go with it.
fn broken(path: &Path, base: &Base, problem: String) -> Error {
    Error::Base {
        path: path.join(FILE),
        version: base.version,
        problem,
    }
}

/// The layer of a manifest: that of an opened version where it is the same.
fn layer(described: &LayerManifest, opened: Option<&Table>) -> Result<Arc<Layer>, Error> {
    let LayerManifest {
        path,
        manifest,
        checksum,
    } = described;
    let shared = opened.and_then(|opened| {
        let mut layers = opened.layers.iter();
        layers.find(|layer| layer.path == *path && layer.checksum == *checksum && layer.is_whole())
    });
    match shared {
        Some(layer) => Ok(Arc::clone(layer)),
        None => Ok(Arc::new(Layer::open(path, manifest, checksum.clone())?)),
    }
}

/// A folder that was renamed to another version's number would be served as that version.
fn check_folder(version_dir: &Path, version: u64) -> Result<(), Error> {
    let name = version_dir.file_name().and_then(|name| name.to_str());
    match name.and_then(number) {
        Some(found) if found != version => {
            let path = version_dir.join(FILE);
            Err(Error::damaged(
                &path,
                "version against the folder's name",
                found,
                version,
            ))
        }
        _ => Ok(()),
    }
}
