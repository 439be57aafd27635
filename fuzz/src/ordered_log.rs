//! The log of an ordered store, as a start finds it on the disk or a follower gets it from its leader: `wal` and the records of
//! `engines/ordered`.
//!
//! The first byte says what the others are: a segment's file as it is; records that are framed here with sound checksums into a first
//! segment; or such records on their way to a store that follows and has some already. What must hold: nothing panics and memory is
//! bounded, whatever comes; a store that opens finds the same contents when it is opened again; and what a follower refuses changes
//! nothing but the time by which its keys expire, unless it gives up its log.

use crate::cuts::settings;
use crate::files;
use crate::memory::within;
use crate::ordered::{Contents, add_records, check_same, close, contents, open, opens, segment};
use millpond_engines_ordered::{Position, Shipment, Store};

/// More than the files' entries, the places for them and what threads take.
const BYTES_MAX: usize = 16 << 20;
const HISTORY: [u8; 16] = [7; 16];
const EPOCH: u64 = 1;
/// What a follower has, as an input says records: two keys, one that expires in the year 2100, and a list of two items.
const HAS: [&[u8]; 3] = [
    b"\x01\0\x02\x14\0\x01\0\0\0\x01\0\0\0ax\x01\0\0\0\x01\0\0\0by",
    b"\x03\0\x01\x1a\0\0\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\xd8\xc3\x2c\xbb\x03\0\0ez",
    b"\x04\0\x01\x20\0\0\0\0\0\0\0\0\0\x01\0\0\0\x0e\0\0\0\x02l\x02\0\0\0\x01\0\0\0i\x01\0\0\0j",
];
/// The version behind these.
const NEXT_VERSION: u64 = 5;

/// Feeds a log; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn ordered_log(data: &[u8]) {
    within(BYTES_MAX, || accepts(data));
}

/// Whether a store opens with this log, or a follower takes the records.
pub(crate) fn accepts(data: &[u8]) -> bool {
    let (form, rest) = data.split_first().unwrap_or((&0, &[]));
    let folder = files::folder();
    let (name, mut file) = segment(1, 1, (EPOCH, HISTORY));
    match form % 3 {
        0 => file = rest.to_vec(),
        1 => add_records(&mut file, rest, (1, 1)),
        _ => return follows(rest),
    }
    files::write(folder.path(), &name, &file);
    opens(folder.path())
}

/// Whether a follower takes what comes to it.
fn follows(input: &[u8]) -> bool {
    let ([history, epoch, first, cut], rest) = settings(input);
    let (now_ms, rest) = settings(rest);
    let mut whole = Shipment {
        history: HISTORY,
        epoch: EPOCH,
        first: 1,
        last: u64::MAX,
        bytes: Vec::new(),
        skipped: 0,
        rest: 0,
        now_ms: 0,
    };
    add_records(&mut whole.bytes, &HAS.concat(), (1, 1));
    let folder = files::folder();
    let store = open(folder.path(), true).unwrap_or_else(|| panic!("an empty folder is refused"));
    store
        .follow(whole.clone())
        .unwrap_or_else(|error| panic!("{error}"));
    whole.history.iter_mut().for_each(|byte| *byte ^= history);
    (whole.epoch, whole.first) = (epoch.into(), first.into());
    whole.now_ms = u64::from_le_bytes(now_ms);
    whole.bytes.clear();
    add_records(&mut whole.bytes, rest, (whole.first, NEXT_VERSION));
    let told_ms = whole.now_ms;
    let before = state(&store);
    let taken = store.follow(last_piece(&store, whole, cut));
    let now = state(&store);
    if taken.is_err() {
        assert_eq!(now.0, before.0, "the position of a follower that refuses");
        if store.read_only().is_some() {
            // Sound records that cannot be made of what it has: they are in its log, and it says that nothing may be built on them.
            return false;
        }
        check_same(&before.1, &now.1, told_ms);
    }
    close(store);
    let again = open(folder.path(), true).unwrap_or_else(|| panic!("a follower does not open again"));
    let after = state(&again);
    assert_eq!(after.0, now.0, "the position of a follower that is opened again");
    check_same(&now.1, &after.1, told_ms);
    close(again);
    taken.is_ok()
}

fn state(store: &Store) -> (Position, Contents) {
    let position = store.position().unwrap_or_else(|error| panic!("{error}"));
    (position, contents(store))
}

/// Sends a shipment but for its last piece, where it is cut, which it returns.
fn last_piece(store: &Store, whole: Shipment, cut: u8) -> Shipment {
    let bytes = whole.bytes.len();
    if cut == 0 || bytes < 2 {
        return whole;
    }
    let at = 1 + (bytes - 1) * usize::from(cut) / 256;
    let (first, last) = whole.bytes.split_at(at);
    let piece = Shipment {
        bytes: first.to_vec(),
        rest: last.len() as u64,
        ..whole.clone()
    };
    store
        .follow(piece)
        .unwrap_or_else(|error| panic!("a piece: {error}"));
    Shipment {
        bytes: last.to_vec(),
        skipped: at as u64,
        ..whole
    }
}
