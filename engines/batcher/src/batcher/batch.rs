//! Joins the inputs of several requests into one batch and cuts the outputs apart
//! again. It runs nothing. Its one invariant: row `i` of a request comes back as row
//! `i` of that request.

use super::queue::Waiting;
use millpond_backends_interface::Signature;
use millpond_tensor::Tensor;
use std::ops::Range;
use std::time::Instant;

/// The inputs of all of `batch`, one after the other, and their rows. `None` when they do not fit together,
/// which only inputs that nobody checked can do.
pub(super) fn join(batch: &[Waiting]) -> Option<(Vec<Tensor>, usize)> {
    let inputs = batch.iter().map(|waiting| waiting.request.inputs.as_slice());
    Some((concat(inputs)?, rows(batch)?))
}

/// As [`join`], of inputs that are made from those of each request.
pub(super) fn join_made(
    batch: &[Waiting],
    made: impl Fn(&[Tensor]) -> Option<Vec<Tensor>>,
) -> Option<(Vec<Tensor>, usize)> {
    let rows = rows(batch)?;
    let inputs: Option<Vec<Vec<Tensor>>> = batch
        .iter()
        .map(|waiting| made(&waiting.request.inputs))
        .collect();
    Some((concat(inputs?.iter().map(Vec::as_slice))?, rows))
}

/// The rows of all requests, whose inputs have as many as they say.
fn rows(batch: &[Waiting]) -> Option<usize> {
    batch.iter().try_fold(0usize, |rows, waiting| {
        rows.checked_add(waiting.request.rows)
            .filter(|_| rows_agree(waiting))
    })
}

/// When nobody waits any more for the outputs of all of `batch`; `None` where somebody always does.
pub(super) fn deadline(batch: &[Waiting]) -> Option<Instant> {
    let mut deadlines = batch.iter().map(|waiting| waiting.request.deadline);
    deadlines.try_fold(None, |last: Option<Instant>, deadline| {
        Some(last.max(Some(deadline?)))
    })?
}

/// For each position the tensors that stand there in `parts`, one after the other.
pub(super) fn concat<'a>(parts: impl Iterator<Item = &'a [Tensor]> + Clone) -> Option<Vec<Tensor>> {
    let count = parts.clone().next()?.len();
    if parts.clone().any(|part| part.len() != count) {
        return None;
    }
    let joined = (0..count).map(|at| Tensor::concat(parts.clone().map(move |part| &part[at])));
    joined.collect()
}

/// Tensors of so many rows more, which are copies of their last one; `None` where one has no rows.
pub(super) fn pad(tensors: &[Tensor], more: usize) -> Option<Vec<Tensor>> {
    let padded = tensors.iter().map(|tensor| {
        let rows = tensor.rows();
        let last = tensor.view(rows.checked_sub(1)?..rows)?;
        Tensor::concat(std::iter::once(tensor).chain(std::iter::repeat_n(&last, more)))
    });
    padded.collect()
}

/// Takes out of `batch` what cannot share a run with its first: rows of another shape.
pub(super) fn split_unlike(batch: &mut Vec<Waiting>) -> Vec<Waiting> {
    let row_shape = |tensor: &Tensor| tensor.shape().get(1..).map(<[usize]>::to_vec);
    let first = batch
        .first()
        .map(|first| first.request.inputs.iter().map(row_shape).collect());
    let first: Vec<_> = first.unwrap_or_default();
    let is_alike = |other: &mut Waiting| {
        let shapes = other.request.inputs.iter().map(|tensor| tensor.shape().get(1..));
        shapes.eq(first.iter().map(Option::as_deref))
    };
    batch.extract_if(.., |other| !is_alike(other)).collect()
}

/// Whether every input of a request has the rows that the request says.
pub(super) fn rows_agree(waiting: &Waiting) -> bool {
    let request = &waiting.request;
    let mut inputs = request.inputs.iter();
    inputs.all(|tensor| !tensor.shape().is_empty() && tensor.rows() == request.rows)
}

/// These rows of every tensor.
pub(super) fn slice(tensors: &[Tensor], rows: Range<usize>) -> Option<Vec<Tensor>> {
    tensors.iter().map(|tensor| tensor.view(rows.clone())).collect()
}

/// What is wrong with the outputs of a run of `rows` rows, if anything is.
pub(super) fn outputs_problem(signature: &Signature, outputs: &[Tensor], rows: usize) -> Option<String> {
    if signature.outputs.is_empty() && !signature.batched {
        return None;
    }
    if outputs.len() != signature.outputs.len() {
        return Some(format!(
            "it gave {} outputs, {} expected",
            outputs.len(),
            signature.outputs.len()
        ));
    }
    signature.outputs.iter().zip(outputs).find_map(|(port, tensor)| {
        let fits = !signature.batched || !tensor.shape().is_empty() && tensor.rows() == rows;
        (!fits).then(|| {
            format!(
                "output `{}` has shape {:?}, {rows} rows expected",
                port.name,
                tensor.shape()
            )
        })
    })
}

/// Which output of one request holds a NaN or an infinity, and where.
pub(super) fn not_finite(signature: &Signature, outputs: &[Tensor]) -> Option<String> {
    signature.outputs.iter().zip(outputs).find_map(|(port, tensor)| {
        let (index, value) = tensor.elements().first_not_finite()?;
        Some(format!("output `{}` is {value} at element {index}", port.name))
    })
}
