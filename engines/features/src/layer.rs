//! The files of one version: all rows of a base, or what a delta changes of the version before it.
//!
//! Not a version: that is a base with the deltas on it. Invariant: all shards belong to the one manifest, and key k is only
//! ever looked for in the shard that its hash names.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::format1;
use crate::hash::{hash, shard_of};
use crate::header::{FORMAT, Header};
use crate::manifest::{Manifest, ShardEntry};
use crate::rows::Row;
use crate::shard::{Shard, View, open_header};

pub(crate) struct Layer {
    /// The version's folder.
    pub(crate) path: PathBuf,
    pub(crate) version: u64,
    /// That of the manifest, as a delta names its base.
    pub(crate) checksum: String,
    pub(crate) is_delta: bool,
    /// For people; the same numbers stand in the shards' headers.
    pub(crate) entries: Vec<ShardEntry>,
    /// By number, never empty.
    pub(crate) shards: Vec<Shard>,
}

impl Layer {
    /// Opens the shards that a manifest lists; their data is not read.
    pub(crate) fn open(version_dir: &Path, manifest: &Manifest, checksum: String) -> Result<Layer, Error> {
        let mut shards = Vec::with_capacity(manifest.shards.len());
        for (shard, entry) in (0..).zip(&manifest.shards) {
            let path = version_dir.join(&entry.file);
            let opened = match manifest.format {
                format1::FORMAT => format1::open(&path)?,
                _ => Shard::open(&path)?,
            };
            check_shard(
                (&opened.header, opened.header_checksum),
                shard,
                manifest,
                entry,
                &path,
            )?;
            // A file of format 1 was placed anew, and has another length now.
            if manifest.format != format1::FORMAT {
                check_length(&path, entry, opened.file_bytes())?;
            }
            shards.push(opened);
        }
        Ok(Layer {
            path: version_dir.to_path_buf(),
            version: manifest.version,
            checksum,
            is_delta: manifest.base.is_some(),
            entries: manifest.shards.clone(),
            shards,
        })
    }

    /// Looks at the shards that a manifest lists as [`Layer::open`] does, one at a time, and keeps none open. Files of format 1 are
    /// opened by reading them whole: unless that is to be, their lengths alone are looked at.
    pub(crate) fn check(version_dir: &Path, manifest: &Manifest, reads_format1: bool) -> Result<(), Error> {
        for (shard, entry) in (0..).zip(&manifest.shards) {
            let path = version_dir.join(&entry.file);
            if manifest.format == format1::FORMAT {
                let metadata = fs::metadata(&path).map_err(Error::io("open", &path))?;
                check_length(&path, entry, metadata.len())?;
                if !reads_format1 {
                    continue;
                }
                let opened = format1::open(&path)?;
                check_shard(
                    (&opened.header, opened.header_checksum),
                    shard,
                    manifest,
                    entry,
                    &path,
                )?;
            } else {
                let (_, (header, layout, checksum)) = open_header(&path)?;
                check_shard((&header, checksum), shard, manifest, entry, &path)?;
                check_length(&path, entry, layout.file_bytes)?;
            }
        }
        Ok(())
    }

    /// Whether nothing of its mapped files is known to be gone.
    pub(crate) fn is_whole(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.all(|shard| !shard.was_cut() && shard.check_length().is_ok())
    }

    /// What a search needs, gathered once.
    #[inline(always)]
    pub(crate) fn views(&self) -> Option<Views<'_>> {
        let (first, _) = self.shards.split_first()?;
        Some(Views {
            first: first.view(),
            shards: &self.shards,
        })
    }

    /// What it says of a key.
    pub(crate) fn find(&self, key: u64) -> LayerEntry<'_> {
        let hash = hash(key);
        if let Some(heap) = self.heap(hash) {
            return heap.find(self, hash, key);
        }
        let slot = self.views().map(|views| views.of(hash).slot(hash));
        self.said(slot.and_then(|slot| slot.row(key)))
    }

    /// What it says of a key in whose slot that was found.
    #[inline(always)]
    pub(crate) fn said<'a>(&self, row: Option<Row<'a>>) -> LayerEntry<'a> {
        match (row, self.is_delta) {
            (None, _) => LayerEntry::Nothing,
            (Some(row), false) => LayerEntry::Row(row),
            (Some(row), true) => match row.split_last() {
                Some((0, row)) => LayerEntry::Row(row),
                _ => LayerEntry::Removed,
            },
        }
    }

    /// Visits every key it has something to say of, and that.
    pub(crate) fn each<E>(
        &self,
        visit: &mut dyn FnMut(u64, LayerEntry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.shards.iter().try_for_each(|shard| {
            if let Some(heap) = shard.heap() {
                return heap.each(self, visit);
            }
            let mut rows = shard.view().rows();
            rows.try_for_each(|(key, row)| visit(key, self.said(Some(row))))
        })
    }
}

/// What a layer says of a key.
pub(crate) enum LayerEntry<'a> {
    /// Nothing: ask the layer below.
    Nothing,
    /// It has this row.
    Row(Row<'a>),
    /// It is in no layer below either.
    Removed,
}

/// The shards of a layer, as a search sees them.
#[derive(Clone, Copy)]
pub(crate) struct Views<'a> {
    /// The usual layer has one: its view stays in registers.
    first: View<'a>,
    shards: &'a [Shard],
}

impl<'a> Views<'a> {
    /// The view of the shard that a hash belongs to.
    #[inline(always)]
    pub(crate) fn of(&self, hash: u64) -> View<'a> {
        match self.shards {
            [] | [_] => self.first,
            shards => {
                let number = shard_of(hash, shards.len() as u32) as usize;
                shards.get(number).map_or(self.first, Shard::view)
            }
        }
    }
}

fn check_length(path: &Path, entry: &ShardEntry, found: u64) -> Result<(), Error> {
    if found == entry.bytes {
        return Ok(());
    }
    let what = "length in bytes against the manifest's";
    Err(Error::damaged(path, what, entry.bytes, found))
}

fn check_shard(
    (header, header_checksum): (&Header, u64),
    shard: u32,
    manifest: &Manifest,
    entry: &ShardEntry,
    path: &Path,
) -> Result<(), Error> {
    let Header {
        shard: found_shard,
        shards: found_shards,
        row_bytes,
        version,
        rows,
        is_delta,
        format,
        ..
    } = *header;
    let kind = |is_delta| match is_delta {
        true => "that of a delta",
        false => "that of a base",
    };
    // A file of format 1 was placed anew, in the form of the next.
    let format_expected = manifest.format.max(FORMAT);
    let checks = [
        (
            "format against the manifest's",
            format_expected.to_string(),
            format.to_string(),
        ),
        (
            "version against the manifest's",
            manifest.version.to_string(),
            version.to_string(),
        ),
        (
            "bytes of a row against the manifest's",
            manifest.schema().row_bytes().to_string(),
            row_bytes.to_string(),
        ),
        (
            "kind against the manifest's",
            kind(manifest.base.is_some()).to_owned(),
            kind(is_delta).to_owned(),
        ),
        (
            "shard number",
            format!("{shard} of {}", manifest.shards.len()),
            format!("{found_shard} of {found_shards}"),
        ),
        (
            "rows against the manifest's",
            entry.rows.to_string(),
            rows.to_string(),
        ),
        (
            "checksum against the manifest's",
            entry.checksum.clone(),
            format!("{:016x}", header_checksum),
        ),
    ];
    match checks.into_iter().find(|(_, expected, found)| expected != found) {
        Some((what, expected, found)) => Err(Error::damaged(path, what, expected, found)),
        None => Ok(()),
    }
}
