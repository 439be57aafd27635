//! Everything that answers, by name: feature tables, ordered stores, models and pipelines.
//!
//! [`Sections`] describe it, a [`Catalog`] is what was opened, and a [`Handle`] says which one serves now. Every change builds
//! the next catalog beside the one that serves, warms it, and swaps one pointer. The list of backends is here and nowhere else.
//! This crate never sees a socket or a wire type. Its invariant: a catalog never changes; a call that holds one sees the same
//! tables, models and pipelines from its beginning to its end.
//!
//! ```
//! use millpond_catalog::{Handle, ModelSection, Resources, Sections};
//!
//! let ranker: ModelSection = toml::from_str("backend = \"practice\"\nbehaviour = \"wait\"\nus = 100")?;
//! let mut sections = Sections::default();
//! sections.models.insert("ranker".into(), ranker.clone());
//! let handle = Handle::open(sections, Resources::default())?;
//! handle.warm()?;
//! assert_eq!(handle.pin().sections().model_default(), Some("ranker"));
//!
//! handle.load_model("second", ModelSection { version: 2, ..ranker })?;
//! assert_eq!(handle.pin().models["second"].version, 2);
//! handle.unload_model("ranker")?;
//! handle.roll_back()?;
//! assert_eq!(handle.pin().models.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod catalog;
mod error;
mod handle;
mod model;
mod sections;
mod store_failures;
mod versions;

pub use catalog::{Catalog, LoadedModel, Resources};
pub use error::Error;
pub use handle::{Handle, Pinned, Prepared};
pub use millpond_backends_onnxruntime::Library;
pub use model::{Backend, Given, ModelSection};
pub use sections::{Problem, Sections, paths_mut};
pub use store_failures::StoreFailures;
pub use versions::{Past, Serving, SwitchCounts};
