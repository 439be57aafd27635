//! Files of feature tables, as a disk or an object store gives them: `engines/features`, from a folder to rows.
//!
//! A small table of two versions, a base and a delta, is changed byte by byte as the input says, and cut. Half of the inputs
//! have their checksums made anew afterwards, so that what stands behind them is reached. What must hold: nothing panics,
//! whatever the files hold, before they are verified and after; memory is bounded by the files; and where no checksum was
//! made anew, a version that verifies gives the rows that were written.

use crate::memory::within;
use millpond_engines_features::write::Writer;
use millpond_engines_features::{Column, Numbers, Pool, Schema, Table};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::xxh3_64;

/// Keys of the base; the delta changes the first and removes the last.
const KEYS: u64 = 20;
const DIM: usize = 3;
/// More than the files, the answers and what a reader keeps of each file.
const BYTES_MAX: usize = 4 << 20;
/// Of a shard: where its header ends, and where the header's checksum stands.
const HEADER_BYTES: usize = 128;
const CHECKSUM_AT: usize = 120;

/// A file of the table: its path below the table's folder, and its bytes.
type File = (PathBuf, Vec<u8>);

/// The files of the table as they were written.
fn written() -> &'static [File] {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    FILES.get_or_init(|| write().unwrap_or_else(|error| panic!("{error}")))
}

fn write() -> Result<Vec<File>, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let column = |name: &str, dim, numbers| Column {
        name: name.to_owned(),
        dim,
        numbers,
    };
    let schema = Schema {
        columns: vec![column("a", 2, Numbers::I8Scaled), column("b", 1, Numbers::F16)],
        ..Schema::floats(DIM)
    };
    let mut base = Writer::create(folder.path(), "t", 1, schema, 1)?;
    for key in 0..KEYS {
        base.push(key, &[key as f32, 1.0, -1.0])?;
    }
    base.finish()?;
    let mut delta = Writer::create_delta(
        folder.path(),
        2,
        Arc::new(Table::open_version(folder.path(), Some(1))?),
        1,
    )?;
    delta.push(0, &[7.0, 7.0, 7.0])?;
    delta.remove(KEYS - 1)?;
    delta.finish()?;
    let mut files = Vec::new();
    for version in ["00000001", "00000002"] {
        for file in ["manifest.json", "shard-00000.mpf"] {
            let path = Path::new(version).join(file);
            files.push((path.clone(), std::fs::read(folder.path().join(path))?));
        }
    }
    Ok(files)
}

/// Feeds changes of files: a byte of flags, then five bytes a change; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn table(data: &[u8]) {
    let (flags, changes) = data.split_first().unwrap_or((&0, &[]));
    let (is_sealed, mut files) = (flags & 1 == 1, written().to_vec());
    for change in changes.chunks_exact(5).take(64) {
        apply(&mut files, change);
    }
    if is_sealed {
        seal(&mut files);
    }
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    for (path, bytes) in &files {
        let path = folder.path().join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, bytes))
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let is_untouched = changes.len() < 5;
    for version in [1, 2] {
        let is_open = within(BYTES_MAX, || read(folder.path(), version, is_sealed));
        assert!(is_open || !is_untouched, "version {version} as it was written");
    }
}

/// File, place and value of a change; the file's upper bit cuts it there.
fn apply(files: &mut [File], change: &[u8]) {
    let [file, high, middle, low, value] = *change else {
        return;
    };
    let count = files.len();
    let Some((_, bytes)) = files.get_mut(usize::from(file & 0x7f) % count) else {
        return;
    };
    let place = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    if file & 0x80 != 0 {
        bytes.truncate(place);
    } else if let Some(byte) = place
        .checked_rem(bytes.len())
        .and_then(|place| bytes.get_mut(place))
    {
        *byte ^= value;
    }
}

/// Makes the checksums of shards, of their manifests and of what a delta says of its base anew.
fn seal(files: &mut [File]) {
    let mut base: Option<(String, String)> = None;
    for pair in files.chunks_exact_mut(2) {
        let [(_, manifest), (_, shard)] = pair else {
            continue;
        };
        let text = String::from_utf8_lossy(manifest).into_owned();
        let mut text = match header_checksums(shard) {
            Some((old, new)) => text.replace(&old, &new),
            None => text,
        };
        if let Some((old, new)) = &base {
            text = text.replace(old, new);
        }
        let head = "{\n  \"checksum\": \"0123456789abcdef\",\n".len();
        let rest = text.as_bytes().get(head..).unwrap_or_default().to_vec();
        let old = text.get(head - 19..head - 3).map(str::to_owned);
        let new = format!("{:016x}", xxh3_64(&rest));
        base = old.map(|old| (old, new.clone()));
        *manifest = format!("{{\n  \"checksum\": \"{new}\",\n").into_bytes();
        manifest.extend(rest);
    }
}

/// The checksum that a shard's header had, and the one that it has now, in hexadecimal.
fn header_checksums(shard: &mut [u8]) -> Option<(String, String)> {
    let sections = shard.get(HEADER_BYTES..)?;
    let word = |at: usize| Some(u64::from_le_bytes(shard.get(at..at + 8)?.try_into().ok()?));
    // The pilots come first, two bytes a bucket, up to the next multiple of 64.
    let pilots = word(48)?.checked_mul(2)?.checked_next_multiple_of(64)?;
    let (pilots, slots) = sections.split_at_checked(usize::try_from(pilots).ok()?)?;
    let sums = [(64, xxh3_64(pilots)), (72, xxh3_64(slots))];
    let old = word(CHECKSUM_AT)?;
    for (at, sum) in sums {
        shard.get_mut(at..at + 8)?.copy_from_slice(&sum.to_le_bytes());
    }
    let new = xxh3_64(shard.get(..CHECKSUM_AT)?);
    shard
        .get_mut(CHECKSUM_AT..HEADER_BYTES)?
        .copy_from_slice(&new.to_le_bytes());
    Some((format!("{old:016x}"), format!("{new:016x}")))
}

/// Everything that reads: none of it may panic, verified or not. Whether the version opens, verifies, and is read into memory.
fn read(folder: &Path, version: u64, is_sealed: bool) -> bool {
    let Ok(mut table) = Table::open_version(folder, Some(version)) else {
        return false;
    };
    let is_whole = table.verify().is_ok();
    look_up(&table, version, is_whole && !is_sealed);
    let is_resident = table.make_resident().is_ok();
    if is_resident {
        look_up(&table, version, !is_sealed);
    }
    is_whole && is_resident
}

fn look_up(table: &Table, version: u64, is_as_written: bool) {
    let keys: Vec<u64> = (0..KEYS + 4).collect();
    let dim = table.dim();
    // A manifest whose checksum was made anew may say any width, which its shards contradict or have.
    let (mut values, mut found) = (vec![0.0; keys.len() * dim], vec![0; keys.len().div_ceil(8)]);
    let hits = table.lookup(&keys, &mut values, &mut found);
    let mut pooled = vec![0.0; dim];
    let last = keys.len() as u32;
    let _ = table.lookup_pooled(&keys, &[0, last], Pool::Max, &mut pooled, &mut found);
    let mut position = Some(0);
    let mut scanned = Vec::new();
    // A scan that does not end is a finding by libFuzzer's own clock.
    while let Some(at) = position {
        position = table.scan(at, 8, &mut scanned);
    }
    if !is_as_written {
        return;
    }
    assert_eq!(dim, DIM);
    let expected = if version == 2 { KEYS - 1 } else { KEYS };
    assert_eq!((hits as u64, scanned.len() as u64), (expected, expected));
    for (key, row) in keys.iter().zip(values.chunks(DIM)).take(expected as usize) {
        let rounded = if version == 2 && *key == 0 {
            [7.0, 7.0, 7.0]
        } else {
            [*key as f32, 1.0, -1.0]
        };
        let near = row
            .iter()
            .zip(rounded)
            .all(|(value, number)| (value - number).abs() < 0.1);
        assert!(near, "key {key} of version {version}: {row:?}");
    }
}
