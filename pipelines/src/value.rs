//! What flows from stage to stage. Its invariant: offsets begin with 0, never fall, and end with the number of items.

use crate::Error;
use millpond_tensor::Tensor;
use std::sync::Arc;

/// Items, one a row or, with offsets, any number of them in each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The items of all rows, one after the other.
    pub items: Items,
    /// Row `i` has items `offsets[i]..offsets[i + 1]`; without them a row has one item.
    pub offsets: Option<Arc<[u32]>>,
}

/// Items of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Items {
    /// Numbers: an item is a row of the tensor.
    Tensor(Tensor),
    /// Keys of feature tables.
    Keys(Vec<u64>),
    /// Texts, or any bytes.
    Bytes(Bytes),
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Items::Tensor(tensor) => tensor.rows(),
            Items::Keys(keys) => keys.len(),
            Items::Bytes(bytes) => bytes.len(),
        }
    }
}

impl Value {
    /// One item a row.
    pub fn rows(items: Items) -> Value {
        Value { items, offsets: None }
    }

    /// All items in one row.
    pub fn row(items: Items) -> Value {
        let end = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let offsets = Some(Arc::from([0, end]));
        Value { items, offsets }
    }

    /// Bytes of its items.
    pub(crate) fn bytes_held(&self) -> usize {
        match &self.items {
            Items::Tensor(tensor) => tensor.bytes(),
            Items::Keys(keys) => size_of_val(keys.as_slice()),
            Items::Bytes(bytes) => bytes.bytes.len() + size_of_val(bytes.ends.as_slice()),
        }
    }

    /// The texts.
    ///
    /// # Errors
    /// [`Error::Internal`] for other items, which no plan lets through; so do those below.
    pub fn bytes(&self) -> Result<&Bytes, Error> {
        match &self.items {
            Items::Bytes(bytes) => Ok(bytes),
            _ => Err(Error::not_given("texts")),
        }
    }

    /// The keys.
    ///
    /// # Errors
    /// As [`Value::bytes`].
    pub fn keys(&self) -> Result<&[u64], Error> {
        match &self.items {
            Items::Keys(keys) => Ok(keys),
            _ => Err(Error::not_given("keys")),
        }
    }

    /// The numbers.
    ///
    /// # Errors
    /// As [`Value::bytes`].
    pub fn tensor(&self) -> Result<&Tensor, Error> {
        match &self.items {
            Items::Tensor(tensor) => Ok(tensor),
            _ => Err(Error::not_given("numbers")),
        }
    }
}

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

    /// Appends one.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let string = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            string
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_one_by_one() {
        let bytes: Bytes = ["a", "", "é"].into_iter().collect();
        assert_eq!(bytes.texts().collect::<Vec<_>>(), ["a", "", "é"]);
        assert_eq!((bytes.len(), Bytes::default().is_empty()), (3, true));
        let row = Value::row(Items::Bytes(bytes));
        assert_eq!(row.offsets.as_deref(), Some(&[0, 3][..]));
        assert!(row.keys().is_err() && row.tensor().is_err() && row.bytes().is_ok());
    }
}
