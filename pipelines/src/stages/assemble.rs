//! `assemble = { columns = ["user_vec", "item_vec"] }`: columns side by side in one matrix of f32. A column of one row is repeated.
//!
//! Its invariant: columns keep the order of the pipeline, because the model knows them by position.

use super::bounds;
use crate::planner::Place;
use crate::{Describe, Error, Form, Given, Items, Kind, Opened, Opening, PerRow, Rows, Stage, Step, Value};
use millpond_backends_interface::Port;
use millpond_tensor::{ElementType, Tensor};
use serde::Deserialize;

/// One row of floats after the other, side by side.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as assemble = { columns = [\"user_vec\", \"item_vec\"] }"
)]
pub struct Assemble {
    /// Stages that give floats, in the model's order.
    columns: Vec<String>,
}

impl Describe for Assemble {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let key = "assemble.columns";
        if self.columns.is_empty() {
            return Err(place.error(key, "it is empty", "name at least one stage that gives floats"));
        }
        let mut rows = Rows::One;
        for column in &self.columns {
            if place.take(key, column, Kind::Floats)?.rows == Rows::Each {
                rows = Rows::Each;
            }
        }
        Ok(Form {
            kind: Kind::Floats,
            rows,
            per_row: PerRow::One,
        })
    }

    fn reads(&self) -> Vec<&str> {
        self.columns.iter().map(String::as_str).collect()
    }

    fn open(&self, stage: &str, given: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let is_other = |port: &&Port| port.element_type != ElementType::F32;
        if let Some(other) = given.iter().flatten().find(is_other) {
            return Err(opening.unfit(format!("stage {stage:?} takes floats, not {other}")));
        }
        let widths = given.iter().map(|port| port.as_ref()?.row_len());
        let name = stage.to_owned();
        Ok(Opened::floats(stage, widths.sum(), Assembling { name }))
    }
}

struct Assembling {
    name: String,
}

impl Stage for Assembling {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let rows = given.rows();
        let mut offsets = None;
        let mut columns = Vec::with_capacity(given.values().count());
        for value in given.values() {
            let tensor = value.tensor()?;
            let floats = tensor.f32().ok_or_else(|| self.not_floats(tensor))?;
            let dim = floats.len() / tensor.rows().max(1);
            match tensor.rows() {
                has if has == rows => {
                    offsets = offsets.or_else(|| value.offsets.clone());
                    columns.push((dim, dim, floats));
                }
                1 => columns.push((0, dim, floats)),
                _ if given.request_rows().is_some() => {
                    return Err(Error::not_given("one row, or one an item"));
                }
                has => {
                    let problem = format!(
                        "stage {:?} gets columns of {rows} and of {has} items; give all as many, or one",
                        self.name
                    );
                    return Err(Error::Request { problem });
                }
            }
        }
        let width = columns.iter().map(|(_, dim, _)| dim).sum();
        let mut values = Vec::with_capacity(bounds::floats(&self.name, rows, width)?);
        for row in 0..rows {
            for (step, dim, column) in &columns {
                let from = row * step;
                values.extend_from_slice(&column[from..from + dim]);
            }
        }
        let floats = Tensor::new(vec![rows, width], values);
        let floats = floats.map_err(|error| Error::Internal {
            problem: error.to_string(),
        })?;
        let items = Items::Tensor(floats);
        Ok(Step::Value(Value { items, offsets }))
    }
}

impl Assembling {
    /// The plan knows the types of models and tables, and not those of a request's values.
    fn not_floats(&self, found: &Tensor) -> Error {
        let (element_type, shape) = (found.element_type(), found.shape());
        let problem = format!(
            "stage {:?} takes f32, and this request gives it {element_type}{shape:?}",
            self.name
        );
        Error::Request { problem }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::stage::Slot;

    #[test]
    fn one_row_columns_are_repeated() {
        let column = |shape: [usize; 2], floats: Vec<f32>| {
            let tensor = Tensor::new(shape.to_vec(), floats).unwrap();
            Slot::of(Value::rows(Items::Tensor(tensor)))
        };
        let slots = [
            column([1, 2], vec![1.0, 2.0]),
            column([3, 1], vec![7.0, 8.0, 9.0]),
        ];
        let run = |takes: &[usize], rows| {
            let name = "x".to_owned();
            Assembling { name }.run(&Given::new(&slots, takes, rows))
        };
        let Ok(Step::Value(value)) = run(&[0, 1], Some(3)) else {
            panic!()
        };
        let tensor = value.tensor().unwrap();
        assert_eq!(tensor.shape(), [3, 3]);
        assert_eq!(
            tensor.f32(),
            Some(&[1.0, 2.0, 7.0, 1.0, 2.0, 8.0, 1.0, 2.0, 9.0][..])
        );
        assert!(run(&[1], Some(2)).is_err());
        let Ok(Step::Value(value)) = run(&[0, 1], None) else {
            panic!()
        };
        assert_eq!(value.items.len(), 3);
        // A wide row beside many rows: 8 MiB that would be 4 TiB.
        let many = 1 << 20;
        let slots = [
            column([1, many], vec![0.0; many]),
            column([many, 1], vec![0.0; many]),
        ];
        let refused = Assembling { name: "x".to_owned() }.run(&Given::new(&slots, &[0, 1], None));
        assert!(matches!(refused, Err(Error::Request { .. })));
    }
}
