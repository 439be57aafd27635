//! What the results of operations make: one reply a command.
//! Its invariant: a command reads as many results as it had operations, whatever it replies.

use super::inspect::{Kind, Known};
use super::{Part, Parts, WRONG_TYPE, expiry};
use crate::form::Form;
use millpond_wire_frame::RespReply;
use millpond_wire_payload::{Payload, PayloadError, Read, Reader, Token};

/// What the results of a command's operations make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// `+OK`, whatever they are.
    Ok,
    /// `:1`, whatever they are.
    One,
    /// The value that the first one found.
    First,
    /// An array of the values that they found.
    Values,
    /// The bytes of the value that the first one found.
    Length,
    /// The number that the first one made.
    Number,
    /// How many of them met their key.
    Count,
    /// An array of the items that the first one found.
    Items,
    /// The only item that it found.
    Item,
    /// How many keys they found.
    Exists,
    /// What the key is that the first one found.
    Kind,
    /// How long it lasts.
    SecondsLeft,
    MillisecondsLeft,
    /// Until when.
    UnixSeconds,
    UnixMilliseconds,
    /// Whether it expired at some time.
    Expired,
    /// How many items its list has.
    ListLength,
}

/// The replies of the results under a key of an answer.
pub(super) fn results_of(
    answer: &Payload<'_>,
    name: &[u8],
    form: &Form,
    reply: &mut RespReply<'_>,
) -> Read<()> {
    let parts = form.asked.parts.each();
    if matches!(form.asked.parts, Parts::Transaction(_)) {
        reply.array(parts.len());
    }
    let wanted: usize = parts.iter().map(|part| part.operations).sum();
    answer.read(|reader| {
        reader.map("a map", |reader, key| {
            if key != name {
                return reader.skip();
            }
            match reader.token()? {
                Token::Array(len) if len == wanted => {}
                Token::Array(len) => {
                    return Err(PayloadError::invalid(
                        format!("{len} results"),
                        format!("{wanted}"),
                    ));
                }
                other => return Err(other.is_not("an array")),
            }
            results(reader, form, reply)?;
            reader.leave();
            Ok(())
        })
    })
}

/// The replies of results that come one behind the other.
pub(super) fn results(reader: &mut Reader<'_>, form: &Form, reply: &mut RespReply<'_>) -> Read<()> {
    let mut parts = form.asked.parts.each().iter();
    parts.try_for_each(|part| part.write(reader, reply))
}

impl Part {
    fn write(&self, results: &mut Reader<'_>, reply: &mut RespReply<'_>) -> Read<()> {
        let read = match self.reply {
            Reply::Ok => {
                reply.status("OK");
                0
            }
            Reply::One => {
                reply.integer(1);
                0
            }
            Reply::Values | Reply::Count | Reply::Exists => {
                self.write_all(results, reply)?;
                self.operations
            }
            Reply::First
            | Reply::Length
            | Reply::Number
            | Reply::Items
            | Reply::Item
            | Reply::Kind
            | Reply::SecondsLeft
            | Reply::MillisecondsLeft
            | Reply::UnixSeconds
            | Reply::UnixMilliseconds
            | Reply::Expired
            | Reply::ListLength => {
                self.write_first(results, reply)?;
                1
            }
        };
        (read..self.operations).try_for_each(|_| results.skip())
    }

    fn write_all(&self, results: &mut Reader<'_>, reply: &mut RespReply<'_>) -> Read<()> {
        if self.reply == Reply::Values {
            reply.array(self.operations);
            return (0..self.operations).try_for_each(|_| value(results.token()?, reply));
        }
        let mut count = 0;
        for _ in 0..self.operations {
            count += i64::from(match self.reply {
                Reply::Exists => Known::read(results)?.kind != Kind::None,
                _ => results.bool()?,
            });
        }
        reply.integer(count);
        Ok(())
    }

    fn write_first(&self, results: &mut Reader<'_>, reply: &mut RespReply<'_>) -> Read<()> {
        match self.reply {
            Reply::First => value(results.token()?, reply),
            Reply::Length => {
                reply.integer(bytes(results.token()?)?.map_or(0, <[u8]>::len) as i64);
                Ok(())
            }
            Reply::Number => {
                reply.integer(number(results.token()?)?);
                Ok(())
            }
            Reply::Items | Reply::Item => items(results, self.reply == Reply::Item, reply),
            _ => {
                self.write_known(&Known::read(results)?, reply);
                Ok(())
            }
        }
    }

    fn write_known(&self, known: &Known, reply: &mut RespReply<'_>) {
        let time = |of: fn(i64) -> i64| match (known.kind, known.ttl_ms) {
            (Kind::None, _) => -2,
            (_, None) => -1,
            (_, Some(ttl_ms)) => of(i64::try_from(ttl_ms).unwrap_or(i64::MAX)),
        };
        // Redis rounds to the nearest second.
        let seconds = |ms: i64| ms.saturating_add(500) / 1000;
        match self.reply {
            Reply::Kind => reply.status(known.kind.name()),
            Reply::ListLength if known.kind == Kind::Bytes => reply.error(WRONG_TYPE),
            Reply::ListLength => reply.integer(known.count as i64),
            Reply::SecondsLeft => reply.integer(time(seconds)),
            Reply::UnixSeconds => reply.integer(time(|ms| {
                expiry::unix_ms().saturating_add(ms).saturating_add(500) / 1000
            })),
            Reply::UnixMilliseconds => reply.integer(time(|ms| expiry::unix_ms().saturating_add(ms))),
            Reply::Expired => reply.integer(i64::from(known.ttl_ms.is_some())),
            _ => reply.integer(time(|ms| ms)),
        }
    }
}

pub(super) fn value(token: Token<'_>, reply: &mut RespReply<'_>) -> Read<()> {
    match bytes(token)? {
        Some(bytes) => reply.bulk(bytes),
        None => reply.nil(),
    }
    Ok(())
}

/// The bytes of a value, if there is one.
pub(super) fn bytes(token: Token<'_>) -> Read<Option<&[u8]>> {
    match token {
        Token::Bytes(bytes) => Ok(Some(bytes)),
        Token::Nil => Ok(None),
        other => Err(other.is_not("bytes or null")),
    }
}

fn number(token: Token<'_>) -> Read<i64> {
    match token {
        Token::UInt(number) => Ok(i64::try_from(number).unwrap_or(i64::MAX)),
        Token::Int(number) => Ok(number),
        other => Err(other.is_not("an integer")),
    }
}

/// The items in a map: an array, or the only one of them.
fn items(results: &mut Reader<'_>, is_one: bool, reply: &mut RespReply<'_>) -> Read<()> {
    results.map("a map", |reader, key| {
        if key != b"items" {
            return reader.skip();
        }
        let count = match reader.token()? {
            Token::Array(count) => count,
            other => return Err(other.is_not("an array")),
        };
        match (is_one, count) {
            (true, 0) => reply.nil(),
            (true, _) => {}
            (false, _) => reply.array(count),
        }
        (0..count).try_for_each(|_| value(reader.token()?, reply))?;
        reader.leave();
        Ok(())
    })
}
