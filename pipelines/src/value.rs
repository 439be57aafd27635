//! What flows from stage to stage. Its invariant: offsets begin with 0, never fall, and end with the number of items.

use crate::{Error, Kind};
use millpond_tensor::{Bytes, Tensor};
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
    /// A tensor an item, each of a shape of its own: images.
    Tensors(Vec<Tensor>),
}

impl Items {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Items::Tensor(tensor) => tensor.rows(),
            Items::Keys(keys) => keys.len(),
            Items::Bytes(bytes) => bytes.len(),
            Items::Tensors(tensors) => tensors.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they are.
    pub fn kind(&self) -> Kind {
        match self {
            Items::Tensor(_) => Kind::Floats,
            Items::Keys(_) => Kind::Keys,
            Items::Bytes(_) => Kind::Texts,
            Items::Tensors(_) => Kind::Tensors,
        }
    }

    /// What they are with type and shape, for messages: `u8[2, 3]`, `texts`.
    pub(crate) fn found(&self) -> String {
        let shaped = |tensor: &Tensor| format!("{}{:?}", tensor.element_type(), tensor.shape());
        match self {
            Items::Tensor(tensor) => shaped(tensor),
            Items::Tensors(tensors) => match tensors.as_slice() {
                [] => "no tensors".to_owned(),
                [only] => format!("a list of one tensor {}", shaped(only)),
                [first, ..] => format!("{} tensors, the first {}", tensors.len(), shaped(first)),
            },
            Items::Keys(_) | Items::Bytes(_) => self.kind().as_str().to_owned(),
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

    /// Other items in the same rows: what a stage that works by item gives.
    pub fn with(&self, items: Items) -> Value {
        Value {
            items,
            offsets: self.offsets.clone(),
        }
    }

    /// Whether its offsets begin with 0, never fall, and end with the number of items.
    pub(crate) fn is_whole(&self) -> bool {
        let Some(offsets) = &self.offsets else {
            return true;
        };
        let ends =
            offsets.first() == Some(&0) && offsets.last().map(|end| *end as usize) == Some(self.items.len());
        ends && offsets.is_sorted()
    }

    /// How many rows it has.
    pub fn row_count(&self) -> usize {
        match &self.offsets {
            Some(offsets) => offsets.len().saturating_sub(1),
            None => self.items.len(),
        }
    }

    /// Bytes of its items and of its rows' ends.
    pub fn bytes_held(&self) -> usize {
        let items = match &self.items {
            Items::Tensor(tensor) => tensor.bytes(),
            Items::Keys(keys) => size_of_val(keys.as_slice()),
            Items::Bytes(bytes) => bytes.view().bytes_held(),
            Items::Tensors(tensors) => tensors.iter().map(Tensor::bytes).sum(),
        };
        items.saturating_add(self.offsets.as_deref().map_or(0, size_of_val))
    }

    /// The tensors, one an item.
    ///
    /// # Errors
    /// As [`Value::bytes`].
    pub fn tensors(&self) -> Result<&[Tensor], Error> {
        match &self.items {
            Items::Tensors(tensors) => Ok(tensors),
            _ => Err(Error::not_given("tensors, one an item")),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_value_is_of_one_kind() {
        let bytes: Bytes = ["a", "", "é"].into_iter().collect();
        let row = Value::row(Items::Bytes(bytes));
        assert_eq!(row.offsets.as_deref(), Some(&[0, 3][..]));
        assert_eq!(row.bytes_held(), 3 + 3 * size_of::<usize>() + 8);
        assert!(row.keys().is_err() && row.tensor().is_err() && row.bytes().is_ok());
        assert_eq!((row.row_count(), row.tensors().is_err()), (1, true));
        let image = |side| Tensor::new(vec![side, side], vec![0_u8; side * side]).unwrap();
        let images = row.with(Items::Tensors(vec![image(1), image(2), image(3)]));
        assert_eq!((images.row_count(), images.bytes_held()), (1, 14 + 8));
        assert_eq!(images.tensors().map(<[Tensor]>::len), Ok(3));
        assert_eq!(Value::rows(images.items).row_count(), 3);
    }
}
