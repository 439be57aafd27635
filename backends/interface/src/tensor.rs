//! Dense, row-major tensors that own their elements. Not views and not
//! arithmetic. Invariant: `data.len()` is the product of `shape`, always.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 64-bit signed integer.
    I64,
    /// 32-bit signed integer.
    I32,
    /// Byte.
    U8,
    /// Truth value, one byte.
    Bool,
}

impl ElementType {
    /// All of them, in the order they are documented.
    pub const ALL: [ElementType; 6] = [
        ElementType::F32,
        ElementType::F64,
        ElementType::I64,
        ElementType::I32,
        ElementType::U8,
        ElementType::Bool,
    ];

    /// The name used in payloads and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            ElementType::F32 => "f32",
            ElementType::F64 => "f64",
            ElementType::I64 => "i64",
            ElementType::I32 => "i32",
            ElementType::U8 => "u8",
            ElementType::Bool => "bool",
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            ElementType::F32 | ElementType::I32 => 4,
            ElementType::F64 | ElementType::I64 => 8,
            ElementType::U8 | ElementType::Bool => 1,
        }
    }

    /// The type that [`ElementType::as_str`] writes as `text`.
    ///
    /// # Errors
    /// [`Error::ElementTypeUnknown`].
    pub fn parse(text: &str) -> Result<ElementType, Error> {
        ElementType::ALL
            .into_iter()
            .find(|known| known.as_str() == text)
            .ok_or_else(|| Error::ElementTypeUnknown {
                found: text.to_string(),
            })
    }
}

impl FromStr for ElementType {
    type Err = Error;

    fn from_str(text: &str) -> Result<ElementType, Error> {
        ElementType::parse(text)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The elements of a tensor, row-major.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// 64-bit signed integers.
    I64(Vec<i64>),
    /// 32-bit signed integers.
    I32(Vec<i32>),
    /// Bytes.
    U8(Vec<u8>),
    /// Truth values.
    Bool(Vec<bool>),
}

/// Runs `$body` with `$elements` bound to the vector of whichever type `$data` holds.
macro_rules! each {
    ($data:expr, $elements:ident => $body:expr) => {
        match $data {
            Data::F32($elements) => $body,
            Data::F64($elements) => $body,
            Data::I64($elements) => $body,
            Data::I32($elements) => $body,
            Data::U8($elements) => $body,
            Data::Bool($elements) => $body,
        }
    };
}

impl Data {
    /// No elements, with room for `capacity` of them.
    pub fn with_capacity(element_type: ElementType, capacity: usize) -> Data {
        match element_type {
            ElementType::F32 => Data::F32(Vec::with_capacity(capacity)),
            ElementType::F64 => Data::F64(Vec::with_capacity(capacity)),
            ElementType::I64 => Data::I64(Vec::with_capacity(capacity)),
            ElementType::I32 => Data::I32(Vec::with_capacity(capacity)),
            ElementType::U8 => Data::U8(Vec::with_capacity(capacity)),
            ElementType::Bool => Data::Bool(Vec::with_capacity(capacity)),
        }
    }

    /// `len` zeros (`false` for bool).
    pub fn zeros(element_type: ElementType, len: usize) -> Data {
        match element_type {
            ElementType::F32 => Data::F32(vec![0.0; len]),
            ElementType::F64 => Data::F64(vec![0.0; len]),
            ElementType::I64 => Data::I64(vec![0; len]),
            ElementType::I32 => Data::I32(vec![0; len]),
            ElementType::U8 => Data::U8(vec![0; len]),
            ElementType::Bool => Data::Bool(vec![false; len]),
        }
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ElementType {
        match self {
            Data::F32(_) => ElementType::F32,
            Data::F64(_) => ElementType::F64,
            Data::I64(_) => ElementType::I64,
            Data::I32(_) => ElementType::I32,
            Data::U8(_) => ElementType::U8,
            Data::Bool(_) => ElementType::Bool,
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        each!(self, elements => elements.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends elements `start..end` of `from`; `false`, and nothing is appended, when
    /// the types differ or the range is not inside `from`.
    #[must_use]
    pub fn extend_from(&mut self, from: &Data, start: usize, end: usize) -> bool {
        fn append<T: Copy>(to: &mut Vec<T>, from: Option<&[T]>) -> bool {
            from.map(|elements| to.extend_from_slice(elements)).is_some()
        }
        match (self, from) {
            (Data::F32(to), Data::F32(from)) => append(to, from.get(start..end)),
            (Data::F64(to), Data::F64(from)) => append(to, from.get(start..end)),
            (Data::I64(to), Data::I64(from)) => append(to, from.get(start..end)),
            (Data::I32(to), Data::I32(from)) => append(to, from.get(start..end)),
            (Data::U8(to), Data::U8(from)) => append(to, from.get(start..end)),
            (Data::Bool(to), Data::Bool(from)) => append(to, from.get(start..end)),
            _ => false,
        }
    }

    /// The position and value of the first NaN or infinity; integers have none.
    pub fn first_not_finite(&self) -> Option<(usize, f64)> {
        match self {
            Data::F32(elements) => first_not_finite_f32(elements),
            Data::F64(elements) => elements
                .iter()
                .position(|value| !value.is_finite())
                .map(|index| (index, elements[index])),
            _ => None,
        }
    }
}

/// Finite inputs are the common case, so a whole block is checked without a branch an
/// element, which vectorises; only a block that fails is searched.
fn first_not_finite_f32(elements: &[f32]) -> Option<(usize, f64)> {
    const BLOCK: usize = 256;
    for (block_index, block) in elements.chunks(BLOCK).enumerate() {
        let all_finite = block
            .iter()
            .fold(true, |finite, value| finite & value.is_finite());
        if !all_finite {
            let within = block.iter().position(|value| !value.is_finite())?;
            return Some((block_index * BLOCK + within, f64::from(block[within])));
        }
    }
    None
}

/// A dense, row-major tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

impl Tensor {
    /// A tensor of `shape` that owns `data`.
    ///
    /// # Errors
    /// [`Error::TensorLength`] when the shape's product is not `data.len()`,
    /// [`Error::TensorTooLarge`] when that product overflows.
    pub fn new(shape: Vec<usize>, data: Data) -> Result<Tensor, Error> {
        let expected = shape
            .iter()
            .try_fold(1usize, |product, &dim| product.checked_mul(dim));
        match expected {
            Some(expected) if expected == data.len() => Ok(Tensor { shape, data }),
            Some(expected) => Err(Error::TensorLength {
                found: data.len(),
                shape,
                expected,
            }),
            None => Err(Error::TensorTooLarge { shape }),
        }
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Shape and elements, without a copy.
    pub fn into_parts(self) -> (Vec<usize>, Data) {
        (self.shape, self.data)
    }

    /// Dimension 0; 1 for a scalar.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Elements of one row; 0 for a tensor without rows and empty rows.
    pub fn row_len(&self) -> usize {
        self.shape.get(1..).map_or(1, |dims| {
            dims.iter()
                .fold(1usize, |product, &dim| product.saturating_mul(dim))
        })
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.data.element_type()
    }

    /// Bytes of the elements.
    pub fn bytes(&self) -> usize {
        self.data.len().saturating_mul(self.element_type().bytes())
    }

    /// The elements when they are f32.
    pub fn f32(&self) -> Option<&[f32]> {
        match &self.data {
            Data::F32(elements) => Some(elements),
            _ => None,
        }
    }

    /// A copy of rows `start..start + count`; `None` when they are not all there or
    /// the tensor is a scalar.
    pub fn copy_rows(&self, start: usize, count: usize) -> Option<Tensor> {
        let end = start.checked_add(count)?;
        if self.shape.is_empty() || end > self.rows() {
            return None;
        }
        let row_len = self.row_len();
        let mut data = Data::with_capacity(self.element_type(), count * row_len);
        if !data.extend_from(&self.data, start * row_len, end * row_len) {
            return None;
        }
        let mut shape = self.shape.clone();
        shape[0] = count;
        Tensor::new(shape, data).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn check(shape: &[usize], len: usize, expected: Result<(usize, usize), Error>) {
        let tensor = Tensor::new(shape.to_vec(), Data::F32(vec![0.0; len]));
        assert_eq!(tensor.map(|t| (t.rows(), t.row_len())), expected);
    }

    #[test]
    fn a_shape_must_fit_its_data() {
        check(&[3, 2], 6, Ok((3, 2)));
        check(&[3], 3, Ok((3, 1)));
        check(&[], 1, Ok((1, 1)));
        check(&[0, 5], 0, Ok((0, 5)));
        check(
            &[3, 2],
            5,
            Err(Error::TensorLength {
                shape: vec![3, 2],
                expected: 6,
                found: 5,
            }),
        );
        let huge = vec![usize::MAX, 2];
        check(&huge, 0, Err(Error::TensorTooLarge { shape: huge.clone() }));
    }

    #[test]
    fn element_types_round_trip_by_name() {
        for element_type in ElementType::ALL {
            assert_eq!(ElementType::parse(element_type.as_str()), Ok(element_type));
            assert_eq!(Data::zeros(element_type, 3).element_type(), element_type);
            assert_eq!(Data::zeros(element_type, 3).len(), 3);
        }
        let refused = ElementType::parse("float").unwrap_err().to_string();
        assert!(
            refused.contains("`float`") && refused.contains("f32"),
            "{refused}"
        );
    }

    #[test]
    fn the_first_value_that_is_not_finite_is_found() {
        let mut values = vec![1.0f32; 1000];
        assert_eq!(Data::F32(values.clone()).first_not_finite(), None);
        values[700] = f32::NEG_INFINITY;
        values[900] = f32::INFINITY;
        assert_eq!(
            Data::F32(values).first_not_finite(),
            Some((700, f64::NEG_INFINITY))
        );
        let (index, value) = Data::F64(vec![f64::MAX, f64::NAN]).first_not_finite().unwrap();
        assert!(index == 1 && value.is_nan());
        assert_eq!(Data::I64(vec![i64::MAX]).first_not_finite(), None);
    }

    #[test]
    fn rows_are_copied_in_order() {
        let tensor = Tensor::new(vec![3, 2], Data::I32(vec![1, 2, 3, 4, 5, 6])).unwrap();
        let middle = tensor.copy_rows(1, 2).unwrap();
        assert_eq!(middle.into_parts(), (vec![2, 2], Data::I32(vec![3, 4, 5, 6])));
        assert_eq!(tensor.copy_rows(2, 2), None);
        assert_eq!(tensor.copy_rows(usize::MAX, 2), None);
    }

    #[test]
    fn data_of_another_type_is_not_appended() {
        let mut data = Data::F32(vec![1.0]);
        assert!(!data.extend_from(&Data::I64(vec![1]), 0, 1));
        assert!(!data.extend_from(&Data::F32(vec![1.0]), 0, 2));
        assert!(data.extend_from(&Data::F32(vec![2.0, 3.0]), 1, 2));
        assert_eq!(data, Data::F32(vec![1.0, 3.0]));
    }
}
