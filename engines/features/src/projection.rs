//! What an answer has of a row: which columns, as which numbers.
//!
//! Knows nothing of keys. Invariant: a projection fits the schema that it was made for, and writes each row at the same length.

use half::{bf16, f16};

use crate::error::Error;
use crate::rows::{self, Row};
use crate::schema::{Column, Numbers, Schema};

/// Numbers converted at a time.
const STEP: usize = 64;

/// As what the numbers of an answer are written, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answered {
    /// 32-bit floats.
    #[default]
    F32,
    /// 64-bit floats.
    F64,
    /// 16-bit floats (IEEE 754 binary16); what is beyond them is an infinity.
    F16,
    /// The upper halves of 32-bit floats.
    Bf16,
    /// The bytes of the row, as they are stored.
    Stored,
}

impl Answered {
    /// # Errors
    /// [`Error::Argument`]: bytes are no numbers.
    fn check(self, column: &Column) -> Result<(), Error> {
        match self {
            Answered::Stored => Ok(()),
            _ if !column.numbers.is_bytes() => Ok(()),
            other => {
                let expected = format!("\"u8\", because column {:?} holds bytes", column.name);
                Err(Error::argument("type", expected, format!("{:?}", other.as_str())))
            }
        }
    }

    /// Bytes of a number.
    fn bytes(self) -> usize {
        match self {
            Answered::F64 => 8,
            Answered::F32 => 4,
            Answered::F16 | Answered::Bf16 => 2,
            Answered::Stored => 1,
        }
    }

    /// Its name in a call.
    fn as_str(self) -> &'static str {
        match self {
            Answered::F32 => "f32",
            Answered::F64 => "f64",
            Answered::F16 => "f16",
            Answered::Bf16 => "bf16",
            Answered::Stored => "u8",
        }
    }

    /// Whether numbers of that kind are stored as they are answered.
    fn is(self, numbers: Numbers) -> bool {
        match self {
            Answered::Stored => true,
            Answered::F32 => numbers == Numbers::F32,
            Answered::F16 => numbers == Numbers::F16,
            Answered::Bf16 => numbers == Numbers::Bf16,
            Answered::F64 => false,
        }
    }
}

/// The columns of an answer, and as what they are written.
#[derive(Debug, Clone)]
pub struct Projection {
    columns: Vec<Source>,
    answered: Answered,
    /// Bytes of an answer's row.
    row_bytes: usize,
    /// The row as it is stored.
    is_whole: bool,
}

/// Where a column comes from.
#[derive(Debug, Clone, Copy)]
struct Source {
    /// Where it begins among the bytes of a row.
    begin: usize,
    /// Where it begins among the numbers of a row.
    first: usize,
    numbers: Numbers,
    dim: usize,
    /// Its bytes in the row, and in the answer.
    stored_bytes: usize,
    bytes: usize,
}

impl Source {
    fn of(column: &Column, (begin, first): (usize, usize), answered: Answered) -> Source {
        let stored_bytes = column.bytes();
        Source {
            begin,
            first,
            numbers: column.numbers,
            dim: column.dim,
            stored_bytes,
            bytes: match answered {
                Answered::Stored => stored_bytes,
                _ => column.dim * answered.bytes(),
            },
        }
    }
}

impl Projection {
    /// Of all columns.
    pub(crate) fn all(schema: &Schema, answered: Answered) -> Projection {
        let mut at = (0, 0);
        let columns = schema.columns.iter().map(|column| {
            let source = Source::of(column, at, answered);
            at = (at.0 + column.bytes(), at.1 + column.dim);
            source
        });
        let columns: Vec<Source> = columns.collect();
        Projection {
            row_bytes: columns.iter().map(|source| source.bytes).sum(),
            is_whole: columns.iter().all(|source| answered.is(source.numbers)),
            columns,
            answered,
        }
    }

    /// Of the columns of these names, in their order; of all where there are none.
    ///
    /// # Errors
    /// [`Error::Argument`] for a column that the schema has not, or that is named twice; and for bytes that would have to come
    /// as numbers.
    pub fn new<N: AsRef<str>>(schema: &Schema, names: &[N], answered: Answered) -> Result<Projection, Error> {
        let all = Projection::all(schema, answered);
        if names.is_empty() {
            schema
                .columns
                .iter()
                .try_for_each(|column| answered.check(column))?;
            return Ok(all);
        }
        let mut columns: Vec<Source> = Vec::with_capacity(names.len().min(schema.columns.len()));
        for (column, begin) in schema.select(names)? {
            answered.check(column)?;
            columns.extend(all.columns.iter().find(|source| source.begin == begin));
        }
        Ok(Projection {
            row_bytes: columns.iter().map(|source| source.bytes).sum(),
            is_whole: false,
            columns,
            answered,
        })
    }

    /// Columns of an answer's row.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Bytes of an answer's row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Numbers of an answer's row: bytes, where they are as stored.
    pub fn dim(&self) -> usize {
        self.row_bytes / self.answered.bytes()
    }

    /// Writes what an answer has of a row.
    #[inline(always)]
    pub(crate) fn write(&self, row: Row<'_>, out: &mut [u8]) {
        match row.get(..out.len()) {
            Some(row) if self.is_whole => out.copy_from_slice(row),
            _ => self.convert(row, out),
        }
    }

    #[inline(never)]
    fn convert(&self, row: Row<'_>, out: &mut [u8]) {
        let mut out = out;
        for source in &self.columns {
            let stored = row.get(source.begin..source.begin + source.stored_bytes);
            let (Some(stored), Some((place, left))) = (stored, out.split_at_mut_checked(source.bytes)) else {
                return;
            };
            if self.answered.is(source.numbers) {
                place.copy_from_slice(stored);
            } else {
                self.convert_column(source.numbers, stored, place);
            }
            out = left;
        }
    }

    fn convert_column(&self, kind: Numbers, stored: &[u8], out: &mut [u8]) {
        let mut numbers = [0.0; STEP];
        let bytes = self.answered.bytes();
        for (step, places) in out.chunks_mut(STEP * bytes).enumerate() {
            let count = places.len() / bytes;
            let numbers = numbers.get_mut(..count).unwrap_or_default();
            rows::decode_from(kind, stored, step * STEP, numbers);
            encode(self.answered, numbers, places);
        }
    }

    /// Writes what an answer has of a row's numbers, all columns of them; nothing where it has rows as they are stored.
    pub fn write_numbers(&self, numbers: &[f32], out: &mut [u8]) {
        let mut out = out;
        for source in &self.columns {
            let numbers = numbers.get(source.first..source.first + source.dim);
            let (Some(numbers), Some((place, left))) = (numbers, out.split_at_mut_checked(source.bytes))
            else {
                return;
            };
            encode(self.answered, numbers, place);
            out = left;
        }
    }
}

/// Writes numbers in another form.
fn encode(answered: Answered, numbers: &[f32], out: &mut [u8]) {
    match answered {
        Answered::F32 => each(numbers, out, f32::to_le_bytes),
        Answered::F64 => each(numbers, out, |number| f64::from(number).to_le_bytes()),
        Answered::F16 => each(numbers, out, |number| f16::from_f32(number).to_le_bytes()),
        Answered::Bf16 => each(numbers, out, |number| bf16::from_f32(number).to_le_bytes()),
        Answered::Stored => {}
    }
}

fn each<const BYTES: usize>(numbers: &[f32], out: &mut [u8], bytes: impl Fn(f32) -> [u8; BYTES]) {
    for (place, &number) in out.as_chunks_mut().0.iter_mut().zip(numbers) {
        *place = bytes(number);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schema::NotFinite;
    use proptest::prelude::*;

    fn schema(columns: &[(&str, Numbers, usize)]) -> Schema {
        let columns = columns.iter().map(|&(name, numbers, dim)| Column {
            name: name.to_owned(),
            numbers,
            dim,
        });
        Schema {
            keys: crate::schema::Keys::U64,
            columns: columns.collect(),
            not_finite: NotFinite::Kept,
            default_row: None,
        }
    }

    fn all_kinds() -> Schema {
        schema(&[
            ("a", Numbers::F32, 2),
            ("b", Numbers::F16, 70),
            ("c", Numbers::Bf16, 1),
            ("d", Numbers::I8Scaled, 3),
        ])
    }

    /// What a projection writes, as 64-bit floats.
    fn numbers(answered: Answered, bytes: &[u8]) -> Vec<f64> {
        let wide = |number: f32| f64::from(number);
        match answered {
            Answered::F64 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| f64::from_le_bytes(*b))
                .collect(),
            Answered::F32 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| wide(f32::from_le_bytes(*b)))
                .collect(),
            Answered::F16 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| f16::from_le_bytes(*b).to_f64())
                .collect(),
            Answered::Bf16 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| bf16::from_le_bytes(*b).to_f64())
                .collect(),
            Answered::Stored => bytes.iter().map(|byte| f64::from(*byte)).collect(),
        }
    }

    proptest! {
        #[test]
        fn columns_come_in_the_order_asked_in_any_form(
            values in prop::collection::vec((-8..8_i8).prop_map(|eighths| f32::from(eighths) / 8.0), 76),
            order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle(),
            count in 1..5_usize,
            answered in prop::sample::select(&[Answered::F32, Answered::F64, Answered::F16, Answered::Bf16][..]),
        ) {
            let schema = all_kinds();
            let mut row = Vec::new();
            rows::encode(&schema, &values, &mut row).unwrap();
            let starts = [0, 2, 72, 73, 76];
            let (mut names, mut expected) = (Vec::new(), Vec::new());
            for &column in &order[..count] {
                names.push(&*schema.columns[column].name);
                expected.extend_from_slice(&values[starts[column]..starts[column + 1]]);
            }
            let projection = Projection::new(&schema, &names, answered).unwrap();
            prop_assert_eq!(projection.dim(), expected.len());
            let mut out = vec![7; projection.row_bytes()];
            projection.write(&row, &mut out);
            for (found, expected) in numbers(answered, &out).into_iter().zip(&expected) {
                // A scaled byte is off by half a step of the row's largest number.
                prop_assert!((found - f64::from(*expected)).abs() <= 0.01, "{} for {}", found, expected);
            }
            let mut again = vec![7; projection.row_bytes()];
            projection.write_numbers(&values, &mut again);
            for (found, expected) in numbers(answered, &again).into_iter().zip(expected) {
                prop_assert_eq!(found, f64::from(expected));
            }
        }
    }

    #[test]
    fn what_is_stored_so_is_copied() {
        let schema = schema(&[("a", Numbers::F16, 2), ("b", Numbers::F16, 1)]);
        let mut row = Vec::new();
        rows::encode(&schema, &[1.0, 2.0, 3.0], &mut row).unwrap();
        for (names, answered, expected) in [
            (&[][..], Answered::Stored, &row[..]),
            (&[], Answered::F16, &row),
            (&["b"], Answered::Stored, &row[4..]),
            (&["b", "a"], Answered::F16, &[&row[4..], &row[..4]].concat()),
        ] {
            let projection = Projection::new(&schema, names, answered).unwrap();
            let mut out = vec![7; projection.row_bytes()];
            projection.write(&row, &mut out);
            assert_eq!(out, expected, "{names:?} {answered:?}");
        }
    }

    #[test]
    fn a_short_row_writes_no_further_than_it_reaches() {
        let schema = all_kinds();
        for length in 0..schema.row_bytes() {
            for answered in [Answered::F32, Answered::Stored] {
                let projection = Projection::all(&schema, answered);
                let mut out = vec![7; projection.row_bytes()];
                projection.write(&vec![0; length], &mut out);
                assert_eq!(out.last(), Some(&7));
            }
        }
    }

    #[test]
    fn unknown_columns_are_named() {
        let error = |names: &[&str]| {
            let made = Projection::new(&all_kinds(), names, Answered::F32);
            made.unwrap_err().to_string()
        };
        assert_eq!(
            error(&["b", "x"]),
            "columns: expected some of [\"a\", \"b\", \"c\", \"d\"], found \"x\""
        );
        assert_eq!(
            error(&["b", "b"]),
            "columns: expected different names, found \"b\" twice"
        );
    }

    #[test]
    fn bytes_come_as_they_are_or_not_at_all() {
        let schema = schema(&[("a", Numbers::F16, 1), ("raw", Numbers::Bytes, 3)]);
        let mut row = Vec::new();
        rows::encode(&schema, &[1.0, 0.0, 7.0, 255.0], &mut row).unwrap();
        assert_eq!(row[2..], [0, 7, 255]);
        let check = |names: &[&str], answered, expected: Result<&[u8], &str>| {
            let projection = Projection::new(&schema, names, answered).map_err(|error| error.to_string());
            match (projection, expected) {
                (Ok(projection), Ok(expected)) => {
                    let mut out = vec![7; projection.row_bytes()];
                    projection.write(&row, &mut out);
                    assert_eq!(out, expected);
                }
                (found, expected) => assert_eq!(found.err().as_deref(), expected.err()),
            }
        };
        check(&[], Answered::Stored, Ok(&row));
        check(&["raw"], Answered::Stored, Ok(&[0, 7, 255]));
        check(&["a"], Answered::F32, Ok(&1.0_f32.to_le_bytes()));
        let refused = |found: &str| {
            format!("type: expected \"u8\", because column \"raw\" holds bytes, found {found:?}")
        };
        check(&[], Answered::F32, Err(&refused("f32")));
        check(&["a", "raw"], Answered::F64, Err(&refused("f64")));
    }
}
