//! `infer`, in its two forms: named tensors, and report R1's samples of strings.
//! Its invariant: a tensor's data has exactly the elements that its shape says.

mod tensor;
mod text_rows;

pub(crate) use tensor::{read_elements, write_elements};

pub use millpond_tensor::{Bytes, BytesView, Data, ElementType, Elements, Tensor, bf16, f16};
pub use text_rows::{RowsOfText, TextRows};

use crate::declare::{either, schema};
use crate::field::{List, Named, Numbers, Optional, OrDefault, Text, UInt};

/// Samples one call may carry.
pub const SAMPLES_MAX: usize = 10_000;

either! {
    /// A call.
    Call {
        /// Strings for a pipeline.
        "samples" => Samples(Samples),
        /// Named tensors for one model.
        else => Tensors(Tensors),
    }
}

either! {
    /// An answer.
    Answer {
        /// Of a call with samples.
        "scores" => Scores(Scores),
        /// Of a call with tensors.
        else => Outputs(Outputs),
    }
}

schema! {
    /// A call with tensors.
    call Tensors {
        /// The model; with samples the pipeline, or the model that one ends with. The default one when absent.
        model: Optional<Text>,
        /// Refuse to answer from another version.
        version: Optional<UInt>,
        /// The model's inputs by name.
        inputs: Named<Tensor>,
        /// Outputs wanted, each once; all when absent.
        outputs: OrDefault<List<Text>>,
    }
}

schema! {
    /// A call with samples.
    call Samples {
        /// The pipeline, or the model that one ends with. The default one when absent.
        model: Optional<Text>,
        /// Strings: samples × features.
        samples: RowsOfText<SAMPLES_MAX>,
    }
}

schema! {
    /// The answer to a call with tensors.
    answer Outputs {
        /// The model that ran.
        model: Text,
        /// Its version.
        version: UInt,
        /// Outputs by name.
        outputs: Named<Tensor>,
    }
}

schema! {
    /// The answer to a call with samples.
    answer Scores {
        /// One score a sample.
        scores: Numbers<f32>,
    }
}

#[cfg(test)]
mod tests;
