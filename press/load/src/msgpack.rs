//! JSON bodies as msgpack, once, before a run.
//!
//! JSON has no blocks of bytes, so a map with one of the keys `$u64`, `$u32`, `$f32`, `$text` and `$file` stands for one: its numbers,
//! little-endian, its characters, or what the file of that name holds. Its invariant: what is written decodes to what was read.

use millpond_wire_payload::{Encoder, Encoding, Map, Payload, PayloadError, Value, decode_map};

/// The largest file that stands in a request.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Writes one JSON body, which must be an object, as a msgpack map.
pub(crate) fn from_json(body: &[u8]) -> Result<Vec<u8>, String> {
    let map = decode_map(Encoding::Json, body);
    let map = map.map_err(|error| format!("the body must be a JSON object: {error}"))?;
    let mut out = Vec::new();
    Encoder::new(&mut out, Encoding::Msgpack, false).value(&with_blocks(Value::Map(map))?);
    Ok(out)
}

/// The same value with bytes for the maps that stand for blocks.
fn with_blocks(value: Value<'_>) -> Result<Value<'_>, String> {
    Ok(match value {
        Value::Map(map) => match block(&map)? {
            Some(bytes) => Value::Bytes(bytes.into()),
            None => {
                let entries = map.0.into_iter();
                let entries = entries.map(|(key, value)| Ok((key, with_blocks(value)?)));
                Value::Map(Map(entries.collect::<Result<_, String>>()?))
            }
        },
        Value::Array(items) => Value::Array(items.into_iter().map(with_blocks).collect::<Result<_, _>>()?),
        other => other,
    })
}

/// Whether the bytes are one map, whole and with nothing behind it. Nothing is decoded: a value is only walked over.
pub(crate) fn check_one_map(bytes: &[u8]) -> Result<(), PayloadError> {
    let payload = Payload::new(Encoding::Msgpack, bytes)?;
    payload.read(|reader| reader.map("a map", |reader, _| reader.skip()))
}

/// The bytes of a block, if the map stands for one.
fn block(map: &Map<'_>) -> Result<Option<Vec<u8>>, String> {
    let [(key, value)] = map.0.as_slice() else {
        return Ok(None);
    };
    let numbers = || match value {
        Value::Array(numbers) => Ok(numbers.iter()),
        _ => Err(format!("{key} needs an array of numbers")),
    };
    let bad = |number: &Value<'_>| format!("{key} holds {number:?}, which is no such number");
    let whole = |width: usize| -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for number in numbers()? {
            match number {
                Value::UInt(value) if width == 8 || *value <= u64::from(u32::MAX) => {
                    bytes.extend_from_slice(&value.to_le_bytes()[..width]);
                }
                other => return Err(bad(other)),
            }
        }
        Ok(bytes)
    };
    Ok(Some(match &**key {
        "$u64" => whole(8)?,
        "$u32" => whole(4)?,
        "$f32" => {
            let mut bytes = Vec::new();
            for number in numbers()? {
                let value = match number {
                    Value::Float(value) => *value,
                    Value::UInt(value) => *value as f64,
                    Value::Int(value) => *value as f64,
                    other => return Err(bad(other)),
                };
                bytes.extend_from_slice(&(value as f32).to_le_bytes());
            }
            bytes
        }
        "$text" => match value {
            Value::Text(text) => text.as_bytes().to_vec(),
            _ => return Err("$text needs a string".into()),
        },
        "$file" => match value {
            Value::Text(path) => read_file(path)?,
            _ => return Err("$file needs the path of a file".into()),
        },
        _ => return Ok(None),
    }))
}

/// What a file holds; it may stand in a request, and so in a frame.
fn read_file(path: &str) -> Result<Vec<u8>, String> {
    let found = |error: std::io::Error| format!("$file {path:?}: {error}");
    let length = std::fs::metadata(path).map_err(found)?.len();
    match length > FILE_BYTES_MAX {
        true => Err(format!(
            "$file {path:?} has {length} bytes, expected at most {FILE_BYTES_MAX}"
        )),
        false => std::fs::read(path).map_err(found),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn maps_come_out_as_they_went_in() {
        let json = br#"{"a":[1,-2,0.5,null,true],"b":{"c":"d"}}"#;
        let bytes = from_json(json).unwrap();
        assert_eq!(check_one_map(&bytes), Ok(()));
        assert_eq!(
            decode_map(Encoding::Msgpack, &bytes),
            decode_map(Encoding::Json, json)
        );
    }

    #[test]
    fn blocks_are_bytes() {
        let bytes = from_json(br#"{"k":{"$u64":[1,258]}}"#).unwrap();
        assert!(bytes.ends_with(&[0xc4, 16, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]));
        assert!(
            from_json(br#"{"k":{"$text":"ab"}}"#)
                .unwrap()
                .ends_with(b"\xc4\x02ab")
        );
        assert!(from_json(br#"{"k":{"$u32":[-1]}}"#).unwrap_err().contains("-1"));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"\xff\xd8").unwrap();
        let body = |path: &str| from_json(format!(r#"{{"k":{{"$file":{path:?}}}}}"#).as_bytes());
        let bytes = body(file.path().to_str().unwrap()).unwrap();
        assert!(bytes.ends_with(b"\xc4\x02\xff\xd8"));
        assert!(body("no.jpg").unwrap_err().contains("no.jpg"));
        assert!(from_json(b"[]").unwrap_err().contains("object"));
    }
}
