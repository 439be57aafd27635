//! Every file of the corpus through its target, as the fuzzers run them.
//!
//! One test runs them all, one after the other: what they hold is measured over the whole process. Its invariant: no target
//! is without files, and no file without a target.
#![allow(clippy::unwrap_used)]

use millpond_fuzz::{ELSEWHERE, TARGETS, close};
use std::fs::read_dir;
use std::path::{Path, PathBuf};

/// What the corpus may take of the repository.
const FILES_MAX: usize = 500;
const BYTES_MAX: u64 = 300 << 10;

fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn what_was_found_once_is_found_no_more() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, run) in TARGETS {
        let files = entries(&corpus.join(name));
        assert!(!files.is_empty(), "corpus/{name} is empty");
        for file in files {
            // On a panic the last line names the file.
            println!("{}", file.display());
            run(&std::fs::read(&file).unwrap());
        }
    }
    close();
    let known = |name: &str| {
        let mut names = TARGETS.iter().map(|(name, _)| name);
        names.any(|known| *known == name) || ELSEWHERE.iter().any(|(known, _)| *known == name)
    };
    let (mut files, mut bytes) = (0, 0);
    for folder in entries(&corpus) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(known(name), "corpus/{name} is of no target");
        for file in entries(&folder) {
            files += 1;
            bytes += file.metadata().unwrap().len();
        }
    }
    assert!(
        files <= FILES_MAX && bytes <= BYTES_MAX,
        "the corpus has {files} files and {bytes} bytes, more than {FILES_MAX} and {BYTES_MAX}: minimise it"
    );
}
