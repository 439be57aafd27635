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

/// Whether the bytes are one map, whole and with nothing behind it. Nothing is decoded: a value is only walked over.
pub(crate) fn check_one_map(bytes: &[u8]) -> Result<(), String> {
    let is_map = |marker: &u8| matches!(marker, 0x80..=0x8f | 0xde | 0xdf);
    if !bytes.first().is_some_and(is_map) {
        return Err("it is no msgpack map".into());
    }
    match end_of_value(bytes) {
        Some(end) if end == bytes.len() => Ok(()),
        Some(end) => Err(format!(
            "{} bytes lie behind its msgpack map of {end} bytes",
            bytes.len() - end
        )),
        None => Err("its msgpack map is cut short, or holds a byte that is no msgpack".into()),
    }
}

/// Where the first value ends; nothing where it is cut short or no value. An array or a map adds its elements to those still
/// to come, so no depth is too deep.
fn end_of_value(bytes: &[u8]) -> Option<usize> {
    let (mut left, mut at) = (1u64, 0usize);
    while left > 0 {
        left -= 1;
        let marker = *bytes.get(at)?;
        at += 1;
        let mut number = |width: usize| {
            let digits = bytes.get(at..at + width)?;
            at += width;
            Some(
                digits
                    .iter()
                    .fold(0u64, |number, &digit| number << 8 | u64::from(digit)),
            )
        };
        let (skipped, elements) = match marker {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (0, 0),
            0x80..=0x8f => (0, 2 * u64::from(marker & 0x0f)),
            0x90..=0x9f => (0, u64::from(marker & 0x0f)),
            0xa0..=0xbf => (u64::from(marker & 0x1f), 0),
            0xc4 | 0xd9 => (number(1)?, 0),
            0xc5 | 0xda => (number(2)?, 0),
            0xc6 | 0xdb => (number(4)?, 0),
            0xc7 => (1 + number(1)?, 0),
            0xc8 => (1 + number(2)?, 0),
            0xc9 => (1 + number(4)?, 0),
            0xcc | 0xd0 => (1, 0),
            0xcd | 0xd1 => (2, 0),
            0xca | 0xce | 0xd2 => (4, 0),
            0xcb | 0xcf | 0xd3 => (8, 0),
            0xd4..=0xd8 => (1 + (1 << (marker - 0xd4)), 0),
            0xdc => (0, number(2)?),
            0xdd => (0, number(4)?),
            0xde => (0, 2 * number(2)?),
            0xdf => (0, 2 * number(4)?),
            0xc1 => return None,
        };
        at = at.checked_add(usize::try_from(skipped).ok()?)?;
        if at > bytes.len() {
            return None;
        }
        left = left.checked_add(elements)?;
    }
    Some(at)
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
    use proptest::prelude::*;

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

    proptest! {
        /// Whatever a map holds, it ends where its encoder ended, and no byte may be missing or stand behind it.
        #[test]
        fn a_map_ends_where_it_ends(
            numbers in prop::collection::vec(any::<i64>(), 0..20),
            floats in prop::collection::vec(any::<f32>(), 0..20),
            text in ".{0,300}",
            depth in 0usize..40,
            cut in any::<prop::sample::Index>(),
        ) {
            let mut value = serde_json::json!({"numbers": numbers, "text": text, "none": null, "yes": true});
            value["floats"] = floats.into_iter().map(f64::from).collect();
            for _ in 0..depth {
                value = serde_json::json!({"in": [value]});
            }
            let mut bytes = rmp_serde::to_vec(&value).unwrap();
            prop_assert_eq!(check_one_map(&bytes), Ok(()));
            prop_assert_eq!(check_one_map(&from_json(value.to_string().as_bytes()).unwrap()), Ok(()));
            prop_assert!(check_one_map(&bytes[..cut.index(bytes.len())]).is_err());
            bytes.push(0xc0);
            prop_assert!(check_one_map(&bytes).unwrap_err().contains("1 bytes lie behind"));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = check_one_map(&bytes);
        }
    }

    #[test]
    fn what_is_no_map_is_told() {
        assert!(check_one_map(b"").unwrap_err().contains("no msgpack map"));
        assert!(check_one_map(b"\x90").unwrap_err().contains("no msgpack map"));
        assert!(
            check_one_map(b"\x81\xa1a\xc1")
                .unwrap_err()
                .contains("no msgpack")
        );
        assert!(
            check_one_map(b"\xdf\xff\xff\xff\xff")
                .unwrap_err()
                .contains("cut short")
        );
        assert!(
            check_one_map(b"\x80\x80")
                .unwrap_err()
                .contains("1 bytes lie behind its msgpack map of 1 bytes")
        );
    }
}
