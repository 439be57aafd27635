//! The log of a table's overlay, as a start finds it on the disk: `wal` and the records of `engines/features`.
//!
//! The first byte says what the others are: a segment's file as it is, or records that are framed here with sound checksums, so that
//! what stands behind these is reached. What must hold: nothing panics and memory is bounded, whatever the file holds; and an
//! overlay that opens finds the same rows when it is opened again.

use crate::files;
use crate::framing::{Header, add_record, cut};
use crate::memory::within;
use millpond_engines_features::write::Writer;
use millpond_engines_features::{Durability, Overlay, OverlaySection, Schema, Table};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// Numbers of a row, and keys of the table below.
const DIM: usize = 2;
const KEYS: u64 = 8;
/// More than the files' rows, the places for them and what a thread takes.
const BYTES_MAX: usize = 16 << 20;
/// Of the segment that is made here.
const HISTORY: u64 = 0x77;

fn table() -> &'static Path {
    static TABLE: OnceLock<TempDir> = OnceLock::new();
    let folder = TABLE.get_or_init(|| write().unwrap_or_else(|error| panic!("{error}")));
    folder.path()
}

fn write() -> Result<TempDir, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut writer = Writer::create(folder.path(), "t", 1, Schema::floats(DIM), 1)?;
    for key in 0..KEYS {
        writer.push(key, &[key as f32, 0.0])?;
    }
    writer.finish()?;
    Ok(folder)
}

/// Feeds a log; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn overlay_log(data: &[u8]) {
    // The table is not the input's.
    table();
    within(BYTES_MAX, || opens(data));
}

/// Whether an overlay opens with this log.
pub(crate) fn opens(data: &[u8]) -> bool {
    let (form, rest) = data.split_first().unwrap_or((&0, &[]));
    let file = match form & 1 {
        0 => rest.to_vec(),
        _ => framed(rest),
    };
    let folder = files::folder();
    let section = OverlaySection {
        path: Some(folder.path().to_path_buf()),
        durability: Durability::Logged,
        ..OverlaySection::default()
    };
    files::write(folder.path(), "log-00000000000000000001.mpl", &file);
    let Some(first) = rows(&section) else { return false };
    let again = rows(&section);
    assert_eq!(again.as_ref(), Some(&first), "opened again it has other rows");
    true
}

type Rows = (u64, Vec<u64>, Vec<u8>);

/// How many entries it has, the keys, and the bits of numbers of those that are looked up; nothing where it does not open.
fn rows(section: &OverlaySection) -> Option<Rows> {
    let mut table = Table::open_version(table(), Some(1)).unwrap_or_else(|error| panic!("{error}"));
    let (overlay, _) = Overlay::open(section, &table, 1 << 20).ok()?;
    table.see(&overlay).unwrap_or_else(|error| panic!("{error}"));
    let table = Arc::new(table);
    let (mut keys, mut position) = (Vec::new(), Some(0));
    while let Some(at) = position {
        position = table.scan(at, 64, &mut keys);
    }
    keys.sort_unstable();
    let asked: Vec<u64> = (0..2 * KEYS).collect();
    let (mut values, mut found) = (vec![0.0; asked.len() * DIM], vec![0; asked.len().div_ceil(8)]);
    table.lookup(&asked, &mut values, &mut found);
    let bits = values
        .iter()
        .flat_map(|value: &f32| value.to_bits().to_le_bytes());
    Some((overlay.len(), keys, bits.chain(found).collect()))
}

/// A segment of these records: of each its kind, its place in its group, two bytes of length, and its body.
fn framed(mut records: &[u8]) -> Vec<u8> {
    let header = Header {
        magic: *b"MPFO",
        sequence: 1,
        number: HISTORY,
        history: None,
    };
    let mut file = header.encode();
    let mut sequence = 1_u64;
    while let [kind, group_index, low, high, rest @ ..] = records {
        let (body, behind) = cut(rest, [*low, *high]);
        add_record(&mut file, (*kind, *group_index), sequence, body);
        (records, sequence) = (behind, sequence + 1);
    }
    file
}
