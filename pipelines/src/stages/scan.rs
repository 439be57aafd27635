//! `scan = { store = "events", prefix = "u/{user.id}/", limit = 50 }`: the newest entries below a prefix, as texts.
//!
//! Its invariant: it reads at most its limit, in key order, which the writer makes newest first.

use super::by_item::at_stage;
use crate::planner::Place;
use crate::source::{Part, parts};
use crate::{
    Bytes, Describe, Error, Form, Given, Items, Kind, Name, Opened, Opening, PerRow, RequestKind, Rows,
    Source, Stage, Step, Template, Value,
};
use millpond_backends_interface::Port;
use millpond_engines_ordered::{self as ordered, Store};
use serde::Deserialize;

/// Entries that a scan may ask for at most.
const LIMIT_MAX: usize = 10_000;

/// A list of texts, in one row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as scan = { store = \"events\", prefix = \"u/{user.id}/\", limit = 50 }"
)]
pub struct Scan {
    /// The ordered store.
    store: String,
    /// What the keys start with; `{user.FIELD}` and `{inputs.NAME}` stand for the request's texts.
    prefix: String,
    /// How many of the newest entries, at most [`LIMIT_MAX`].
    limit: usize,
}

impl Describe for Scan {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        place.check_named("scan.store", &self.store)?;
        if place.request() == RequestKind::Samples && !place.is_inner() {
            let problem = "a request of samples has no user to scan for";
            return Err(place.error("scan", problem, "remove the stage, or set request = \"rank\""));
        }
        let prefix = Template::parse(&self.prefix).map_err(|problem| {
            let hint = "write text with {user.FIELD} or {inputs.NAME} in it, as in u/{user.id}/";
            place.error("scan.prefix", problem, hint)
        })?;
        if self.limit == 0 || self.limit > LIMIT_MAX {
            let hint = format!("write a number from 1 to {LIMIT_MAX}");
            return Err(place.error("scan.limit", format!("it is {}", self.limit), hint));
        }
        for field in prefix.fields() {
            let Some(of_user) = field.strip_prefix("user.") else {
                place.take("scan.prefix", field, Kind::Texts)?;
                continue;
            };
            let source = Source::UserText(of_user.to_owned());
            if source.request() != place.request() {
                let problem = format!("`{field}` is not in the request of this pipeline");
                return Err(place.error(
                    "scan.prefix",
                    problem,
                    "write {inputs.NAME}, as in u/{inputs.user}/",
                ));
            }
            place.read(source);
        }
        Ok(Form {
            kind: Kind::Texts,
            rows: Rows::One,
            per_row: PerRow::Several,
        })
    }

    fn reads(&self) -> Vec<&str> {
        let parts = parts(&self.prefix).unwrap_or_default().into_iter();
        parts
            .filter_map(|part| match part {
                Part::Field(field) => Some(field),
                Part::Text(_) => None,
            })
            .collect()
    }

    fn names(&self) -> Option<Name<'_>> {
        Some(Name {
            key: "scan.store",
            section: "ordered",
            name: &self.store,
        })
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        Ok(Opened::plain(Scanning {
            name: stage.to_owned(),
            store: opening.store(&self.store)?,
            prefix: Template::parse(&self.prefix).map_err(|problem| opening.unfit(problem))?,
            limit: self.limit,
        }))
    }
}

struct Scanning {
    /// What messages call the stage.
    name: String,
    store: Store,
    prefix: Template,
    limit: usize,
}

impl Stage for Scanning {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let fields = self.prefix.fields().zip(given.values());
        let texts = fields.map(|(field, value)| self.one(field, value));
        let prefix = self.prefix.fill(texts.collect::<Result<Vec<_>, _>>()?);
        let scan = ordered::Scan {
            prefix: Some(prefix),
            limit: self.limit,
            ..ordered::Scan::default()
        };
        let mut texts = Bytes::default();
        let mut not_text = None;
        let mut visit = |key: &[u8], value: &[u8]| match std::str::from_utf8(value) {
            Ok(_) => texts.push(value),
            Err(_) => not_text = Some(String::from_utf8_lossy(key).into_owned()),
        };
        self.store.read_whole(|store| store.scan(&scan, &mut visit))?;
        match not_text {
            None => Ok(Step::Value(Value::row(Items::Bytes(texts)))),
            Some(key) => {
                let problem = format!(
                    "the stored value under {key:?} is not text; the pipeline's scan reads text values"
                );
                Err(Error::Internal { problem })
            }
        }
    }
}

impl Scanning {
    /// The text of a field. A user's is one; an input may be any number of them.
    fn one<'v>(&self, field: &str, value: &'v Value) -> Result<&'v [u8], Error> {
        let texts = value.bytes()?;
        match (texts.iter().next(), texts.len()) {
            (Some(text), 1) => Ok(text),
            (_, found) => {
                let problem = format!("`{field}` is {found} texts; its prefix takes one");
                Err(at_stage(&self.name, &problem))
            }
        }
    }
}
