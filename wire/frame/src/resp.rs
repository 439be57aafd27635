//! RESP, the protocol of Redis, as a server reads and writes it: commands in, replies out.
//!
//! A command is an array of bulk strings, or a line of words (inline). Nothing of it is copied but the words of a line
//! with quotes. It is not a session: versions, names and passwords are the front's. Its invariant: a length is checked
//! against the limit before anything waits for the bytes that it announces, and arrays hold no arrays.
//! Source: redis.io/docs/latest/develop/reference/protocol-spec (RESP2, RESP3).

mod inline;
mod reply;
#[cfg(test)]
mod tests;

pub use reply::{RespReply, RespVersion, write_resp_command};

use crate::{Limits, Parsed, RespError};
use std::borrow::Cow;

/// Bytes of the shortest argument: `$0`, two line ends.
const ARGUMENT_BYTES_MIN: usize = 6;
/// Bytes of a number at most: a sign and nineteen digits.
const NUMBER_BYTES_MAX: usize = 20;

/// A command: its name, and its arguments.
#[derive(Debug)]
pub struct RespCommand<'b>(Form<'b>);

#[derive(Debug)]
enum Form<'b> {
    /// Bulk strings that were checked, and how many they are.
    Bulks { count: usize, bytes: &'b [u8] },
    /// The words of a line.
    Words(Vec<Cow<'b, [u8]>>),
}

impl RespCommand<'_> {
    /// How many words it has, its name among them; a command of none is answered nothing.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Bulks { count, .. } => *count,
            Form::Words(words) => words.len(),
        }
    }

    /// Whether it has no words.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its words in their order, the name first.
    #[inline]
    pub fn words(&self) -> RespWords<'_> {
        RespWords(match &self.0 {
            Form::Bulks { bytes, .. } => Left::Bulks(bytes),
            Form::Words(words) => Left::Words(words.iter()),
        })
    }
}

/// The words of a command.
#[derive(Debug, Clone)]
pub struct RespWords<'c>(Left<'c>);

#[derive(Debug, Clone)]
enum Left<'c> {
    Bulks(&'c [u8]),
    Words(std::slice::Iter<'c, Cow<'c, [u8]>>),
}

impl<'c> Iterator for RespWords<'c> {
    type Item = &'c [u8];

    #[inline]
    fn next(&mut self) -> Option<&'c [u8]> {
        match &mut self.0 {
            Left::Words(words) => words.next().map(AsRef::as_ref),
            Left::Bulks(bytes) => {
                let (len, begin) = number(bytes, 1).ok()??;
                let (word, rest) = bytes.get(begin..)?.split_at_checked(usize::try_from(len).ok()?)?;
                *bytes = rest.get(2..)?;
                Some(word)
            }
        }
    }
}

/// How far a command is checked that is not whole, so that what comes behind does not have all of it checked again.
#[derive(Debug, Clone, Copy, Default)]
pub struct RespProgress {
    arguments: usize,
    /// Where the next one begins.
    at: usize,
}

/// Reads the command at the front of `input`.
///
/// # Errors
/// [`RespError`]: nothing behind it can be trusted.
#[inline]
pub fn parse_resp(input: &[u8], limits: Limits) -> Result<Parsed<RespCommand<'_>>, RespError> {
    parse_resp_on(input, limits, &mut RespProgress::default())
}

/// Reads the command at the front of `input` as [`parse_resp`] does, which begins with the input that was partial before, if
/// `progress` was left by that. A whole command leaves it at the beginning.
///
/// # Errors
/// As [`parse_resp`].
#[inline]
pub fn parse_resp_on<'b>(
    input: &'b [u8],
    limits: Limits,
    progress: &mut RespProgress,
) -> Result<Parsed<RespCommand<'b>>, RespError> {
    match input.first() {
        None => Ok(Parsed::Partial { needed: 1 }),
        Some(b'*') => parse_array(input, limits.frame_bytes_max, progress),
        Some(_) => inline::parse(input, limits.frame_bytes_max),
    }
}

fn parse_array<'b>(
    input: &'b [u8],
    bytes_max: usize,
    progress: &mut RespProgress,
) -> Result<Parsed<RespCommand<'b>>, RespError> {
    let more = |least: usize| {
        let needed = least.max(input.len() + 1);
        Ok(Parsed::Partial { needed })
    };
    let Some((count, begin)) = number(input, 1).map_err(|NotANumber| RespError::Count)? else {
        return more(0);
    };
    // Redis reads a count below zero as an empty command.
    let count = usize::try_from(count.max(0)).map_err(|_| RespError::Count)?;
    if count > bytes_max / ARGUMENT_BYTES_MIN {
        return Err(RespError::Count);
    }
    let mut at = begin.max(progress.at);
    for left in (0..count.saturating_sub(progress.arguments)).rev() {
        let behind = left * ARGUMENT_BYTES_MIN;
        match input.get(at) {
            None => return more(at + ARGUMENT_BYTES_MIN + behind),
            Some(b'$') => {}
            Some(other) => return Err(RespError::NoBulk(*other)),
        }
        let Some((len, body)) = number(input, at + 1).map_err(|NotANumber| RespError::Length)? else {
            return more(at + ARGUMENT_BYTES_MIN + behind);
        };
        let len = usize::try_from(len).map_err(|_| RespError::Length)?;
        let end = body.saturating_add(len).saturating_add(2);
        if end.saturating_add(behind) > bytes_max {
            return Err(RespError::Length);
        }
        match input.get(end - 2..end) {
            Some(b"\r\n") => {
                at = end;
                (progress.arguments, progress.at) = (progress.arguments + 1, end);
            }
            Some(_) => return Err(RespError::LineEnd),
            None => return more(end + behind),
        }
    }
    *progress = RespProgress::default();
    let bytes = input.get(begin..at).unwrap_or_default();
    Ok(Parsed::Whole {
        message: RespCommand(Form::Bulks { count, bytes }),
        len: at,
    })
}

/// A line that is no number.
struct NotANumber;

/// The number in the line that begins at `at`, and where the next line begins; nothing where it is not whole.
#[inline]
fn number(input: &[u8], at: usize) -> Result<Option<(i64, usize)>, NotANumber> {
    let line = input.get(at..).unwrap_or_default();
    let negative = line.first() == Some(&b'-');
    let (mut value, mut digits) = (0_i64, usize::from(negative));
    loop {
        match line.get(digits) {
            None => return Ok(None),
            Some(digit @ b'0'..=b'9') if digits < NUMBER_BYTES_MAX => {
                let shifted = value.checked_mul(10).ok_or(NotANumber)?;
                value = shifted.checked_add(i64::from(digit - b'0')).ok_or(NotANumber)?;
                digits += 1;
            }
            Some(b'\r') if digits > usize::from(negative) => break,
            Some(_) => return Err(NotANumber),
        }
    }
    match line.get(digits + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((if negative { -value } else { value }, at + digits + 2))),
        Some(_) => Err(NotANumber),
    }
}
