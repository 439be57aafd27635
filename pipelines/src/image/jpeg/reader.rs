//! Bytes in memory for the JPEG decoder. Its Huffman loop reads four bytes at a time, and `ZCursor` copies each four through a
//! slice of unknown length; here the length is a constant once the call is inlined.
//!
//! Single bytes, as the Huffman loop alone reads them, are ones before a marker, for two reasons. A file may be cut off and end with an end
//! marker all the same, and the decoder takes what is missing for zeros; but no Huffman code has ones alone, so there a block without data is
//! an error, where that is wanted. And the decoder forgets the data that it has read ahead when it sees a restart marker at the end of a row.
//! What it does not need of the ones it skips on the way to the marker.
//!
//! Its invariant: the position may lie beyond the end, where single bytes read as 0 and longer reads fail.

use zune_core::bytestream::{ZByteIoError, ZByteReaderTrait, ZSeekFrom};

/// Bytes of ones before a marker, as entropy-coded data has them: 96 bits, where the decoder reads at most 64 ahead.
const ONES: [u8; 24] = [
    0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff,
    0,
];

/// The bytes of a file and the position of the next read.
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Whether missing data is to be an error.
    is_strict: bool,
    /// The marker that single reads have come to, and what they have not had yet of the ones before it.
    ahead: (usize, &'static [u8]),
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8], is_strict: bool) -> Reader<'b> {
        Reader {
            bytes,
            at: 0,
            is_strict,
            ahead: (0, &ONES),
        }
    }

    /// The next byte where it is 0xff: a one before a marker, as long as there are some left.
    #[cold]
    fn at_ff(&mut self) -> u8 {
        let has_ones = match self.bytes.get(self.at + 1) {
            None | Some(0 | 0xff) => false,
            Some(0xd0..=0xd7) => true,
            Some(_) => self.is_strict,
        };
        if self.ahead.0 != self.at {
            self.ahead = (self.at, &ONES);
        }
        if let (true, [one, rest @ ..]) = (has_ones, self.ahead.1) {
            self.ahead.1 = rest;
            return *one;
        }
        self.at += 1;
        0xff
    }

    #[inline(always)]
    fn rest(&self) -> &'b [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

fn moved(from: usize, by: i64) -> Option<usize> {
    isize::try_from(by)
        .ok()
        .and_then(|by| from.checked_add_signed(by))
}

// Always inlined: the decoder's loop calls these for every few bits, and only there are lengths constants.
impl ZByteReaderTrait for Reader<'_> {
    /// The next byte, or a one before a marker; 0 behind the end.
    #[inline(always)]
    fn read_byte_no_error(&mut self) -> u8 {
        match self.bytes.get(self.at) {
            Some(0xff) => self.at_ff(),
            Some(byte) => {
                self.at += 1;
                *byte
            }
            None => 0,
        }
    }

    #[inline(always)]
    fn read_exact_bytes(&mut self, buf: &mut [u8]) -> Result<(), ZByteIoError> {
        self.peek_exact_bytes(buf)?;
        self.at += buf.len();
        Ok(())
    }

    #[inline(always)]
    fn read_bytes(&mut self, buf: &mut [u8]) -> Result<usize, ZByteIoError> {
        let read = self.peek_bytes(buf)?;
        self.at += read;
        Ok(read)
    }

    #[inline(always)]
    fn peek_bytes(&mut self, buf: &mut [u8]) -> Result<usize, ZByteIoError> {
        let rest = self.rest();
        let len = rest.len().min(buf.len());
        for (to, from) in buf.iter_mut().zip(rest) {
            *to = *from;
        }
        Ok(len)
    }

    #[inline(always)]
    fn peek_exact_bytes(&mut self, buf: &mut [u8]) -> Result<(), ZByteIoError> {
        let rest = self.rest();
        match rest.get(..buf.len()) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(ZByteIoError::NotEnoughBytes(rest.len(), buf.len())),
        }
    }

    #[inline(always)]
    fn z_seek(&mut self, from: ZSeekFrom) -> Result<u64, ZByteIoError> {
        let to = match from {
            ZSeekFrom::Start(to) => usize::try_from(to).ok(),
            ZSeekFrom::End(by) => moved(self.bytes.len(), by),
            ZSeekFrom::Current(by) => moved(self.at, by),
        };
        self.at = to.ok_or(ZByteIoError::SeekError("a position before the first byte"))?;
        Ok(self.at as u64)
    }

    #[inline(always)]
    fn is_eof(&mut self) -> Result<bool, ZByteIoError> {
        Ok(self.at >= self.bytes.len())
    }

    #[inline(always)]
    fn z_position(&mut self) -> Result<u64, ZByteIoError> {
        Ok(self.at as u64)
    }

    fn read_remaining(&mut self, sink: &mut Vec<u8>) -> Result<usize, ZByteIoError> {
        let rest = self.rest();
        sink.extend_from_slice(rest);
        self.at = self.at.max(self.bytes.len());
        Ok(rest.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_end_with_the_bytes() {
        let mut reader = Reader::new(&[1, 2, 3, 4, 5], true);
        let mut four = [0; 4];
        reader.read_exact_bytes(&mut four).unwrap();
        assert_eq!((four, reader.z_position().unwrap()), ([1, 2, 3, 4], 4));
        let refused = reader.read_exact_bytes(&mut four);
        assert!(matches!(refused, Err(ZByteIoError::NotEnoughBytes(1, 4))));
        // What fails moves nothing.
        assert_eq!(reader.read_byte_no_error(), 5);
        assert!(reader.is_eof().unwrap());
        assert_eq!(reader.read_byte_no_error(), 0);
        assert_eq!(reader.read_bytes(&mut four).unwrap(), 0);
    }

    #[test]
    fn positions_are_before_and_behind_the_end_but_never_before_the_start() {
        let mut reader = Reader::new(&[1, 2, 3], true);
        assert_eq!(reader.z_seek(ZSeekFrom::End(-1)).unwrap(), 2);
        assert!(reader.z_seek(ZSeekFrom::Current(-3)).is_err());
        assert_eq!(reader.z_position().unwrap(), 2);
        assert_eq!(reader.z_seek(ZSeekFrom::Current(7)).unwrap(), 9);
        let mut two = [7; 2];
        assert_eq!(reader.peek_bytes(&mut two).unwrap(), 0);
        assert_eq!((reader.read_byte_no_error(), reader.is_eof().unwrap()), (0, true));
        assert_eq!(reader.z_seek(ZSeekFrom::Start(1)).unwrap(), 1);
        assert_eq!((reader.peek_bytes(&mut two).unwrap(), two), (2, [2, 3]));
        let mut sink = Vec::new();
        assert_eq!((reader.read_remaining(&mut sink).unwrap(), sink), (2, vec![2, 3]));
    }

    #[test]
    fn single_reads_get_ones_before_markers_alone() {
        let file = [7, 0xff, 0, 0xff, 0xd0, 1, 0xff, 0xff, 0xda, 2, 0xff, 0xd9, 0xff];
        let read = |is_strict| {
            let mut reader = Reader::new(&file, is_strict);
            let mut bytes = Vec::new();
            while !reader.is_eof().unwrap() {
                bytes.push(reader.read_byte_no_error());
            }
            bytes
        };
        let (first, second, third, end) = (&file[..3], &file[3..7], &file[7..10], &file[10..]);
        assert_eq!(read(false), [first, &ONES, second, third, end].concat());
        assert_eq!(
            read(true),
            [first, &ONES, second, &ONES, third, &ONES, end].concat()
        );
        // Who looks for the marker skips them.
        let mut reader = Reader::new(&file[10..], true);
        assert_eq!(
            (reader.read_byte_no_error(), reader.read_byte_no_error()),
            (0xff, 0)
        );
        let mut two = [0; 2];
        reader.read_exact_bytes(&mut two).unwrap();
        assert_eq!(two, [0xff, 0xd9]);
    }
}
