//! What a batch of an ordered store must answer: the values that its gets read, in order.
//!
//! Its invariant: an answer is right only if every get found its key, and every byte of every value is the one that was written.

use millpond_wire_payload::{Encoding, Payload, PayloadError, Reader, Token};
use serde::Deserialize;
use serde_json::Value;

use crate::check::Verified;
use crate::known::values_of_gets;
use crate::protocol::excerpt;

/// The method.
pub(super) const METHOD: &str = "ordered.batch";

/// What the gets of a request read, where there is a value for each of its operations.
pub(super) fn values_read(request: &[u8], values: &[Vec<u8>]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Body {
        operations: Vec<Vec<Value>>,
    }
    let line = request.iter().position(|&byte| byte == b'\n')?;
    let body: Body = serde_json::from_slice(request.get(line + 1..)?).ok()?;
    let is_get = |operation: &Vec<Value>| operation.first().is_some_and(|word| word == "get");
    values_of_gets(body.operations.iter().map(is_get), values)
}

/// Holds the answer to a batch against what its gets must have read.
pub(super) fn compare(expected: &[u8], answer: &[u8]) -> Result<Verified, String> {
    let payload = Payload::new(Encoding::Msgpack, answer).map_err(|error| error.to_string())?;
    let mut left = Some(expected);
    let mut has_results = false;
    let read = |reader: &mut Reader<'_>| {
        reader.map("a map", |reader, key| {
            if key != b"results" {
                return reader.skip();
            }
            has_results = true;
            reader
                .array("an array of results", |reader| take(reader, &mut left))
                .map(drop)
        })
    };
    payload.read(read).map_err(|error| error.to_string())?;
    match left {
        Some([]) if has_results => Ok(Verified::Nothing),
        _ if !has_results => Err("it has no `results` of a batch".into()),
        Some(left) => Err(format!(
            "its gets read {} bytes less than were written",
            left.len()
        )),
        None => Err(format!(
            "its gets read other values than were written, which begin with {}",
            excerpt(expected)
        )),
    }
}

/// Takes the value of a get off what is left; nothing is left of what differs.
fn take(reader: &mut Reader<'_>, left: &mut Option<&[u8]>) -> Result<(), PayloadError> {
    let found: &[u8] = match reader.token()? {
        Token::Bytes(bytes) => bytes,
        Token::Text(text) => text.as_bytes(),
        Token::UInt(_) => return Ok(()),
        other => return Err(other.is_not("the value of a key that is there, or a version")),
    };
    *left = left.and_then(|left| left.strip_prefix(found));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_wire_payload::Encoder;

    #[test]
    fn the_values_that_a_batch_reads_are_known() {
        let values = [b"aa".to_vec(), b"b".to_vec()];
        let read = |body: &str| values_read(format!("ordered.batch\n{body}").as_bytes(), &values);
        let body = r#"{"operations":[["get","1"],["put","2","b"]]}"#;
        assert_eq!(read(body), Some(b"aa".to_vec()));
        assert_eq!(
            read(r#"{"operations":[["get","1"]]}"#),
            None,
            "not a value for each"
        );
        assert_eq!(read("{}"), None);
    }

    fn answer(results: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes, Encoding::Msgpack, false).map(|out| {
            out.key("results");
            out.array(|out| {
                for result in results {
                    match result {
                        Some(value) => out.bytes(value),
                        None => out.uint(7),
                    }
                }
            });
            out.key("durability");
            out.text("memory");
        });
        bytes
    }

    #[test]
    fn an_answer_is_held_against_every_byte() {
        let said = |results: &[Option<&[u8]>]| compare(b"aabb", &answer(results));
        assert!(said(&[Some(b"aa"), None, Some(b"bb")]).is_ok());
        let words = |results: &[Option<&[u8]>]| said(results).unwrap_err();
        assert!(words(&[Some(b"aa"), None]).contains("2 bytes less"));
        assert!(words(&[Some(b"aa"), Some(b"bc")]).contains("other values"));
        assert!(words(&[Some(b"aa"), Some(b"bb"), Some(b"c")]).contains("other values"));
        let mut absent = Vec::new();
        Encoder::new(&mut absent, Encoding::Msgpack, false).map(|out| {
            out.key("results");
            out.array(|out| out.nil());
        });
        assert!(
            compare(b"aabb", &absent)
                .unwrap_err()
                .contains("a key that is there")
        );
        assert!(compare(b"aabb", &[0x80]).unwrap_err().contains("no `results`"));
    }
}
