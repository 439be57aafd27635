//! `scan = { store = "events", prefix = "u/{user.id}/", limit = 50 }`: the newest entries below a prefix, as texts.
//!
//! Its invariant: it reads at most its limit, in key order, which the writer makes newest first.

use crate::planner::Place;
use crate::{
    Bytes, Describe, Error, Form, Given, Items, Kind, Name, Opened, Opening, PerRow, RequestKind, Rows,
    Source, Stage, Step, Template, Value,
};
use millpond_backends_interface::Port;
use millpond_engines_ordered::{self as ordered, Store};
use serde::Deserialize;
use std::borrow::Cow;

/// Entries that a scan may ask for at most.
const LIMIT_MAX: usize = 10_000;

/// A list of texts, in one row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scan {
    /// The ordered store.
    store: String,
    /// What the keys start with; `{user.FIELD}` stands for the request's value.
    prefix: String,
    /// How many of the newest entries, at most [`LIMIT_MAX`].
    limit: usize,
}

impl Describe for Scan {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        place.check_named("scan.store", &self.store)?;
        if place.request() == RequestKind::Samples {
            let problem = "a request of samples has no user to scan for";
            return Err(place.error("scan", problem, "remove the stage, or set request = \"rank\""));
        }
        let prefix = Template::parse(&self.prefix).map_err(|problem| {
            let hint = "write text with {user.FIELD} in it, as in u/{user.id}/";
            place.error("scan.prefix", problem, hint)
        })?;
        if self.limit == 0 || self.limit > LIMIT_MAX {
            let hint = format!("write a number from 1 to {LIMIT_MAX}");
            return Err(place.error("scan.limit", format!("it is {}", self.limit), hint));
        }
        for field in prefix.fields() {
            place.read(Source::UserText(field.to_owned()));
        }
        Ok(Form {
            kind: Kind::Texts,
            rows: Rows::One,
            per_row: PerRow::Several,
        })
    }

    fn reads(&self) -> Vec<&str> {
        Vec::new()
    }

    fn names(&self) -> Option<Name<'_>> {
        Some(Name {
            key: "scan.store",
            section: "ordered",
            name: &self.store,
        })
    }

    fn open(&self, _: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        Ok(Opened::plain(Scanning {
            store: opening.store(&self.store)?,
            prefix: Template::parse(&self.prefix).map_err(|problem| opening.unfit(problem))?,
            limit: self.limit,
        }))
    }
}

struct Scanning {
    store: Store,
    prefix: Template,
    limit: usize,
}

impl Stage for Scanning {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let text = |field: &str| {
            let at = self.prefix.fields().position(|known| known == field)?;
            let texts = given.value(at).ok()?.bytes().ok()?;
            texts.texts().next().map(Cow::Borrowed)
        };
        let prefix = self.prefix.fill(text).map_err(|field| Error::Missing {
            field: field.to_owned(),
        })?;
        let scan = ordered::Scan {
            start: None,
            end: None,
            prefix: Some(prefix.into_bytes()),
            limit: self.limit,
        };
        let mut texts = Bytes::default();
        let mut not_text = None;
        self.store
            .scan(&scan, &mut |key, value| match std::str::from_utf8(value) {
                Ok(_) => texts.push(value),
                Err(_) => not_text = Some(String::from_utf8_lossy(key).into_owned()),
            });
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
