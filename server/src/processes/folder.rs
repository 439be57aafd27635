//! The folder of the socket between the processes of a server: this user's alone.
//!
//! Its invariant: it was made by this process, and nobody else of this machine but root may look into it; it goes with it.

use crate::Error;
use std::fs::DirBuilder;
use std::hash::{BuildHasher as _, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Names that are tried.
const NAMES: u32 = 100;
/// The socket's.
const SOCKET: &str = "stores.sock";

/// The folder, until it is dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes one in the system's folder for what lasts no longer than a process (`TMPDIR`, /tmp where it is not set).
    ///
    /// # Errors
    /// [`Error::Process`]: this user may not write there.
    pub(super) fn make() -> Result<Folder, Error> {
        Folder::make_in(&std::env::temp_dir())
    }

    fn make_in(base: &Path) -> Result<Folder, Error> {
        if base.to_str().is_none() {
            let base = base.display();
            return Err(Error::Process(format!(
                "{base} is no UTF-8, and the socket between the processes lies there; set TMPDIR to another folder"
            )));
        }
        let pid = std::process::id();
        for number in 0..NAMES {
            // In a container every server has one number, and one that was killed has left its folder.
            let drawn = RandomState::new().hash_one(number) as u32;
            let path = base.join(format!("millpond-{pid}-{drawn:08x}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Error::Process(format!(
                        "the folder of the socket between the processes cannot be made: {}: {error}; set TMPDIR to a folder \
                         that this user may write to",
                        path.display()
                    )));
                }
            }
        }
        Err(Error::Process(format!(
            "{} has folders of all names that were tried, millpond-{pid}-NUMBER; remove those of servers that do not run",
            base.display()
        )))
    }

    /// Where the process that has the stores listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.0.join(SOCKET)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Whoever was killed has left it.
        let _ = std::fs::remove_file(self.socket());
        if let Err(error) = std::fs::remove_dir(&self.0) {
            let folder = self.0.display();
            tracing::warn!(%folder, %error, "the folder of the socket between the processes is left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn it_is_this_users_alone_and_goes_with_its_process() {
        let base = tempfile::tempdir().unwrap();
        let folders = [(); 2].map(|()| Folder::make_in(base.path()).unwrap());
        let [first, second] = &folders;
        assert_ne!(first.socket(), second.socket());
        let mode = std::fs::metadata(&first.0).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::write(first.socket(), "").unwrap();
        drop(folders);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
        let nowhere = Folder::make_in(&base.path().join("none"))
            .unwrap_err()
            .to_string();
        assert!(nowhere.contains("set TMPDIR"), "{nowhere}");
    }
}
