//! A version whose files are coming from elsewhere, in a folder that has not its name yet.
//!
//! It fetches nothing and opens no table. Its invariant: files that pass [`verify_files`] are, byte for byte, what their
//! manifest describes.

use std::path::Path;

use crate::error::Error;
use crate::layer::Layer;
use crate::manifest::{FILE, Manifest};

/// What a manifest says of the files of its version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionFiles {
    /// The number of the version.
    pub version: u64,
    /// Of a delta: the version it stands on.
    pub base: Option<u64>,
    /// Name and length of each shard file; no name leads out of the folder.
    pub files: Vec<(String, u64)>,
}

/// Reads the manifest in a folder, whatever the folder is called.
///
/// # Errors
/// [`Error::Damaged`] and [`Error::Io`].
pub fn version_files(dir: &Path) -> Result<VersionFiles, Error> {
    let (manifest, _) = Manifest::read(dir)?;
    let files = manifest.shards.into_iter();
    Ok(VersionFiles {
        version: manifest.version,
        base: manifest.base.map(|base| base.version),
        files: files.map(|shard| (shard.file, shard.bytes)).collect(),
    })
}

/// Reads every byte in a folder that is to be the one of `version`; not those of its base.
///
/// # Errors
/// [`Error::Damaged`], naming the first file that is not as the manifest says; [`Error::Io`].
pub fn verify_files(dir: &Path, version: u64) -> Result<(), Error> {
    let (manifest, checksum) = Manifest::read(dir)?;
    if manifest.version != version {
        let path = dir.join(FILE);
        return Err(Error::damaged(&path, "version", version, manifest.version));
    }
    let layer = Layer::open(dir, &manifest, checksum)?;
    layer.shards.iter().try_for_each(|shard| shard.verify())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Schema, write::Writer};
    use std::fs;

    #[test]
    fn every_byte_of_a_folder_with_another_name_is_verified() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(dir.path(), "films", 7, Schema::floats(2), 2).unwrap();
        for key in 0..40 {
            writer.push(key, &[1.0, 2.0]).unwrap();
        }
        writer.finish().unwrap();
        let unnamed = dir.path().join(".00000007.coming");
        fs::rename(dir.path().join("00000007"), &unnamed).unwrap();
        let said = version_files(&unnamed).unwrap();
        assert_eq!((said.version, said.base, said.files.len()), (7, None, 2));
        verify_files(&unnamed, 7).unwrap();
        let other = verify_files(&unnamed, 8).unwrap_err().to_string();
        assert!(other.contains("expected 8"), "{other}");
        for (name, bytes) in said.files {
            let path = unnamed.join(&name);
            let whole = fs::read(&path).unwrap();
            assert_eq!(whole.len() as u64, bytes);
            let check = |broken: &[u8]| {
                fs::write(&path, broken).unwrap();
                let problem = verify_files(&unnamed, 7).unwrap_err().to_string();
                assert!(problem.contains(&name), "{problem}");
            };
            check(&whole[..whole.len() - 1]);
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 4;
                check(&flipped);
            }
            fs::write(&path, &whole).unwrap();
        }
    }
}
