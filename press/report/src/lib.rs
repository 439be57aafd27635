//! The result folder of a run and the report drawn from it.
//!
//! Nothing here measures or sends. The one invariant: [`report`] is a function of [`RunResult`] alone, so a report can be
//! drawn again from any stored run (docs/formats/press-result.md).
//!
//! ```
//! use millpond_press_report::{Layout, RunResult, report};
//!
//! let run = RunResult { name: "empty".into(), layout: Layout::General, ..RunResult::default() };
//! assert!(report(&run).starts_with("# empty\n"));
//! ```

mod folder;
mod markdown;
mod result;
mod table;
mod timestamp;

pub use folder::{Folder, read};
pub use markdown::{report, tables};
pub use result::{Build, Cpu, Layout, Point, Requests, RunResult, SCHEMA, Second, Server, State, TargetName};
pub use timestamp::{compact_utc, rfc3339_utc};

use std::path::PathBuf;

/// Why a result folder could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder holds something already.
    #[error("the result folder {} is not empty; give another --out, or --force to replace an earlier result", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// `force` was given, but what is there is not ours to remove.
    #[error("{} is not empty and holds no result.json of a press run, so --force does not replace it; give another --out", path.display())]
    NotAResult {
        /// The folder.
        path: PathBuf,
    },
    /// The disk refused.
    #[error("cannot {action} {}: {source}; check that the folder exists, is writable and has room", path.display())]
    Io {
        /// What was tried: "create", "write", …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a result of this version.
    #[error("{} is not a result of schema {SCHEMA}: {reason}; run the scenario again with this version", path.display())]
    BadResult {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}
