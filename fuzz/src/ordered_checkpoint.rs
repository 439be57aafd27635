//! A checkpoint of an ordered store, as a start finds it on the disk or a follower copied it: `checkpoint` of `engines/ordered`.
//!
//! The first byte says what the others are: the checkpoint's file as it is, or its numbers and blocks of entries that are framed here with
//! sound checksums, with records of the log behind it; and whether there is a log. What must hold: nothing panics and memory is bounded,
//! whatever the files hold; a store that opens finds the same contents when it is opened again; and one that does not leaves them as they are.

use crate::cuts::settings;
use crate::files;
use crate::framing::{add_behind_crc32c, cut, end_with_crc32c};
use crate::memory::within;
use crate::ordered::{add_records, opens, segment};

/// More than the files' entries, the places for them and what threads take.
const BYTES_MAX: usize = 16 << 20;
const HISTORY: [u8; 16] = [7; 16];
/// In the first byte: the file is framed here; there is no log.
const FRAMED: u8 = 1;
const ALONE: u8 = 2;
/// Bytes of an entry before its key, where it does not expire.
const ENTRY_HEAD_BYTES: usize = 17;

/// Feeds a checkpoint; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn ordered_checkpoint(data: &[u8]) {
    within(BYTES_MAX, || accepts(data));
}

/// Whether a store opens with this checkpoint.
pub(crate) fn accepts(data: &[u8]) -> bool {
    let (form, rest) = data.split_first().unwrap_or((&0, &[]));
    let (file, records) = match form & FRAMED {
        0 => (rest.to_vec(), [].as_slice()),
        _ => framed(rest),
    };
    // The log goes on where the file says.
    let (_, numbers) = settings::<8>(&file);
    let (sequence, numbers) = number(numbers);
    let (first_version, numbers) = number(numbers);
    let (epoch, numbers) = number(numbers);
    let (history, _) = settings(numbers);
    let folder = files::folder();
    files::write(folder.path(), &format!("checkpoint-{sequence:020}.mpc"), &file);
    if form & ALONE == 0 {
        let (name, mut log) = segment(sequence, first_version, (epoch, history));
        add_records(&mut log, records, (sequence, first_version));
        files::write(folder.path(), &name, &log);
    }
    opens(folder.path())
}

fn number(bytes: &[u8]) -> (u64, &[u8]) {
    let (number, behind) = settings(bytes);
    (u64::from_le_bytes(number), behind)
}

/// A checkpoint, and the rest of the input: the numbers, how many records behind it may show in it, how many blocks it has, and of each two
/// bytes of length and its entries.
fn framed(input: &[u8]) -> (Vec<u8>, &[u8]) {
    let (sequence, rest) = number(input);
    let (first_version, rest) = number(rest);
    let (time_ms, rest) = number(rest);
    let ([shown, blocks], mut rest) = settings(rest);
    let mut file = b"MPCK\x01\0\0\0".to_vec();
    for number in [sequence, first_version, 1] {
        file.extend(number.to_le_bytes());
    }
    file.extend(HISTORY);
    file.extend([0; 12]);
    end_with_crc32c(&mut file);
    let (mut entries, mut bytes) = (0, 0);
    for number in 0..u64::from(blocks) {
        let (length, behind) = settings(rest);
        let (body, behind) = cut(behind, length);
        let (count, content) = measure(body);
        let mut block = ((24 + body.len()) as u32).to_le_bytes().to_vec();
        block.extend((count as u32).to_le_bytes());
        block.extend(number.to_le_bytes());
        block.extend(body);
        file.extend(b"MPCB");
        add_behind_crc32c(&mut file, &block);
        (entries, bytes, rest) = (entries + count, bytes + content, behind);
    }
    let mut foot = Vec::new();
    let last_sequence = sequence.wrapping_sub(1).wrapping_add(u64::from(shown));
    let next_version = first_version.wrapping_add(u64::from(shown));
    let length = (file.len() + 64) as u64;
    for number in [
        last_sequence,
        next_version,
        time_ms,
        entries,
        u64::from(blocks),
        length,
        bytes,
    ] {
        foot.extend(number.to_le_bytes());
    }
    file.extend(b"MPCF");
    add_behind_crc32c(&mut file, &foot);
    (file, rest)
}

/// How many whole entries bytes begin with, and the bytes of their keys and values.
fn measure(mut bytes: &[u8]) -> (u64, u64) {
    let (mut entries, mut content) = (0, 0);
    while let Some((head, behind)) = bytes.split_first_chunk::<ENTRY_HEAD_BYTES>() {
        let [flags, k0, k1, k2, k3, v0, v1, v2, v3, ..] = *head;
        let time = usize::from(flags & 1) * 8;
        let key = u32::from_le_bytes([k0, k1, k2, k3]) as usize;
        let value = u32::from_le_bytes([v0, v1, v2, v3]) as usize;
        let Some(behind) = behind.get(time + key + value..) else {
            break;
        };
        (entries, content) = (entries + 1, content + (key + value) as u64);
        bytes = behind;
    }
    (entries, content)
}
