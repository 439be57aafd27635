//! What a worker says that a run gave, read from the memory that it writes.
//!
//! It speaks with no worker. Its invariant: what it gives has the signature's types and shapes, and was copied before it was looked at.

use crate::memory::Memory;
use crate::placed::{Group, Placed};
use millpond_backends_interface::foreign::number_of;
use millpond_backends_interface::{Port, Signature};
use millpond_tensor::{Data, ElementType, Tensor};

/// The outputs of a run of so many rows.
pub(crate) fn read(
    memory: Option<&Memory>,
    tensors: &[Placed],
    signature: &Signature,
    rows: usize,
) -> Result<Vec<Tensor>, String> {
    counted(tensors, signature)?;
    let memory = checked(memory, tensors.iter())?;
    each(memory, tensors, signature, signature.batched.then_some(rows))
}

/// What each of `count` requests comes to: its outputs, or why it failed.
pub(crate) fn read_results(
    memory: Option<&Memory>,
    results: &[Group],
    signature: &Signature,
    count: usize,
) -> Result<Vec<Result<Vec<Tensor>, String>>, String> {
    if results.len() != count {
        let found = results.len();
        return Err(format!("it gave {found} results for {count} requests"));
    }
    let memory = checked(memory, results.iter().flat_map(|result| &result.tensors))?;
    let read = |result: &Group| match result.is_failure {
        false => {
            counted(&result.tensors, signature).and_then(|()| each(memory, &result.tensors, signature, None))
        }
        true => Err(reason(memory, &result.tensors)),
    };
    Ok(results.iter().map(read).collect())
}

/// Why a request failed, in the worker's words.
fn reason(memory: &Memory, tensors: &[Placed]) -> String {
    let [placed] = tensors else {
        return format!("it gave {} reasons for a failure", tensors.len());
    };
    let kind = ElementType::Bytes;
    let is_text = placed.element_type == number_of(kind) && placed.shape.is_empty();
    if !is_text {
        return "its reason for a failure is no text".to_owned();
    }
    match memory.read(kind, number(placed.at), number(placed.bytes), 1) {
        Ok(Data::Bytes(text)) => text.texts().collect(),
        Ok(_) => "its reason for a failure is no text".to_owned(),
        Err(problem) => format!("its reason for a failure {problem}"),
    }
}

/// The memory, if there is one and no two places in it share bytes: each is copied, so together they could be many times the memory.
fn checked<'a>(
    memory: Option<&'a Memory>,
    tensors: impl Iterator<Item = &'a Placed>,
) -> Result<&'a Memory, String> {
    let memory = memory.ok_or("it gave outputs without memory for them")?;
    let mut places: Vec<(u64, u64)> = tensors
        .filter(|placed| placed.bytes > 0)
        .map(|placed| (placed.at, placed.at.saturating_add(placed.bytes)))
        .collect();
    places.sort_unstable();
    match places.windows(2).find(|pair| pair[1].0 < pair[0].1) {
        None => Ok(memory),
        Some(meet) => Err(format!(
            "it gave two outputs that share memory at byte {}",
            meet[1].0
        )),
    }
}

fn counted(tensors: &[Placed], signature: &Signature) -> Result<(), String> {
    let (found, expected) = (tensors.len(), signature.outputs.len());
    match found == expected {
        true => Ok(()),
        false => Err(format!("it gave {found} outputs, {expected} expected")),
    }
}

fn each(
    memory: &Memory,
    tensors: &[Placed],
    signature: &Signature,
    rows: Option<usize>,
) -> Result<Vec<Tensor>, String> {
    let outputs = signature.outputs.iter().zip(tensors).map(|(port, placed)| {
        one(memory, port, placed, rows).map_err(|problem| format!("output `{}` {problem}", port.name))
    });
    outputs.collect()
}

fn one(memory: &Memory, port: &Port, placed: &Placed, rows: Option<usize>) -> Result<Tensor, String> {
    let sizes = placed.shape.iter().copied();
    let (shape, len) = port.check_output(placed.element_type, sizes, rows)?;
    let data = memory.read(port.element_type, number(placed.at), number(placed.bytes), len)?;
    Tensor::new(shape, data).map_err(|error| error.to_string())
}

fn number(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
