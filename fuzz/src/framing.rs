//! Segments of a log with sound checksums around an input's bytes, so that what stands behind the checksums is reached.
//!
//! It is written from docs/formats alone. Invariant: it shares no code with the logs that read it, and changes no byte that it is given.

/// Of the segments that are made here.
pub(crate) const MARKER: u32 = 0x5eed_0001;

/// What the header of a segment says.
pub(crate) struct Header {
    pub magic: [u8; 4],
    pub sequence: u64,
    /// What its keeper counts, or says instead.
    pub number: u64,
    /// Epoch and history, which make it one of format 2.
    pub history: Option<(u64, [u8; 16])>,
}

impl Header {
    pub fn encode(&self) -> Vec<u8> {
        let format = 1 + u32::from(self.history.is_some());
        let mut file = self.magic.to_vec();
        file.extend(format.to_le_bytes());
        file.extend(self.sequence.to_le_bytes());
        file.extend(self.number.to_le_bytes());
        file.extend(MARKER.to_le_bytes());
        end_with_crc32c(&mut file);
        if let Some((epoch, history)) = self.history {
            file.extend(epoch.to_le_bytes());
            file.extend(history);
            file.extend([0; 4]);
            end_with_crc32c(&mut file);
        }
        file
    }
}

/// Adds a record.
pub(crate) fn add_record(file: &mut Vec<u8>, (kind, group_index): (u8, u8), sequence: u64, body: &[u8]) {
    let mut record = ((28 + body.len()) as u32).to_le_bytes().to_vec();
    record.extend([kind, 0, 0, 0]);
    record.extend(sequence.to_le_bytes());
    record.extend(u32::from(group_index).to_le_bytes());
    record.extend(body);
    file.extend(MARKER.to_le_bytes());
    add_behind_crc32c(file, &record);
}

/// Adds the checksum of all that is there.
pub(crate) fn end_with_crc32c(file: &mut Vec<u8>) {
    file.extend(crc32c(file).to_le_bytes());
}

/// Adds bytes behind their checksum.
pub(crate) fn add_behind_crc32c(file: &mut Vec<u8>, bytes: &[u8]) {
    file.extend(crc32c(bytes).to_le_bytes());
    file.extend(bytes);
}

/// Cuts bytes behind as many as two bytes say, or all where there are fewer.
pub(crate) fn cut(bytes: &[u8], length: [u8; 2]) -> (&[u8], &[u8]) {
    bytes.split_at(usize::from(u16::from_le_bytes(length)).min(bytes.len()))
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_polynomials() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}
