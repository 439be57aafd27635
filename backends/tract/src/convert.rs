//! Our tensors to tract's and back: one copy each way, because tract keeps its
//! elements in aligned memory of its own. Not a cast: types map one to one.
//! Invariant: shape and elements come through unchanged.

use millpond_backends_interface::Error;
use millpond_tensor::{Data, ElementType, Elements, Tensor, element_types};
use tract_onnx::prelude::{Datum, DatumType, IntoTValue, TValue, TractResult};

macro_rules! convert {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        /// The type of ours that `datum_type` is, if any.
        pub(crate) fn element_type(datum_type: DatumType) -> Option<ElementType> {
            $(if datum_type == $type::datum_type() {
                return Some(ElementType::$variant);
            })*
            None
        }

        /// tract's name for `element_type`.
        pub(crate) fn datum_type(element_type: ElementType) -> DatumType {
            match element_type {
                $(ElementType::$variant => $type::datum_type(),)*
            }
        }

        pub(crate) fn to_tract(tensor: &Tensor) -> TractResult<TValue> {
            type Theirs = tract_onnx::prelude::Tensor;
            let theirs = match tensor.elements() {
                $(Elements::$variant(elements) => Theirs::from_shape(tensor.shape(), elements)?,)*
            };
            Ok(theirs.into_tvalue())
        }

        pub(crate) fn from_tract(value: &TValue) -> Result<Tensor, Error> {
            let found = value.datum_type();
            let data = match element_type(found) {
                $(Some(ElementType::$variant) => Data::$variant(elements(value)?),)*
                None => {
                    let problem = format!("an output has element type {found:?}");
                    return Err(Error::Run { problem });
                }
            };
            Ok(Tensor::new(value.shape().to_vec(), data)?)
        }
    };
}

element_types!(convert);

fn elements<T: Datum>(value: &TValue) -> Result<Vec<T>, Error> {
    let view = value.try_as_plain_ram().and_then(|plain| plain.as_slice::<T>());
    view.map(<[T]>::to_vec).map_err(|error| Error::Run {
        problem: format!("an output cannot be read: {error:#}"),
    })
}
