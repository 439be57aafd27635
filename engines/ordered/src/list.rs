//! Lists: several items in one value, the oldest first.
//!
//! A value is a number of items and then each of them behind its length, all lengths in four bytes. Invariant: what [`List::of`] takes
//! is a whole list, and [`List::into_value`] gives one.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of a list at most, with four for each item and for their number: each change of it writes it anew in memory.
pub const LIST_BYTES_MAX: usize = 1 << 20;
/// Before the items: how many there are. Before each item: its length.
const NUMBER_BYTES: usize = size_of::<u32>();

/// What kind of value a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes as they were put.
    Bytes,
    /// Items in the order in which they were appended.
    List,
}

impl Kind {
    pub(crate) fn of(is_list: bool) -> Kind {
        if is_list { Kind::List } else { Kind::Bytes }
    }

    /// "bytes" or "list".
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Bytes => "bytes",
            Kind::List => "list",
        }
    }
}

/// A list that is read or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct List {
    /// A value, of which a part at the front may be left out; its number is written at the end.
    bytes: Vec<u8>,
    /// Where each item's length is, the oldest first.
    begins: VecDeque<u32>,
}

/// Bytes that items take in a value.
pub(crate) fn items_bytes(items: &[Vec<u8>]) -> usize {
    items.iter().map(|item| item.len() + NUMBER_BYTES).sum()
}

/// Bytes that a value of so many bytes has in its items.
pub(crate) fn content_bytes(value_bytes: usize, count: usize) -> usize {
    value_bytes.saturating_sub(NUMBER_BYTES + count * NUMBER_BYTES)
}

/// The items as a value has them, without their number.
pub(crate) fn encode_items(items: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(items_bytes(items));
    for item in items {
        bytes.extend_from_slice(&(item.len() as u32).to_le_bytes());
        bytes.extend_from_slice(item);
    }
    bytes
}

/// Items that lie one behind the other, up to what is none.
pub(crate) fn items_of(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (item, behind) = split_item(bytes)?;
        bytes = behind;
        Some(item)
    })
}

/// How many items lie one behind the other; `None` where the bytes are something else.
pub(crate) fn count_items(mut bytes: &[u8]) -> Option<usize> {
    let mut count = 0;
    while !bytes.is_empty() {
        bytes = split_item(bytes)?.1;
        count += 1;
    }
    Some(count)
}

fn split_item(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<NUMBER_BYTES>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// The items of a value, the oldest first.
pub(crate) fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    items_of(value.get(NUMBER_BYTES..).unwrap_or_default())
}

/// How many items a value has that is a list.
pub(crate) fn number(value: &[u8]) -> usize {
    let number = value.first_chunk::<NUMBER_BYTES>();
    number.map_or(0, |number| u32::from_le_bytes(*number) as usize)
}

/// How many items a whole value has; `None` where it is no list.
pub(crate) fn count(value: &[u8]) -> Option<usize> {
    let (number, items) = value.split_first_chunk::<NUMBER_BYTES>()?;
    count_items(items).filter(|count| u32::from_le_bytes(*number) as usize == *count)
}

/// The places, counted from the newest item, between two indices that are both meant: 0 is the newest item, -1 the oldest.
pub(crate) fn places(count: usize, start: i64, stop: i64) -> Range<usize> {
    let count = count as i64;
    let from_newest = |index: i64| {
        if index < 0 {
            index.saturating_add(count)
        } else {
            index
        }
    };
    let start = from_newest(start).clamp(0, count);
    let behind = from_newest(stop).saturating_add(1).clamp(start, count);
    start as usize..behind as usize
}

impl List {
    /// Of a value; `None` where it is no list.
    pub fn of(bytes: Vec<u8>) -> Option<List> {
        let mut begins = VecDeque::with_capacity(count(&bytes)?);
        let mut at = NUMBER_BYTES;
        while let Some((item, _)) = bytes.get(at..).and_then(split_item) {
            begins.push_back(at as u32);
            at += NUMBER_BYTES + item.len();
        }
        Some(List { bytes, begins })
    }

    pub fn len(&self) -> usize {
        self.begins.len()
    }

    fn begin(&self) -> usize {
        self.begins
            .front()
            .map_or(self.bytes.len(), |begin| *begin as usize)
    }

    /// Bytes of its value.
    pub fn value_bytes(&self) -> usize {
        NUMBER_BYTES + self.bytes.len() - self.begin().min(self.bytes.len())
    }

    /// Adds the newest item.
    pub fn push(&mut self, item: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(&[0; NUMBER_BYTES]);
        }
        self.begins.push_back(self.bytes.len() as u32);
        self.bytes.extend_from_slice(&(item.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(item);
    }

    /// Adds items and leaves the newest `keep`.
    pub fn append<I: AsRef<[u8]>>(&mut self, items: impl IntoIterator<Item = I>, keep: u32) {
        items.into_iter().for_each(|item| self.push(item.as_ref()));
        self.trim(self.len().saturating_sub(keep as usize), keep as usize);
    }

    /// Leaves so many items behind so many that are older.
    pub fn trim(&mut self, older: usize, kept: usize) {
        self.begins.drain(..older.min(self.begins.len()));
        if let Some(end) = self.begins.get(kept) {
            self.bytes.truncate(*end as usize);
            self.begins.truncate(kept);
        }
    }

    /// The item at a place that is counted from the newest.
    fn item(&self, place: usize) -> Option<&[u8]> {
        let begin = *self.begins.get(self.len().checked_sub(place + 1)?)?;
        Some(split_item(self.bytes.get(begin as usize..)?)?.0)
    }

    /// The items at places that are counted from the newest, the newest first.
    pub fn items(&self, places: Range<usize>) -> impl Iterator<Item = &[u8]> {
        places.filter_map(|place| self.item(place))
    }

    /// The whole as a value.
    pub fn into_value(mut self) -> Vec<u8> {
        let begin = self.begin();
        if begin >= NUMBER_BYTES {
            self.bytes.drain(..begin - NUMBER_BYTES);
        }
        let number = (self.begins.len() as u32).to_le_bytes();
        match self.bytes.first_chunk_mut() {
            Some(place) => *place = number,
            None => self.bytes = number.to_vec(),
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn list(items: &[&str]) -> List {
        let mut list = List::default();
        list.append(items, u32::MAX);
        list
    }

    fn texts(list: &List) -> Vec<String> {
        let items = list.items(0..list.len());
        items
            .map(|item| String::from_utf8(item.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn places_are_those_of_a_list_that_grows_at_its_head() {
        let check = |count, start, stop, expected| assert_eq!(places(count, start, stop), expected);
        check(5, 0, -1, 0..5);
        check(5, 0, 0, 0..1);
        check(5, -2, -1, 3..5);
        check(5, 1, 2, 1..3);
        check(5, -100, 100, 0..5);
        check(5, 3, 1, 3..3);
        check(5, 5, 9, 5..5);
        check(5, 0, -6, 0..0);
        check(0, 0, -1, 0..0);
        check(3, i64::MIN, i64::MAX, 0..3);
        check(3, i64::MAX, i64::MIN, 3..3);
    }

    #[test]
    fn a_value_lies_as_the_document_draws_it() {
        let value = list(&["ab", "", "c"]).into_value();
        assert_eq!(value, b"\x03\0\0\0\x02\0\0\0ab\0\0\0\0\x01\0\0\0c");
        assert_eq!(count(&value), Some(3));
        assert_eq!(content_bytes(value.len(), 3), 3);
        assert_eq!(texts(&List::of(value).unwrap()), ["c", "", "ab"]);
        assert_eq!(List::default().into_value(), b"\0\0\0\0");
    }

    #[test]
    fn what_is_no_list_is_not_taken_for_one() {
        for bytes in [
            &b""[..],
            b"\0\0\0",
            b"\x01\0\0\0",
            b"\x01\0\0\0\x02\0\0\0a",
            b"\x02\0\0\0\x01\0\0\0a",
            b"\0\0\0\0\x01\0\0\0a",
            b"\x01\0\0\0\xff\xff\xff\xffa",
        ] {
            assert_eq!(List::of(bytes.to_vec()), None, "{bytes:?}");
        }
    }

    #[test]
    fn it_is_trimmed_at_both_ends_and_goes_on() {
        let mut trimmed = list(&["a", "b", "c", "d", "e"]);
        trimmed.trim(1, 3);
        assert_eq!(texts(&trimmed), ["d", "c", "b"]);
        trimmed.append(["f"], 2);
        assert_eq!(texts(&trimmed), ["f", "d"]);
        assert_eq!(trimmed.value_bytes(), 14);
        let value = trimmed.into_value();
        assert_eq!(value, b"\x02\0\0\0\x01\0\0\0d\x01\0\0\0f");
        let mut emptied = List::of(value).unwrap();
        emptied.trim(5, 1);
        assert_eq!((emptied.len(), emptied.value_bytes()), (0, 4));
        emptied.append(["g"], 9);
        assert_eq!(emptied.into_value(), b"\x01\0\0\0\x01\0\0\0g");
    }
}
