//! Functions and classes of Python as models: each instance is a worker process that runs the Python package `millpond`.
//!
//! It links no Python and loads none: it finds an interpreter, starts it, and tells it what to import. The Python half is
//! `client/python/millpond/_worker.py`. Its invariant: the configuration declares what goes in and what comes out, so a worker is
//! compared with that and never asked.
//!
//! ```
//! use millpond_backends_interface::Backend;
//! use millpond_backends_python::Python;
//!
//! let section = Python {
//!     file: "nowhere.py".into(),
//!     function: "score".to_owned(),
//!     inputs: vec!["x: f32[N, 2]".to_owned()],
//!     outputs: vec!["y: f32[N]".to_owned()],
//!     ..Python::default()
//! };
//! let refused = section.check("models.ranker", 64).unwrap_err();
//! assert!(refused.contains("models.ranker.file: nowhere.py is no file"));
//! ```

mod interpreter;
mod port;
mod section;
mod worker;

pub use port::Batch;
pub use section::Python;
