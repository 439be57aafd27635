//! INCR, DECR, INCRBY, DECRBY and INCRBYFLOAT; and what Redis takes for a number.
//! Its invariant: a number that is read is written as it was.

use super::{Operations, Part, Reply};
use millpond_wire_frame::RespWords;
use millpond_wire_schema::ordered_batch::Operation;

pub(crate) const NO_INTEGER: &str = "ERR value is not an integer or out of range";
pub(crate) const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub(crate) const NO_FLOAT: &str = "ERR value is not a valid float";
pub(crate) const INFINITE: &str = "ERR increment would produce NaN or Infinity";

pub(in crate::commands) fn incr(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    by(out, words, |_| Ok(1))
}

pub(in crate::commands) fn decr(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    by(out, words, |_| Ok(-1))
}

pub(in crate::commands) fn incr_by(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    by(out, words, |mut words| next_integer(&mut words))
}

pub(in crate::commands) fn decr_by(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    by(out, words, |mut words| {
        let by = next_integer(&mut words)?;
        by.checked_neg()
            .ok_or_else(|| "ERR decrement would overflow".to_owned())
    })
}

/// The sum is of decimal numbers, and exact: Redis adds in binary, and rounds.
pub(in crate::commands) fn incr_by_float(
    out: &mut Operations<'_>,
    mut words: RespWords<'_>,
) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    let by = words.next().unwrap_or_default();
    if is_infinite(by) {
        return Err(INFINITE.to_owned());
    }
    out.push(&Operation::IncrementDecimal(key.into(), by.into()));
    Ok(Part::of(1, Reply::First))
}

/// What Redis reads as a number that is infinite; no decimal number is.
fn is_infinite(word: &[u8]) -> bool {
    let digits = match word {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity")
}

fn by(
    out: &mut Operations<'_>,
    mut words: RespWords<'_>,
    by: impl FnOnce(RespWords<'_>) -> Result<i64, String>,
) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    out.increment(key, by(words)?);
    Ok(Part::of(1, Reply::Number))
}

pub(super) fn next_integer(words: &mut RespWords<'_>) -> Result<i64, String> {
    integer(words.next().unwrap_or_default()).ok_or_else(|| NO_INTEGER.to_owned())
}

/// A whole number of 64 bits, without spaces, "+" or zeros before it.
pub(in crate::commands) fn integer(word: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    let is_plain = match word {
        [b'0'] => true,
        [b'-', first, ..] => matches!(first, b'1'..=b'9'),
        [first, ..] => matches!(first, b'1'..=b'9'),
        [] => false,
    };
    is_plain.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_redis() {
        let check = |word: &str, expected: Option<i64>| {
            assert_eq!(integer(word.as_bytes()), expected, "{word:?}");
        };
        check("0", Some(0));
        check("-9223372036854775808", Some(i64::MIN));
        check("9223372036854775807", Some(i64::MAX));
        for word in [
            "",
            "-",
            "-0",
            "+1",
            "01",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
        ] {
            check(word, None);
        }
    }
}
