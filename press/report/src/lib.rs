//! The result folder of a run and the reports drawn from it: Markdown, a page of HTML with its figures, and two flat CSV
//! files.
//!
//! Nothing here measures or sends. Its invariant: every report is a function of [`RunResult`] alone, so it can be drawn
//! again from any stored run, and text that stands in a result is never markup (docs/formats/press-result.md).
//!
//! ```
//! use millpond_press_report::{Layout, RunResult, html, report};
//!
//! let run = RunResult { name: "a < b".into(), layout: Layout::General, ..RunResult::default() };
//! assert!(report(&run).starts_with("# a \\< b\n"));
//! assert!(html(&[run]).contains("<h1>a &lt; b</h1>"));
//! ```

mod cases;
mod csv;
mod describe;
mod folder;
mod html;
mod layout;
mod markdown;
mod number;
mod result;
#[cfg(test)]
mod sample;
mod section;
mod table;
mod timestamp;

pub use csv::{controller_csv, points_csv, series_csv};
pub use folder::{Folder, read};
pub use html::html;
pub use markdown::{report, tables, terminal};
// What a result is made of.
pub use millpond_press_verdict::{
    Antagonists, Bound, Comparison, Cpu, Held, Judgement, LoadKind, Offered, OperationResult, Point, Search,
    Second, Server, SloOutcome, Stage, TargetName, Tried, Verdict, WarmUp,
};
pub use result::{
    BESIDE_ANTAGONISTS, Build, Layout, LeftOut, Requests, RunResult, SCHEMA, SCHEMA_MIN, State,
};
pub use timestamp::{compact_utc, rfc3339_utc};

use std::path::PathBuf;

/// Why a result folder could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was named is no result that can be read, or no folder that may be written; in words, with what to do.
    #[error("{0}")]
    Unfit(String),
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
}
