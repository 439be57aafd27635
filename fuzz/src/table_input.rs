//! Files that feature tables are built from: `engines/features/build`, from the bytes of a file to rows.
//!
//! The first byte chooses the format. What must hold: nothing panics; memory is bounded; a build that is refused leaves no
//! version; and one that is not refused leaves a version that verifies, with as many rows as it says.

use crate::memory::within;
use millpond_engines_features_build::{BuildOptions, Duplicates, Format, build, verify};
use std::path::Path;

/// What a build of a small file may hold: its own buffers, and blocks of its readers.
const BYTES_MAX: usize = 256 << 20;
/// Memory for putting rows in order.
const ROWS_BYTES: usize = 1 << 20;

/// Feeds a file; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn table_input(data: &[u8]) {
    if let Some((choice, bytes)) = data.split_first() {
        feed(*choice, bytes);
    }
}

/// Whether a version came of it.
fn feed(choice: u8, bytes: &[u8]) -> bool {
    let formats = Format::all();
    let format = formats[usize::from(choice) % formats.len()];
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let input = folder.path().join("input");
    std::fs::write(&input, bytes).unwrap_or_else(|error| panic!("{error}"));
    let mut inputs = input.display().to_string();
    if format.name() == "npy" {
        // Keys and rows are two files: the bytes are cut where the second begins.
        let cut = bytes.windows(6).skip(1).position(|start| start == b"\x93NUMPY");
        let (keys, rows) = bytes.split_at(cut.map_or(bytes.len(), |cut| cut + 1));
        for (name, bytes) in [("input", keys), ("rows", rows)] {
            std::fs::write(folder.path().join(name), bytes).unwrap_or_else(|error| panic!("{error}"));
        }
        inputs = format!("{inputs},{}", folder.path().join("rows").display());
    }
    let mut options = BuildOptions::new(folder.path().join("tables"), "t");
    options.inputs = vec![inputs];
    options.format = Some(format);
    options.memory_bytes = ROWS_BYTES;
    options.duplicates = if choice & 0x80 == 0 {
        Duplicates::Refused
    } else {
        Duplicates::Last
    };
    within(BYTES_MAX, || check(&options, folder.path()))
}

fn check(options: &BuildOptions, folder: &Path) -> bool {
    let table = folder.join("tables").join("t");
    match build(options, &mut |_| {}) {
        Ok(summary) => {
            let verified = verify(&summary.path);
            let inspected = verified.unwrap_or_else(|error| panic!("a version that was built: {error}"));
            assert_eq!(inspected.rows, summary.rows);
            true
        }
        Err(_) => {
            let listed = std::fs::read_dir(&table).into_iter().flatten().flatten();
            let names: Vec<_> = listed.map(|entry| entry.file_name()).collect();
            let is_version =
                |name: &std::ffi::OsString| name.to_str().is_some_and(|name| !name.starts_with('.'));
            assert!(
                !names.iter().any(is_version),
                "{names:?} after a build that was refused"
            );
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_files_of_each_format_are_built() {
        let check = |data: &[u8], expected| {
            let (choice, bytes) = data.split_first().unwrap_or((&0, &[]));
            assert_eq!(feed(*choice, bytes), expected);
        };
        check(
            include_bytes!("../corpus/table_input/numbers-snappy-parquet"),
            true,
        );
        check(include_bytes!("../corpus/table_input/numbers-arrow-file"), true);
        check(include_bytes!("../corpus/table_input/rows-csv"), true);
        check(include_bytes!("../corpus/table_input/rows-jsonl"), true);
        check(include_bytes!("../corpus/table_input/pair-npy"), true);
        check(include_bytes!("../corpus/table_input/nan-jsonl"), false);
    }
}
