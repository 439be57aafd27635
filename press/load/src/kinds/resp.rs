//! The protocol of Redis (RESP2), any command; answers in the order of the requests.
//!
//! A command is a line of words; each word travels as a bulk string. Source: the RESP specification of redis.io. Its
//! invariant: an answer is read to its end at any depth without recursion, and none over the limit is awaited.

use crate::TargetKind;
use crate::check::{Answer, Verified};
use crate::kind::{Given, Takes};
use crate::known::KnownAnswers;
use crate::protocol::{Found, Input, Malformed, Prepared, Protocol, Read, Said, excerpt, on_wire, words};

pub(super) const KIND: TargetKind = TargetKind {
    verified: |given| given.values_in_words(),
    // Its values are those that `fill` wrote.
    knows_rows: |_| true,
    ..on_wire::<Resp>(&["resp"])
};

/// The longest line of an answer that is no bulk string.
const LINE_BYTES_MAX: usize = 64 << 10;

struct Resp(KnownAnswers);

/// The answer to a command whose keys hold known values: one bulk string for a `GET`, an array of them for an `MGET`, `+OK`
/// for a `SET`; nothing for other commands.
fn expected_answer(command: &[u8], values: &[Vec<u8>]) -> Option<Vec<u8>> {
    let name = words(command).next()?.to_ascii_uppercase();
    let mut out = Vec::new();
    match (name.as_slice(), values) {
        (b"GET", [value]) => write_bulk(value, &mut out),
        (b"MGET", values) => {
            out.extend_from_slice(format!("*{}\r\n", values.len()).as_bytes());
            values.iter().for_each(|value| write_bulk(value, &mut out));
        }
        (b"SET", _) => out.extend_from_slice(b"+OK\r\n"),
        _ => return None,
    }
    Some(out)
}

fn write_bulk(word: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

impl Protocol for Resp {
    type State = ();
    const TAKES: Takes = Takes::STORE;

    fn prepare(given: &Given<'_>, requests: &mut Prepared) -> Result<Resp, String> {
        given.each_command(|words| {
            if words.is_empty() {
                return Err("has no word; write a command such as \"GET {key}\"".into());
            }
            requests.push(|out| {
                out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
                words.iter().for_each(|word| write_bulk(word, out));
            });
            Ok(())
        })?;
        Ok(Resp(KnownAnswers::of(given, expected_answer)?))
    }

    fn read<'b>(&self, (): &mut (), _request: &[u8], input: Input<'b>) -> Result<Read<'b>, Malformed> {
        let (used, error) = match end_of_reply(input.bytes, input.bytes_max)? {
            Ok(found) => found,
            Err(needed) => return Ok(Read::Needs(needed)),
        };
        let said = match error {
            Some(line) => refused_or_failed(line),
            None => Said::Answer(Answer::Bytes(&input.bytes[..used])),
        };
        Ok(Found::next(used, said))
    }

    fn verify(&self, index: usize, _request: &[u8], answer: Answer<'_>) -> Result<Verified, String> {
        self.0.compare(index, answer).map(|()| Verified::Nothing)
    }
}

/// A server that is busy or loading refuses; other errors are failures.
fn refused_or_failed(line: &[u8]) -> Said<'static> {
    let text = String::from_utf8_lossy(line);
    let is_refusal = [
        "BUSY",
        "LOADING",
        "TRYAGAIN",
        "OOM",
        "OVERLOADED",
        "ERR max number of clients",
    ]
    .iter()
    .any(|word| text.starts_with(word));
    if is_refusal {
        return Said::Refused {
            code: 503,
            whole_connection: text.contains("max number of clients"),
        };
    }
    Said::Failed {
        code: 0,
        why: excerpt(line),
    }
}

/// Where a reply ends and the first error in it, at any depth: a command of many that failed in part did not do its work.
type Whole<'b> = (usize, Option<&'b [u8]>);

/// What the reply at the start of `bytes` is, or how many bytes are needed.
fn end_of_reply(bytes: &[u8], bytes_max: usize) -> Result<Result<Whole<'_>, usize>, Malformed> {
    // Replies still to be read; an array adds its elements.
    let (mut left, mut at) = (1u64, 0usize);
    let mut error = None;
    while left > 0 {
        let rest = &bytes[at.min(bytes.len())..];
        let Some(line) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            if rest.len() > LINE_BYTES_MAX {
                return Err(Malformed::garbage("a line of the answer has no end"));
            }
            if let Some(kind) = rest.first().filter(|kind| !b"+-:$*".contains(kind)) {
                return Err(unknown(*kind));
            }
            // Every reply still to come takes three bytes at least.
            return Ok(Err((at + rest.len() + 1).max(at + 3)));
        };
        let length = || length(&rest[1..line]);
        at += line + 2;
        left -= 1;
        match rest[0] {
            b'+' | b':' => {}
            b'-' => error = error.or(Some(&rest[1..line])),
            b'$' => {
                if let Some(length) = length()? {
                    if length > bytes_max {
                        return Err(Malformed::TooLarge(bytes_max));
                    }
                    at += length + 2;
                    match bytes.get(at - 2..at) {
                        Some(b"\r\n") => {}
                        Some(_) => {
                            return Err(Malformed::garbage("a bulk string does not end where it says"));
                        }
                        None => return Ok(Err(at)),
                    }
                }
            }
            b'*' => left = left.saturating_add(length()?.unwrap_or(0) as u64),
            kind => return Err(unknown(kind)),
        }
        if at > bytes_max.saturating_mul(2) {
            return Err(Malformed::TooLarge(bytes_max));
        }
    }
    Ok(Ok((at, error)))
}

/// A length; nothing for -1, which stands for a value that is not there.
fn length(digits: &[u8]) -> Result<Option<usize>, Malformed> {
    if digits == b"-1" {
        return Ok(None);
    }
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number);
    text.and_then(|text| text.parse().ok())
        .map(Some)
        .ok_or_else(|| Malformed::garbage(format!("{} is no length", excerpt(digits))))
}

fn unknown(kind: u8) -> Malformed {
    Malformed::garbage(format!(
        "an answer begins with \"{}\", which is no type of RESP",
        kind.escape_ascii()
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::protocol::OnWire;
    use millpond_press_workload::{RandomRows, RequestSet, Sizes, Template, fill};
    use proptest::prelude::*;

    fn ends(text: &str, expected: usize) {
        for cut in 0..expected {
            let Err(needed) = end_of_reply(&text.as_bytes()[..cut], 100).unwrap() else {
                panic!("{text:?} is not whole after {cut} bytes");
            };
            assert!(
                needed > cut && needed <= expected,
                "{text:?}: {needed} after {cut}"
            );
        }
        let found = end_of_reply(text.as_bytes(), 100).unwrap();
        assert_eq!(found.map(|(end, _)| end), Ok(expected), "{text:?}");
    }

    #[test]
    fn an_error_at_any_depth_fails_the_command() {
        let set = RequestSet::from_bodies("t", [b"EXEC".as_slice()]).unwrap();
        let resp = OnWire::<Resp>::new(&Given::of(&set, 100)).unwrap().protocol;
        let said = |text: &str| match resp.read(&mut (), b"", Input::of(text.as_bytes(), 100)).unwrap() {
            Read::Found(found) => {
                assert_eq!(found.used, text.len());
                format!("{:?}", found.said)
            }
            Read::Needs(needed) => format!("needs {needed}"),
        };
        assert!(
            said("*2\r\n+OK\r\n$5\r\n-ERR \r\n").starts_with("Answer"),
            "a value is no error"
        );
        assert!(said("-ERR a\r\n").contains("Failed { code: 0, why: \"\\\"ERR a"));
        assert!(said("*2\r\n+OK\r\n-ERR b\r\n").contains("ERR b"));
        assert!(said("*2\r\n*1\r\n*1\r\n-ERR deep\r\n-ERR later\r\n").contains("ERR deep"));
        assert!(said("*1\r\n-BUSY x\r\n").starts_with("Refused"));
    }

    #[test]
    fn replies_of_every_type_end_where_they_end() {
        ends("+OK\r\n+", 5);
        ends("-ERR x\r\n", 8);
        ends(":12\r\n", 5);
        ends("$3\r\nabc\r\nrest", 9);
        ends("$0\r\n\r\n", 6);
        ends("$-1\r\n", 5);
        ends("*2\r\n$1\r\na\r\n*1\r\n:1\r\n", 19);
        ends("*0\r\n", 4);
        ends("*-1\r\n", 5);
    }

    #[test]
    fn garbage_is_named() {
        let said = |text: &str| end_of_reply(text.as_bytes(), 100).unwrap_err().to_string();
        assert!(said("HTTP/1.1").contains("no type"));
        assert!(said("$x\r\n").contains("no length"));
        for no_length in ["*-7", "$-2", "*+3", "$", "*1x", "$-", "*99999999999999999999"] {
            let text = format!("{no_length}\r\n");
            assert!(said(&text).contains("no length"), "{text:?}");
        }
        assert!(said("$1\r\nabc\r\n").contains("does not end"));
        assert!(said("$101\r\n").contains("larger than 100"));
    }

    #[test]
    fn commands_are_arrays_of_words() {
        let set = RequestSet::from_bodies("t", [b"SET  k v".as_slice()]).unwrap();
        let requests = OnWire::<Resp>::new(&Given::of(&set, 100)).unwrap().requests;
        assert_eq!(requests.get(0), b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
        // A byte that would end a word is written by its number; a backslash before anything else is itself.
        let set = RequestSet::from_bodies("t", [br"GET \x00\x20\\x5c\xg\".as_slice()]).unwrap();
        let requests = OnWire::<Resp>::new(&Given::of(&set, 100)).unwrap().requests;
        assert_eq!(requests.get(0), b"*2\r\n$3\r\nGET\r\n$8\r\n\0 \\\\\\xg\\\r\n");
        let values = [b"a".to_vec(), b"bc".to_vec()];
        assert_eq!(
            expected_answer(b"mget 1 2", &values).unwrap(),
            b"*2\r\n$1\r\na\r\n$2\r\nbc\r\n"
        );
        assert_eq!(expected_answer(b"PING", &[]), None);
    }

    /// What a template escapes arrives as it was made.
    #[test]
    fn rows_are_filled_byte_by_byte() {
        let rows = RandomRows { seed: 7, dim: 10 };
        let part = Template::parse("SET {key} {value}").unwrap();
        let set = fill(1, 0..300, &[part], &Sizes::Rows(rows)).unwrap();
        let given = Given {
            has_first_lines: true,
            ..Given::of(&set, 100)
        };
        let requests = OnWire::<Resp>::new(&given).unwrap().requests;
        for key in 0..300 {
            let mut row = Vec::new();
            rows.write(key, &mut row);
            let mut expected = b"*3\r\n".to_vec();
            for word in [&b"SET"[..], key.to_string().as_bytes(), &row] {
                write_bulk(word, &mut expected);
            }
            assert_eq!(requests.get(key as usize), expected, "key {key}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop::sample::select(b"+-:$*0129\r\nab".to_vec()), 0..200)) {
            let _ = end_of_reply(&bytes, 100);
        }
    }
}
