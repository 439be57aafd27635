//! Byte strings in one buffer, and a view of some of them: elements that differ in width.
//!
//! They are bytes: whether they are text is for their reader to say. Its invariant: ends never fall, and the last is that of the buffer.

use std::fmt;
use std::ops::Range;

/// Byte strings, one after the other in one buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Bytes {
    /// No strings, with space for `strings` of them of `bytes` bytes in all.
    pub fn with_capacity(strings: usize, bytes: usize) -> Bytes {
        Bytes {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(strings),
        }
    }

    /// So many strings without bytes.
    pub(crate) fn empty(strings: usize) -> Bytes {
        Bytes {
            bytes: Vec::new(),
            ends: vec![0; strings],
        }
    }

    /// Appends one.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// Appends all of a view.
    pub(crate) fn extend(&mut self, view: BytesView<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(view.joined());
        // No end of a view is below its start.
        self.ends
            .extend(view.ends.iter().map(|end| start + (end - view.start)));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, in place.
    pub fn view(&self) -> BytesView<'_> {
        BytesView {
            bytes: &self.bytes,
            start: 0,
            ends: &self.ends,
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.view().iter()
    }

    /// Each of them as text; what is no text is left out.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.iter().filter_map(|string| std::str::from_utf8(string).ok())
    }
}

impl<T: AsRef<str>> FromIterator<T> for Bytes {
    fn from_iter<I: IntoIterator<Item = T>>(strings: I) -> Bytes {
        let mut bytes = Bytes::default();
        strings
            .into_iter()
            .for_each(|string| bytes.push(string.as_ref().as_bytes()));
        bytes
    }
}

/// Some of the strings of a [`Bytes`], where they lie.
#[derive(Clone, Copy)]
pub struct BytesView<'a> {
    /// Those of all strings: ends count from its beginning.
    bytes: &'a [u8],
    /// Where the first string of the view begins.
    start: usize,
    ends: &'a [usize],
}

impl<'a> BytesView<'a> {
    /// The strings in `range`; none where it is not inside.
    pub(crate) fn slice(self, range: Range<usize>) -> BytesView<'a> {
        let before = range.start.checked_sub(1);
        let start = before.map_or(Some(self.start), |before| self.ends.get(before).copied());
        BytesView {
            start: start.unwrap_or(self.start),
            ends: self.ends.get(range).unwrap_or_default(),
            ..self
        }
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.ends.is_empty()
    }

    /// Each of them.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        let mut start = self.start;
        self.ends.iter().map(move |&end| {
            let string = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            string
        })
    }

    /// The bytes of all of them, without what parts them.
    pub fn joined(self) -> &'a [u8] {
        let end = self.ends.last().copied().unwrap_or(self.start);
        self.bytes.get(self.start..end).unwrap_or_default()
    }

    /// What they take in memory: their bytes, and where each ends.
    pub fn bytes_held(self) -> usize {
        self.joined().len() + size_of_val(self.ends)
    }
}

/// Equal strings, wherever they lie.
impl PartialEq for BytesView<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

/// ASCII as it is, other bytes written out.
impl fmt::Debug for BytesView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(Escaped)).finish()
    }
}

struct Escaped<'a>(&'a [u8]);

impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_one_by_one() {
        let bytes: Bytes = ["a", "", "é"].into_iter().collect();
        assert_eq!(bytes.texts().collect::<Vec<_>>(), ["a", "", "é"]);
        assert_eq!((bytes.len(), Bytes::default().is_empty()), (3, true));
        assert_eq!(
            (bytes.view().joined(), bytes.view().bytes_held()),
            ("aé".as_bytes(), 27)
        );
    }

    #[test]
    fn a_slice_has_its_own_strings_alone() {
        let bytes: Bytes = ["ab", "", "c", "def"].into_iter().collect();
        let check = |range: Range<usize>, expected: &[&str]| {
            let slice = bytes.view().slice(range);
            let expected: Bytes = expected.iter().collect();
            assert_eq!(slice, expected.view());
            assert_eq!(slice.joined(), expected.view().joined());
            let mut copy = Bytes::empty(1);
            copy.extend(slice);
            assert_eq!(copy.view().slice(1..copy.len()), slice);
        };
        check(0..4, &["ab", "", "c", "def"]);
        check(1..3, &["", "c"]);
        check(2..2, &[]);
        check(4..4, &[]);
        check(3..5, &[]);
        check(7..9, &[]);
        let inner = bytes.view().slice(1..4).slice(1..3);
        assert_eq!(inner.iter().collect::<Vec<_>>(), [&b"c"[..], b"def"]);
    }
}
