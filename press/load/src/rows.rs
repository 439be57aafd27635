//! Rows of features that are known before they are asked for: those of `millpond features random`.
//!
//! Its invariant: an answer is right only if every key was found and every byte of every row is as it was made.

use millpond_wire_payload::{Encoding, Payload, PayloadError, Reader, Token};

use crate::check::{Answer, Verified};
use crate::kind::Given;
use crate::known::EXPECTED_BYTES_MAX;
use crate::protocol::{Prepared, excerpt};

/// The most entries of the answer's map: each is compared with those before it.
const KEYS_MAX: usize = 16;

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
    pub(crate) fn compare(&self, index: usize, answer: Answer<'_>) -> Result<Verified, String> {
        match (&self.rows, answer) {
            (Some(rows), Answer::Msgpack(answer)) => {
                self.compare_msgpack(rows.get(index), answer)?;
                Ok(Verified::OneMap)
            }
            (Some(rows), Answer::Floats(found)) => {
                compare_floats(rows.get(index), found)?;
                Ok(Verified::Nothing)
            }
            _ => Ok(Verified::Nothing),
        }
    }

    /// The msgpack answer to a `features.lookup`.
    fn compare_msgpack(&self, expected: &[u8], answer: &[u8]) -> Result<(), String> {
        let payload = Payload::new(Encoding::Msgpack, answer).map_err(|error| error.to_string())?;
        let blocks = payload.read(Blocks::read).map_err(|error| error.to_string())?;
        let (Some(found), Some(values)) = (blocks.found, blocks.values) else {
            return Err("it has no `found` and `values` of a lookup".into());
        };
        if values != expected {
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

/// What an answer says of rows; nothing else of it is kept, as the load generator may read a million answers a second.
#[derive(Default)]
struct Blocks<'a> {
    found: Option<&'a [u8]>,
    values: Option<&'a [u8]>,
}

impl<'a> Blocks<'a> {
    /// Walks over a map in which each key stands once.
    fn read(reader: &mut Reader<'a>) -> Result<Blocks<'a>, PayloadError> {
        let mut blocks = Blocks::default();
        let (mut keys, mut count) = ([&[][..]; KEYS_MAX], 0);
        reader.map("a map", |reader, key| {
            let seen = keys.get(..count).unwrap_or_default();
            if seen.contains(&key) {
                return Err(reader.twin(&String::from_utf8_lossy(key)));
            }
            let next = keys.get_mut(count).ok_or_else(|| {
                PayloadError::invalid(
                    "a map of more keys",
                    "the answer to a lookup, which has no more than 16",
                )
            })?;
            (*next, count) = (key, count + 1);
            let block = match key {
                b"found" => &mut blocks.found,
                b"values" => &mut blocks.values,
                _ => return reader.skip(),
            };
            match reader.token()? {
                Token::Bytes(bytes) => *block = Some(bytes),
                other => return Err(other.is_not("bytes")),
            }
            Ok(())
        })?;
        Ok(blocks)
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
        assert_eq!(check(&[3], &expected), Ok(Verified::OneMap));
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
        assert_eq!(known.compare(1, Answer::Floats(&floats)), Ok(Verified::Nothing));
        assert!(known.compare(1, Answer::Floats(&floats[..3])).is_err());
        assert!(known.compare(0, Answer::Floats(&floats[..2])).is_err());
    }

    #[test]
    fn an_answer_is_one_map_in_which_each_key_stands_once() {
        let known = known();
        let mut row = Vec::new();
        ROWS.write(9, &mut row);
        let said = |bytes: &[u8]| known.compare(0, Answer::Msgpack(bytes));
        let map = |write: &dyn Fn(&mut Encoder<'_>)| {
            let mut bytes = Vec::new();
            Encoder::new(&mut bytes, Encoding::Msgpack, false).map(write);
            bytes
        };
        let right = answer(&[1], &row);
        assert_eq!(said(&right), Ok(Verified::OneMap));
        for cut in 0..right.len() {
            assert!(said(&right[..cut]).is_err(), "{cut}");
        }
        assert!(said(&[&right[..], &[0xc0]].concat()).is_err());
        let check = |name: &str, write: &dyn Fn(&mut Encoder<'_>), expected: &str| {
            let said = said(&map(write)).unwrap_err();
            assert!(said.contains(expected), "{name}: {said}");
        };
        let rows = |out: &mut Encoder<'_>| {
            out.key("found");
            out.bytes(&[1]);
            out.key("values");
            out.bytes(&row);
        };
        let version = |out: &mut Encoder<'_>| {
            out.key("version");
            out.uint(1);
        };
        check(
            "rows twice",
            &|out| (rows(out), rows(out)).0,
            "\"found\" occurs twice",
        );
        check(
            "a version twice",
            &|out| (version(out), rows(out), version(out)).0,
            "\"version\" occurs twice",
        );
        check(
            "text",
            &|out| {
                out.key("values");
                out.text("no")
            },
            "bytes",
        );
        let many = |out: &mut Encoder<'_>| {
            rows(out);
            for key in 0..KEYS_MAX {
                out.key(&key.to_string());
                out.uint(1);
            }
        };
        check("many keys", &many, "no more than 16");
    }
}
