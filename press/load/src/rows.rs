//! Rows of features that are known before they are asked for: those of `millpond features random`.
//!
//! Its invariant: an answer is right only if every key was found and every byte of every row is as it was made.

use millpond_wire_payload::{Encoding, Value, decode_map};

use crate::check::Answer;
use crate::kind::Given;
use crate::known::EXPECTED_BYTES_MAX;
use crate::protocol::{Prepared, excerpt};

/// The rows that each request looks up; nothing where they are not known.
pub(crate) struct KnownRows {
    rows: Option<Prepared>,
    dim: usize,
}

impl KnownRows {
    /// The rows that each request must get, where they are known.
    pub(crate) fn of(given: &Given<'_>) -> Result<KnownRows, String> {
        let (Some(of), Some(mixed)) = (given.rows, given.mixed) else {
            return Ok(KnownRows { rows: None, dim: 0 });
        };
        let (mut rows, mut bytes) = (Prepared::default(), 0);
        for number in 0..mixed.requests.len() {
            let keys = mixed.keys_of(number);
            bytes += keys.len() * of.bytes();
            if bytes > EXPECTED_BYTES_MAX {
                return Err(format!(
                    "the rows of check.rows need more than {EXPECTED_BYTES_MAX} bytes of memory; lower requests.count or leave it out"
                ));
            }
            rows.push(|out| keys.iter().for_each(|&key| of.write(key, out)));
        }
        let dim = of.dim;
        Ok(KnownRows {
            rows: Some(rows),
            dim,
        })
    }

    /// Holds the answer to a lookup against the rows of request `index`.
    pub(crate) fn compare(&self, index: usize, answer: Answer<'_>) -> Result<(), String> {
        match (&self.rows, answer) {
            (Some(rows), Answer::Msgpack(answer)) => self.compare_msgpack(rows.get(index), answer),
            (Some(rows), Answer::Floats(found)) => compare_floats(rows.get(index), found),
            _ => Ok(()),
        }
    }

    /// The msgpack answer to a `features.lookup`.
    fn compare_msgpack(&self, expected: &[u8], answer: &[u8]) -> Result<(), String> {
        let answer = decode_map(Encoding::Msgpack, answer).map_err(|error| error.to_string())?;
        let (Some(Value::Bytes(found)), Some(Value::Bytes(values))) =
            (answer.get("found"), answer.get("values"))
        else {
            return Err("it has no `found` and `values` of a lookup".into());
        };
        if **values != *expected {
            return Err(differs(expected, values));
        }
        let keys = expected.len() / (self.dim * size_of::<f32>());
        let is_found = |key: usize| found.get(key / 8).is_some_and(|byte| byte >> (key % 8) & 1 == 1);
        match (0..keys).find(|&key| !is_found(key)) {
            Some(key) => Err(format!("its `found` says that row {key} is not there")),
            None => Ok(()),
        }
    }
}

/// Floats that were looked up in this process.
fn compare_floats(expected: &[u8], found: &[f32]) -> Result<(), String> {
    let (words, _) = expected.as_chunks::<4>();
    let is_same = |(found, expected): (&f32, &[u8; 4])| found.to_le_bytes() == *expected;
    if words.len() == found.len() && found.iter().zip(words).all(is_same) {
        return Ok(());
    }
    let found: Vec<u8> = found.iter().flat_map(|value| value.to_le_bytes()).collect();
    Err(differs(expected, &found))
}

fn differs(expected: &[u8], found: &[u8]) -> String {
    let at = expected
        .iter()
        .zip(found)
        .position(|(expected, found)| expected != found);
    let at = at.unwrap_or(expected.len().min(found.len())) / 4 * 4;
    let from = |bytes: &[u8]| excerpt(bytes.get(at..bytes.len().min(at + 4)).unwrap_or_default());
    format!(
        "its rows are {} bytes where {} were written, and differ from byte {at} on: expected {}, found {}",
        found.len(),
        expected.len(),
        from(expected),
        from(found)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_press_workload::RandomRows;
    use millpond_wire_payload::Encoder;

    const ROWS: RandomRows = RandomRows { seed: 7, dim: 2 };

    fn known() -> KnownRows {
        let mut rows = Prepared::default();
        for keys in [&[9][..], &[0, 5]] {
            rows.push(|out| keys.iter().for_each(|&key| ROWS.write(key, out)));
        }
        let rows = Some(rows);
        KnownRows { rows, dim: 2 }
    }

    fn answer(found: &[u8], values: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes, Encoding::Msgpack, false).map(|out| {
            out.key("found");
            out.bytes(found);
            out.key("values");
            out.bytes(values);
            out.key("version");
            out.uint(1);
        });
        bytes
    }

    #[test]
    fn rows_are_right_to_the_last_byte() {
        let known = known();
        let mut expected = Vec::new();
        [0, 5].iter().for_each(|&key| ROWS.write(key, &mut expected));
        assert_eq!(expected.len(), 16);
        let check = |found: &[u8], values: &[u8]| known.compare(1, Answer::Msgpack(&answer(found, values)));
        assert_eq!(check(&[3], &expected), Ok(()));
        let mut wrong = expected.clone();
        wrong[9] ^= 1;
        let said = check(&[3], &wrong).unwrap_err();
        assert!(said.contains("differ from byte 8 on"), "{said}");
        assert!(check(&[3], &expected[..12]).is_err());
        assert!(check(&[1], &expected).unwrap_err().contains("row 1 is not there"));
        assert!(check(&[], &expected).is_err());
        assert!(
            known
                .compare(1, Answer::Msgpack(&[0x80]))
                .unwrap_err()
                .contains("no `found`")
        );
        let (words, _) = expected.as_chunks::<4>();
        let floats: Vec<f32> = words.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert!(floats.iter().all(|value| (-1.0..1.0).contains(value)));
        assert_eq!(known.compare(1, Answer::Floats(&floats)), Ok(()));
        assert!(known.compare(1, Answer::Floats(&floats[..3])).is_err());
        assert!(known.compare(0, Answer::Floats(&floats[..2])).is_err());
    }
}
