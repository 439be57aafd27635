//! The keys that any method's payload may carry.
//! Its invariant: a trace that is kept is no longer than a log line bears.

use crate::{Payload, PayloadError, Read, Reader, Token};
use std::fmt;

/// Bytes of a trace that are kept. A traceparent has 55; what is longer is none, and would stand in log lines at its full length.
const TRACE_BYTES_MAX: usize = 128;

/// The last level of `_priority`.
const PRIORITY_MAX: u8 = 9;
const PRIORITY_EXPECTED: &str = "an integer from 0 (first) to 9";

/// What stands under the keys that any method may carry.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reserved<'a> {
    /// `_deadline_ms`: remaining budget, counted from the server's read.
    pub deadline_ms: Option<u64>,
    /// `_priority`: from 0 (first) to 9, among calls that wait for the same model.
    pub priority: Option<u8>,
    /// `_trace`: a W3C traceparent; cut after 128 bytes.
    pub trace: Option<&'a str>,
    /// `_token`: what opens the method.
    pub token: Option<Hidden<'a>>,
    /// `_epoch`: the epoch of the ordered store that the caller knows; one in a lower epoch is to refuse the call.
    pub epoch: Option<u64>,
    /// `base64`: blocks of a JSON answer as base64 text.
    pub base64: bool,
    /// Which of them were there, a bit each.
    seen: u8,
}

/// A secret that came from a peer: it is not in its debug form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hidden<'a>(pub &'a str);

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

impl<'p> Reserved<'p> {
    /// Those of a payload that nobody reads further: every value is looked at, none is kept. `base64` is not among them: it is
    /// a key like others to whom knows no blocks.
    #[inline]
    pub fn of(payload: &'p Payload<'_>) -> Read<Reserved<'p>> {
        payload.read(|reader| {
            reader.map("a map", |reader, key| match key {
                [b'_', ..] if reader.reserve(key)? => Ok(()),
                _ => reader.skip(),
            })?;
            Ok(reader.reserved)
        })
    }
}

impl<'a> Reader<'a> {
    /// Reads the value under a key of the payload's own map, if that is a reserved one: whether it was.
    pub fn reserve(&mut self, key: &'a [u8]) -> Read<bool> {
        let (bit, name) = match key {
            b"_deadline_ms" => (1, "_deadline_ms"),
            b"_trace" => (2, "_trace"),
            b"_token" => (4, "_token"),
            b"base64" => (8, "base64"),
            b"_priority" => (16, "_priority"),
            b"_epoch" => (32, "_epoch"),
            _ => return Ok(false),
        };
        if self.reserved.seen & bit != 0 {
            return Err(self.twin(name));
        }
        self.reserved.seen |= bit;
        if self.nil() {
            return Ok(true);
        }
        let read = match bit {
            1 => self.uint().map(|ms| self.reserved.deadline_ms = Some(ms)),
            2 => self
                .text()
                .map(|text| self.reserved.trace = Some(kept_trace(text))),
            4 => self.text().map(|text| self.reserved.token = Some(Hidden(text))),
            16 => self.level().map(|level| self.reserved.priority = Some(level)),
            32 => self.uint().map(|epoch| self.reserved.epoch = Some(epoch)),
            _ => self.bool().map(|value| self.reserved.base64 = value),
        };
        read.map_err(|error| error.under(name))?;
        Ok(true)
    }

    fn level(&mut self) -> Read<u8> {
        match self.token()? {
            Token::UInt(found) => u8::try_from(found)
                .ok()
                .filter(|level| *level <= PRIORITY_MAX)
                .ok_or_else(|| PayloadError::invalid(found.to_string(), PRIORITY_EXPECTED)),
            other => Err(other.is_not(PRIORITY_EXPECTED)),
        }
    }
}

/// The beginning of a trace: as many whole characters as are kept.
pub fn kept_trace(text: &str) -> &str {
    &text[..text.floor_char_boundary(TRACE_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Encoding;

    #[test]
    fn a_trace_is_cut_at_the_end_of_a_character() {
        let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let check = |trace: &str, expected: &str| {
            let json = format!("{{\"_trace\": \"{trace}\"}}");
            let payload = Payload::new(Encoding::Json, json.as_bytes()).unwrap();
            assert_eq!(Reserved::of(&payload).unwrap().trace, Some(expected));
        };
        check(traceparent, traceparent);
        check("", "");
        check(&"a".repeat(128), &"a".repeat(128));
        check(&"a".repeat(1 << 20), &"a".repeat(128));
        // The 64th of them would end behind the 128th byte.
        check(&format!("a{}", "é".repeat(500)), &format!("a{}", "é".repeat(63)));
    }

    #[test]
    fn what_is_wrong_with_a_reserved_key_is_told() {
        let check = |json: &str, expected: &str| {
            let payload = Payload::new(Encoding::Json, json.as_bytes()).unwrap();
            let found = match Reserved::of(&payload) {
                Ok(reserved) => format!("{reserved:?}"),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{found:?} has no {expected:?}");
        };
        check(
            r#"{"_deadline_ms": 5, "a": 1, "_trace": null}"#,
            "deadline_ms: Some(5)",
        );
        check(
            r#"{"_deadline_ms": "5"}"#,
            "key \"_deadline_ms\" is text; expected an integer",
        );
        check(r#"{"_token": "a", "_token": "b"}"#, "key \"_token\" occurs twice");
        check(r#"{"_token": 1, "_token": "b"}"#, "key \"_token\" occurs twice");
        check(r#"{"base64": 1, "_other": 2}"#, "deadline_ms: None");
        check(r#"{"_priority": 0}"#, "priority: Some(0)");
        check(r#"{"_priority": 9, "base64": 1}"#, "priority: Some(9)");
        check(r#"{"_priority": null}"#, "priority: None");
        check(r#"{"_epoch": 7, "_priority": 1}"#, "epoch: Some(7)");
        check(r#"{"_epoch": -7}"#, "key \"_epoch\" is a negative integer");
        let expected = "expected an integer from 0 (first) to 9";
        for (value, found) in [
            ("10", "10"),
            ("300", "300"),
            ("-1", "a negative integer"),
            ("\"1\"", "text"),
            ("1.5", "a floating-point number"),
        ] {
            check(
                &format!("{{\"_priority\": {value}}}"),
                &format!("key \"_priority\" is {found}; {expected}"),
            );
        }
        check(
            r#"{"_priority": 1, "_priority": 1}"#,
            "key \"_priority\" occurs twice",
        );
        check("[1]", "root is an array");
    }
}
