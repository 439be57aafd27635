//! memcached's text protocol: `get` with any number of keys, `set`, and other commands of one line; answers in order.
//!
//! A request is written as words, `get K …` or `set K VALUE`; flags, expiry and length are put in here. Source: memcached's
//! protocol.txt. Its invariant: none over the limit is awaited, and every answer ends where its command says it does.

use crate::TargetKind;
use crate::check::{Answer, Verified};
use crate::kind::{Given, Takes};
use crate::known::KnownAnswers;
use crate::protocol::{Found, Input, Malformed, Prepared, Protocol, Read, Said, excerpt, on_wire, words};

pub(super) const KIND: TargetKind = TargetKind {
    verified: |given| given.values_in_words(),
    // Its values are those that `fill` wrote.
    knows_rows: |_| true,
    ..on_wire::<Memcached>(&["memcached"])
};

const LINE_BYTES_MAX: usize = 64 << 10;

struct Memcached(KnownAnswers);

/// Writes a command of these words; the error says what is wrong with it.
fn write_command(words: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
    if let Some(key) = words.get(1).filter(|key| key.len() > 250) {
        return Err(format!("has a key of {} bytes, memcached takes 250", key.len()));
    }
    match words {
        [] => return Err("has no word".into()),
        [name @ (b"set" | b"add" | b"replace"), key, value] => {
            out.extend_from_slice(&[*name, *key, b"0 0 "].join(&b' '));
            out.extend_from_slice(format!("{}\r\n", value.len()).as_bytes());
            out.extend_from_slice(value);
        }
        [b"set" | b"add" | b"replace", ..] => return Err("does not have one key and one value".into()),
        words => out.extend_from_slice(&words.join(&b' ')),
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// The answer to a command whose keys hold known values; nothing for other commands than `get` and `set`.
fn expected_answer(command: &[u8], values: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut words = words(command);
    match words.next()? {
        b"set" => Some(b"STORED\r\n".to_vec()),
        b"get" => {
            let mut out = Vec::new();
            for (key, value) in words.zip(values) {
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key);
                out.extend_from_slice(format!(" 0 {}\r\n", value.len()).as_bytes());
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"END\r\n");
            Some(out)
        }
        _ => None,
    }
}

impl Protocol for Memcached {
    type State = ();
    const TAKES: Takes = Takes::STORE;

    fn prepare(given: &Given<'_>, requests: &mut Prepared) -> Result<Memcached, String> {
        given.each_command(|words| {
            let how = |what| format!("{what}; write \"get {{key}}\" or \"set {{key}} {{value}}\"");
            requests.push(|out| write_command(words, out)).map_err(how)
        })?;
        Ok(Memcached(KnownAnswers::of(given, expected_answer)?))
    }

    fn read<'b>(&self, (): &mut (), request: &[u8], input: Input<'b>) -> Result<Read<'b>, Malformed> {
        // Answers to these end with `END`.
        let many = matches!(words(request).next(), Some(b"get" | b"gets" | b"stats"));
        let (used, failed) = match end_of_reply(input.bytes, many, input.bytes_max)? {
            Ok(end) => end,
            Err(needed) => return Ok(Read::Needs(needed)),
        };
        let answer = &input.bytes[..used];
        let said = match failed {
            true => failure(answer),
            false => Said::Answer(Answer::Bytes(answer)),
        };
        Ok(Found::next(used, said))
    }

    fn verify(&self, index: usize, _request: &[u8], answer: Answer<'_>) -> Result<Verified, String> {
        self.0.compare(index, answer).map(|()| Verified::Nothing)
    }
}

fn failure(line: &[u8]) -> Said<'static> {
    if line.starts_with(b"SERVER_ERROR out of memory") || line.starts_with(b"ERROR Too many open connections")
    {
        return Said::Refused {
            code: 503,
            whole_connection: line.starts_with(b"ERROR Too"),
        };
    }
    Said::Failed {
        code: 0,
        why: excerpt(line.trim_ascii_end()),
    }
}

/// Where the answer ends and whether it is an error, or how many bytes are needed.
fn end_of_reply(
    bytes: &[u8],
    many: bool,
    bytes_max: usize,
) -> Result<Result<(usize, bool), usize>, Malformed> {
    let mut at = 0;
    loop {
        let rest = &bytes[at.min(bytes.len())..];
        let Some(line) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            if rest.len() > LINE_BYTES_MAX {
                return Err(Malformed::garbage("a line of the answer has no end"));
            }
            return Ok(Err(bytes.len().max(at) + 1));
        };
        let text = &rest[..line];
        at += line + 2;
        if !text.first().is_some_and(u8::is_ascii_uppercase) && !text.first().is_some_and(u8::is_ascii_digit)
        {
            return Err(Malformed::garbage(format!(
                "{} is no answer of memcached",
                excerpt(text)
            )));
        }
        let failed = ["ERROR", "CLIENT_ERROR", "SERVER_ERROR"]
            .iter()
            .any(|word| text.starts_with(word.as_bytes()));
        if failed || !many || text == b"END" {
            return Ok(Ok((at, failed)));
        }
        if text.starts_with(b"STAT ") {
            continue;
        }
        let length = value_length(text)?;
        if length > bytes_max || at > bytes_max.saturating_mul(2) {
            return Err(Malformed::TooLarge(bytes_max));
        }
        at += length + 2;
        match bytes.get(at - 2..at) {
            Some(b"\r\n") => {}
            Some(_) => return Err(Malformed::garbage("a value does not end where it says")),
            // `END` and its line end follow.
            None => return Ok(Err(at + 5)),
        }
    }
}

/// The length in `VALUE key flags length [cas]`.
fn value_length(line: &[u8]) -> Result<usize, Malformed> {
    let mut fields = words(line);
    let is_value = fields.next() == Some(b"VALUE");
    let length = fields.nth(2).and_then(|text| std::str::from_utf8(text).ok());
    length
        .filter(|_| is_value)
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Malformed::garbage(format!("{} is no VALUE line", excerpt(line))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::protocol::OnWire;
    use millpond_press_workload::RequestSet;
    use proptest::prelude::*;

    fn ends(text: &str, many: bool, expected: (usize, bool)) {
        for cut in 0..expected.0 {
            let Err(needed) = end_of_reply(&text.as_bytes()[..cut], many, 100).unwrap() else {
                panic!("{text:?} is not whole after {cut} bytes");
            };
            assert!(
                needed > cut && needed <= expected.0,
                "{text:?}: {needed} after {cut}"
            );
        }
        assert_eq!(
            end_of_reply(text.as_bytes(), many, 100).unwrap(),
            Ok(expected),
            "{text:?}"
        );
    }

    #[test]
    fn answers_end_where_they_end() {
        ends("STORED\r\nx", false, (8, false));
        ends("END\r\n", true, (5, false));
        ends(
            "VALUE a 0 2\r\nxy\r\nVALUE b 0 0\r\n\r\nEND\r\n",
            true,
            (37, false),
        );
        ends("SERVER_ERROR out\r\n", true, (18, true));
    }

    #[test]
    fn garbage_is_named() {
        let said = |text: &str| end_of_reply(text.as_bytes(), true, 100).unwrap_err().to_string();
        assert!(said("VALUE a 0\r\n").contains("VALUE line"));
        assert!(said("VALUE a 0 1\r\nabcd").contains("does not end"));
        assert!(said("VALUE a 0 101\r\n").contains("larger than 100"));
        assert!(said("\u{1}x\r\n").contains("no answer"));
    }

    #[test]
    fn commands_get_their_lengths() {
        let set = RequestSet::from_bodies("t", [b"set k v1".as_slice(), b"get a b"]).unwrap();
        let requests = OnWire::<Memcached>::new(&Given::of(&set, 100)).unwrap().requests;
        assert_eq!(requests.get(0), b"set k 0 0 2\r\nv1\r\n");
        assert_eq!(requests.get(1), b"get a b\r\n");
        let set = RequestSet::from_bodies("t", [br"set k a\x20\x0d\x0ab".as_slice()]).unwrap();
        let requests = OnWire::<Memcached>::new(&Given::of(&set, 100)).unwrap().requests;
        assert_eq!(requests.get(0), b"set k 0 0 5\r\na \r\nb\r\n");
        let set = RequestSet::from_bodies("t", [b"set k".as_slice()]).unwrap();
        assert!(
            OnWire::<Memcached>::new(&Given::of(&set, 100))
                .err()
                .unwrap()
                .contains("one value")
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop::sample::select(b"VALUE 0129\r\nENDab".to_vec()), 0..200)) {
            let _ = end_of_reply(&bytes, true, 100);
        }
    }
}
