//! JSON bodies as msgpack, once, before a run.
//!
//! JSON has no blocks of bytes, so a map with one of the keys `$u64`, `$u32`, `$f32` and `$text` stands for one: its numbers,
//! little-endian, or its characters. Its invariant: what is written decodes to what was read.

use serde_json::Value;

/// Writes one JSON body, which must be an object, as a msgpack map.
pub(crate) fn from_json(body: &[u8]) -> Result<Vec<u8>, String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if !value.is_object() {
        return Err("the body must be a JSON object".into());
    }
    let mut out = Vec::new();
    write(&value, &mut out)?;
    Ok(out)
}

fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    match value {
        Value::Object(map) => {
            if let Some(block) = block(map)? {
                let length = u32::try_from(block.len()).map_err(|_| "a block is larger than 4 GiB")?;
                out.push(0xc6);
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&block);
                return Ok(());
            }
            out.push(0xdf);
            out.extend_from_slice(&(map.len() as u32).to_be_bytes());
            for (key, value) in map {
                plain(key, out)?;
                write(value, out)?;
            }
            Ok(())
        }
        Value::Array(values) => {
            out.push(0xdd);
            out.extend_from_slice(&(values.len() as u32).to_be_bytes());
            values.iter().try_for_each(|value| write(value, out))
        }
        other => plain(other, out),
    }
}

fn plain(value: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) -> Result<(), String> {
    rmp_serde::encode::write(out, value).map_err(|error| error.to_string())
}

/// The bytes of a block, if the map stands for one.
fn block(map: &serde_json::Map<String, Value>) -> Result<Option<Vec<u8>>, String> {
    let Some((key, value)) = map.iter().next().filter(|_| map.len() == 1) else {
        return Ok(None);
    };
    let numbers = || {
        value
            .as_array()
            .ok_or_else(|| format!("{key} needs an array of numbers"))
    };
    let bad = |number: &Value| format!("{key} holds {number}, which is no such number");
    let whole = |width: usize| -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for number in numbers()? {
            let value = number.as_u64().ok_or_else(|| bad(number))?;
            if width == 4 && value > u64::from(u32::MAX) {
                return Err(bad(number));
            }
            bytes.extend_from_slice(&value.to_le_bytes()[..width]);
        }
        Ok(bytes)
    };
    Ok(Some(match key.as_str() {
        "$u64" => whole(8)?,
        "$u32" => whole(4)?,
        "$f32" => {
            let mut bytes = Vec::new();
            for number in numbers()? {
                let value = number.as_f64().ok_or_else(|| bad(number))?;
                bytes.extend_from_slice(&(value as f32).to_le_bytes());
            }
            bytes
        }
        "$text" => value.as_str().ok_or("$text needs a string")?.as_bytes().to_vec(),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn maps_come_out_as_they_went_in() {
        let json = br#"{"a":[1,-2,0.5,null,true],"b":{"c":"d"}}"#;
        let back: Value = rmp_serde::from_slice(&from_json(json).unwrap()).unwrap();
        assert_eq!(back, serde_json::from_slice::<Value>(json).unwrap());
    }

    #[test]
    fn blocks_are_bytes() {
        let bytes = from_json(br#"{"k":{"$u64":[1,258]}}"#).unwrap();
        assert!(bytes.ends_with(&[0xc6, 0, 0, 0, 16, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]));
        assert!(
            from_json(br#"{"k":{"$text":"ab"}}"#)
                .unwrap()
                .ends_with(b"\xc6\0\0\0\x02ab")
        );
        assert!(from_json(br#"{"k":{"$u32":[-1]}}"#).unwrap_err().contains("-1"));
        assert!(from_json(b"[]").unwrap_err().contains("object"));
    }
}
