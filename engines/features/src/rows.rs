//! A row's bytes, to and from 32-bit floats.
//!
//! Knows nothing of keys. Invariant: reading never looks outside the row it was given, whatever its bytes are.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::error::Error;
use crate::schema::{Column, NotFinite, Numbers, SCALE_BYTES, Schema};

/// Numbers converted at a time.
const STEP: usize = 16;

/// A row as it lies in a slot.
pub type Row<'a> = &'a [u8];

/// How the rows of a table are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    columns: &'a [Column],
    /// Nothing but 32-bit floats: the columns do not matter then.
    is_floats: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(schema: &'a Schema) -> Reader<'a> {
        Reader {
            columns: &schema.columns,
            is_floats: schema.is_floats(),
        }
    }

    /// Writes the numbers of a row to `values`.
    #[inline(always)]
    pub(crate) fn copy(self, row: Row<'_>, values: &mut [f32]) {
        if self.is_floats {
            for (value, bytes) in values.iter_mut().zip(row.as_chunks().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        } else {
            self.convert(row, values);
        }
    }

    /// Hands the numbers of a row to `fold` with those of `values`, one by one. `scratch` is of the same length, or
    /// empty.
    #[inline(always)]
    pub(crate) fn fold(
        self,
        row: Row<'_>,
        values: &mut [f32],
        scratch: &mut Vec<f32>,
        fold: impl Fn(&mut f32, f32),
    ) {
        if self.is_floats {
            for (value, bytes) in values.iter_mut().zip(row.as_chunks().0) {
                fold(value, f32::from_le_bytes(*bytes));
            }
        } else {
            scratch.resize(values.len(), 0.0);
            self.convert(row, scratch);
            for (value, number) in values.iter_mut().zip(scratch) {
                fold(value, *number);
            }
        }
    }

    #[inline(never)]
    fn convert(self, row: Row<'_>, values: &mut [f32]) {
        let (mut row, mut values) = (row, values);
        for column in self.columns {
            let Some((bytes, row_left)) = row.split_at_checked(column.bytes()) else {
                return;
            };
            let Some((numbers, left)) = values.split_at_mut_checked(column.dim) else {
                return;
            };
            decode(column.numbers, bytes, numbers);
            (row, values) = (row_left, left);
        }
    }
}

/// Writes the numbers of a column from number `first` on.
pub(crate) fn decode_from(kind: Numbers, bytes: &[u8], first: usize, numbers: &mut [f32]) {
    match (kind, bytes.split_first_chunk::<SCALE_BYTES>()) {
        (Numbers::I8Scaled, Some((scale, bytes))) => {
            scaled(*scale, bytes.get(first..).unwrap_or_default(), numbers);
        }
        _ => decode(kind, bytes.get(kind.bytes(first)..).unwrap_or_default(), numbers),
    }
}

fn decode(kind: Numbers, bytes: &[u8], numbers: &mut [f32]) {
    match kind {
        Numbers::F32 => {
            for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
                *number = f32::from_le_bytes(*bytes);
            }
        }
        Numbers::F16 => widen(bytes, numbers, |bits, numbers| {
            bits.map(f16::from_bits)[..numbers.len()].convert_to_f32_slice(numbers);
        }),
        Numbers::Bf16 => widen(bytes, numbers, |bits, numbers| {
            for (number, bits) in numbers.iter_mut().zip(bits) {
                *number = bf16::from_bits(bits).to_f32();
            }
        }),
        Numbers::I8Scaled => {
            let Some((scale, bytes)) = bytes.split_first_chunk() else {
                return;
            };
            scaled(*scale, bytes, numbers);
        }
        Numbers::Bytes | Numbers::VaryingBytes => {
            for (number, byte) in numbers.iter_mut().zip(bytes) {
                *number = f32::from(*byte);
            }
        }
    }
}

fn scaled(scale: [u8; SCALE_BYTES], bytes: &[u8], numbers: &mut [f32]) {
    let scale = f32::from_le_bytes(scale);
    for (number, byte) in numbers.iter_mut().zip(bytes) {
        *number = f32::from(byte.cast_signed()) * scale;
    }
}

/// Takes 16-bit numbers a few at a time, so that the processor converts them together.
fn widen(bytes: &[u8], numbers: &mut [f32], convert: impl Fn([u16; STEP], &mut [f32])) {
    for (bytes, numbers) in bytes.chunks(STEP * 2).zip(numbers.chunks_mut(STEP)) {
        let mut bits = [0; STEP];
        for (bits, bytes) in bits.iter_mut().zip(bytes.as_chunks().0) {
            *bits = u16::from_le_bytes(*bytes);
        }
        convert(bits, numbers);
    }
}

/// What a row has in one column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// Numbers. In a column of bytes each is a byte, 0 to 255.
    Numbers(&'a [f32]),
    /// Bytes, of a column of them.
    Bytes(&'a [u8]),
}

impl Cell<'_> {
    /// How many numbers or bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether a cell is empty")]
    pub fn len(self) -> usize {
        match self {
            Cell::Numbers(numbers) => numbers.len(),
            Cell::Bytes(bytes) => bytes.len(),
        }
    }
}

/// Why a row of floats has no place in a schema: the number at fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unfit {
    pub(crate) position: usize,
    pub(crate) value: f32,
}

impl Unfit {
    /// The error that says so of the row of a key.
    pub(crate) fn of(self, key: u64) -> Error {
        let Unfit { position, value } = self;
        Error::NotFinite { key, position, value }
    }
}

/// Appends the bytes of a row with as many `values` as the schema has numbers.
///
/// # Errors
/// A number that is not finite where the schema refuses that, or becomes so by being narrowed. `out` has some of the row then.
pub(crate) fn encode(schema: &Schema, values: &[f32], out: &mut Vec<u8>) -> Result<(), Unfit> {
    let mut begin = 0;
    for column in &schema.columns {
        let dim = match column.numbers {
            Numbers::VaryingBytes => values.len(),
            _ => column.dim,
        };
        let numbers = values.get(begin..begin + dim).unwrap_or_default();
        encode_column(column.numbers, numbers, schema.not_finite, out).map_err(|unfit| Unfit {
            position: begin + unfit.position,
            ..unfit
        })?;
        begin += dim;
    }
    Ok(())
}

/// Appends the numbers of one column.
///
/// # Errors
/// As [`encode`]; the position is that in the column.
pub(crate) fn encode_column(
    kind: Numbers,
    numbers: &[f32],
    not_finite: NotFinite,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let refused = not_finite == NotFinite::Refused;
    let unfit = match kind {
        Numbers::F32 => {
            let begin = out.len();
            out.resize(begin + size_of_val(numbers), 0);
            let places = out.get_mut(begin..).unwrap_or_default().as_chunks_mut().0;
            for (place, number) in places.iter_mut().zip(numbers) {
                *place = number.to_le_bytes();
            }
            // Without an end at the first that is not, several numbers are looked at together.
            let has_others = numbers
                .iter()
                .fold(false, |has, number| has | !number.is_finite());
            let is_other = |number: &f32| !number.is_finite();
            match refused && has_others {
                true => numbers.iter().position(is_other),
                false => None,
            }
        }
        Numbers::F16 => narrow(numbers, out, refused, |number| {
            let narrow = f16::from_f32(number);
            (narrow.to_bits(), narrow.is_finite())
        }),
        Numbers::Bf16 => narrow(numbers, out, refused, |number| {
            let narrow = bf16::from_f32(number);
            (narrow.to_bits(), narrow.is_finite())
        }),
        Numbers::I8Scaled => scale(numbers, out),
        Numbers::Bytes | Numbers::VaryingBytes => {
            out.extend(numbers.iter().map(|number| *number as u8));
            numbers
                .iter()
                .position(|number| f32::from(*number as u8) != *number)
        }
    };
    match unfit.and_then(|at| numbers.get(at).map(|value| (at, *value))) {
        Some((position, value)) => Err(Unfit { position, value }),
        None => Ok(()),
    }
}

/// Appends 16-bit numbers; the first that is refused.
fn narrow(
    numbers: &[f32],
    out: &mut Vec<u8>,
    refused: bool,
    bits: impl Fn(f32) -> (u16, bool),
) -> Option<usize> {
    let mut unfit = None;
    for (at, &number) in numbers.iter().enumerate() {
        let (bits, is_finite) = bits(number);
        out.extend(bits.to_le_bytes());
        // A finite number that is none when it is narrowed was lost, which `kept` does not ask for either.
        if !is_finite && (refused || number.is_finite()) {
            unfit = unfit.or(Some(at));
        }
    }
    unfit
}

/// Appends a scale and the bytes that it turns into the numbers again; a scale has no place for NaN.
fn scale(numbers: &[f32], out: &mut Vec<u8>) -> Option<usize> {
    if let Some(at) = numbers.iter().position(|number| !number.is_finite()) {
        return Some(at);
    }
    let largest = numbers
        .iter()
        .fold(0.0_f32, |largest, number| largest.max(number.abs()));
    let scale = largest / 127.0;
    // Rounded up, the scale of the largest floats would give an infinity again.
    let scale = if (scale * 127.0).is_finite() {
        scale
    } else {
        scale.next_down()
    };
    out.extend(scale.to_le_bytes());
    out.extend(numbers.iter().map(|number| {
        // A scale that was rounded to zero has zeros alone.
        let byte = if scale > 0.0 {
            (number / scale).round()
        } else {
            0.0
        };
        (byte as i8).cast_unsigned()
    }));
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn schema(kinds: &[(Numbers, usize)]) -> Schema {
        Schema {
            keys: crate::schema::Keys::U64,
            columns: kinds
                .iter()
                .enumerate()
                .map(|(at, &(numbers, dim))| Column {
                    name: format!("c{at}"),
                    numbers,
                    dim,
                })
                .collect(),
            not_finite: NotFinite::Refused,
            default_row: None,
        }
    }

    fn there_and_back(schema: &Schema, values: &[f32]) -> Vec<f32> {
        let mut bytes = Vec::new();
        encode(schema, values, &mut bytes).unwrap();
        assert_eq!(bytes.len(), schema.row_bytes());
        let mut got = vec![f32::NAN; values.len()];
        Reader::new(schema).copy(&bytes, &mut got);
        let mut sums = vec![1.0; values.len()];
        Reader::new(schema).fold(&bytes, &mut sums, &mut Vec::new(), |sum, number| *sum += number);
        let expected: Vec<f32> = got.iter().map(|number| 1.0 + number).collect();
        assert_eq!(sums, expected);
        got
    }

    #[test]
    fn numbers_come_back_as_near_as_their_kind_allows() {
        let values: Vec<f32> = (0..37).map(|at| (at as f32 - 18.0) * 0.37).collect();
        let near = |kind, relative: f32, absolute: f32| {
            let got = there_and_back(&schema(&[(kind, values.len())]), &values);
            for (value, got) in values.iter().zip(got) {
                assert!(
                    (value - got).abs() <= value.abs() * relative + absolute,
                    "{kind:?}: {value} became {got}"
                );
            }
        };
        near(Numbers::F32, 0.0, 0.0);
        near(Numbers::F16, 1.0 / 2048.0, 0.0);
        near(Numbers::Bf16, 1.0 / 256.0, 0.0);
        near(Numbers::I8Scaled, 0.0, 18.0 * 0.37 / 127.0 / 2.0 + 1e-6);
    }

    #[test]
    fn columns_follow_each_other() {
        let kinds = [
            (Numbers::I8Scaled, 2),
            (Numbers::F32, 1),
            (Numbers::F16, 3),
            (Numbers::I8Scaled, 1),
        ];
        let values = [127.0, -1.0, 0.1, 1.0, 2.0, -3.0, 5.0];
        assert_eq!(there_and_back(&schema(&kinds), &values), values);
        let scaled = |values: &[f32]| there_and_back(&schema(&[(Numbers::I8Scaled, 2)]), values);
        assert_eq!(scaled(&[0.0, 0.0]), [0.0, 0.0]);
        assert!(
            scaled(&[f32::MAX, f32::MIN])
                .iter()
                .all(|value| value.is_finite())
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let check = |kind, not_finite, values: &[f32], expected| {
            let mut schema = schema(&[(Numbers::F32, 1), (kind, values.len() - 1)]);
            schema.not_finite = not_finite;
            let unfit = encode(&schema, values, &mut Vec::new()).map_err(|unfit| unfit.position);
            assert_eq!(unfit, expected, "{kind:?} {values:?}");
        };
        let (refused, kept) = (NotFinite::Refused, NotFinite::Kept);
        check(Numbers::F32, refused, &[0.0, 1.0, f32::NAN], Err(2));
        check(Numbers::F32, kept, &[0.0, f32::INFINITY, f32::NAN], Ok(()));
        check(Numbers::F16, refused, &[0.0, 65_504.0, -65_520.0], Err(2));
        check(Numbers::F16, kept, &[0.0, 1e6], Err(1));
        check(Numbers::F16, kept, &[0.0, f32::NAN], Ok(()));
        check(Numbers::Bf16, refused, &[f32::NAN, 1.0], Err(0));
        check(Numbers::Bf16, kept, &[0.0, f32::MAX], Err(1));
        check(Numbers::I8Scaled, kept, &[0.0, f32::NAN], Err(1));
    }

    #[test]
    fn a_short_row_leaves_what_it_does_not_reach() {
        let schema = schema(&[(Numbers::F16, 2), (Numbers::I8Scaled, 2)]);
        for length in 0..schema.row_bytes() {
            let mut values = [7.0; 4];
            Reader::new(&schema).copy(&vec![0; length], &mut values);
            assert_eq!(values[3], 7.0);
        }
    }
}
