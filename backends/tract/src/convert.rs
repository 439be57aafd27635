//! Our tensors to tract's and back: one copy each way, because tract keeps its
//! elements in aligned memory of its own. Not a cast: types map one to one.
//! Invariant: shape and elements come through unchanged.

use millpond_backends_interface::{Data, ElementType, Error, Tensor};
use tract_onnx::prelude::{Datum, DatumType, IntoTValue, TValue, TractResult};

/// The type of ours that `datum_type` is, if any.
pub(crate) fn element_type(datum_type: DatumType) -> Option<ElementType> {
    match datum_type {
        DatumType::F32 => Some(ElementType::F32),
        DatumType::F64 => Some(ElementType::F64),
        DatumType::I64 => Some(ElementType::I64),
        DatumType::I32 => Some(ElementType::I32),
        DatumType::U8 => Some(ElementType::U8),
        DatumType::Bool => Some(ElementType::Bool),
        _ => None,
    }
}

/// tract's name for `element_type`.
pub(crate) fn datum_type(element_type: ElementType) -> DatumType {
    match element_type {
        ElementType::F32 => DatumType::F32,
        ElementType::F64 => DatumType::F64,
        ElementType::I64 => DatumType::I64,
        ElementType::I32 => DatumType::I32,
        ElementType::U8 => DatumType::U8,
        ElementType::Bool => DatumType::Bool,
    }
}

pub(crate) fn to_tract(tensor: &Tensor) -> TractResult<TValue> {
    type Theirs = tract_onnx::prelude::Tensor;
    let shape = tensor.shape();
    let theirs = match tensor.data() {
        Data::F32(elements) => Theirs::from_shape(shape, elements),
        Data::F64(elements) => Theirs::from_shape(shape, elements),
        Data::I64(elements) => Theirs::from_shape(shape, elements),
        Data::I32(elements) => Theirs::from_shape(shape, elements),
        Data::U8(elements) => Theirs::from_shape(shape, elements),
        Data::Bool(elements) => Theirs::from_shape(shape, elements),
    };
    Ok(theirs?.into_tvalue())
}

pub(crate) fn from_tract(value: &TValue) -> Result<Tensor, Error> {
    fn elements<T: Datum>(value: &TValue) -> Result<Vec<T>, Error> {
        let view = value.try_as_plain_ram().and_then(|plain| plain.as_slice::<T>());
        view.map(<[T]>::to_vec).map_err(|error| Error::Run {
            problem: format!("an output cannot be read: {error:#}"),
        })
    }
    let found = value.datum_type();
    let data = match element_type(found) {
        Some(ElementType::F32) => Data::F32(elements(value)?),
        Some(ElementType::F64) => Data::F64(elements(value)?),
        Some(ElementType::I64) => Data::I64(elements(value)?),
        Some(ElementType::I32) => Data::I32(elements(value)?),
        Some(ElementType::U8) => Data::U8(elements(value)?),
        Some(ElementType::Bool) => Data::Bool(elements(value)?),
        None => {
            return Err(Error::Run {
                problem: format!("an output has element type {found:?}"),
            });
        }
    };
    Tensor::new(value.shape().to_vec(), data)
}
