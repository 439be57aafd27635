//! The bytes of a checkpoint, as docs/formats/ordered-checkpoint.md draws them.
//!
//! No I/O. Invariant: what encodes decodes to the same, and no input makes decoding panic or allocate.

use millpond_wal::{Fault, History};

use crate::list;
use crate::put::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::tree::Content;

const MAGIC: &[u8; 4] = b"MPCK";
const BLOCK_MAGIC: &[u8; 4] = b"MPCB";
const FOOT_MAGIC: &[u8; 4] = b"MPCF";
const VERSION: u32 = 1;
/// Bytes of the header.
pub(crate) const HEAD_BYTES: usize = 64;
/// Bytes of the footer.
pub(crate) const FOOT_BYTES: usize = 64;
/// Bytes of a block before its entries.
pub(crate) const BLOCK_HEAD_BYTES: usize = 24;
/// Flags, lengths and version of an entry.
const ENTRY_HEAD_BYTES: usize = 17;
const TIME_BYTES: usize = 8;
/// In an entry's flags: it expires; its value is a list.
const EXPIRES: u8 = 1;
const LIST: u8 = 2;
/// A block ends with the entry that makes it as large.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// A larger block was never written.
pub(crate) const BLOCK_BYTES_MAX: usize =
    BLOCK_BYTES + ENTRY_HEAD_BYTES + TIME_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX;

/// What a checkpoint says of itself before its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Of the first record that is still needed.
    pub sequence: u64,
    /// Version of the next entry before that record.
    pub first_version: u64,
    pub history: History,
}

/// And behind them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Foot {
    /// Of the last record that may show.
    pub last_sequence: u64,
    /// Version of the next entry behind that record.
    pub next_version: u64,
    /// The store's.
    pub time_ms: u64,
    pub entries: u64,
    pub blocks: u64,
    /// Of the file.
    pub length: u64,
    /// Of keys and values.
    pub bytes: u64,
}

impl Head {
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..4].copy_from_slice(MAGIC);
        out[4..8].copy_from_slice(&VERSION.to_le_bytes());
        out[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..24].copy_from_slice(&self.first_version.to_le_bytes());
        out[24..24 + History::BYTES].copy_from_slice(&self.history.to_bytes());
        let checksum = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Head, Fault> {
        check_magic(bytes, MAGIC)?;
        check_crc(u32_at(bytes, 60), crc32c::crc32c(&bytes[..60]))?;
        let version = u32_at(bytes, 4);
        if version != VERSION {
            return Err(Fault::Unsupported(version.into()));
        }
        if bytes[48..60] != [0; 12] {
            return Err(Fault::Malformed("bytes 48 to 59 are not zero".into()));
        }
        let mut history = [0; History::BYTES];
        history.copy_from_slice(&bytes[24..24 + History::BYTES]);
        Ok(Head {
            sequence: u64_at(bytes, 8),
            first_version: u64_at(bytes, 16),
            history: History::from_bytes(&history),
        })
    }
}

impl Foot {
    pub fn encode(&self) -> [u8; FOOT_BYTES] {
        let mut out = [0; FOOT_BYTES];
        out[..4].copy_from_slice(FOOT_MAGIC);
        let fields = [
            self.last_sequence,
            self.next_version,
            self.time_ms,
            self.entries,
            self.blocks,
            self.length,
            self.bytes,
        ];
        for (place, field) in out[8..].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&out[8..]);
        out[4..8].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8; FOOT_BYTES]) -> Result<Foot, Fault> {
        check_magic(bytes, FOOT_MAGIC)?;
        check_crc(u32_at(bytes, 4), crc32c::crc32c(&bytes[8..]))?;
        Ok(Foot {
            last_sequence: u64_at(bytes, 8),
            next_version: u64_at(bytes, 16),
            time_ms: u64_at(bytes, 24),
            entries: u64_at(bytes, 32),
            blocks: u64_at(bytes, 40),
            length: u64_at(bytes, 48),
            bytes: u64_at(bytes, 56),
        })
    }
}

/// A block that entries are added to.
#[derive(Debug, Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    entries: u32,
}

impl Block {
    pub fn push(&mut self, content: &Content<'_>) {
        if self.bytes.is_empty() {
            self.bytes.resize(BLOCK_HEAD_BYTES, 0);
        }
        let expires = if content.expires_ms == 0 { 0 } else { EXPIRES };
        let flags = expires | if content.is_list { LIST } else { 0 };
        let out = &mut self.bytes;
        out.push(flags);
        out.extend_from_slice(&(content.key.len() as u32).to_le_bytes());
        out.extend_from_slice(&(content.value.len() as u32).to_le_bytes());
        out.extend_from_slice(&content.version.to_le_bytes());
        if flags & EXPIRES != 0 {
            out.extend_from_slice(&content.expires_ms.to_le_bytes());
        }
        out.extend_from_slice(content.key);
        out.extend_from_slice(content.value);
        self.entries += 1;
    }

    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// All of its bytes, as the block of that number.
    pub fn finish(&mut self, number: u64) -> &[u8] {
        let (entries, length) = (self.entries, self.bytes.len() as u32);
        if let Some(head) = self.bytes.get_mut(..BLOCK_HEAD_BYTES) {
            head[..4].copy_from_slice(BLOCK_MAGIC);
            head[8..12].copy_from_slice(&length.to_le_bytes());
            head[12..16].copy_from_slice(&entries.to_le_bytes());
            head[16..24].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32c::crc32c(self.bytes.get(8..).unwrap_or_default());
        if let Some(place) = self.bytes.get_mut(4..8) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        &self.bytes
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        // An entry of 8 MiB is rare.
        self.bytes.shrink_to(2 * BLOCK_BYTES);
        self.entries = 0;
    }
}

/// How long a block is that begins so; `left` bytes are there for it.
pub(crate) fn block_length(head: &[u8; BLOCK_HEAD_BYTES], number: u64, left: u64) -> Result<usize, Fault> {
    check_magic(head, BLOCK_MAGIC)?;
    let length = u32_at(head, 8) as usize;
    let is_possible = (BLOCK_HEAD_BYTES + ENTRY_HEAD_BYTES..=BLOCK_BYTES_MAX).contains(&length);
    if !is_possible || length as u64 > left {
        let found = format!("length {length} of a block, {left} bytes are left");
        return Err(Fault::Unreadable(found));
    }
    match u64_at(head, 16) {
        found if found != number => Err(Fault::Unreadable(format!("block {found}, expected {number}"))),
        _ => Ok(length),
    }
}

/// What a block holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub entries: u64,
    /// Of keys and values.
    pub bytes: u64,
}

/// Visits the entries of a whole block.
pub(crate) fn read_block<'b>(block: &'b [u8], mut visit: impl FnMut(Content<'b>)) -> Result<Held, Fault> {
    let Some((head, mut rest)) = block.split_first_chunk::<BLOCK_HEAD_BYTES>() else {
        return Err(Fault::Unreadable(format!("{} bytes of a block", block.len())));
    };
    let behind = block.get(8..).unwrap_or_default();
    check_crc(u32_at(head, 4), crc32c::crc32c(behind))?;
    let (mut held, mut before) = (Held::default(), None);
    while let Some((content, behind)) = split_entry(rest)? {
        let is_ascending = before.is_none_or(|before| before < content.key);
        let fits = content.key.len() <= KEY_BYTES_MAX && content.value.len() <= VALUE_BYTES_MAX;
        let fits = fits && (!content.is_list || list::count(content.value).is_some_and(|count| count > 0));
        if !is_ascending || !fits || content.version == 0 {
            let found = format!("entry {} does not follow, or is beyond the limits", held.entries);
            return Err(Fault::Malformed(found));
        }
        held.entries += 1;
        held.bytes += (content.key.len() + content.value.len()) as u64;
        visit(content);
        (before, rest) = (Some(content.key), behind);
    }
    match u64::from(u32_at(head, 12)) {
        announced if announced == held.entries => Ok(held),
        announced => Err(Fault::Malformed(format!(
            "{announced} entries announced, {} found",
            held.entries
        ))),
    }
}

/// The entry that bytes begin with, and what is behind it; nothing at their end.
fn split_entry(bytes: &[u8]) -> Result<Option<(Content<'_>, &[u8])>, Fault> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let cut = || Fault::Malformed(format!("{} bytes, too few for an entry", bytes.len()));
    let (head, mut rest) = bytes.split_first_chunk::<ENTRY_HEAD_BYTES>().ok_or_else(cut)?;
    let mut expires_ms = 0;
    let flags = head[0];
    if flags & !(EXPIRES | LIST) != 0 {
        // A newer build may have written it.
        return Err(Fault::Unsupported(flags.into()));
    }
    if flags & EXPIRES != 0 {
        let (time, behind) = rest.split_first_chunk::<TIME_BYTES>().ok_or_else(cut)?;
        (expires_ms, rest) = (u64::from_le_bytes(*time), behind);
        if expires_ms == 0 {
            return Err(Fault::Malformed("an entry that expires at 0".into()));
        }
    }
    let (key, rest) = rest.split_at_checked(u32_at(head, 1) as usize).ok_or_else(cut)?;
    let (value, rest) = rest.split_at_checked(u32_at(head, 5) as usize).ok_or_else(cut)?;
    let content = Content {
        key,
        value,
        version: u64_at(head, 9),
        expires_ms,
        is_list: flags & LIST != 0,
    };
    Ok(Some((content, rest)))
}

fn check_magic(bytes: &[u8], expected: &[u8; 4]) -> Result<(), Fault> {
    let found = bytes.get(..4).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (found.escape_ascii(), expected.escape_ascii());
    Err(Fault::Unreadable(format!(
        "magic \"{found}\", expected \"{expected}\""
    )))
}

fn check_crc(written: u32, computed: u32) -> Result<(), Fault> {
    if written == computed {
        return Ok(());
    }
    let found = format!("checksum {written:#010x}, its bytes have {computed:#010x}");
    Err(Fault::Unreadable(found))
}

// The arrays below are of fixed size and `at` is a constant of the format at every call.
fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
