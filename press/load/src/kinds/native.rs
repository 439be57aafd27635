//! The native protocol (FPNN's frames, version 1) with msgpack payloads; answers in any order.
//!
//! Written from the protocol's description and not with the server's codec, so that a defect of that codec cannot hide here.
//! Source: the frame table of FPNN 1.3.1. Its invariant: a frame over the limit is refused before its payload is awaited.

mod batch;

use millpond_wire_payload::{Encoding, Value, decode_map};

use crate::TargetKind;
use crate::check::{Answer, Verified};
use crate::kind::{Given, Takes, first_words};
use crate::known::KnownAnswers;
use crate::msgpack;
use crate::protocol::{
    Found, Input, Malformed, NOT_READY, OVERLOADED, Prepared, Protocol, Read, Said, on_wire,
};
use crate::rows::KnownRows;

pub(super) const KIND: TargetKind = TargetKind {
    empty: b"{}",
    in_words: |target| match target.operations.first() {
        None => target.method_and_path().0,
        Some(first) => first_words(first),
    },
    texts: |target, operation| {
        let method = operation.method.as_deref().or(target.method);
        let body = operation.body.clone().unwrap_or_else(|| "{}".into());
        Ok(vec![method.ok_or("method")?.to_owned(), body])
    },
    verified: |given| match is_batches(given) {
        true => given.values_in_words(),
        false => given.rows_in_words(),
    },
    knows_rows: |operations| {
        let mut methods = operations.iter().map(|operation| operation.method.as_deref());
        !operations.is_empty() && methods.all(|method| method == Some("features.lookup"))
    },
    ..on_wire::<Native>(&["native", "binary"])
};

const HEADER: usize = 16;
const TWOWAY: u8 = 1;
const ANSWER: u8 = 2;

/// The rows that requests look up, and the values that batches of an ordered store read.
struct Native {
    rows: KnownRows,
    values: KnownAnswers,
}

/// Whether every request is a batch of an ordered store.
fn is_batches(given: &Given<'_>) -> bool {
    let operations = given.target.operations;
    let mut methods = operations.iter().map(|operation| operation.method.as_deref());
    !operations.is_empty() && methods.all(|method| method == Some(batch::METHOD))
}

/// Writes a frame whose number is still to be set.
fn write_frame(method: &str, payload: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let length = u8::try_from(method.len()).map_err(|_| "its method is longer than 255 bytes")?;
    let size = u32::try_from(payload.len()).map_err(|_| "its payload is larger than 4 GiB")?;
    out.extend_from_slice(b"FPNN\x01\x80");
    out.extend_from_slice(&[TWOWAY, length]);
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(payload);
    Ok(())
}

impl Protocol for Native {
    type State = ();
    const NUMBERED: bool = true;
    const TAKES: Takes = Takes {
        tls: true,
        pipelined: true,
        json: true,
        ..Takes::NONE
    };

    fn prepare(given: &Given<'_>, requests: &mut Prepared) -> Result<Native, String> {
        given.each_body(&given.target.method_and_path().0, |method, body| {
            let payload =
                msgpack::from_json(body).map_err(|why| format!("cannot be sent as msgpack: {why}"))?;
            requests
                .push(|out| write_frame(method, &payload, out))
                .map_err(|what| format!("cannot travel in a frame: {what}"))
        })?;
        let is_known = is_batches(given);
        let values = KnownAnswers::of(given, |body, values| {
            is_known.then(|| batch::values_read(body, values)).flatten()
        })?;
        let rows = KnownRows::of(given)?;
        Ok(Native { rows, values })
    }

    fn write(&self, (): &mut (), request: &[u8], serial: u32, out: &mut Vec<u8>) {
        let at = out.len() + 12;
        out.extend_from_slice(request);
        out[at..at + 4].copy_from_slice(&serial.to_le_bytes());
    }

    fn read<'b>(&self, (): &mut (), _request: &[u8], input: Input<'b>) -> Result<Read<'b>, Malformed> {
        let seen = input.bytes.len().min(4);
        if input.bytes[..seen] != b"FPNN"[..seen] {
            return Err(Malformed::garbage("the answer does not begin with FPNN"));
        }
        let Some((header, rest)) = input.bytes.split_first_chunk::<HEADER>() else {
            return Ok(Read::Needs(HEADER));
        };
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let [_, _, _, _, version, flags, kind, status, ..] = *header;
        if version != 1 || flags != 0x80 || kind != ANSWER || status > 1 {
            return Err(Malformed::garbage(format!(
                "no answer in msgpack: version {version}, flags {flags:#x}, type {kind}, status {status}"
            )));
        }
        let size = word(8) as usize;
        if size > input.bytes_max {
            return Err(Malformed::TooLarge(input.bytes_max));
        }
        let Some(payload) = rest.get(..size) else {
            return Ok(Read::Needs(HEADER + size));
        };
        Ok(Read::Found(Found {
            used: HEADER + size,
            serial: word(12),
            said: match status {
                0 => Said::Answer(Answer::Msgpack(payload)),
                _ => failure(payload)?,
            },
            closes: false,
        }))
    }

    fn verify(&self, index: usize, _request: &[u8], answer: Answer<'_>) -> Result<Verified, String> {
        match (self.values.get(index), answer) {
            (Some(expected), Answer::Msgpack(answer)) => batch::compare(expected, answer),
            _ => self.rows.compare(index, answer),
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
    use crate::protocol::OnWire;
    use millpond_press_workload::RequestSet;
    use millpond_wire_payload::Encoder;

    fn read(bytes: &[u8]) -> Result<Read<'_>, Malformed> {
        let set = RequestSet::from_bodies("t", ["{}"]).unwrap();
        let native = OnWire::<Native>::new(&Given::of(&set, 1_000)).unwrap().protocol;
        native.read(&mut (), b"", Input::of(bytes, 1_000))
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
        let set = RequestSet::from_bodies("t", ["{}"]).unwrap();
        let mut given = Given::of(&set, 1_000);
        given.target.method = Some("*ping");
        let OnWire { protocol, requests } = OnWire::<Native>::new(&given).unwrap();
        let mut out = vec![9];
        protocol.write(&mut (), requests.get(0), 0x0102_0304, &mut out);
        assert_eq!(
            out[1..],
            *b"FPNN\x01\x80\x01\x05\x01\0\0\0\x04\x03\x02\x01*ping\x80"
        );
    }

    #[test]
    fn an_answer_is_found_once_it_is_whole() {
        let bytes = answer(0, 7, &[0x80]);
        for cut in 0..bytes.len() {
            let read = read(&bytes[..cut]).unwrap();
            assert!(matches!(read, Read::Needs(needed) if needed > cut), "{cut}");
        }
        let Read::Found(found) = read(&bytes).unwrap() else {
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
        let said = |bytes: &[u8]| read(bytes).map(|_| ()).unwrap_err().to_string();
        assert!(said(b"HT").contains("FPNN"));
        assert!(said(&answer(2, 0, &[])).contains("status 2"));
        assert!(said(&answer(1, 0, &[0xc0])).contains("root is null"));
        assert!(said(&answer(1, 0, &[0x80])).contains("code and ex"));
        assert!(said(&answer(1, 0, &[0x80, 0])).contains("more bytes follow"));
        assert!(said(&answer(0, 0, &[0; 1_001])).contains("larger than 1000"));
    }
}
