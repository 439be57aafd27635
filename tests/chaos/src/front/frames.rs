//! Native frames.

use super::{Answer, Came, json_of, msgpack_of};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use serde_json::Value;
use std::io;

/// Appends a call.
pub(super) fn write(
    out: &mut Vec<u8>,
    method: &str,
    seq: u32,
    encoding: Encoding,
    payload: &Value,
) -> io::Result<()> {
    let payload = msgpack_of(payload, encoding)?;
    let kind = FrameKind::Twoway { method, seq };
    write_frame(out, encoding, kind, &payload).map_err(io::Error::other)
}

/// Takes one frame from the front of what came.
pub(super) fn read(inbox: &mut Vec<u8>) -> Result<Option<Came>, String> {
    match parse_frame(inbox, Limits::default()) {
        Ok(Parsed::Whole { message, len }) => {
            let FrameKind::Answer { status, seq } = message.kind else {
                return Err(format!("{:?} is no answer", message.kind));
            };
            let payload = json_of(message.payload, message.encoding)
                .map_err(|error| format!("the answer to call {seq}: {error}"))?;
            inbox.drain(..len);
            Ok(Some(Came::Answer(seq, answer(status == 0, payload)?)))
        }
        Ok(Parsed::Partial { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// A result, or an error as its map says.
pub(super) fn answer(is_good: bool, payload: Value) -> Result<Answer, String> {
    if is_good {
        return Ok(Answer::Good(payload));
    }
    let code = payload.get("code").and_then(Value::as_u64);
    let ex = payload.get("ex").and_then(Value::as_str);
    match (code, ex) {
        (Some(code), Some(ex)) => Ok(Answer::Error(code, ex.to_owned())),
        _ => Err(format!("an error without a code or words: {payload}")),
    }
}
