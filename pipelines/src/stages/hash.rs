//! `hash = { slot = "user", from = "user.id" }`: texts to keys.
//!
//! It looks nothing up. Its invariant: the key of a text is the trainer's, bit for bit.

use crate::planner::Place;
use crate::source::Reference;
use crate::stage::Opening;
use crate::{
    Describe, Error, Form, Given, Items, Kind, Opened, PerRow, RequestKind, Source, Stage, Step, Value,
};
use millpond_backends_interface::Port;
use serde::Deserialize;

/// Keys of texts, by [`key_hash`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hash {
    /// The name space of the keys, the same as in training.
    slot: String,
    /// `user.FIELD`, `items`, `samples.J`, or the name of a stage that gives texts.
    from: String,
    /// For `user.FIELD`: the text between the values, when they come as one string.
    split: Option<String>,
}

impl Describe for Hash {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let key = "hash.from";
        let reference =
            Reference::parse(&self.from).map_err(|(problem, hint)| place.error(key, problem, hint))?;
        let is_field = matches!(reference, Reference::Request(Source::User(_)));
        let from = match reference {
            Reference::Stage(other) => place.take(key, other, Kind::Texts)?,
            Reference::Request(source) if source.request() == place.request() => place.read(source),
            Reference::Request(_) => {
                let hint = match place.request() {
                    RequestKind::Rank => "write user.FIELD or items, or set request = \"samples\"",
                    RequestKind::Samples => "write samples.J, or set request = \"rank\"",
                };
                let problem = format!("`{}` is not in the request of this pipeline", self.from);
                return Err(place.error(key, problem, hint));
            }
        };
        let per_row = match &self.split {
            None => from.per_row,
            Some(split) if split.is_empty() => {
                let hint = "write what stands between the values, or leave it out";
                return Err(place.error("hash.split", "it is empty", hint));
            }
            Some(_) if is_field => PerRow::Several,
            Some(_) => {
                let problem = format!("`{}` is not split", self.from);
                let hint = "leave it out; only user.FIELD can be split";
                return Err(place.error("hash.split", problem, hint));
            }
        };
        Ok(Form {
            kind: Kind::Keys,
            per_row,
            ..from
        })
    }

    fn reads(&self) -> Vec<&str> {
        vec![&self.from]
    }

    fn open(&self, _: &str, _: &[Option<Port>], _: &mut Opening<'_>) -> Result<Opened, Error> {
        Ok(Opened::plain(self.clone()))
    }
}

impl Stage for Hash {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let from = given.value(0)?;
        let texts = from.bytes()?;
        let value = match &self.split {
            None => Value {
                items: Items::Keys(texts.iter().map(|text| hash(&self.slot, text)).collect()),
                offsets: from.offsets.clone(),
            },
            // A field of the user is one row.
            Some(split) => {
                let pieces = texts.texts().flat_map(|text| text.split(split.as_str()));
                let pieces = pieces.filter(|piece| !piece.is_empty());
                Value::row(Items::Keys(
                    pieces.map(|piece| key_hash(&self.slot, piece)).collect(),
                ))
            }
        };
        Ok(Step::Value(value))
    }
}

/// The key of `value` in `slot`: FNV-1a, 64 bits, over the bytes of `slot`, one zero
/// byte, and the bytes of `value`. Trainers compute the same.
///
/// ```
/// use millpond_pipelines::key_hash;
/// assert_eq!(key_hash("", ""), 0xaf63_bd4c_8601_b7df); // FNV-1a of one zero byte
/// assert_ne!(key_hash("user", "1"), key_hash("film", "1"));
/// ```
pub fn key_hash(slot: &str, value: &str) -> u64 {
    hash(slot, value.as_bytes())
}

fn hash(slot: &str, value: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = slot
        .bytes()
        .chain(std::iter::once(0))
        .chain(value.iter().copied());
    bytes.fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}
