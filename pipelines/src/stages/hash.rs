//! `hash = { slot = "user", from = "user.id" }`: texts to keys.
//!
//! It looks nothing up. Its invariant: the key of a text is the trainer's, bit for bit.

use crate::planner::Place;
use crate::source::Reference;
use crate::{
    Describe, Error, Form, Given, Items, Kind, Opened, Opening, PerRow, RequestKind, Source, Stage, Step,
    Value,
};
use millpond_backends_interface::Port;
use millpond_engines_features::text_key;
use serde::Deserialize;

/// Keys of texts, by [`key_hash`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as hash = { slot = \"user\", from = \"user.id\" }"
)]
pub struct Hash {
    /// The name space of the keys, the same as in training.
    slot: String,
    /// `user.FIELD`, `items`, `samples.J`, `inputs.NAME`, or a stage that gives texts; the stage before when left out.
    from: Option<String>,
    /// For `user.FIELD`: the text between the values, when they come as one string.
    split: Option<String>,
}

impl Describe for Hash {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let is_field = self.from.as_deref().is_some_and(|from| from.starts_with("user."));
        let from = match &self.from {
            Some(from) => source(from, place)?,
            None => place.from("hash.from", None, &[Kind::Texts])?,
        };
        let per_row = match &self.split {
            None => from.per_row,
            Some(split) if split.is_empty() => {
                let hint = "write what stands between the values, or leave it out";
                return Err(place.error("hash.split", "it is empty", hint));
            }
            Some(_) if is_field => PerRow::Several,
            Some(_) => {
                let from = self.from.as_deref().unwrap_or("the stage before");
                let problem = format!("`{from}` is not split");
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
        self.from.as_deref().into_iter().collect()
    }

    fn follows(&self) -> bool {
        self.from.is_none()
    }

    fn open(&self, _: &str, _: &[Option<Port>], _: &mut Opening<'_>) -> Result<Opened, Error> {
        Ok(Opened::plain(self.clone()))
    }
}

/// The form of what `from` says.
fn source(from: &str, place: &mut Place<'_, '_>) -> Result<Form, Error> {
    let key = "hash.from";
    let is_values = place.request() == RequestKind::Values;
    let reference = Reference::parse(from).and_then(|reference| match reference {
        Reference::Output(stage, _) if !place.has_stage(stage) => Err(Reference::unknown(from)),
        reference => Ok(reference),
    });
    match reference.map_err(|(problem, hint)| place.error(key, problem, hint))? {
        Reference::Stage(_) | Reference::Output(..) => place.take(key, from, Kind::Texts),
        Reference::Request(Source::Input(_)) if is_values || place.is_inner() => {
            place.take(key, from, Kind::Texts)
        }
        Reference::Request(source) if source.request() == place.request() => Ok(place.read(source)),
        Reference::Request(_) => {
            let hint = match place.request() {
                RequestKind::Rank => "write user.FIELD or items, or set request = \"samples\"",
                RequestKind::Samples => "write samples.J, or set request = \"rank\"",
                RequestKind::Values => "write inputs.NAME, or set request = \"rank\" or \"samples\"",
            };
            let problem = format!("`{from}` is not in the request of this pipeline");
            Err(place.error(key, problem, hint))
        }
    }
}

impl Stage for Hash {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let from = given.value(0)?;
        let texts = from.bytes()?;
        let value = match &self.split {
            None => from.with(Items::Keys(
                texts.iter().map(|text| text_key(&self.slot, text)).collect(),
            )),
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
    text_key(slot, value)
}
