//! The sections of a shard file while they are written.
//!
//! Knows nothing of what they hold. Invariant: a section's checksum is over every byte that was written of it, its padding too.

use std::io::Write;

use xxhash_rust::xxh3::Xxh3Default;

/// Bytes that are hashed and then written at a time.
pub(super) const PIECE_BYTES: usize = 256 * 1024;

/// One section of a file at a time: what was written of it, and its checksum.
pub(super) struct Section<'a, W> {
    out: &'a mut W,
    hasher: Xxh3Default,
    bytes: u64,
}

impl<'a, W: Write> Section<'a, W> {
    pub(super) fn new(out: &'a mut W) -> Section<'a, W> {
        Section {
            out,
            hasher: Xxh3Default::new(),
            bytes: 0,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.bytes += bytes.len() as u64;
        // A piece is written while the cache still has it.
        bytes.chunks(PIECE_BYTES).try_for_each(|piece| {
            self.hasher.update(piece);
            self.out.write_all(piece)
        })
    }

    /// Pads the section to its length and begins the next; returns its checksum.
    pub(super) fn end(&mut self, padded_bytes: u64) -> std::io::Result<u64> {
        let padding = padded_bytes.saturating_sub(self.bytes);
        self.write(&vec![0; padding as usize])?;
        let checksum = self.hasher.digest();
        self.hasher.reset();
        self.bytes = 0;
        Ok(checksum)
    }
}
