//! Damaged input of every format but Parquet, which `build.rs` has.
//!
//! Invariant checked: whatever bytes an input has, a build ends in a whole table or in an error that leaves nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod input;
mod written;

use std::fs;
use std::path::Path;

use millpond_engines_features::Table;
use millpond_engines_features_build::{BuildOptions, Keys, build};
use proptest::prelude::*;
use written::{WAYS, npy_bytes};

fn options(dir: &Path, input: String) -> BuildOptions {
    BuildOptions {
        inputs: vec![input],
        ..BuildOptions::new(dir.join("tables"), "films")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// As fuzzing would have it: bytes of a good file, changed, cut and grown, in the formats that are read by code of this crate.
    #[test]
    fn any_bytes_end_in_a_table_or_an_error(
        name in prop::sample::select(vec!["a.csv", "a.jsonl", "a.npy"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
        grown in prop::collection::vec(any::<u8>(), 0..40),
        is_text in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = match name {
            "a.csv" => b"key,x,y\n1,2,3\n\"4\",\"[5,6]\",7\n".to_vec(),
            "a.jsonl" => b"{\"key\": 1, \"vector\": [2, 3.5e1]}\n{\"key\": -4, \"vector\": [5, 6]}\n".to_vec(),
            _ => npy_bytes("f4", "(2, 1)", vec![0; 8]),
        };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend(grown);
        let path = dir.path().join(name).display().to_string();
        fs::write(&path, bytes).unwrap();
        fs::write(dir.path().join("keys.npy"), npy_bytes("u8", "(2,)", (0..16).collect())).unwrap();
        let pair = format!("{},{path}", dir.path().join("keys.npy").display());
        let input = if name == "a.npy" { pair } else { path };
        let mut options = options(dir.path(), input);
        options.keys = is_text.then(|| Keys::Text { slot: String::new() });
        match build(&options, &mut |_| {}) {
            Ok(summary) => Table::open(&summary.path).unwrap().verify().unwrap(),
            Err(_) => prop_assert!(!options.out_dir.join("films").exists()),
        }
    }
}

#[test]
fn a_damaged_arrow_file_ends_in_a_table_or_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Vec<(u64, Vec<f32>)> = (0..20_u64).map(|key| (key, vec![key as f32, 1.0])).collect();
    for (way, write) in WAYS.iter().filter(|(way, _)| way.contains("Arrow")) {
        let input = write(dir.path(), &rows);
        let whole = fs::read(&input).unwrap();
        let mut refused = 0;
        let mut check = |bytes: &[u8], must_fail: bool| {
            fs::write(&input, bytes).unwrap();
            let options = options(dir.path(), input.clone());
            match build(&options, &mut |_| {}) {
                Ok(_) => {
                    assert!(!must_fail, "{way}: {} bytes", bytes.len());
                    fs::remove_dir_all(&options.out_dir).unwrap();
                }
                Err(_) => refused += 1,
            }
            let left = fs::read_dir(&options.out_dir).map_or(0, Iterator::count);
            assert_eq!(left, 0, "{way}");
        };
        for bit in (0..whole.len() * 8).step_by(61) {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            check(&flipped, false);
        }
        let is_file = !way.contains("stream");
        // The end of a stream says only that nothing follows.
        for length in (0..whole.len() - 8).step_by(31) {
            check(&whole[..length], is_file);
        }
        assert!(refused > whole.len() / 31, "{way}: {refused} refused");
    }
}
