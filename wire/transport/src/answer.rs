//! How an answer is written for the protocol its call came by.
//! It knows no connection; its invariant: one call, one answer, in the call's encoding.

use millpond_wire_frame::websocket::{begin_message, finish_message};
use millpond_wire_frame::{Encoding, HttpAnswer, begin_answer, finish_answer, write_http};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::{Code, Status};

/// What a call needs of its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// None.
    Oneway,
    /// A frame with the call's number.
    Frame {
        encoding: Encoding,
        seq: u32,
        /// The frame is the message of a WebSocket.
        in_message: bool,
    },
    /// An HTTP answer, JSON unless the service says otherwise.
    Http {
        keep_alive: bool,
        head_only: bool,
        /// The origin whose pages may read it.
        allow_origin: Option<&'static str>,
    },
}

/// An HTTP answer that is not a method's: health, metrics.
#[derive(Debug, Clone)]
pub struct Body<'a> {
    /// 200, 503, …
    pub status: u16,
    /// `text/plain; version=0.0.4`, …
    pub content_type: &'a str,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> Body<'a> {
    fn json(status: u16, bytes: &'a [u8]) -> Body<'a> {
        Body {
            status,
            content_type: "application/json",
            bytes,
        }
    }
}

impl Form {
    pub(crate) fn ok(self, out: &mut Vec<u8>, base64: bool, write: impl FnOnce(&mut Encoder<'_>)) {
        match self {
            Form::Oneway => {}
            Form::Frame {
                encoding,
                seq,
                in_message,
            } => {
                framed(out, encoding, 0, seq, in_message, |out| {
                    write(&mut Encoder::new(out, encoding, base64));
                });
            }
            Form::Http { .. } => {
                let mut bytes = Vec::with_capacity(256);
                write(&mut Encoder::new(&mut bytes, Encoding::Json, base64));
                self.body(out, &Body::json(200, &bytes));
            }
        }
    }

    pub(crate) fn error(self, out: &mut Vec<u8>, status: &Status) {
        self.error_as(out, status, status.code.http_status(), None);
    }

    /// Whether its connection ends with the answer.
    pub(crate) fn is_last(self) -> bool {
        matches!(
            self,
            Form::Http {
                keep_alive: false,
                ..
            }
        )
    }

    /// Whether its connection ends with that error: a server that stops says so, and HTTP can say that no more is served.
    pub(crate) fn ends_with(self, status: &Status) -> bool {
        let is_http = matches!(self, Form::Http { .. });
        self.is_last() || (is_http && status.code == Code::Stopping)
    }

    /// Answers an error; where the call came by HTTP with that status, and with the verbs that are served there.
    pub(crate) fn error_as(
        self,
        out: &mut Vec<u8>,
        status: &Status,
        http_status: u16,
        allow: Option<&'static str>,
    ) {
        match self {
            Form::Oneway => {}
            Form::Frame {
                encoding,
                seq,
                in_message,
            } => {
                framed(out, encoding, 1, seq, in_message, |out| {
                    status.encode(&mut Encoder::new(out, encoding, false));
                });
            }
            Form::Http { .. } => {
                let mut bytes = Vec::with_capacity(128);
                status.encode(&mut Encoder::new(&mut bytes, Encoding::Json, false));
                let keep_alive = !self.ends_with(status);
                self.write_http(out, &Body::json(http_status, &bytes), keep_alive, allow);
            }
        }
    }

    /// Answers a body where the call came by HTTP, and an error elsewhere.
    pub(crate) fn body(self, out: &mut Vec<u8>, body: &Body<'_>) {
        match self {
            Form::Http { .. } => self.write_http(out, body, !self.is_last(), None),
            _ => {
                let ex = "this path is served over HTTP only";
                self.error(out, &Status::new(Code::UnknownMethod, ex));
            }
        }
    }

    fn write_http(self, out: &mut Vec<u8>, body: &Body<'_>, keep_alive: bool, allow: Option<&'static str>) {
        if let Form::Http {
            head_only,
            allow_origin,
            ..
        } = self
        {
            let answer = HttpAnswer {
                status: body.status,
                content_type: body.content_type,
                keep_alive,
                head_only,
                allow_origin,
                allow,
            };
            write_http(out, answer, body.bytes);
        }
    }
}

/// Writes an answer's frame around what `write` does, in a message of its own where that is asked for.
fn framed(
    out: &mut Vec<u8>,
    encoding: Encoding,
    status: u8,
    seq: u32,
    in_message: bool,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let message = in_message.then(|| begin_message(out, None));
    let start = begin_answer(out, encoding, status, seq);
    write(out);
    finish_answer(out, start);
    if let Some(message) = message {
        finish_message(out, message);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_wire_frame::websocket::{Event, Progress, Role, WebSocket};
    use millpond_wire_frame::{FrameKind, Limits, Parsed, parse_frame};
    use millpond_wire_payload::{Map, Value, decode_map};
    use proptest::prelude::*;

    /// Looks at the payload of the answer that lies in `out`.
    fn check(out: &[u8], in_message: bool, answer: FrameKind<'_>, look: impl FnOnce(&Map<'_>)) {
        let (mut socket, mut scratch) = (WebSocket::new(Role::Client, Limits::default()), Vec::new());
        let frame = match in_message {
            false => out,
            true => match socket.read(out, &mut scratch).unwrap() {
                Progress::Event {
                    event: Event::Message { bytes, text: false },
                    used,
                } if used == out.len() => bytes,
                other => panic!("{other:?}"),
            },
        };
        let Parsed::Whole { message, len } = parse_frame(frame, Limits::default()).unwrap() else {
            panic!("cut short: {frame:?}")
        };
        assert_eq!((message.kind, len), (answer, frame.len()));
        let text = String::from_utf8_lossy(message.payload).into_owned();
        match decode_map(message.encoding, message.payload) {
            Ok(map) => look(&map),
            Err(error) => panic!("{text:?}: {error}"),
        };
    }

    proptest! {
        #[test]
        fn an_answer_is_one_map_whatever_its_number_and_whatever_lies_before_it(
            seq: u32,
            high in prop::sample::select(&[0x22_u8, 0x30, 0x35, 0x39, 0x5d, 0x65, 0x6c, 0x7d, 0x2c][..]),
            takes_high: bool,
            before in prop::collection::vec(any::<u8>(), 0..4),
            in_message: bool,
            json: bool,
            base64: bool,
            text in "\\PC{0,9}",
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let seq = if takes_high { seq & 0xff_ffff | u32::from(high) << 24 } else { seq };
            let encoding = if json { Encoding::Json } else { Encoding::Msgpack };
            let form = Form::Frame { encoding, seq, in_message };
            let mut out = before.clone();
            form.ok(&mut out, base64, |out| {
                out.map(|out| {
                    out.key("text");
                    out.text(&text);
                    out.key("bytes");
                    out.bytes(&bytes);
                });
            });
            check(&out[before.len()..], in_message, FrameKind::Answer { status: 0, seq }, |found| {
                assert_eq!(found.get("text"), Some(&Value::Text(text.as_str().into())));
            });

            let mut out = before.clone();
            form.error(&mut out, &Status::new(Code::Overloaded, text.as_str()));
            check(&out[before.len()..], in_message, FrameKind::Answer { status: 1, seq }, |found| {
                assert_eq!(found.get("code"), Some(&Value::UInt(30101)));
                assert_eq!(found.get("ex"), Some(&Value::Text(text.as_str().into())));
            });
        }
    }
}
