//! How an answer is written as a frame, alone or as the message of a WebSocket.
//! It knows no connection; its invariant: one call, one answer, in the call's encoding.

use millpond_fronts_answer as answer;
use millpond_wire_frame::websocket::{MessageStart, begin_message, finish_message};
use millpond_wire_frame::{Encoding, begin_answer, finish_answer};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::Status;

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
    /// The same for another process of this server, whose front needs all that is known of an error.
    Process { encoding: Encoding, seq: u32 },
}

/// Where an answer that was begun lies.
#[derive(Debug, Default)]
pub(crate) struct Open {
    frame: usize,
    message: Option<MessageStart>,
}

impl Form {
    #[inline]
    fn begin_as<'o>(
        self,
        status: u8,
        out: &'o mut Vec<u8>,
        open: &mut Open,
    ) -> Option<(&'o mut Vec<u8>, Encoding)> {
        let (encoding, seq, in_message) = match self {
            Form::Oneway => return None,
            Form::Frame {
                encoding,
                seq,
                in_message,
            } => (encoding, seq, in_message),
            Form::Process { encoding, seq } => (encoding, seq, false),
        };
        open.message = in_message.then(|| begin_message(out, None));
        open.frame = begin_answer(out, encoding, status, seq);
        Some((out, encoding))
    }
}

impl answer::Form for Form {
    type Open = Open;

    #[inline]
    fn begin<'o>(self, out: &'o mut Vec<u8>, open: &'o mut Open) -> Option<(&'o mut Vec<u8>, Encoding)> {
        self.begin_as(0, out, open)
    }

    #[inline]
    fn finish(self, out: &mut Vec<u8>, open: &mut Open) {
        if !matches!(self, Form::Oneway) {
            finish_answer(out, open.frame);
            if let Some(message) = open.message.take() {
                finish_message(out, message);
            }
        }
    }

    fn error(self, out: &mut Vec<u8>, status: &Status) {
        let mut open = Open::default();
        if let Some((bytes, encoding)) = self.begin_as(1, out, &mut open) {
            let mut encoder = Encoder::new(bytes, encoding, false);
            match self {
                Form::Process { .. } => status.encode_whole(&mut encoder),
                Form::Oneway | Form::Frame { .. } => status.encode(&mut encoder),
            }
            self.finish(out, &mut open);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use answer::Form as _;
    use millpond_wire_frame::websocket::{Event, Progress, Role, WebSocket};
    use millpond_wire_frame::{FrameKind, Limits, Parsed, parse_frame};
    use millpond_wire_payload::{Map, Value, decode_map};
    use millpond_wire_schema::Code;
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
            let mut open = Open::default();
            let (payload, encoding) = form.begin(&mut out, &mut open).unwrap();
            Encoder::new(payload, encoding, base64).map(|out| {
                out.key("text");
                out.text(&text);
                out.key("bytes");
                out.bytes(&bytes);
            });
            form.finish(&mut out, &mut open);
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
