//! Our tensors to tract's and back: one copy each way, because tract keeps its
//! elements in aligned memory of its own. Not a cast: types map one to one, and other types are refused.
//! Invariant: shape and elements come through unchanged.

use millpond_backends_interface::Error;
use millpond_tensor::{Data, ElementType, Elements, Tensor};
use tract_onnx::prelude::{Datum, DatumType, IntoTValue, TValue, TractError, TractResult};

macro_rules! convert {
    ($($variant:ident $type:ident,)*) => {
        /// The type of ours that `datum_type` is, if any.
        pub(crate) fn element_type(datum_type: DatumType) -> Option<ElementType> {
            $(if datum_type == $type::datum_type() {
                return Some(ElementType::$variant);
            })*
            None
        }

        /// tract's name for `element_type`.
        pub(crate) fn datum_type(element_type: ElementType) -> TractResult<DatumType> {
            match element_type {
                $(ElementType::$variant => Ok($type::datum_type()),)*
                other => Err(not_run(other)),
            }
        }

        pub(crate) fn to_tract(tensor: &Tensor) -> TractResult<TValue> {
            type Theirs = tract_onnx::prelude::Tensor;
            let theirs = match tensor.elements() {
                $(Elements::$variant(elements) => Theirs::from_shape(tensor.shape(), elements)?,)*
                _ => return Err(not_run(tensor.element_type())),
            };
            Ok(theirs.into_tvalue())
        }

        pub(crate) fn from_tract(value: &TValue) -> Result<Tensor, Error> {
            let found = value.datum_type();
            let data = match element_type(found) {
                $(Some(ElementType::$variant) => Data::$variant(elements(value)?),)*
                _ => {
                    let problem = format!("an output has element type {found:?}");
                    return Err(Error::Run { problem });
                }
            };
            Ok(Tensor::new(value.shape().to_vec(), data)?)
        }
    };
}

convert! {
    F32 f32,
    F64 f64,
    I64 i64,
    I32 i32,
    U8 u8,
    Bool bool,
}

fn not_run(element_type: ElementType) -> TractError {
    TractError::msg(format!(
        "backend \"tract\" runs no tensors of type {element_type}; it takes f32, f64, i64, i32, u8 and bool"
    ))
}

fn elements<T: Datum>(value: &TValue) -> Result<Vec<T>, Error> {
    let view = value.try_as_plain_ram().and_then(|plain| plain.as_slice::<T>());
    view.map(<[T]>::to_vec).map_err(|error| Error::Run {
        problem: format!("an output cannot be read: {error:#}"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_tensor::f16;

    #[test]
    fn types_that_tract_is_not_given_are_refused_by_name() {
        let halves = Tensor::new(vec![1], vec![f16::ONE]).unwrap();
        let problem = to_tract(&halves).unwrap_err().to_string();
        assert_eq!(
            problem,
            "backend \"tract\" runs no tensors of type f16; it takes f32, f64, i64, i32, u8 and bool"
        );
        for other in [ElementType::Bf16, ElementType::Bytes] {
            assert!(datum_type(other).is_err_and(|error| error.to_string().contains(other.as_str())));
        }
        let theirs = tract_onnx::prelude::Tensor::from_shape(&[1], &[f16::ONE]).unwrap();
        let problem = from_tract(&theirs.into_tvalue()).unwrap_err().to_string();
        assert!(problem.contains("element type F16"), "{problem}");
    }
}
