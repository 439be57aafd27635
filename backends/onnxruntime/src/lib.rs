//! ONNX models through ONNX Runtime, which is loaded at run time from where it is installed: its Python package brings it.
//!
//! It is not a batcher and not a converter: it loads one file and runs what it is given. Its one invariant: a model that it calls
//! batched has one batch, which is dimension 0 of every input and output.
//!
//! ```no_run
//! use millpond_backends_interface::Backend;
//! use millpond_backends_onnxruntime::OnnxRuntime;
//! use millpond_tensor::Tensor;
//!
//! let model = OnnxRuntime::at("ranker.onnx").load()?; // pip install onnxruntime
//! assert_eq!(model.signature().inputs[0].to_string(), "x: f32[N, 16]");
//!
//! let mut instance = model.instance()?;
//! let x = Tensor::new(vec![2, 16], vec![0.5_f32; 32])?;
//! let outputs = instance.run(vec![x])?;
//! assert_eq!(outputs[0].shape(), [2, 1]);
//! # Ok::<(), millpond_backends_interface::Error>(())
//! ```

// What the tests in `tests` use to find the library names this crate by its name.
#[cfg(test)]
extern crate self as millpond_backends_onnxruntime;

mod c_api;
mod convert;
#[cfg(test)]
#[path = "../tests/installed/mod.rs"]
mod installed;
mod library;
mod limit;
mod load;
mod options;
mod ports;
mod providers;
mod run;
mod settings;
mod spread;

pub use library::Library;
pub use providers::Provider;
pub use settings::{OnnxRuntime, Optimization, Scalar};

/// What is wrong, and what to do about it.
type Refusal = (String, String);

/// Characters of what ONNX Runtime says that are passed on.
const SAID_MAX: usize = 600;

/// One line of bounded length.
fn bounded(said: &str) -> String {
    let mut words = String::new();
    for word in said.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() > SAID_MAX {
            let end = (0..=SAID_MAX).rev().find(|end| words.is_char_boundary(*end));
            words.truncate(end.unwrap_or_default());
            words.push('…');
            break;
        }
    }
    words.retain(|character| !character.is_control());
    // A hint follows behind a semicolon.
    words.truncate(words.trim_end_matches(['.', ' ']).len());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_becomes_one_line_of_bounded_length() {
        assert_eq!(bounded("two\nlines \t and\u{7} more. \n"), "two lines and more");
        let long = bounded(&"ä".repeat(2000));
        assert!(
            long.len() <= SAID_MAX + '…'.len_utf8() && long.ends_with("ä…"),
            "{long}"
        );
    }
}
