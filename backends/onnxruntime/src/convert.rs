//! Our element types and ONNX Runtime's. Not a cast: types map one to one. Its invariant: a tensor's elements are handed over where
//! they lie, and an output's are copied once; strings, which have no one width, are copied both ways.

use crate::c_api::Value;
use millpond_tensor::{Data, ElementType, Elements, bf16, element_types, f16};
use ort::value::{IntoTensorElementType, TensorElementType};
use std::ffi::c_void;

/// An output's shape and elements; a truth value is any byte but zero, whatever the model wrote there.
macro_rules! read {
    (truth, $value:ident, $variant:ident) => {{
        let (shape, bytes) = $value.read::<u8>(ElementType::$variant)?;
        (shape, bytes.iter().map(|byte| *byte != 0).collect())
    }};
    ($kind:ident, $value:ident, $variant:ident) => {{
        let (shape, elements) = $value.read(ElementType::$variant)?;
        (shape, elements.to_vec())
    }};
}

macro_rules! convert {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        /// The type of ours that `theirs` is, if any.
        pub(crate) fn element_type(theirs: TensorElementType) -> Option<ElementType> {
            $(if theirs == <$type as IntoTensorElementType>::into_tensor_element_type() {
                return Some(ElementType::$variant);
            })*
            (theirs == TensorElementType::String).then_some(ElementType::Bytes)
        }

        /// ONNX Runtime's type for `ours`.
        pub(crate) fn theirs(ours: ElementType) -> TensorElementType {
            match ours {
                $(ElementType::$variant => <$type as IntoTensorElementType>::into_tensor_element_type(),)*
                ElementType::Bytes => TensorElementType::String,
            }
        }

        /// Where elements lie, and how many bytes they are; `None` for strings.
        pub(crate) fn place(elements: Elements<'_>) -> Option<(*const c_void, usize)> {
            match elements {
                $(Elements::$variant(elements) => Some((elements.as_ptr().cast(), size_of_val(elements))),)*
                Elements::Bytes(_) => None,
            }
        }

        /// The shape of an output of that type, and a copy of its elements.
        pub(crate) fn copy(value: &Value<'_>, element_type: ElementType) -> ort::Result<(Vec<usize>, Data)> {
            match element_type {
                $(ElementType::$variant => {
                    let (shape, elements) = read!($kind, value, $variant);
                    Ok((shape, Data::$variant(elements)))
                })*
                ElementType::Bytes => {
                    let (shape, strings) = value.read_strings()?;
                    Ok((shape, Data::Bytes(strings)))
                }
            }
        }
    };
}

element_types!(convert);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_map_one_to_one() {
        for &ours in ElementType::ALL {
            assert_eq!(element_type(theirs(ours)), Some(ours));
        }
        assert_eq!(element_type(TensorElementType::Complex64), None);
    }
}
