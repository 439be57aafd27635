//! The elements of a tensor in a payload: a block of bytes, or numbers one by one.
//!
//! What differs by type is made from the table of element types. Its invariant: what is written here is read here.

use super::number;
use crate::frame::{Encoder, FieldError, Fields, Value};
use millpond_tensor::{Data, ElementType, Elements, element_types};

/// An element as payloads hold it.
trait Element: Copy {
    /// Its bytes in a block, little-endian.
    type Bytes;

    fn from_bytes(bytes: Self::Bytes) -> Self;
    fn to_bytes(self) -> Self::Bytes;
    fn read(value: &Value<'_>) -> Option<Self>;
    fn write(self, out: &mut Encoder<'_>);
}

/// Implements [`Element`] for a type by its kind.
macro_rules! implement {
    ($type:ident truth) => {
        impl Element for $type {
            type Bytes = [u8; 1];

            fn from_bytes([byte]: [u8; 1]) -> Self {
                byte != 0
            }

            fn to_bytes(self) -> [u8; 1] {
                [u8::from(self)]
            }

            fn read(value: &Value<'_>) -> Option<Self> {
                match value {
                    Value::Bool(value) => Some(*value),
                    _ => None,
                }
            }

            fn write(self, out: &mut Encoder<'_>) {
                out.bool(self);
            }
        }
    };
    ($type:ident float) => {
        implement!(
            $type,
            |value| number(value).map(|value| value as $type),
            |value, out| out.$type(value)
        );
    };
    ($type:ident int) => {
        implement!($type, |value| integer(value), |value, out| out
            .int(i64::from(value)));
    };
    ($type:ident uint) => {
        implement!($type, |value| integer(value), |value, out| out
            .uint(u64::from(value)));
    };
    ($type:ident, |$read:ident| $reading:expr, |$written:ident, $out:ident| $writing:expr) => {
        impl Element for $type {
            type Bytes = [u8; size_of::<$type>()];

            fn from_bytes(bytes: Self::Bytes) -> Self {
                $type::from_le_bytes(bytes)
            }

            fn to_bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            fn read($read: &Value<'_>) -> Option<Self> {
                $reading
            }

            fn write(self, $out: &mut Encoder<'_>) {
                let $written = self;
                $writing;
            }
        }
    };
}

macro_rules! declare {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        $(implement!($type $kind);)*

        /// Reads "data", whose elements are of that type.
        pub(super) fn decode_elements(
            fields: &Fields<'_>,
            element_type: ElementType,
            value: Value<'_>,
        ) -> Result<Data, FieldError> {
            let name = element_type.as_str();
            Ok(match element_type {
                $(ElementType::$variant => {
                    let read = <$type as Element>::read;
                    Data::$variant(fields.as_numbers("data", value, name, read, <$type as Element>::from_bytes)?)
                })*
            })
        }

        pub(super) fn encode_elements(out: &mut Encoder<'_>, elements: Elements<'_>) {
            if let Elements::U8(values) = elements {
                return out.bytes(values);
            }
            match elements {
                $(Elements::$variant(values) => {
                    out.block(values, <$type as Element>::to_bytes, |out, value| Element::write(value, out));
                })*
            }
        }
    };
}

element_types!(declare);

fn integer<T: TryFrom<u64> + TryFrom<i64>>(value: &Value<'_>) -> Option<T> {
    match value {
        Value::UInt(value) => T::try_from(*value).ok(),
        Value::Int(value) => T::try_from(*value).ok(),
        _ => None,
    }
}
