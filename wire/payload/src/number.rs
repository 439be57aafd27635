//! The numbers that blocks and arrays are made of.
//! Its invariant: a block is the numbers' bytes, little-endian, whatever machine wrote it.

use crate::{Encoder, PayloadError, Read, Token};
use half::{bf16, f16};

/// A number that travels in blocks.
pub trait Number: Copy {
    /// Its name on the wire.
    const NAME: &'static str;
    /// Bytes of one.
    const BYTES: usize;

    /// The number that a value is, if it is one of these.
    fn of(token: Token<'_>) -> Option<Self>;

    /// The numbers of a block; `None` where bytes are left over.
    fn of_block(block: &[u8]) -> Option<Vec<Self>>;

    /// Appends their bytes.
    fn append(numbers: &[Self], out: &mut Vec<u8>);

    /// Writes it as a value of its own.
    fn write(self, out: &mut Encoder<'_>);

    /// What belongs where a block does.
    fn expected() -> String {
        let (name, bytes) = (Self::NAME, Self::BYTES);
        format!("{name} values: bin of {bytes} bytes each, little-endian (in JSON an array of numbers)")
    }
}

pub(crate) fn block_of<T: Number>(bytes: &[u8]) -> Read<Vec<T>> {
    T::of_block(bytes).ok_or_else(|| PayloadError::invalid(format!("{} bytes", bytes.len()), T::expected()))
}

/// Implements [`Number`]: `TYPE: FROM A VALUE, METHOD OF THE ENCODER, FROM ITS BYTES, TO ITS BYTES;`.
macro_rules! numbers {
    ($($name:ident: $of:expr, $write:ident, $from:expr, $to:expr;)*) => {$(
        impl Number for $name {
            const NAME: &'static str = stringify!($name);
            const BYTES: usize = size_of::<$name>();

            #[inline]
            fn of(token: Token<'_>) -> Option<$name> {
                $of(token)
            }

            fn of_block(block: &[u8]) -> Option<Vec<$name>> {
                let (numbers, rest) = block.as_chunks::<{ size_of::<$name>() }>();
                rest.is_empty().then(|| numbers.iter().copied().map($from).collect())
            }

            fn append(numbers: &[$name], out: &mut Vec<u8>) {
                let begin = out.len();
                out.resize(begin + size_of_val(numbers), 0);
                // Whole numbers at a time, which is a copy; bytes one after another are a loop.
                let places = out.get_mut(begin..).unwrap_or_default().as_chunks_mut().0;
                for (place, number) in places.iter_mut().zip(numbers) {
                    *place = $to(*number);
                }
            }

            fn write(self, out: &mut Encoder<'_>) {
                out.$write(self.into());
            }
        }
    )*};
}

numbers! {
    f32: |token| float(token).map(|value| value as f32), f32, f32::from_le_bytes, f32::to_le_bytes;
    f64: float, f64, f64::from_le_bytes, f64::to_le_bytes;
    f16: |token| float(token).map(f16::from_f64), f32, f16::from_le_bytes, f16::to_le_bytes;
    bf16: |token| float(token).map(bf16::from_f64), f32, bf16::from_le_bytes, bf16::to_le_bytes;
    i64: integer, int, i64::from_le_bytes, i64::to_le_bytes;
    i32: integer, int, i32::from_le_bytes, i32::to_le_bytes;
    i16: integer, int, i16::from_le_bytes, i16::to_le_bytes;
    i8: integer, int, i8::from_le_bytes, i8::to_le_bytes;
    u64: integer, uint, u64::from_le_bytes, u64::to_le_bytes;
    u32: integer, uint, u32::from_le_bytes, u32::to_le_bytes;
    u16: integer, uint, u16::from_le_bytes, u16::to_le_bytes;
    u8: integer, uint, u8::from_le_bytes, u8::to_le_bytes;
    bool: truth, bool, |[byte]: [u8; 1]| byte != 0, |value| [u8::from(value)];
}

fn truth(token: Token<'_>) -> Option<bool> {
    match token {
        Token::Bool(value) => Some(value),
        _ => None,
    }
}

fn integer<T: TryFrom<u64> + TryFrom<i64>>(token: Token<'_>) -> Option<T> {
    match token {
        Token::UInt(value) => T::try_from(value).ok(),
        Token::Int(value) => T::try_from(value).ok(),
        _ => None,
    }
}

/// A number of any kind.
fn float(token: Token<'_>) -> Option<f64> {
    match token {
        Token::Float(value) => Some(value),
        Token::UInt(value) => Some(value as f64),
        Token::Int(value) => Some(value as f64),
        _ => None,
    }
}
