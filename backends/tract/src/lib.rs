//! ONNX models through tract, compiled in: no shared library, nothing to install.
//!
//! It is not a batcher and not a converter: it loads one file and runs what it is
//! given. Its one invariant: a model that it calls batched has one batch, which is
//! dimension 0 of every input and output.
//!
//! ```
//! use millpond_backends_interface::Backend;
//! use millpond_backends_tract::Tract;
//! use millpond_tensor::Tensor;
//! use std::path::Path;
//!
//! let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mlp.onnx");
//! let model = Tract.load(&file)?;
//! assert_eq!(model.signature().inputs[0].to_string(), "x: f32[N, 16]");
//!
//! let mut instance = model.instance()?;
//! let x = Tensor::new(vec![2, 16], vec![0.5_f32; 32])?;
//! let outputs = instance.run(vec![x])?;
//! assert_eq!(outputs[0].shape(), [2, 1]);
//! # Ok::<(), millpond_backends_interface::Error>(())
//! ```

mod convert;
mod load;
mod model;
mod ports;

use millpond_backends_interface::{Backend, Error, Model};
use std::path::Path;
use std::sync::Arc;

/// The backend. It holds nothing; models are independent of each other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tract;

impl Backend for Tract {
    fn name(&self) -> &'static str {
        "tract"
    }

    fn load(&self, path: &Path) -> Result<Arc<dyn Model>, Error> {
        Ok(Arc::new(load::load(path)?))
    }
}
