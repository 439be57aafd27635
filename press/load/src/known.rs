//! Answers that are known before they come, because every value follows from its key.

use crate::check::Answer;
use crate::kind::Given;
use crate::protocol::{Prepared, excerpt};

/// The largest set of known answers.
pub(crate) const EXPECTED_BYTES_MAX: usize = 256 << 20;

/// The answer to each request, empty where it is not known; nothing where none is.
pub(crate) struct KnownAnswers(Option<Prepared>);

impl KnownAnswers {
    /// The answers to commands whose keys hold known values: `answer` makes one of the command and the values of its keys.
    pub(crate) fn of(
        given: &Given<'_>,
        answer: impl Fn(&[u8], &[Vec<u8>]) -> Option<Vec<u8>>,
    ) -> Result<KnownAnswers, String> {
        let (Some(mixed), Some(value_of)) = (given.mixed, given.value_of) else {
            return Ok(KnownAnswers(None));
        };
        let (mut known, mut bytes) = (Prepared::default(), 0);
        for (number, command) in mixed.requests.iter().enumerate() {
            let values: Vec<Vec<u8>> = mixed.keys_of(number).iter().map(|&key| value_of(key)).collect();
            let expected = answer(command, &values).unwrap_or_default();
            bytes += expected.len();
            if bytes > EXPECTED_BYTES_MAX {
                return Err(format!(
                    "the known answers need more than {EXPECTED_BYTES_MAX} bytes of memory; \
                     lower requests.count or set check.values = false"
                ));
            }
            known.push(|out| out.extend_from_slice(&expected));
        }
        Ok(KnownAnswers(Some(known)))
    }

    /// The answer to request `index`, where it is known.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.0
            .as_ref()
            .map(|known| known.get(index))
            .filter(|known| !known.is_empty())
    }

    /// Checks the answer to request `index`.
    pub(crate) fn compare(&self, index: usize, answer: Answer<'_>) -> Result<(), String> {
        let (Some(expected), Answer::Bytes(found)) = (self.get(index), answer) else {
            return Ok(());
        };
        if expected == found {
            return Ok(());
        }
        Err(format!(
            "expected {}, found {}",
            excerpt(expected),
            excerpt(found)
        ))
    }
}

/// The values that the gets of a batch read, one behind the other, where there is a value for each operation.
pub(crate) fn values_of_gets(
    are_gets: impl ExactSizeIterator<Item = bool>,
    values: &[Vec<u8>],
) -> Option<Vec<u8>> {
    if are_gets.len() != values.len() {
        return None;
    }
    let read = are_gets.zip(values).filter(|(is_get, _)| *is_get);
    Some(read.flat_map(|(_, value)| value.iter().copied()).collect())
}
