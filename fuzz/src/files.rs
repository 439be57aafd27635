//! Files that an input is read from: each in a folder of its own, in memory where the system has a place for that.
//!
//! Invariant: the folder goes with its handle, whatever was left in it.

use std::path::Path;
use tempfile::TempDir;

/// An empty folder.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.unwrap_or_else(|error| panic!("{error}"))
}

/// Writes a file into a folder.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(folder.join(name), bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Feeds each file of a target's corpus; at least so many are accepted.
    fn check(target: &str, accepts: fn(&[u8]) -> bool, least: u32) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let mut accepted = 0;
        for entry in std::fs::read_dir(corpus.join(target)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_accepted = accepts(&std::fs::read(&path).unwrap());
            assert_eq!(is_accepted, !name.starts_with("refused"), "{target}/{name}");
            accepted += u32::from(is_accepted);
        }
        assert!(accepted >= least, "{accepted} of {target} are accepted");
    }

    #[test]
    fn examples_are_accepted_or_not_as_their_names_say() {
        check("overlay_log", crate::overlay_log::opens, 4);
        check("ordered_log", crate::ordered_log::accepts, 6);
        check("ordered_checkpoint", crate::ordered_checkpoint::accepts, 5);
    }
}
