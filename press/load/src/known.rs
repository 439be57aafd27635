//! Answers that are known before they come, because every value follows from its key.

use crate::check::Answer;
use crate::kind::Given;
use crate::protocol::{Prepared, excerpt};

/// The largest set of known answers.
pub(crate) const EXPECTED_BYTES_MAX: usize = 256 << 20;

/// From a command and the values of its keys to the answer.
type KnownAnswer = fn(&[u8], &[Vec<u8>]) -> Option<Vec<u8>>;

/// The answer to each request, empty where it is not known; nothing where none is.
pub(crate) struct KnownAnswers(Option<Prepared>);

impl KnownAnswers {
    /// The answers to commands whose keys hold known values.
    pub(crate) fn of(given: &Given<'_>, answer: KnownAnswer) -> Result<KnownAnswers, String> {
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

    /// Checks the answer to request `index`.
    pub(crate) fn compare(&self, index: usize, answer: Answer<'_>) -> Result<(), String> {
        let (Some(known), Answer::Bytes(found)) = (&self.0, answer) else {
            return Ok(());
        };
        let expected = known.get(index);
        if expected.is_empty() || expected == found {
            return Ok(());
        }
        Err(format!(
            "expected {}, found {}",
            excerpt(expected),
            excerpt(found)
        ))
    }
}
