//! HTTP/1.1, pipelined: answers come in the order of the calls.

use super::frames::answer;
use super::{Came, json_of};
use millpond_wire_frame::Encoding;
use serde_json::Value;

/// Appends a call.
pub(super) fn write(out: &mut Vec<u8>, method: &str, payload: &Value) {
    let body = payload.to_string();
    let head = format!(
        "POST /service/{method} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body.as_bytes());
}

/// Takes one answer from the front of what came; it is that of the call of this number.
pub(super) fn read(inbox: &mut Vec<u8>, number: Option<u32>) -> Result<Option<Came>, String> {
    let Some(end) = inbox.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(inbox.get(..end).unwrap_or_default()).into_owned();
    let field = |name: &str| {
        head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    let status = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse::<u16>().ok())
        .ok_or_else(|| format!("no head of HTTP: {head:?}"))?;
    let length = field("Content-Length")
        .and_then(|length| length.parse::<usize>().ok())
        .ok_or_else(|| format!("no length: {head:?}"))?;
    let Some(body) = inbox.get(end + 4..end + 4 + length) else {
        return Ok(None);
    };
    let payload = json_of(body, Encoding::Json)?;
    inbox.drain(..end + 4 + length);
    let answer = answer(status == 200, payload)?;
    match number {
        Some(number) => Ok(Some(Came::Answer(number, answer))),
        None => Err(format!(
            "an answer that nobody has asked for: {status} {answer:?}"
        )),
    }
}
