//! Requests whose rows differ in length as one batch: which of them are padded together, to what, and what is cut off their outputs.
//! It runs nothing.
//!
//! A request has a length where all sizes of its inputs that are free beside the batch are one number; others share runs with their own
//! shape alone. Its invariants: a run holds at most twice the elements of its requests, as each of them would be padded alone; and an
//! output's size is cut back where it is free and equals the padded length, and nowhere else.

use super::queue::Waiting;
use super::{BatcherOptions, batch};
use millpond_backends_interface::{Port, Signature};
use millpond_tensor::Tensor;
use serde::Deserialize;

/// A padded length at most.
const LENGTH_MAX: usize = 1 << 24;
/// Padded lengths of a model at most.
const LENGTHS_MAX: usize = 64;
/// Elements of a padded run, as often as its requests have alone.
const WASTE_MAX: f64 = 2.0;

/// What becomes of requests that wait together and whose rows differ in shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ragged {
    /// Those of one shape share a run.
    #[default]
    Bucket,
    /// They are padded to one length.
    Pad,
}

/// What is wrong with the keys. `at` is the section.
pub(super) fn check(options: &BatcherOptions, at: &str) -> Result<(), String> {
    let lengths = &options.pad_lengths;
    if options.ragged == Ragged::Bucket {
        let key = match (lengths.is_empty(), options.pad_value) {
            (false, _) => "pad_lengths",
            (true, 0) => return Ok(()),
            (true, _) => "pad_value",
        };
        return Err(format!(
            "{at}.{key} is of use with ragged = \"pad\" alone; add that, or leave it out"
        ));
    }
    if lengths.len() > LENGTHS_MAX {
        let count = lengths.len();
        return Err(format!(
            "{at}.pad_lengths has {count} lengths; expected at most {LENGTHS_MAX}"
        ));
    }
    let is_ascending = lengths.is_sorted_by(|before, after| before < after);
    if !is_ascending || lengths.first() == Some(&0) || lengths.last().is_some_and(|last| *last > LENGTH_MAX) {
        return Err(format!(
            "{at}.pad_lengths is {lengths:?}; expected ascending lengths from 1 to {LENGTH_MAX}, as [32, 64, 128]"
        ));
    }
    Ok(())
}

/// How requests of one model are padded.
#[derive(Debug)]
pub(super) struct Padding {
    lengths: Vec<usize>,
    value: i64,
    bytes_max: usize,
}

impl Padding {
    /// `None` where the model's requests are not padded. `at` is the section.
    pub(super) fn of(
        options: &BatcherOptions,
        signature: &Signature,
        at: &str,
    ) -> Result<Option<Padding>, String> {
        if options.ragged == Ragged::Bucket {
            return Ok(None);
        }
        let mut ragged = signature
            .inputs
            .iter()
            .filter(|port| port.row_len().is_none())
            .peekable();
        if !signature.batched || ragged.peek().is_none() {
            return Err(format!(
                "{at}.ragged is \"pad\", and the model has no batch, or no input with a free size beside it; leave it out"
            ));
        }
        let value = options.pad_value;
        if let Some(port) = ragged.find(|port| !port.element_type.holds(value)) {
            return Err(format!(
                "{at}.pad_value is {value}, which input `{port}` cannot hold"
            ));
        }
        Ok(Some(Padding {
            lengths: options.pad_lengths.clone(),
            value,
            bytes_max: options.queue_bytes_max,
        }))
    }

    /// What a request of this length is padded to where it runs alone.
    fn padded(&self, length: usize) -> usize {
        let mut lengths = self.lengths.iter().copied();
        lengths.find(|padded| *padded >= length).unwrap_or(length)
    }

    /// Takes out of `batch` what does not share a run with its first.
    pub(super) fn split_unlike(&self, signature: &Signature, batch: &mut Vec<Waiting>) -> Vec<Waiting> {
        let length = |waiting: &Waiting| length(signature, &waiting.request.inputs);
        let Some(first) = batch.first().and_then(length) else {
            return batch::split_unlike(batch);
        };
        let mut longest = self.padded(first);
        let (mut joined, mut alone) = (Elements::default(), 0.0);
        let takes = batch.iter().map(|waiting| {
            let Some(own) = length(waiting).map(|own| self.padded(own)) else {
                return false;
            };
            let elements = Elements::of(signature, &waiting.request.inputs);
            let with_it = joined.with(&elements);
            let (longer, would_alone) = (longest.max(own), alone + elements.at(own));
            let fits = with_it.at(longer) <= would_alone * WASTE_MAX;
            if fits {
                (joined, longest, alone) = (with_it, longer, would_alone);
            }
            fits
        });
        let takes: Vec<bool> = takes.collect();
        let mut takes = takes.into_iter();
        batch.extract_if(.., |_| takes.next() == Some(false)).collect()
    }

    /// The length that all of `batch`, which [`Padding::split_unlike`] has left, is padded to; `None` where it runs as it is.
    pub(super) fn length(&self, signature: &Signature, batch: &[Waiting]) -> Option<usize> {
        let lengths = batch
            .iter()
            .map(|waiting| length(signature, &waiting.request.inputs));
        let lengths: Option<Vec<usize>> = lengths.collect();
        let lengths = lengths?;
        let longest = self.padded(lengths.iter().copied().max()?);
        lengths.iter().any(|length| *length != longest).then_some(longest)
    }

    /// These inputs of one request, padded.
    ///
    /// # Errors
    /// They would take more than a model's requests may hold.
    pub(super) fn pad(
        &self,
        signature: &Signature,
        inputs: &[Tensor],
        padded: usize,
    ) -> Result<Vec<Tensor>, String> {
        let shapes = signature
            .inputs
            .iter()
            .zip(inputs)
            .map(|(port, tensor)| shape(port, tensor.shape(), |_| padded));
        let shapes: Vec<Vec<usize>> = shapes.collect();
        let bytes = shapes.iter().zip(inputs).map(|(shape, tensor)| {
            let width = tensor.element_type().bytes().unwrap_or(size_of::<usize>());
            shape
                .iter()
                .fold(width, |bytes, size| bytes.saturating_mul(*size))
        });
        let bytes = bytes.fold(0, usize::saturating_add);
        if bytes > self.bytes_max {
            return Err(format!(
                "padded to a length of {padded} its inputs take {bytes} bytes, more than queue_bytes_max ({}); send fewer rows",
                self.bytes_max
            ));
        }
        let resized = shapes
            .iter()
            .zip(inputs)
            .map(|(shape, tensor)| tensor.resized(shape, self.value));
        let resized: Option<Vec<Tensor>> = resized.collect();
        resized.ok_or_else(|| format!("its inputs cannot be padded to a length of {padded}"))
    }
}

/// The shape with other sizes where the port's are free beside the batch.
fn shape(port: &Port, found: &[usize], size: impl Fn(usize) -> usize) -> Vec<usize> {
    let is_free = |at: usize| at > 0 && port.shape.get(at) == Some(&None);
    let sizes = found.iter().enumerate();
    sizes
        .map(|(at, found)| if is_free(at) { size(*found) } else { *found })
        .collect()
}

/// The one number that all sizes are which are free beside the batch.
pub(super) fn length(signature: &Signature, inputs: &[Tensor]) -> Option<usize> {
    let ports = signature.inputs.iter().zip(inputs);
    let mut free = ports.flat_map(|(port, tensor)| {
        let dims = port.shape.iter().zip(tensor.shape()).skip(1);
        dims.filter(|(port, _)| port.is_none()).map(|(_, size)| *size)
    });
    let first = free.next()?;
    free.all(|size| size == first).then_some(first)
}

/// Elements of inputs, by how many of a tensor's sizes are the length.
#[derive(Debug, Clone, Copy, Default)]
struct Elements([f64; 8]);

impl Elements {
    fn of(signature: &Signature, inputs: &[Tensor]) -> Elements {
        let mut elements = Elements::default();
        for (port, tensor) in signature.inputs.iter().zip(inputs) {
            let fixed = shape(port, tensor.shape(), |_| 1);
            let lengths = port.shape.iter().skip(1).filter(|size| size.is_none());
            let by_lengths = &mut elements.0[lengths.count().min(7)];
            *by_lengths += fixed.iter().map(|size| *size as f64).product::<f64>();
        }
        elements
    }

    fn with(mut self, others: &Elements) -> Elements {
        for (own, other) in self.0.iter_mut().zip(others.0) {
            *own += other;
        }
        self
    }

    /// Where all have this length.
    fn at(&self, length: usize) -> f64 {
        self.0
            .iter()
            .rev()
            .fold(0.0, |sum, own| sum * length as f64 + own)
    }
}

/// One request's outputs of a run that was padded, with its own length again.
pub(super) fn cut(
    signature: &Signature,
    outputs: Vec<Tensor>,
    padded: usize,
    own: usize,
) -> Option<Vec<Tensor>> {
    if padded == own {
        return Some(outputs);
    }
    let outputs = signature.outputs.iter().zip(outputs).map(|(port, tensor)| {
        let shape = shape(
            port,
            tensor.shape(),
            |size| if size == padded { own } else { size },
        );
        match shape == tensor.shape() {
            true => Some(tensor),
            false => tensor.resized(&shape, 0),
        }
    });
    outputs.collect()
}
