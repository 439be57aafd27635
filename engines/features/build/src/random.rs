//! Tables of random rows under the keys 0, 1, 2, …, to try a server or measure one where there are no embeddings yet.
//!
//! Its invariant: a row depends on the seed, its key and the dimension alone, on every machine.

use std::path::PathBuf;

use millpond_engines_features::write::{Summary, Writer};
use millpond_engines_features::{Schema, Table};

use crate::{Error, Progress, next_version};

const PROGRESS_ROWS: u64 = 100_000;

/// What to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomOptions {
    /// The folder of all tables; the version appears in `out_dir/name/`.
    pub out_dir: PathBuf,
    /// The table's name.
    pub name: String,
    /// How many rows: their keys are `0..rows`.
    pub rows: u64,
    /// Floats of a row, each in [-1, 1).
    pub dim: usize,
    /// What the rows are derived from.
    pub seed: u64,
    /// Shard files, 1 to 1,024.
    pub shards: u32,
    /// Whether a table that is there already and has as many rows of as many floats is kept as it is.
    pub keep: bool,
}

/// Makes a new version of a table; nothing where one was kept. `progress` is called every 100,000 rows and at the last.
///
/// # Errors
/// [`Error::Table`] as the engine says it: a name, dimension or number of shards outside the limits, or the disk.
pub fn random(options: &RandomOptions, progress: &mut dyn FnMut(Progress)) -> Result<Option<Summary>, Error> {
    let table_dir = options.out_dir.join(&options.name);
    if options.keep && is_there(options) {
        return Ok(None);
    }
    let version = next_version(&table_dir)?;
    let (dim, rows_total) = (options.dim, options.rows);
    let schema = Schema::floats(dim);
    let writer = Writer::create(&table_dir, &options.name, version, schema, options.shards)?;
    let mut writer = writer.source(format!("random rows, seed {}", options.seed));
    let mut row = vec![0.0; dim];
    for key in 0..rows_total {
        for (at, value) in row.iter_mut().enumerate() {
            *value = unit(options.seed, key, at as u64);
        }
        writer.push(key, &row)?;
        let rows = key + 1;
        if rows % PROGRESS_ROWS == 0 || rows == rows_total {
            let share = rows as f64 / rows_total as f64;
            progress(Progress { rows, share });
        }
    }
    Ok(Some(writer.finish()?))
}

fn is_there(options: &RandomOptions) -> bool {
    Table::open_version(&options.out_dir.join(&options.name), None)
        .is_ok_and(|table| table.rows() == options.rows && table.dim() == options.dim)
}

/// A number in [-1, 1), by the finalizer of SplitMix64 (Steele, Lea and Flood 2014) over seed, key and place.
fn unit(seed: u64, key: u64, place: u64) -> f32 {
    let mix = |state: u64| {
        let z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let bits = mix(mix(mix(seed) ^ key) ^ place) >> 40;
    bits as f32 / (1u32 << 23) as f32 - 1.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn rows_are_the_same_again_and_a_table_that_fits_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = RandomOptions {
            out_dir: dir.path().to_owned(),
            name: "items".into(),
            rows: 500,
            dim: 3,
            seed: 7,
            shards: 2,
            keep: true,
        };
        let made = random(&options, &mut |_| {}).unwrap().unwrap();
        assert_eq!((made.version, made.rows, made.dim), (1, 500, 3));
        assert!(random(&options, &mut |_| {}).unwrap().is_none());
        let table = Table::open_version(&dir.path().join("items"), None).unwrap();
        let (mut values, mut found) = ([0.0; 6], [0]);
        assert_eq!(table.lookup(&[0, 499], &mut values, &mut found), 2);
        let expected: Vec<f32> = [0, 499]
            .iter()
            .flat_map(|&key| (0..3).map(move |at| unit(7, key, at)))
            .collect();
        assert_eq!(values, expected.as_slice());
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        options.rows = 501;
        assert_eq!(random(&options, &mut |_| {}).unwrap().unwrap().version, 2);
    }

    /// Written by the build that wrote that format: `features random --rows 300 --dim 3 --shards 2 --seed 7`.
    fn format_1() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format1/films/00000001")
    }

    #[test]
    fn a_table_of_format_1_answers_as_ever() {
        let mut table = Table::open(&format_1()).unwrap();
        table.verify().unwrap();
        table.make_resident().unwrap();
        assert_eq!((table.format(), table.rows(), table.dim()), (1, 300, 3));
        let keys: Vec<u64> = (0..400).rev().collect();
        let (mut values, mut found) = (vec![7.0; 1200], vec![0; 50]);
        assert_eq!(table.lookup(&keys, &mut values, &mut found), 300);
        for (&key, row) in keys.iter().zip(values.chunks(3)) {
            let expected = [0, 1, 2].map(|at| if key < 300 { unit(7, key, at) } else { 0.0 });
            assert_eq!(row, expected, "key {key}");
        }
    }

    #[test]
    fn damage_to_a_table_of_format_1_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let version_dir = dir.path().join("00000001");
        fs::create_dir(&version_dir).unwrap();
        let files = ["manifest.json", "shard-00000.mpf", "shard-00001.mpf"];
        for file in files {
            fs::copy(format_1().join(file), version_dir.join(file)).unwrap();
        }
        for file in files {
            let path = version_dir.join(file);
            let whole = fs::read(&path).unwrap();
            let check = |bytes: &[u8]| {
                fs::write(&path, bytes).unwrap();
                let error = Table::open(&version_dir).err().unwrap().to_string();
                assert!(error.contains(file), "{error}");
            };
            for at in (0..whole.len()).step_by(17) {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                check(&flipped);
                check(&whole[..at]);
            }
            check(&[&whole[..], &[0; 64]].concat());
            fs::write(&path, whole).unwrap();
        }
        Table::open(&version_dir).unwrap();
    }
}
