//! `features.lookup`: rows of one table, or of several in one call.
//!
//! In: `{table, keys: bin u64[n], at_version?, pool?: "none"|"sum"|"mean", offsets?: bin u32[bags+1]}` or
//! `{lookups: [ … ]}`. Out: `{version, dim, found: bin bitmap ⌈n/8⌉, values: bin f32[n or bags × dim]}` or
//! `{lookups: [ … ]}`. Its invariant: offsets, where given, are ascending and end at the number of keys.

use crate::frame::{Encoder, FieldError, Fields, Map, Reserved, Value};
use std::borrow::Cow;

/// How the rows of a bag become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// One row a key.
    None,
    /// Their sum.
    Sum,
    /// Their sum over the number found.
    Mean,
}

/// One table's part of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup<'a> {
    /// The table's name.
    pub table: Cow<'a, str>,
    /// Keys, in the order of the answer.
    pub keys: Vec<u64>,
    /// Refuse to answer from another version.
    pub at_version: Option<u64>,
    /// What to do with each bag.
    pub pool: Pool,
    /// Where bags begin and end; empty without pooling.
    pub offsets: Vec<u32>,
}

/// A decoded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// One entry a table.
    pub lookups: Vec<Lookup<'a>>,
    /// Whether the call used the form for many tables, and so the answer does.
    pub many: bool,
    /// Binary blocks of a JSON answer as base64.
    pub base64: bool,
}

impl<'a> Call<'a> {
    /// Reads the payload's map.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'a>) -> Result<(Self, Reserved<'a>), FieldError> {
        let (mut fields, reserved) = Fields::root(map)?;
        let base64 = fields.base64();
        if !fields.has("lookups") {
            let lookup = Lookup::decode(fields)?;
            return Ok((
                Call {
                    lookups: vec![lookup],
                    many: false,
                    base64,
                },
                reserved,
            ));
        }
        let mut lookups = Vec::new();
        for (at, item) in fields
            .array("lookups", "an array of maps")?
            .into_iter()
            .enumerate()
        {
            let path = format!("lookups[{at}]");
            match item {
                Value::Map(map) => lookups.push(Lookup::decode(fields.nested(map, &path))?),
                other => return Err(FieldError::invalid(path, other.kind(), "a map")),
            }
        }
        fields.finish()?;
        Ok((
            Call {
                lookups,
                many: true,
                base64,
            },
            reserved,
        ))
    }

    /// Writes the payload's map.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        if !self.many {
            return self.lookups.iter().take(1).for_each(|lookup| lookup.encode(out));
        }
        out.map(1);
        out.key("lookups");
        out.array(self.lookups.len());
        self.lookups.iter().for_each(|lookup| lookup.encode(out));
        out.end_array();
        out.end_map();
    }
}

impl<'a> Lookup<'a> {
    fn decode(mut fields: Fields<'a>) -> Result<Self, FieldError> {
        let table = fields.text("table")?;
        let keys = fields.required("keys", "u64 values")?;
        let keys = fields.as_u64s("keys", keys)?;
        let at_version = fields.optional_uint("at_version", u64::MAX)?;
        let pool = match fields.optional_text("pool")?.as_deref() {
            None | Some("none") => Pool::None,
            Some("sum") => Pool::Sum,
            Some("mean") => Pool::Mean,
            Some(other) => {
                return Err(FieldError::invalid(
                    fields.at("pool"),
                    format!("{other:?}"),
                    "\"none\", \"sum\" or \"mean\"",
                ));
            }
        };
        let offsets = match fields.optional("offsets") {
            Some(value) => fields.as_u32s("offsets", value)?,
            None => Vec::new(),
        };
        check_offsets(&fields, pool, &offsets, keys.len())?;
        fields.finish()?;
        Ok(Lookup {
            table,
            keys,
            at_version,
            pool,
            offsets,
        })
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        let pooled = self.pool != Pool::None;
        out.map(2 + usize::from(self.at_version.is_some()) + if pooled { 2 } else { 0 });
        out.key("table");
        out.text(&self.table);
        out.key("keys");
        out.u64_block(&self.keys);
        if let Some(version) = self.at_version {
            out.key("at_version");
            out.uint(version);
        }
        if pooled {
            out.key("pool");
            out.text(if self.pool == Pool::Sum { "sum" } else { "mean" });
            out.key("offsets");
            out.u32_block(&self.offsets);
        }
        out.end_map();
    }
}

fn check_offsets(fields: &Fields<'_>, pool: Pool, offsets: &[u32], keys: usize) -> Result<(), FieldError> {
    let bad = |found: String| {
        let expected = format!("ascending offsets from 0 to the number of keys ({keys})");
        Err(FieldError::invalid(fields.at("offsets"), found, expected))
    };
    match (pool, offsets) {
        (Pool::None, []) => Ok(()),
        (Pool::None, _) => Err(FieldError::invalid(
            fields.at("offsets"),
            "given",
            "no offsets without pool \"sum\" or \"mean\"",
        )),
        (_, []) => Err(FieldError::Missing {
            key: fields.at("offsets"),
            expected: "u32 offsets of the bags to pool".into(),
        }),
        (_, [first, .., last]) if *first != 0 || *last as usize != keys => bad(format!("{first} … {last}")),
        (_, [only]) if *only != 0 || keys != 0 => bad(format!("[{only}]")),
        (_, offsets) => match offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(at) => bad(format!("descending at {}", at + 1)),
            None => Ok(()),
        },
    }
}

/// One table's part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The version that answered.
    pub version: u64,
    /// Floats a row.
    pub dim: usize,
    /// Bit i of byte i / 8 (lowest first) is set where key i was found.
    pub found: Vec<u8>,
    /// n × dim (or bags × dim) floats; zeros where nothing was found.
    pub values: Vec<f32>,
}

/// Writes the answer, in the call's form.
pub fn encode_answer(out: &mut Encoder<'_>, rows: &[Rows], many: bool) {
    if !many {
        return rows.iter().take(1).for_each(|rows| rows.encode(out));
    }
    out.map(1);
    out.key("lookups");
    out.array(rows.len());
    rows.iter().for_each(|rows| rows.encode(out));
    out.end_array();
    out.end_map();
}

/// Reads the answer in either form: one [`Rows`] a table, in the call's order.
///
/// # Errors
/// [`FieldError`] naming the key.
pub fn decode_answer(map: Map<'_>) -> Result<Vec<Rows>, FieldError> {
    let (mut fields, _) = Fields::root(map)?;
    if !fields.has("lookups") {
        return Ok(vec![Rows::decode_fields(fields)?]);
    }
    let items = fields.array("lookups", "an array of maps")?;
    let decode = |(at, item)| match item {
        Value::Map(map) => Rows::decode_fields(fields.nested(map, &format!("lookups[{at}]"))),
        other => Err(fields.invalid(&format!("lookups[{at}]"), &other, "a map")),
    };
    items.into_iter().enumerate().map(decode).collect()
}

impl Rows {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.map(4);
        out.key("version");
        out.uint(self.version);
        out.key("dim");
        out.uint(self.dim as u64);
        out.key("found");
        out.bytes(&self.found);
        out.key("values");
        out.f32_block(&self.values);
        out.end_map();
    }

    /// Reads the answer to a call for one table.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'_>) -> Result<Rows, FieldError> {
        let (fields, _) = Fields::root(map)?;
        Rows::decode_fields(fields)
    }

    fn decode_fields(mut fields: Fields<'_>) -> Result<Rows, FieldError> {
        let version = fields.optional_uint("version", u64::MAX)?.unwrap_or(0);
        let dim = fields.optional_uint("dim", u64::from(u32::MAX))?.unwrap_or(0) as usize;
        let found = fields.required("found", "a bitmap")?;
        let found = fields.as_bytes("found", found)?.into_owned();
        let values = fields.required("values", "f32 values")?;
        let number = |value: &Value<'_>| crate::infer::number(value).map(|value| value as f32);
        let values = fields.as_numbers("values", values, "f32", number, f32::from_le_bytes)?;
        Ok(Rows {
            version,
            dim,
            found,
            values,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::frame::{Encoding, decode_map};

    fn check(json: &str, expected: &str) {
        let found = match Call::decode(decode_map(Encoding::Json, json.as_bytes()).unwrap()) {
            Ok((call, _)) => format!("{call:?}"),
            Err(error) => error.to_string(),
        };
        assert!(
            found.contains(expected),
            "{found:?} does not contain {expected:?}"
        );
    }

    #[test]
    fn calls_are_checked() {
        check(r#"{"table":"t","keys":[1]}"#, "many: false");
        check(
            r#"{"lookups":[{"table":"t","keys":[1]},{"table":"u","keys":[]}]}"#,
            "many: true",
        );
        check(
            r#"{"lookups":[{"table":"t"}]}"#,
            "key \"lookups[0].keys\" is missing",
        );
        check(r#"{"table":"t","keys":[1],"kezs":2}"#, "\"kezs\" is unknown");
        check(r#"{"table":"t","keys":[1],"pool":"max"}"#, "\"pool\" is \"max\"");
        check(
            r#"{"table":"t","keys":[1],"pool":"sum"}"#,
            "\"offsets\" is missing",
        );
        check(
            r#"{"table":"t","keys":[1,2],"pool":"sum","offsets":[0,1]}"#,
            "0 … 1; expected ascending",
        );
        check(
            r#"{"table":"t","keys":[1,2],"pool":"sum","offsets":[0,2,1,2]}"#,
            "descending at 2",
        );
        check(
            r#"{"table":"t","keys":[1,2],"pool":"mean","offsets":[0,0,2]}"#,
            "pool: Mean",
        );
    }

    #[test]
    fn both_directions_round_trip() {
        let lookup = Lookup {
            table: "t".into(),
            keys: vec![1, u64::MAX],
            at_version: Some(3),
            pool: Pool::Sum,
            offsets: vec![0, 2],
        };
        for many in [false, true] {
            let call = Call {
                lookups: vec![lookup.clone()],
                many,
                base64: false,
            };
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                let mut bytes = Vec::new();
                call.encode(&mut Encoder::new(&mut bytes, encoding, false));
                assert_eq!(
                    Call::decode(decode_map(encoding, &bytes).unwrap()).unwrap().0,
                    call
                );
            }
        }
        let rows = Rows {
            version: 2,
            dim: 2,
            found: vec![3],
            values: vec![0.5, 1.0, -2.0, 3.5],
        };
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            encode_answer(
                &mut Encoder::new(&mut bytes, encoding, false),
                std::slice::from_ref(&rows),
                false,
            );
            assert_eq!(Rows::decode(decode_map(encoding, &bytes).unwrap()).unwrap(), rows);
            assert_eq!(
                decode_answer(decode_map(encoding, &bytes).unwrap()).unwrap(),
                std::slice::from_ref(&rows)
            );
            let both = [
                rows.clone(),
                Rows {
                    version: 9,
                    ..rows.clone()
                },
            ];
            bytes.clear();
            encode_answer(&mut Encoder::new(&mut bytes, encoding, false), &both, true);
            assert_eq!(
                decode_answer(decode_map(encoding, &bytes).unwrap()).unwrap(),
                both
            );
        }
    }

    #[test]
    fn answers_that_do_not_fit_are_named() {
        for (json, expected) in [
            (
                r#"{"lookups": [1]}"#,
                "key \"lookups[0]\" is an integer; expected a map",
            ),
            (
                r#"{"lookups": [{"found": []}]}"#,
                "key \"lookups[0].values\" is missing",
            ),
        ] {
            let error = decode_answer(decode_map(Encoding::Json, json.as_bytes()).unwrap())
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
