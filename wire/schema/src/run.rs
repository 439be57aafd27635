//! `run`: named values through a pipeline.
//!
//! A value is a tensor, strings, a list of tensors, or one of these with rows of any number of items. It knows no pipeline. Its
//! invariant: offsets begin with 0, never fall, and end with the number of items.

use crate::Field;
use crate::declare::{Slot, fill, other, refuse, schema, take};
use crate::field::{List, Named, Numbers, OrDefault, Text};
use crate::payload::{Encoder, PayloadError, Read, Reader, Token};
use millpond_tensor::{Bytes, Tensor};

/// Items that a pipeline takes or gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Items {
    /// Texts, or any bytes.
    Strings(Bytes),
    /// An item a row of the tensor.
    Tensor(Tensor),
    /// A tensor an item.
    Tensors(Vec<Tensor>),
}

/// What a pipeline takes or gives under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The items of all rows, one after the other.
    pub items: Items,
    /// Row `i` has items `offsets[i]..offsets[i + 1]`; without them a row has one item.
    pub offsets: Option<Vec<u32>>,
}

const EXPECTED: &str = "text, bytes, an array of them, a map {shape, type, data}, an array of such maps, or a map {items, offsets}";

impl Items {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Items::Strings(strings) => strings.len(),
            Items::Tensor(tensor) => tensor.rows(),
            Items::Tensors(tensors) => tensors.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn one(reader: &mut Reader<'_>) -> Read<Items> {
        let mut strings = Bytes::default();
        strings.push(&reader.bytes()?);
        Ok(Items::Strings(strings))
    }
}

/// Items alone, as they stand under `items`.
impl Field for Items {
    type Of<'a> = Items;

    fn notation() -> String {
        "items".to_owned()
    }

    fn expected() -> String {
        EXPECTED.to_owned()
    }

    fn read(reader: &mut Reader<'_>) -> Read<Items> {
        let mut ahead = reader.clone();
        match ahead.token()? {
            Token::Text(_) | Token::Bytes(_) => Items::one(reader),
            Token::Map(_) => Tensor::read(reader).map(Items::Tensor),
            Token::Array(0) => reader
                .strings(&mut |_| ())
                .map(|()| Items::Strings(Bytes::default())),
            Token::Array(_) => match ahead.token()? {
                Token::Map(_) => reader.array("an array", Tensor::read).map(Items::Tensors),
                Token::UInt(_) => Items::one(reader),
                _ => {
                    let mut strings = Bytes::default();
                    reader.strings(&mut |string| strings.push(string))?;
                    Ok(Items::Strings(strings))
                }
            },
            other => Err(other.is_not(EXPECTED)),
        }
    }

    fn write(items: &Items, out: &mut Encoder<'_>) {
        match items {
            Items::Strings(strings) => out.items(strings.iter(), |out, string| out.string(string)),
            Items::Tensor(tensor) => Tensor::write(tensor, out),
            Items::Tensors(tensors) => out.items(tensors.iter(), |out, tensor| Tensor::write(tensor, out)),
        }
    }

    fn own(items: Items) -> Items {
        items
    }
}

impl Field for Value {
    type Of<'a> = Value;

    fn notation() -> String {
        "value".to_owned()
    }

    fn expected() -> String {
        EXPECTED.to_owned()
    }

    fn read(reader: &mut Reader<'_>) -> Read<Value> {
        if !matches!(reader.clone().token()?, Token::Map(_)) || !reader.has("offsets")? {
            let items = Items::read(reader)?;
            return Ok(Value { items, offsets: None });
        }
        let (mut items, mut offsets) = (Slot::Unseen, Slot::Unseen);
        let mut unknown = None;
        reader.map("a map {items, offsets}", |reader, key| match key {
            b"items" => fill::<Items>(&mut items, reader, "items"),
            b"offsets" => fill::<Numbers<u32>>(&mut offsets, reader, "offsets"),
            _ => other(reader, key, &mut unknown),
        })?;
        let items = take::<Items>(items, "items")?;
        let offsets = take::<Numbers<u32>>(offsets, "offsets")?;
        let is_whole = offsets.first() == Some(&0)
            && offsets.last().map(|end| *end as usize) == Some(items.len())
            && offsets.is_sorted();
        if !is_whole {
            let expected = format!(
                "0, then no number below the one before, the last one {}",
                items.len()
            );
            return Err(PayloadError::invalid("no offsets of these items", expected).under("offsets"));
        }
        match unknown {
            None => Ok(Value {
                items,
                offsets: Some(offsets),
            }),
            Some(key) => Err(refuse(key, &["items", "offsets"])),
        }
    }

    fn write(value: &Value, out: &mut Encoder<'_>) {
        let Some(offsets) = &value.offsets else {
            return Items::write(&value.items, out);
        };
        out.map(|out| {
            out.key("items");
            Items::write(&value.items, out);
            out.key("offsets");
            <Numbers<u32>>::write(offsets, out);
        });
    }

    fn own(value: Value) -> Value {
        value
    }
}

schema! {
    /// A call.
    call Call {
        /// The pipeline.
        pipeline: Text,
        /// Values by the names that the pipeline reads: text or bytes, an array of them, {shape, type, data}, an array of such maps, or
        /// {items, offsets} where a row has any number of items.
        inputs: Named<Value>,
        /// Outputs wanted; all of the pipeline when absent.
        outputs: OrDefault<List<Text>>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// Values by the names of the pipeline's outputs; keys of tables are tensors of i64 with the same bits.
        outputs: Named<Value>,
        /// Stages that had nothing to do, because of a filter or for want of what they take.
        skipped: OrDefault<List<Text>>,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::payload::{Encoding, Payload};

    fn call(json: &str) -> Result<Call<'static>, String> {
        let payload = Payload::new(Encoding::Json, json.as_bytes()).unwrap();
        let decoded = Call::decode(&payload).map_err(|error| error.to_string());
        Ok(Call::own(decoded?.0))
    }

    /// What stands under `x`, read in JSON, and again from what was written in both encodings.
    fn check(json: &str, items: Items, offsets: Option<&[u32]>) {
        let read = call(&format!(r#"{{"pipeline": "p", "inputs": {{"x": {json}}}}}"#)).unwrap();
        let offsets = offsets.map(<[u32]>::to_vec);
        assert_eq!(read.inputs[0].1, Value { items, offsets }, "{json}");
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            Call::write(&read, &mut Encoder::new(&mut bytes, encoding, false));
            let payload = Payload::new(encoding, &bytes).unwrap();
            assert_eq!(Call::own(Call::decode(&payload).unwrap().0), read, "{json}");
        }
    }

    fn strings(strings: &[&str]) -> Items {
        Items::Strings(strings.iter().collect())
    }

    #[test]
    fn values_have_several_forms() {
        check(r#""page""#, strings(&["page"]), None);
        check("[112, 97]", strings(&["pa"]), None);
        check(r#"["a", [98]]"#, strings(&["a", "b"]), None);
        check("[]", strings(&[]), None);
        let tensor = |values: Vec<f32>| Tensor::new(vec![values.len()], values).unwrap();
        let json = r#"{"shape": [2], "type": "f32", "data": [1, 2]}"#;
        check(json, Items::Tensor(tensor(vec![1.0, 2.0])), None);
        let two = Items::Tensors(vec![tensor(vec![1.0, 2.0]); 2]);
        check(&format!("[{json}, {json}]"), two.clone(), None);
        let rows = format!(r#"{{"offsets": [0, 0, 2], "items": [{json}, {json}]}}"#);
        check(&rows, two, Some(&[0, 0, 2]));
        check(
            r#"{"items": ["a", "b"], "offsets": [0, 2]}"#,
            strings(&["a", "b"]),
            Some(&[0, 2]),
        );
    }

    #[test]
    fn values_that_are_none_are_named() {
        let check = |json: &str, expected: &str| {
            let refused = call(&format!(r#"{{"pipeline": "p", "inputs": {{"x": {json}}}}}"#)).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        };
        check("1", "\"inputs.x\" is an integer; expected text, bytes");
        check("null", "\"inputs.x\" is null");
        check(
            r#"{"items": ["a"], "offsets": [0, 2]}"#,
            "\"inputs.x.offsets\" is no offsets of these items; expected 0, then",
        );
        check(r#"{"items": ["a"], "offsets": []}"#, "\"inputs.x.offsets\"");
        check(r#"{"items": ["a"], "offsets": [0, 1], "rows": 1}"#, "rows");
        check(r#"{"offsets": [0]}"#, "\"inputs.x.items\" is missing");
        check(r#"{"shape": [1], "type": "f32"}"#, "\"inputs.x.data\" is missing");
        check(r#"["a", {}]"#, "\"inputs.x");
        assert!(
            call(r#"{"inputs": {}}"#)
                .unwrap_err()
                .contains("\"pipeline\" is missing")
        );
        assert!(
            call(r#"{"pipeline": "p", "inputs": {}, "x": 1}"#)
                .unwrap_err()
                .contains("\"x\" is unknown")
        );
    }
}
