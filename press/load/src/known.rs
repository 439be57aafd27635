//! Answers that are known before they come, because every value follows from its key.

use crate::kind::Given;
use crate::protocol::Prepared;

/// The largest set of known answers.
pub(crate) const EXPECTED_BYTES_MAX: usize = 256 << 20;

/// From a command and the values of its keys to the answer.
type KnownAnswer = fn(&[u8], &[Vec<u8>]) -> Option<Vec<u8>>;

/// The answers to commands whose keys hold known values.
pub(crate) fn answers(given: &Given<'_>, answer: KnownAnswer) -> Result<Option<Prepared>, String> {
    let (Some(mixed), Some(value_of)) = (given.mixed, given.value_of) else {
        return Ok(None);
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
    Ok(Some(known))
}

/// The first line of a request and what follows it.
pub(crate) fn first_line(request: &[u8]) -> Result<(String, Vec<u8>), String> {
    let at = request
        .iter()
        .position(|&byte| byte == b'\n')
        .unwrap_or(request.len());
    let first = std::str::from_utf8(&request[..at]).map_err(|_| "a first line is not UTF-8")?;
    Ok((
        first.to_owned(),
        request.get(at + 1..).unwrap_or_default().to_vec(),
    ))
}
