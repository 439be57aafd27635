//! The element types: one table of those of one width, from which all that differs by type is made; and byte strings beside it.
//!
//! It knows no shape. Its invariant: what a type is called, how wide it is and where its elements lie comes from here alone.

use crate::{Bytes, BytesView};
use half::{bf16, f16};
use std::fmt;
use std::ops::Range;

/// Calls `callback!` with every element type but byte strings, which have no one width, and behind them with what follows its name.
///
/// A line of the table is one type: its name here, Rust's (which payloads and messages use as well), and what kind of number it is.
/// Rust's names of the 16-bit floats are [`f16`](crate::f16) and [`bf16`](crate::bf16) of this crate, which a caller of the macro
/// that writes types imports.
///
/// ```
/// macro_rules! names {
///     ($($variant:ident $type:ident $kind:ident,)*) => { [$(stringify!($type)),*] };
/// }
/// assert_eq!(millpond_tensor::element_types!(names)[0], "f32");
/// ```
#[macro_export]
macro_rules! element_types {
    ($callback:ident $($arguments:tt)*) => {
        $callback! {
            F32 f32 float,
            F64 f64 float,
            F16 f16 float,
            Bf16 bf16 float,
            I64 i64 int,
            I32 i32 int,
            I16 i16 int,
            I8 i8 int,
            U64 u64 uint,
            U32 u32 uint,
            U16 u16 uint,
            U8 u8 uint,
            Bool bool truth,
            $($arguments)*
        }
    };
}

/// The first NaN or infinity; only floats have any.
macro_rules! first_not_finite {
    (float, $elements:expr) => {
        first_not_finite($elements, |value| value.is_finite())
            .map(|index| (index, f64::from($elements[index])))
    };
    ($other:ident, $elements:expr) => {{
        let _ = $elements;
        None
    }};
}

/// What a word of the table stands for.
macro_rules! kind_of {
    (float) => {
        Kind::Float
    };
    (int) => {
        Kind::Int
    };
    (uint) => {
        Kind::UInt
    };
    (truth) => {
        Kind::Truth
    };
}

/// Whether a type has a whole number.
macro_rules! holds {
    (truth $type:ident, $value:expr) => {
        matches!($value, 0 | 1)
    };
    // Beyond its largest number is an infinity.
    (float $type:ident, $value:expr) => {
        element_of!($type, $value).is_finite()
    };
    ($kind:ident $type:ident, $value:expr) => {
        $type::try_from($value).is_ok()
    };
}

/// A whole number as an element.
macro_rules! element_of {
    (bool, $value:expr) => {
        $value != 0
    };
    (f16, $value:expr) => {
        f16::from_f64($value as f64)
    };
    (bf16, $value:expr) => {
        bf16::from_f64($value as f64)
    };
    ($type:ident, $value:expr) => {
        $value as $type
    };
}

macro_rules! declare {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        /// The type of a tensor's elements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ElementType {
            $(#[doc = concat!("`", stringify!($type), "`.")] $variant,)*
            /// Byte strings of any length: texts, mostly.
            Bytes,
        }

        impl ElementType {
            /// All of them, in the order of the table, byte strings last.
            pub const ALL: &[ElementType] = &[$(ElementType::$variant,)* ElementType::Bytes];

            /// The name used in payloads and messages.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(ElementType::$variant => stringify!($type),)*
                    ElementType::Bytes => "bytes",
                }
            }

            /// What kind of thing an element is.
            pub fn kind(self) -> Kind {
                match self {
                    $(ElementType::$variant => kind_of!($kind),)*
                    ElementType::Bytes => Kind::Bytes,
                }
            }

            /// Whether an element can be this number, or as near to it as a float comes. Strings have no numbers but 0: no bytes.
            pub fn holds(self, value: i64) -> bool {
                match self {
                    $(ElementType::$variant => holds!($kind $type, value),)*
                    ElementType::Bytes => value == 0,
                }
            }

            /// Bytes of one element; `None` where they differ.
            pub fn bytes(self) -> Option<usize> {
                match self {
                    $(ElementType::$variant => Some(size_of::<$type>()),)*
                    ElementType::Bytes => None,
                }
            }
        }

        /// Elements of one type that a tensor is made of.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Data {
            $(#[doc = concat!("Of type `", stringify!($type), "`.")] $variant(Vec<$type>),)*
            /// Byte strings.
            Bytes(Bytes),
        }

        impl Data {
            /// `len` zeros (`false` for truth values, strings without bytes).
            pub fn zeros(element_type: ElementType, len: usize) -> Data {
                match element_type {
                    $(ElementType::$variant => Data::$variant(vec![$type::default(); len]),)*
                    ElementType::Bytes => Data::Bytes(Bytes::empty(len)),
                }
            }

            /// `len` times the same number, as far as the type has it (`true` where it is not 0, strings without bytes).
            pub(crate) fn filled(element_type: ElementType, value: i64, len: usize) -> Data {
                match element_type {
                    $(ElementType::$variant => Data::$variant(vec![element_of!($type, value); len]),)*
                    ElementType::Bytes => Data::Bytes(Bytes::empty(len)),
                }
            }

            /// How many elements there are.
            pub fn len(&self) -> usize {
                match self {
                    $(Data::$variant(elements) => elements.len(),)*
                    Data::Bytes(strings) => strings.len(),
                }
            }

            /// The type of the elements.
            pub fn element_type(&self) -> ElementType {
                match self {
                    $(Data::$variant(_) => ElementType::$variant,)*
                    Data::Bytes(_) => ElementType::Bytes,
                }
            }

            /// The elements in `range`; none where it is not inside.
            pub fn slice(&self, range: Range<usize>) -> Elements<'_> {
                match self {
                    $(Data::$variant(elements) => Elements::$variant(elements.get(range).unwrap_or_default()),)*
                    Data::Bytes(strings) => Elements::Bytes(strings.view().slice(range)),
                }
            }

            /// The elements of `parts` one after the other, `len` in all; `None` when their types differ.
            pub(crate) fn concat<'a>(
                mut parts: impl Iterator<Item = Elements<'a>> + Clone,
                len: usize,
            ) -> Option<Data> {
                let all = parts.clone();
                match parts.next()? {
                    Elements::Bytes(_) => concat_bytes(all, len),
                    $(Elements::$variant(first) => {
                        let mut all = Vec::with_capacity(len);
                        all.extend_from_slice(first);
                        for part in parts {
                            all.extend_from_slice($type::of(part)?);
                        }
                        Some(Data::$variant(all))
                    })*
                }
            }
        }

        /// Elements of one type, borrowed.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum Elements<'a> {
            $(#[doc = concat!("Of type `", stringify!($type), "`.")] $variant(&'a [$type]),)*
            /// Byte strings.
            Bytes(BytesView<'a>),
        }

        impl<'a> Elements<'a> {
            /// How many there are.
            pub fn len(self) -> usize {
                match self {
                    $(Elements::$variant(elements) => elements.len(),)*
                    Elements::Bytes(strings) => strings.len(),
                }
            }

            /// Their type.
            pub fn element_type(self) -> ElementType {
                match self {
                    $(Elements::$variant(_) => ElementType::$variant,)*
                    Elements::Bytes(_) => ElementType::Bytes,
                }
            }

            /// Those in `range`; none where it is not inside.
            pub(crate) fn slice(self, range: Range<usize>) -> Elements<'a> {
                match self {
                    $(Elements::$variant(elements) => Elements::$variant(elements.get(range).unwrap_or_default()),)*
                    Elements::Bytes(strings) => Elements::Bytes(strings.slice(range)),
                }
            }

            /// The position and value of the first NaN or infinity; only floats have any.
            pub fn first_not_finite(self) -> Option<(usize, f64)> {
                match self {
                    $(Elements::$variant(elements) => first_not_finite!($kind, elements),)*
                    Elements::Bytes(_) => None,
                }
            }
        }

        $(
            impl From<Vec<$type>> for Data {
                fn from(elements: Vec<$type>) -> Data {
                    Data::$variant(elements)
                }
            }

            impl Element for $type {
                const TYPE: ElementType = ElementType::$variant;

                fn of(elements: Elements<'_>) -> Option<&[$type]> {
                    match elements {
                        Elements::$variant(elements) => Some(elements),
                        _ => None,
                    }
                }
            }
        )*
    };
}

element_types!(declare);

/// What kind of thing elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Floating-point numbers.
    Float,
    /// Whole numbers.
    Int,
    /// Whole numbers not below zero.
    UInt,
    /// Truth values.
    Truth,
    /// Byte strings.
    Bytes,
}

impl From<Bytes> for Data {
    fn from(strings: Bytes) -> Data {
        Data::Bytes(strings)
    }
}

/// The strings of `parts` in one buffer, `len` of them in all; `None` where other elements are among them.
fn concat_bytes<'a>(parts: impl Iterator<Item = Elements<'a>> + Clone, len: usize) -> Option<Data> {
    let strings = parts.map(|part| match part {
        Elements::Bytes(strings) => Some(strings),
        _ => None,
    });
    let bytes = strings.clone().flatten().map(|strings| strings.joined().len());
    let mut all = Bytes::with_capacity(len, bytes.sum());
    for part in strings {
        all.extend(part?);
    }
    Some(Data::Bytes(all))
}

/// A Rust type that is an element type of one width.
pub trait Element: Copy + Sized + 'static {
    /// Its name in the table.
    const TYPE: ElementType;

    /// The elements when they are of this type.
    fn of(elements: Elements<'_>) -> Option<&[Self]>;
}

impl ElementType {
    /// The type that [`ElementType::as_str`] writes as `text`.
    pub fn parse(text: &str) -> Option<ElementType> {
        let mut all = ElementType::ALL.iter();
        all.find(|known| known.as_str() == text).copied()
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Data {
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Elements<'_> {
    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Finite elements are the common case, so a whole block is checked without a branch an
/// element, which vectorises; only a block that fails is searched.
fn first_not_finite<T>(elements: &[T], is_finite: impl Fn(&T) -> bool) -> Option<usize> {
    const BLOCK: usize = 256;
    let is_clean = |block: &[T]| block.iter().fold(true, |clean, value| clean & is_finite(value));
    let block = elements.chunks(BLOCK).position(|block| !is_clean(block))?;
    let within = elements[block * BLOCK..]
        .iter()
        .position(|value| !is_finite(value))?;
    Some(block * BLOCK + within)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn element_types_round_trip_by_name() {
        for &element_type in ElementType::ALL {
            assert_eq!(ElementType::parse(element_type.as_str()), Some(element_type));
            assert_eq!(Data::zeros(element_type, 3).element_type(), element_type);
            assert_eq!(Data::zeros(element_type, 3).len(), 3);
        }
        assert_eq!(ElementType::parse("float"), None);
        let widths = ElementType::ALL.iter().map(|known| known.bytes().unwrap_or(0));
        assert_eq!(
            widths.collect::<Vec<_>>(),
            [4, 8, 2, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1, 0]
        );
    }

    #[test]
    fn a_type_holds_the_numbers_between_its_least_and_its_largest() {
        let check = |element_type: ElementType, least: i64, most: i64| {
            for (value, expected) in [(least, true), (0, true), (most, true)] {
                assert_eq!(element_type.holds(value), expected, "{element_type} {value}");
            }
            let beyond = [least.checked_sub(1), most.checked_add(1)];
            for value in beyond.into_iter().flatten() {
                assert!(!element_type.holds(value), "{element_type} {value}");
            }
        };
        check(ElementType::Bool, 0, 1);
        check(ElementType::I8, -128, 127);
        check(ElementType::I16, -32_768, 32_767);
        check(ElementType::I32, i32::MIN.into(), i32::MAX.into());
        check(ElementType::I64, i64::MIN, i64::MAX);
        check(ElementType::U8, 0, 255);
        check(ElementType::U16, 0, 65_535);
        check(ElementType::U32, 0, u32::MAX.into());
        check(ElementType::U64, 0, i64::MAX);
        check(ElementType::F32, i64::MIN, i64::MAX);
        check(ElementType::Bytes, 0, 0);
        // Numbers round to the nearest, and the first that rounds to an infinity is 65,520.
        check(ElementType::F16, -65_519, 65_519);
    }

    fn check_finite(data: impl Into<Data>, expected: Option<(usize, f64)>) {
        let data = data.into();
        let found = data.slice(0..data.len()).first_not_finite();
        // NaN is not equal to itself.
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    }

    #[test]
    fn the_first_value_that_is_not_finite_is_found() {
        let mut values = vec![1.0f32; 1000];
        check_finite(values.clone(), None);
        values[700] = f32::NEG_INFINITY;
        values[900] = f32::INFINITY;
        check_finite(values, Some((700, f64::NEG_INFINITY)));
        check_finite(vec![f64::MAX, f64::NAN], Some((1, f64::NAN)));
        check_finite(vec![f16::MAX, f16::INFINITY], Some((1, f64::INFINITY)));
        check_finite(vec![bf16::MIN, bf16::ONE, bf16::NAN], Some((2, f64::NAN)));
        check_finite(vec![i64::MAX], None);
        check_finite(vec![true], None);
        check_finite(Bytes::from_iter(["NaN"]), None);
    }
}
