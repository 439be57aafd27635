//! `merge = { of = ["a", "b"] }`: the items of several values in one, row by row.
//!
//! It converts nothing. Its invariant: row `i` has the items of row `i` of each value, in the order of `of`.

use crate::planner::Place;
use crate::{
    Bytes, Describe, Error, Form, Given, Items, Kind, Opened, Opening, PerRow, Rows, Stage, Step, Value,
};
use millpond_backends_interface::Port;
use millpond_tensor::Tensor;
use serde::Deserialize;
use std::sync::Arc;

/// Several values as one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as merge = { of = [\"a\", \"b\"] }"
)]
pub struct Merge {
    /// Stages that give items of one kind.
    of: Vec<String>,
}

impl Describe for Merge {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let key = "merge.of";
        let Some((first, others)) = self.of.split_first() else {
            return Err(place.error(key, "it is empty", "name the stages whose items are joined"));
        };
        let mut form = place.take(key, first, Kind::Any)?;
        for other in others {
            let kinds = match form.kind {
                Kind::Scores => Kind::Floats,
                kind => kind,
            };
            let given = place.take(key, other, kinds)?;
            if form.kind == Kind::Any {
                form.kind = given.kind;
            }
            if given.rows != form.rows {
                let problem = format!("`{first}` and `{other}` have different rows");
                return Err(place.error(key, problem, "join values of the same rows"));
            }
        }
        if !others.is_empty() {
            form.per_row = PerRow::Several;
        }
        if form.rows == Rows::Each && place.request() != crate::RequestKind::Values && !others.is_empty() {
            let problem = "an item or a sample has one row, and this would give it several";
            return Err(place.error(key, problem, "assemble the columns instead"));
        }
        Ok(form)
    }

    fn reads(&self) -> Vec<&str> {
        self.of.iter().map(String::as_str).collect()
    }

    fn open(&self, stage: &str, _: &[Option<Port>], _: &mut Opening<'_>) -> Result<Opened, Error> {
        let name = stage.to_owned();
        Ok(Opened::plain(Merging { name }))
    }
}

/// The position of a value, and that of an item in it.
type Item = (usize, usize);

struct Merging {
    name: String,
}

impl Merging {
    fn unfit(&self, problem: &str) -> Error {
        let problem = format!("stage {:?} {problem}", self.name);
        Error::Request { problem }
    }

    /// Which items of which value stand in each row, one after the other, and where rows end.
    fn order(&self, values: &[&Value]) -> Result<(Vec<Item>, Vec<u32>), Error> {
        let rows = values.first().map_or(0, |value| value.row_count());
        if values.iter().any(|value| value.row_count() != rows) {
            let counts: Vec<usize> = values.iter().map(|value| value.row_count()).collect();
            return Err(self.unfit(&format!(
                "joins values of the same rows, and this request gives it {counts:?}"
            )));
        }
        let mut order = Vec::new();
        let mut offsets = vec![0];
        for row in 0..rows {
            for (at, value) in values.iter().enumerate() {
                let items = match &value.offsets {
                    None => row..row + 1,
                    Some(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
                };
                order.extend(items.map(|item| (at, item)));
            }
            offsets.push(
                u32::try_from(order.len()).map_err(|_| self.unfit("has more items than it can count"))?,
            );
        }
        Ok((order, offsets))
    }

    fn items(&self, values: &[&Value], order: &[Item]) -> Result<Items, Error> {
        let unlike =
            || self.unfit("joins items of one kind, type and shape, and this request gives it others");
        Ok(match values.first().map(|value| &value.items) {
            None => return Err(Error::not_given("a value")),
            Some(Items::Keys(_)) => {
                let keys: Vec<&[u64]> = values
                    .iter()
                    .map(|value| value.keys())
                    .collect::<Result<_, _>>()
                    .map_err(|_| unlike())?;
                Items::Keys(order.iter().map(|(at, item)| keys[*at][*item]).collect())
            }
            Some(Items::Bytes(_)) => {
                let texts = values
                    .iter()
                    .map(|value| Ok(value.bytes()?.iter().collect::<Vec<&[u8]>>()));
                let texts: Vec<Vec<&[u8]>> = texts.collect::<Result<_, Error>>().map_err(|_| unlike())?;
                let mut bytes = Bytes::default();
                order.iter().for_each(|(at, item)| bytes.push(texts[*at][*item]));
                Items::Bytes(bytes)
            }
            Some(Items::Tensors(_)) => {
                let tensors: Vec<&[Tensor]> = values
                    .iter()
                    .map(|value| value.tensors())
                    .collect::<Result<_, _>>()
                    .map_err(|_| unlike())?;
                Items::Tensors(
                    order
                        .iter()
                        .map(|(at, item)| tensors[*at][*item].clone())
                        .collect(),
                )
            }
            Some(Items::Tensor(first)) => {
                let tensors: Vec<&Tensor> = values
                    .iter()
                    .map(|value| value.tensor())
                    .collect::<Result<_, _>>()
                    .map_err(|_| unlike())?;
                let rows: Option<Vec<Tensor>> = order
                    .iter()
                    .map(|(at, item)| tensors[*at].view(*item..*item + 1))
                    .collect();
                let rows = rows.ok_or_else(unlike)?;
                match rows.is_empty() {
                    true => Items::Tensor(first.clone()),
                    false => Items::Tensor(Tensor::concat(&rows).ok_or_else(unlike)?),
                }
            }
        })
    }
}

impl Stage for Merging {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let values: Vec<&Value> = given.values().collect();
        if let [only] = values.as_slice() {
            return Ok(Step::Value((*only).clone()));
        }
        let (order, offsets) = self.order(&values)?;
        let items = self.items(&values, &order)?;
        let offsets = Some(Arc::from(offsets));
        Ok(Step::Value(Value { items, offsets }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::stage::Slot;

    fn merged(values: Vec<Value>) -> Result<Value, String> {
        let takes: Vec<usize> = (0..values.len()).collect();
        let slots: Vec<Slot> = values.into_iter().map(Slot::of).collect();
        let name = "m".to_owned();
        match (Merging { name }).run(&Given::new(&slots, &takes, None)) {
            Ok(Step::Value(value)) => Ok(value),
            Ok(_) => panic!("it gives a value"),
            Err(error) => Err(error.to_string()),
        }
    }

    fn in_rows(items: Items, offsets: &[u32]) -> Value {
        let offsets = Some(Arc::from(offsets));
        Value { items, offsets }
    }

    #[test]
    fn items_are_joined_row_by_row() {
        let keys = merged(vec![
            in_rows(Items::Keys(vec![1, 2, 3]), &[0, 2, 3]),
            Value::rows(Items::Keys(vec![7, 8])),
        ]);
        assert_eq!(keys, Ok(in_rows(Items::Keys(vec![1, 2, 7, 3, 8]), &[0, 3, 5])));
        let tensor =
            |values: &[f32]| Items::Tensor(Tensor::new(vec![values.len() / 2, 2], values.to_vec()).unwrap());
        let floats = merged(vec![
            in_rows(tensor(&[]), &[0, 0]),
            in_rows(tensor(&[1.0, 2.0]), &[0, 1]),
        ]);
        assert_eq!(floats, Ok(in_rows(tensor(&[1.0, 2.0]), &[0, 1])));
        let texts = |texts: &[&str]| Value::rows(Items::Bytes(texts.iter().collect()));
        let joined = merged(vec![texts(&["a", "b"]), texts(&["c", "d"])]).unwrap();
        assert_eq!(
            joined.bytes().unwrap().texts().collect::<Vec<_>>(),
            ["a", "c", "b", "d"]
        );
        let none = merged(vec![in_rows(tensor(&[]), &[0]), in_rows(tensor(&[]), &[0])]).unwrap();
        assert_eq!((none.items.len(), none.row_count()), (0, 0));
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let keys = |keys: &[u64]| Value::rows(Items::Keys(keys.to_vec()));
        assert_eq!(
            merged(vec![keys(&[1]), keys(&[1, 2])]),
            Err("stage \"m\" joins values of the same rows, and this request gives it [1, 2]".to_owned())
        );
        let text = Value::rows(Items::Bytes(["a"].into_iter().collect()));
        assert!(
            merged(vec![keys(&[1]), text])
                .unwrap_err()
                .contains("items of one kind")
        );
        let tensor = |shape: [usize; 2]| {
            Value::rows(Items::Tensor(
                Tensor::new(shape.to_vec(), vec![0.0_f32; 2]).unwrap(),
            ))
        };
        assert!(merged(vec![tensor([1, 2]), tensor([2, 1]).clone()]).is_err());
    }
}
