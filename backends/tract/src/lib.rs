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
//! let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnxruntime/tests/data/mlp.onnx");
//! let model = Tract::at(file).load()?;
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
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// `backend = "tract"`: a model that is one ONNX file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tract {
    /// The file.
    pub path: PathBuf,
}

impl Tract {
    /// Its keys in the configuration.
    pub const KEYS: &'static [&'static str] = &["path"];

    /// The model in that file.
    pub fn at(path: impl Into<PathBuf>) -> Tract {
        Tract { path: path.into() }
    }
}

impl Backend for Tract {
    fn path_mut(&mut self) -> Option<&mut PathBuf> {
        (!self.path.as_os_str().is_empty()).then_some(&mut self.path)
    }

    fn check(&self, at: &str, _batch_size_max: usize) -> Result<(), String> {
        if self.path.as_os_str().is_empty() {
            return Err(format!(
                "{at}.path is missing; name an ONNX model, or set backend = \"practice\" for a model of known behaviour"
            ));
        }
        if !self.path.is_file() {
            let path = self.path.display();
            return Err(format!("{at}.path: {path} is no file; name an ONNX model"));
        }
        Ok(())
    }

    fn load(&self) -> Result<Arc<dyn Model>, Error> {
        Ok(Arc::new(load::load(&self.path)?))
    }
}
