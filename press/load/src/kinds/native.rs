//! The native protocol (FPNN's frames, version 1) with msgpack payloads; answers in any order.
//!
//! Written from the protocol's description and not with the server's codec, so that a defect of that codec cannot hide here.
//! Source: the frame table of FPNN 1.3.1. Its invariant: a frame over the limit is refused before its payload is awaited.

use millpond_wire_payload::{Encoding, Value, decode_map};

use crate::check::Answer;
use crate::kind::{Description, Given, Operation, Takes, TargetKind, first_words};
use crate::known::first_line;
use crate::msgpack;
use crate::protocol::{Found, Malformed, NOT_READY, OVERLOADED, Prepared, Protocol, Read, Said};
use crate::rows::KnownRows;

const HEADER: usize = 16;
const TWOWAY: u8 = 1;
const ANSWER: u8 = 2;

/// The prepared requests, as frames whose number is still to be set.
pub(crate) struct Native {
    requests: Prepared,
    /// The rows that requests look up, where they are known.
    rows: Option<KnownRows>,
    answer_bytes_max: usize,
}

impl TargetKind for Native {
    const NAMES: &'static [&'static str] = &["native", "binary"];
    const TAKES: Takes = Takes {
        tls: true,
        pipelined: true,
        json: true,
        ..Takes::NONE
    };
    const EMPTY: &'static [u8] = b"{}";

    fn in_words(target: &Description<'_>) -> String {
        match target.operations.first() {
            None => target.method_and_path().0,
            Some(first) => first_words(first),
        }
    }

    fn texts(target: &Description<'_>, operation: &Operation) -> Result<Vec<String>, &'static str> {
        let method = operation.method.as_deref().or(target.method);
        let body = operation.body.clone().unwrap_or_else(|| "{}".into());
        Ok(vec![method.ok_or("method")?.to_owned(), body])
    }

    fn verified(given: &Given<'_>) -> &'static str {
        match given.rows {
            Some(_) => "; every row is the one that was made",
            None => "",
        }
    }

    fn knows_rows(operations: &[Operation]) -> bool {
        let looks_up = |operation: &Operation| operation.method.as_deref() == Some("features.lookup");
        !operations.is_empty() && operations.iter().all(looks_up)
    }

    fn prepare(given: &Given<'_>) -> Result<Native, String> {
        let method = given.target.method_and_path().0;
        let mut native = Native {
            requests: Prepared::default(),
            rows: KnownRows::of(given.rows, given.mixed)?,
            answer_bytes_max: given.target.answer_bytes_max,
        };
        for (number, body) in given.set.iter().enumerate() {
            let (first, rest);
            let (method, body) = match given.has_first_lines {
                true => {
                    (first, rest) = first_line(body)?;
                    (&first, rest.as_slice())
                }
                false => (&method, body),
            };
            let payload = msgpack::from_json(body)
                .map_err(|why| format!("request {} cannot be sent as msgpack: {why}", number + 1))?;
            let pushed = native.push(method, &payload);
            pushed.map_err(|what| format!("request {} cannot travel in a frame: {what}", number + 1))?;
        }
        Ok(native)
    }
}

impl Native {
    fn push(&mut self, method: &str, payload: &[u8]) -> Result<(), &'static str> {
        let length = u8::try_from(method.len()).map_err(|_| "its method is longer than 255 bytes")?;
        let size = u32::try_from(payload.len()).map_err(|_| "its payload is larger than 4 GiB")?;
        self.requests.push(|out| {
            out.extend_from_slice(b"FPNN\x01\x80");
            out.extend_from_slice(&[TWOWAY, length]);
            out.extend_from_slice(&size.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(method.as_bytes());
            out.extend_from_slice(payload);
        });
        Ok(())
    }
}

impl Protocol for Native {
    type State = ();
    const NUMBERED: bool = true;

    fn requests(&self) -> &Prepared {
        &self.requests
    }

    fn write(&self, _state: &mut (), index: usize, serial: u32, out: &mut Vec<u8>) {
        let at = out.len() + 12;
        out.extend_from_slice(self.requests.get(index));
        out[at..at + 4].copy_from_slice(&serial.to_le_bytes());
    }

    fn read<'b>(
        &self,
        _state: &mut (),
        _index: usize,
        bytes: &'b [u8],
        _ended: bool,
        _scratch: &'b mut Vec<u8>,
    ) -> Result<Read<'b>, Malformed> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            let seen = bytes.len().min(4);
            if bytes[..seen] != b"FPNN"[..seen] {
                return Err(Malformed::garbage("the answer does not begin with FPNN"));
            }
            return Ok(Read::Needs(HEADER));
        };
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if !header.starts_with(b"FPNN") {
            return Err(Malformed::garbage("the answer does not begin with FPNN"));
        }
        let [_, _, _, _, version, flags, kind, status, ..] = *header;
        if version != 1 || flags != 0x80 || kind != ANSWER || status > 1 {
            return Err(Malformed::garbage(format!(
                "no answer in msgpack: version {version}, flags {flags:#x}, type {kind}, status {status}"
            )));
        }
        let size = word(8) as usize;
        if size > self.answer_bytes_max {
            return Err(Malformed::TooLarge(self.answer_bytes_max));
        }
        let Some(payload) = rest.get(..size) else {
            return Ok(Read::Needs(HEADER + size));
        };
        Ok(Read::Found(Found {
            used: HEADER + size,
            serial: word(12),
            said: if status == 0 {
                Said::Answer(Answer::Msgpack(payload))
            } else {
                failure(payload)?
            },
            closes: false,
        }))
    }

    fn verify(&self, index: usize, answer: Answer<'_>) -> Result<(), String> {
        match (&self.rows, answer) {
            (Some(rows), Answer::Msgpack(answer)) => rows.compare_msgpack(index, answer),
            _ => Ok(()),
        }
    }
}

/// An answer of status 1.
fn failure(payload: &[u8]) -> Result<Said<'static>, Malformed> {
    let map = decode_map(Encoding::Msgpack, payload)
        .map_err(|why| Malformed::garbage(format!("an error answer: {why}")))?;
    let code = match map.get("code") {
        Some(Value::UInt(code)) => u32::try_from(*code).ok(),
        _ => None,
    };
    let code = code.ok_or_else(|| Malformed::garbage("an error answer without code and ex"))?;
    let why = match map.get("ex") {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    };
    if matches!(code, OVERLOADED | NOT_READY) {
        // The protocol has no "connection: close", so the words tell a refused connection from a refused request.
        return Ok(Said::Refused {
            code,
            whole_connection: why.contains("connection limit"),
        });
    }
    Ok(Said::Failed { code, why })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_wire_payload::Encoder;

    fn one() -> Native {
        let mut native = Native {
            requests: Prepared::default(),
            rows: None,
            answer_bytes_max: 1_000,
        };
        native.push("*ping", &[0x80]).unwrap();
        native
    }

    fn answer(status: u8, serial: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = b"FPNN\x01\x80\x02".to_vec();
        bytes.push(status);
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&serial.to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn a_request_carries_its_number() {
        let mut out = vec![9];
        one().write(&mut (), 0, 0x0102_0304, &mut out);
        assert_eq!(
            out[1..],
            *b"FPNN\x01\x80\x01\x05\x01\0\0\0\x04\x03\x02\x01*ping\x80"
        );
    }

    #[test]
    fn an_answer_is_found_once_it_is_whole() {
        let bytes = answer(0, 7, &[0x80]);
        let mut scratch = Vec::new();
        for cut in 0..bytes.len() {
            let read = one()
                .read(&mut (), 0, &bytes[..cut], false, &mut scratch)
                .unwrap();
            assert!(matches!(read, Read::Needs(needed) if needed > cut), "{cut}");
        }
        let Read::Found(found) = one().read(&mut (), 0, &bytes, false, &mut scratch).unwrap() else {
            unreachable!("the frame is whole")
        };
        assert_eq!((found.used, found.serial), (bytes.len(), 7));
        assert!(matches!(found.said, Said::Answer(Answer::Msgpack([0x80]))));
    }

    #[test]
    fn errors_and_refusals_are_told_apart() {
        let said = |code: u32, ex: &str| {
            let mut map = Vec::new();
            Encoder::new(&mut map, Encoding::Msgpack, false).map(|out| {
                out.key("code");
                out.uint(u64::from(code));
                out.key("ex");
                out.text(ex);
            });
            failure(&map).unwrap()
        };
        assert!(matches!(
            said(30_101, "busy"),
            Said::Refused {
                code: 30_101,
                whole_connection: false
            }
        ));
        assert!(matches!(
            said(30_101, "connection limit 5 reached"),
            Said::Refused {
                whole_connection: true,
                ..
            }
        ));
        assert!(matches!(
            said(30_105, "no such"),
            Said::Failed { code: 30_105, .. }
        ));
    }

    #[test]
    fn garbage_is_named() {
        let mut scratch = Vec::new();
        let mut said = |bytes: &[u8]| {
            one()
                .read(&mut (), 0, bytes, false, &mut scratch)
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
        assert!(said(b"HT").contains("FPNN"));
        assert!(said(&answer(2, 0, &[])).contains("status 2"));
        assert!(said(&answer(1, 0, &[0xc0])).contains("root is null"));
        assert!(said(&answer(1, 0, &[0x80])).contains("code and ex"));
        assert!(said(&answer(1, 0, &[0x80, 0])).contains("more bytes follow"));
        assert!(said(&answer(0, 0, &[0; 1_001])).contains("larger than 1000"));
    }
}
