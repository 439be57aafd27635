//! What is computed of a model's floats: probabilities, the best of them, and boxes that stand for others.
//!
//! It knows no stage. Its invariant: NaN is no score: it wins nowhere, and where it would spread it is refused.

mod nms;
mod probability;
mod text_boxes;
mod topk;

pub use nms::{Nms, nms};
pub use probability::{sigmoid, softmax};
pub use text_boxes::{TextBoxes, text_boxes};
pub use topk::{Top, top_k};

use millpond_tensor::Tensor;

/// The floats of a tensor and the length of its last dimension; a scalar has 1.
fn rows<'t>(what: &str, tensor: &'t Tensor) -> Result<(&'t [f32], usize), String> {
    let floats = tensor
        .f32()
        .ok_or_else(|| format!("{what} takes f32, not {}", tensor.element_type()))?;
    Ok((floats, tensor.shape().last().copied().unwrap_or(1)))
}

/// Results of the same shape.
fn shaped(like: &Tensor, floats: Vec<f32>) -> Result<Tensor, String> {
    Tensor::new(like.shape().to_vec(), floats).map_err(|error| error.to_string())
}
