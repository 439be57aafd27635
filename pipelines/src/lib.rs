//! Pipelines: which stages turn a request into a model's answer, whether they fit together, and how they run.
//!
//! This is the only place where engines meet. It never sees a socket or a wire type: a caller is a [`Request`]. Its
//! invariant: in a plan every stage reads the request and stages before it alone, of the form that it needs.
//!
//! A [`Description`] is what the configuration says. [`Description::plan`] checks it, [`Pipeline::open`] finds its tables,
//! stores and models, and [`Pipeline::run`] runs it for one request, until the first stage that waits.
//!
//! ```
//! let text = r#"
//!     request = "samples"
//!     [[stages]]
//!     name = "user_key"
//!     hash = { slot = "0", from = "samples.0" }
//!     [[stages]]
//!     name = "user_vec"
//!     lookup = { table = "embeddings", keys = "user_key" }
//!     [[stages]]
//!     name = "x"
//!     assemble = { columns = ["user_vec"] }
//!     [[stages]]
//!     name = "scores"
//!     model = { model = "ranker", input = "x" }
//! "#;
//! let description: millpond_pipelines::Description = toml::from_str(text)?;
//! let plan = description.plan("r1")?;
//! assert_eq!(plan.stages.len(), 4);
//! assert_eq!(plan.sample_width(), 1); // each sample is a list of one string
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod condition;
mod error;
mod filter;
mod graph;
mod here;
pub mod image;
mod inputs;
pub mod numeric;
mod opening;
mod packed;
mod pipeline;
mod planner;
mod request;
mod run;
mod source;
mod stage;
mod stages;
mod threads;
mod times;
pub mod torchpipe;
mod value;
mod verdict;
mod wait;

pub use condition::Condition;
pub use error::Error;
pub use filter::Filter;
pub use inputs::Declared;
pub use millpond_engines_batcher::Priority;
pub use millpond_tensor::Bytes;
pub use opening::Parts;
pub use opening::{Opened, Opening};
pub use packed::{pack, unpack};
pub use pipeline::Pipeline;
pub use planner::Place;
pub use planner::{Check, Plan, PlannedFilter, PlannedStage, Taken, Words};
pub use request::{Expected, Request, RequestKind, Samples, Values};
pub use run::{Output, Progress, Waiting};
pub use source::{Source, Template};
pub use stage::{Describe, Form, Given, Kind, Name, PerRow, Rows, Slot, Stage, Step};
pub use stages::hash::key_hash;
pub use stages::{Description, StageDescription, Stages};
pub use times::{StageStats, StageTime, StageTimes};
pub use value::{Items, Value};
pub use wait::{Ask, Kept, Wait, submit};
