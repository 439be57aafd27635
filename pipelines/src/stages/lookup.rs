//! `lookup = { table = "embeddings", keys = "history", pool = "mean" }`: keys to rows of a table, pooled where a row has several.
//! Keys that are not in the table give zeros.
//!
//! Its invariant: as many rows come out as went in.

use super::bounds::floats;
use crate::planner::Place;
use crate::{
    Describe, Error, Form, Given, Items, Kind, Name, Opened, Opening, PerRow, RequestKind, Stage, Step, Value,
};
use millpond_backends_interface::Port;
use millpond_engines_features::{self as features, Table};
use millpond_tensor::Tensor;
use serde::Deserialize;
use std::sync::Arc;

/// Rows of floats.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as lookup = { table = \"embeddings\", keys = \"history\" }"
)]
pub struct Lookup {
    /// The feature table.
    table: String,
    /// The stage whose keys are looked up; the one before when left out.
    keys: Option<String>,
    /// How several keys of one row become one row of floats.
    #[serde(default)]
    pool: Pool,
}

/// How the rows of several keys become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Pool {
    /// They do not: a row has one key.
    #[default]
    None,
    /// Their sum.
    Sum,
    /// Their sum divided by how many were found.
    Mean,
    /// The largest number at each place.
    Max,
}

impl Describe for Lookup {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        place.check_named("lookup.table", &self.table)?;
        let keys = place.from("lookup.keys", self.keys.as_deref(), &[Kind::Keys])?;
        let is_values = place.request() == RequestKind::Values;
        if self.pool == Pool::None && keys.per_row == PerRow::Several && !is_values {
            let from = self.keys.as_deref().unwrap_or("the stage before");
            let problem = format!("`{from}` gives several keys a row and none pools them");
            return Err(place.error(
                "lookup.pool",
                problem,
                "write pool = \"mean\", \"sum\" or \"max\"",
            ));
        }
        Ok(Form {
            kind: Kind::Floats,
            rows: keys.rows,
            per_row: match self.pool {
                Pool::None if is_values => keys.per_row,
                _ => PerRow::One,
            },
        })
    }

    fn reads(&self) -> Vec<&str> {
        self.keys.as_deref().into_iter().collect()
    }

    fn follows(&self) -> bool {
        self.keys.is_none()
    }

    fn names(&self) -> Option<Name<'_>> {
        Some(Name {
            key: "lookup.table",
            section: "features",
            name: &self.table,
        })
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let table = opening.table(&self.table)?;
        let pool = match self.pool {
            Pool::None => None,
            Pool::Sum => Some(features::Pool::Sum),
            Pool::Mean => Some(features::Pool::Mean),
            Pool::Max => Some(features::Pool::Max),
        };
        let name = stage.to_owned();
        let width = Some(table.dim());
        Ok(Opened::floats(stage, width, LookingUp { name, table, pool }))
    }
}

struct LookingUp {
    name: String,
    table: Arc<Table>,
    pool: Option<features::Pool>,
}

impl Stage for LookingUp {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let table = &self.table;
        let value = given.value(0)?;
        let keys = value.keys()?;
        let dim = table.dim();
        let mut found = vec![0; keys.len().div_ceil(8)];
        let internal = |problem: String| Error::Internal { problem };
        let (rows, values) = match (self.pool, &value.offsets) {
            (Some(pool), Some(offsets)) => {
                let rows = offsets.len().saturating_sub(1);
                let mut values = vec![0.0_f32; floats(&self.name, rows, dim)?];
                let begun = table.begin();
                let pooled = table.lookup_pooled(keys, offsets, pool, &mut values, &mut found);
                let hits = pooled.map_err(|error| internal(error.to_string()))?;
                table.count(begun, keys.len(), hits);
                (rows, values)
            }
            (None, Some(_)) if keys.len() != 1 && given.request_rows().is_some() => {
                let problem = format!(
                    "stage {:?} got {} keys for its one row; give one value, or set pool = \"mean\"",
                    self.name,
                    keys.len()
                );
                return Err(Error::Request { problem });
            }
            _ => {
                let mut values = vec![0.0_f32; floats(&self.name, keys.len(), dim)?];
                let begun = table.begin();
                let hits = table.lookup(keys, &mut values, &mut found);
                table.count(begun, keys.len(), hits);
                (keys.len(), values)
            }
        };
        // The client's answer names no file of this machine.
        let cut = |_| {
            internal(format!(
                "a file of table {:?} was cut while it was served",
                table.name()
            ))
        };
        table.check_whole().map_err(cut)?;
        let tensor = Tensor::new(vec![rows, dim], values).map_err(|error| internal(error.to_string()))?;
        let items = Items::Tensor(tensor);
        // Of a request of values a row may have any number of keys, and keeps as many rows of floats.
        Ok(Step::Value(match (self.pool, given.request_rows()) {
            (None, None) => value.with(items),
            _ => Value::rows(items),
        }))
    }
}
