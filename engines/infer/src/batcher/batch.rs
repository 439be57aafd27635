//! Joins the inputs of several requests into one batch and cuts the outputs apart
//! again. It runs nothing. Its one invariant: row `i` of a request comes back as row
//! `i` of that request.

use super::queue::Waiting;
use millpond_backends_interface::{Data, Signature, Tensor};

/// The inputs of all of `batch`, one after the other: one allocation an input. `None`
/// when they do not fit together, which only inputs that nobody checked can do.
pub(super) fn join(batch: &[Waiting]) -> Option<(Vec<Tensor>, usize)> {
    let first = &batch.first()?.request;
    let mut rows = 0usize;
    for waiting in batch {
        if waiting.request.inputs.len() != first.inputs.len() || !rows_agree(waiting) {
            return None;
        }
        rows = rows.checked_add(waiting.request.rows)?;
    }
    let inputs = (0..first.inputs.len())
        .map(|input| join_input(batch, input, rows))
        .collect::<Option<Vec<Tensor>>>()?;
    Some((inputs, rows))
}

fn join_input(batch: &[Waiting], input: usize, rows: usize) -> Option<Tensor> {
    let tensors = || batch.iter().map(|waiting| &waiting.request.inputs[input]);
    let first = tensors().next()?;
    let row_shape = first.shape().get(1..)?;
    let mut data = Data::with_capacity(first.element_type(), rows.checked_mul(first.row_len())?);
    for tensor in tensors() {
        if tensor.shape().get(1..)? != row_shape || !data.extend_from(tensor.data(), 0, tensor.data().len()) {
            return None;
        }
    }
    let mut shape = first.shape().to_vec();
    shape[0] = rows;
    Tensor::new(shape, data).ok()
}

/// Whether every input of a request has the rows that the request says.
pub(super) fn rows_agree(waiting: &Waiting) -> bool {
    let request = &waiting.request;
    request
        .inputs
        .iter()
        .all(|tensor| !tensor.shape().is_empty() && tensor.rows() == request.rows)
}

/// Rows `start..start + count` of every tensor.
pub(super) fn slice(tensors: &[Tensor], start: usize, count: usize) -> Option<Vec<Tensor>> {
    tensors
        .iter()
        .map(|tensor| tensor.copy_rows(start, count))
        .collect()
}

/// Puts the outputs of consecutive chunks of one request together again.
pub(super) fn append(whole: &mut Option<Vec<(Vec<usize>, Data)>>, chunk: Vec<Tensor>) -> bool {
    let parts = chunk.into_iter().map(Tensor::into_parts);
    let Some(whole) = whole else {
        *whole = Some(parts.collect());
        return true;
    };
    whole.len() == parts.len()
        && whole
            .iter_mut()
            .zip(parts)
            .all(|((shape, data), (chunk_shape, chunk_data))| {
                let fits = shape.get(1..) == chunk_shape.get(1..);
                if let (Some(rows), Some(more)) = (shape.first_mut(), chunk_shape.first()) {
                    *rows += more;
                }
                fits && data.extend_from(&chunk_data, 0, chunk_data.len())
            })
}

/// What is wrong with the outputs of a run of `rows` rows, if anything is.
pub(super) fn outputs_problem(signature: &Signature, outputs: &[Tensor], rows: usize) -> Option<String> {
    if outputs.len() != signature.outputs.len() {
        return Some(format!(
            "it gave {} outputs, {} expected",
            outputs.len(),
            signature.outputs.len()
        ));
    }
    signature.outputs.iter().zip(outputs).find_map(|(port, tensor)| {
        let fits = !tensor.shape().is_empty() && tensor.rows() == rows;
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
        let (index, value) = tensor.data().first_not_finite()?;
        Some(format!("output `{}` is {value} at element {index}", port.name))
    })
}
