//! Values as tensors, for the way to a thread of a stage and back. No wire format: both ends are this process.
//!
//! Its invariant: what is packed is unpacked the same, without a copy of tensors and of bytes that nothing else holds.

use crate::{Error, Items, Value};
use millpond_tensor::{Bytes, Data, Tensor};
use std::vec::IntoIter;

const TENSOR: i64 = 0;
const KEYS: i64 = 1;
const BYTES: i64 = 2;
const TENSORS: i64 = 3;
const REFUSED: i64 = 4;

/// Appends a value: a head of what it is, how many items there are and where rows end, and the items.
pub fn pack(value: Value, out: &mut Vec<Tensor>) -> Result<(), Error> {
    let kind = match &value.items {
        Items::Tensor(_) => TENSOR,
        Items::Keys(_) => KEYS,
        Items::Bytes(_) => BYTES,
        Items::Tensors(_) => TENSORS,
    };
    let mut head = vec![kind, value.items.len() as i64];
    head.extend(
        value
            .offsets
            .iter()
            .flat_map(|offsets| offsets.iter().map(|at| i64::from(*at))),
    );
    out.push(row(head)?);
    match value.items {
        Items::Tensor(tensor) => out.push(tensor),
        Items::Keys(keys) => out.push(row(keys.into_iter().map(u64::cast_signed).collect::<Vec<i64>>())?),
        Items::Bytes(bytes) => out.push(row(bytes)?),
        Items::Tensors(tensors) => out.extend(tensors),
    }
    Ok(())
}

/// Appends the refusal of a request.
pub(crate) fn pack_refusal(problem: &str, out: &mut Vec<Tensor>) -> Result<(), Error> {
    out.push(row(vec![REFUSED, 1])?);
    out.push(row([problem].into_iter().collect::<Bytes>())?);
    Ok(())
}

/// The next value; the error of a refusal is [`Error::Request`].
pub fn unpack(from: &mut IntoIter<Tensor>) -> Result<Value, Error> {
    let lost = || Error::not_given("what was packed for it");
    let head = from.next().ok_or_else(lost)?;
    let Some([kind, count, offsets @ ..]) = head.of::<i64>() else {
        return Err(lost());
    };
    let offsets: Option<Vec<u32>> = match offsets {
        [] => None,
        offsets => Some(offsets.iter().map(|at| *at as u32).collect()),
    };
    let items = match *kind {
        TENSORS => Items::Tensors(from.take(usize::try_from(*count).map_err(|_| lost())?).collect()),
        kind => {
            let tensor = from.next().ok_or_else(lost)?;
            match kind {
                TENSOR => Items::Tensor(tensor),
                KEYS => {
                    let keys = tensor.of::<i64>().ok_or_else(lost)?;
                    Items::Keys(keys.iter().map(|key| key.cast_unsigned()).collect())
                }
                BYTES => Items::Bytes(tensor.into_strings().ok_or_else(lost)?),
                REFUSED => {
                    let text = tensor.into_strings().ok_or_else(lost)?;
                    let problem = text.texts().collect();
                    return Err(Error::Request { problem });
                }
                _ => return Err(lost()),
            }
        }
    };
    Ok(Value {
        items,
        offsets: offsets.map(Into::into),
    })
}

/// A tensor of one dimension.
pub(crate) fn row(data: impl Into<Data>) -> Result<Tensor, Error> {
    let data = data.into();
    Tensor::new(vec![data.len()], data).map_err(|error| Error::Internal {
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_come_back_the_same() {
        let bytes: Bytes = ["a", "", "bc"].into_iter().collect();
        let image = Tensor::new(vec![1, 2], vec![1_u8, 2]).unwrap();
        let values = [
            Value::rows(Items::Keys(vec![0, u64::MAX])),
            Value::row(Items::Bytes(bytes)),
            Value::rows(Items::Tensors(vec![
                image.clone(),
                Tensor::new(vec![], vec![1_i64]).unwrap(),
            ])),
            Value::row(Items::Tensors(Vec::new())),
            Value::row(Items::Tensor(image)),
        ];
        let mut packed = Vec::new();
        for value in &values {
            pack(value.clone(), &mut packed).unwrap();
        }
        pack_refusal("no", &mut packed).unwrap();
        let mut packed = packed.into_iter();
        for value in &values {
            assert_eq!(unpack(&mut packed).as_ref(), Ok(value));
        }
        assert_eq!(unpack(&mut packed).unwrap_err().to_string(), "no");
        assert!(unpack(&mut packed).is_err());
    }

    #[test]
    fn bytes_are_not_copied() {
        let bytes: Bytes = ["long"].into_iter().collect();
        let address = bytes.view().joined().as_ptr();
        let mut packed = Vec::new();
        pack(Value::rows(Items::Bytes(bytes)), &mut packed).unwrap();
        let value = unpack(&mut packed.into_iter()).unwrap();
        assert_eq!(value.bytes().unwrap().view().joined().as_ptr(), address);
    }
}
