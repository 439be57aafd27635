//! Inline commands: a line of words, as people type them.
//!
//! Words may be quoted as Redis's `sdssplitargs` has it. Its invariant: a line longer than [`LINE_BYTES_MAX`] is not awaited.
//! Source: Redis, src/networking.c (processInlineBuffer) and src/sds.c (sdssplitargs).

use super::{Form, RespCommand};
use crate::{Parsed, RespError};
use std::borrow::Cow;

/// Bytes of a line at most, its end among them.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

pub(super) fn parse(input: &[u8], bytes_max: usize) -> Result<Parsed<RespCommand<'_>>, RespError> {
    let most = LINE_BYTES_MAX.min(bytes_max);
    let looked_at = input.get(..most).unwrap_or(input);
    let Some(end) = looked_at.iter().position(|byte| *byte == b'\n') else {
        return match looked_at.len() < most {
            true => Ok(Parsed::Partial {
                needed: input.len() + 1,
            }),
            false => Err(RespError::Line),
        };
    };
    let line = input.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Ok(Parsed::Whole {
        message: RespCommand(Form::Words(words(line)?)),
        len: end + 1,
    })
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c | 0)
}

fn words(mut line: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, RespError> {
    let mut words = Vec::new();
    loop {
        let begin = line.iter().position(|byte| !is_blank(*byte));
        let Some(begin) = begin else { return Ok(words) };
        line = line.get(begin..).unwrap_or_default();
        let end = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
        let (word, rest) = line.split_at_checked(end).unwrap_or((line, &[]));
        if word.contains(&b'"') || word.contains(&b'\'') {
            let (word, rest) = quoted(line)?;
            words.push(Cow::Owned(word));
            line = rest;
        } else {
            words.push(Cow::Borrowed(word));
            line = rest;
        }
    }
}

/// A word that has quotes in it, and what follows it.
fn quoted(line: &[u8]) -> Result<(Vec<u8>, &[u8]), RespError> {
    let mut word = Vec::new();
    let mut rest = line;
    while let Some((first, behind)) = rest.split_first() {
        match first {
            b'"' | b'\'' => {
                rest = within(*first, behind, &mut word)?;
                // A closing quote ends its word.
                return match rest.first() {
                    Some(next) if !is_blank(*next) => Err(RespError::Quotes),
                    _ => Ok((word, rest)),
                };
            }
            blank if is_blank(*blank) => break,
            other => word.push(*other),
        }
        rest = behind;
    }
    Ok((word, rest))
}

/// Takes what stands between two quotes; what follows the second.
fn within<'l>(quote: u8, mut rest: &'l [u8], word: &mut Vec<u8>) -> Result<&'l [u8], RespError> {
    loop {
        let taken = match rest {
            [] => return Err(RespError::Quotes),
            [first, behind @ ..] if *first == quote => return Ok(behind),
            [b'\\', b'\'', ..] if quote == b'\'' => {
                word.push(b'\'');
                2
            }
            [b'\\', b'x', high, low, ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                4
            }
            [b'\\', escaped, ..] if quote == b'"' => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                2
            }
            [other, ..] => {
                word.push(*other);
                1
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or_default() as u8
}
