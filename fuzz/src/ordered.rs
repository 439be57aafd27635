//! What the files of an ordered store come to: opened, read through every door, closed, and opened again.
//!
//! Invariants: what differs between two readings of the same files is a finding, but for keys that expire about then; and so is a byte
//! that changes in files which are refused.

use crate::framing::{Header, add_record, cut};
use millpond_engines_ordered::{Durability, Kind, Options, Scan, Store, Versioned};
use std::collections::BTreeMap;
use std::path::Path;

/// Of a record's kind: its body is the input's as it is, with the number of its entries and their first version.
const AS_IS: u8 = 0x80;
/// Keys that expire so soon may be there in one of two readings.
const SOON_MS: u64 = 60_000;

/// What a key holds.
#[derive(Debug)]
pub(crate) struct Held {
    entry: Versioned,
    items: Vec<Vec<u8>>,
    ttl_ms: Option<u64>,
}

impl Held {
    /// Whether it has expired, or does soon, by the store's clock or where that is told a time.
    fn ends_soon(&self, told_ms: u64) -> bool {
        let by_ms = told_ms.saturating_add(SOON_MS);
        let is_soon = |expires_ms: u64| expires_ms <= by_ms;
        self.ttl_ms.is_some_and(|ttl_ms| ttl_ms <= SOON_MS) || self.entry.expires_ms.is_some_and(is_soon)
    }
}

/// All keys that are there.
pub(crate) type Contents = BTreeMap<Vec<u8>, Held>;

/// Reads all of a store, each key in every way.
pub(crate) fn contents(store: &Store) -> Contents {
    let mut visited = Vec::new();
    let all = Scan {
        limit: usize::MAX,
        ..Scan::default()
    };
    let cursor = store.scan_entries(&all, &mut |entry| {
        visited.push((entry.key.to_vec(), entry.kind, entry.value.to_vec()));
    });
    assert_eq!(cursor, None, "a scan of everything");
    let mut found = Contents::new();
    for (key, kind, value) in visited {
        let (entry, items) = (store.get(&key), store.items(&key, 0, -1, usize::MAX));
        let seen = store.inspect(&[&key]).pop().unwrap_or_default();
        // It has expired since.
        let Some(is) = seen.kind else { continue };
        let at = key.escape_ascii();
        let entry = entry.unwrap_or_else(|| panic!("key {at} is there, and was not"));
        let is_list = is == Kind::List;
        assert_eq!((entry.kind, &entry.value), (kind, &value), "key {at}");
        assert_eq!((is, seen.version), (kind, entry.version), "key {at}");
        assert_eq!(items.is_ok(), is_list, "items of key {at}");
        let items = items.unwrap_or_default();
        assert_eq!(seen.count, is_list.then_some(items.len()), "key {at}");
        assert_eq!(seen.bytes, value.len() + items.concat().len(), "key {at}");
        let ttl_ms = seen.ttl_ms;
        let before = found.insert(key.clone(), Held { entry, items, ttl_ms });
        assert!(before.is_none(), "key {at} was visited twice");
    }
    found
}

/// Compares two readings of one store, whose clock may have been told a time.
pub(crate) fn check_same(one: &Contents, other: &Contents, told_ms: u64) {
    for (key, held) in one.iter().chain(other) {
        let at = key.escape_ascii();
        match (one.get(key), other.get(key)) {
            (Some(one), Some(other)) => {
                assert_eq!((&one.entry, &one.items), (&other.entry, &other.items), "key {at}");
            }
            _ => assert!(
                held.ends_soon(told_ms),
                "key {at} is in one reading alone: {held:?}"
            ),
        }
    }
}

/// Opens the store in a folder, to follow another or to lead; nothing where it is refused.
pub(crate) fn open(folder: &Path, follows: bool) -> Option<Store> {
    let options = Options {
        durability: Durability::Logged,
        follows: follows.then(|| "leader".to_owned()),
        ..Options::default()
    };
    Some(Store::open(folder, options).ok()?.0)
}

/// Ends a store whose log is whole.
pub(crate) fn close(store: Store) {
    store.close().unwrap_or_else(|error| panic!("{error}"));
}

/// Whether a store opens with the files that are in a folder. If so it opens again; if not they are what they were.
pub(crate) fn opens(folder: &Path) -> bool {
    let before = files(folder);
    let Some(store) = open(folder, false) else {
        assert!(
            files(folder) == before,
            "it is refused, and its files have changed"
        );
        return false;
    };
    let first = contents(&store);
    close(store);
    let again = open(folder, false).unwrap_or_else(|| panic!("it opened, and does not again"));
    check_same(&first, &contents(&again), 0);
    close(again);
    true
}

/// The log's files and the checkpoints.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = listed.filter_map(|entry| entry.file_name().into_string().ok());
    let kept = names.filter(|name| name.starts_with("log-") || name.starts_with("checkpoint-"));
    kept.map(|name| {
        let bytes = std::fs::read(folder.join(&name)).unwrap_or_default();
        (name, bytes)
    })
    .collect()
}

/// The header of a segment, and its file's name.
pub(crate) fn segment(sequence: u64, first_version: u64, history: (u64, [u8; 16])) -> (String, Vec<u8>) {
    let header = Header {
        magic: *b"MPLG",
        sequence,
        number: first_version,
        history: Some(history),
    };
    (format!("log-{sequence:020}.mpl"), header.encode())
}

/// Adds the records that an input says from a sequence and a version on: of each its kind, its place in its group, how many entries it has,
/// two bytes of length, and what stands behind the first version.
pub(crate) fn add_records(file: &mut Vec<u8>, mut input: &[u8], (mut sequence, mut version): (u64, u64)) {
    while let [kind, group_index, count, low, high, rest @ ..] = input {
        let (given, behind) = cut(rest, [*low, *high]);
        let mut body = Vec::new();
        if kind & AS_IS == 0 {
            body.extend(u32::from(*count).to_le_bytes());
            body.extend(version.to_le_bytes());
        }
        body.extend(given);
        add_record(file, (kind & !AS_IS, *group_index), sequence, &body);
        sequence = sequence.wrapping_add(1);
        version = version.wrapping_add(u64::from(*count));
        input = behind;
    }
}
