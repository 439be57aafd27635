//! `run`: named values through a pipeline of values.
//! Its invariant: values go in and come out as they are; what is no value of the wire, keys, is a tensor of the same bits.

use crate::model_run::{Write, priority, run_values};
use crate::{Served, find};
use millpond_catalog::Catalog;
use millpond_pipelines::{Items, Output, Value, Values};
use millpond_tensor::Tensor;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Code, Field as _, Status, run as schema};
use std::borrow::Cow;
use std::sync::Arc;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let deadline = call.deadline(reserved.deadline_ms)?;
    let priority = priority(call, reserved.priority);
    let pipeline = Arc::clone(find("pipeline", &catalog.pipelines, &decoded.pipeline)?);
    let values = asked(decoded.inputs, decoded.outputs);
    call.set_base64(reserved.base64);
    run_values(
        call,
        &pipeline,
        values,
        (deadline, priority),
        reserved.trace,
        answer,
    )
}

/// What a call asks of its pipeline.
pub fn asked(inputs: Vec<(Cow<'_, str>, schema::Value)>, outputs: Vec<Cow<'_, str>>) -> Values {
    let inputs = inputs.into_iter();
    Values {
        inputs: inputs
            .map(|(name, value)| (name.into_owned(), given(value)))
            .collect(),
        outputs: outputs.into_iter().map(Cow::into_owned).collect(),
    }
}

fn given(value: schema::Value) -> Value {
    let items = match value.items {
        schema::Items::Strings(strings) => Items::Bytes(strings),
        schema::Items::Tensor(tensor) => Items::Tensor(tensor),
        schema::Items::Tensors(tensors) => Items::Tensors(tensors),
    };
    Value {
        items,
        offsets: value.offsets.map(Into::into),
    }
}

/// What writes the answer's map.
fn answer(output: Output) -> Result<Write, Status> {
    let answer = answered(output.values, &output.skipped)?;
    Ok(Box::new(move |out| schema::Answer::write(&answer, out)))
}

/// The answer to a call whose pipeline came to these values, and skipped these stages.
///
/// # Errors
/// The keys of a value are more than a tensor may hold.
pub fn answered(
    values: Vec<(Arc<str>, Value)>,
    skipped: &[Arc<str>],
) -> Result<schema::Answer<'static>, Status> {
    let outputs = values.into_iter();
    let outputs: Result<Vec<_>, Status> = outputs
        .map(|(name, value)| Ok((name.to_string().into(), taken(value)?)))
        .collect();
    Ok(schema::Answer {
        outputs: outputs?,
        skipped: skipped.iter().map(|name| name.to_string().into()).collect(),
    })
}

fn taken(value: Value) -> Result<schema::Value, Status> {
    let items = match value.items {
        Items::Bytes(strings) => schema::Items::Strings(strings),
        Items::Tensor(tensor) => schema::Items::Tensor(tensor),
        Items::Tensors(tensors) => schema::Items::Tensors(tensors),
        Items::Keys(keys) => {
            let bits: Vec<i64> = keys.into_iter().map(u64::cast_signed).collect();
            let tensor = Tensor::new(vec![bits.len()], bits);
            schema::Items::Tensor(tensor.map_err(|error| Status::new(Code::Internal, error.to_string()))?)
        }
    };
    let offsets = value.offsets.map(|offsets| offsets.to_vec());
    Ok(schema::Value { items, offsets })
}
