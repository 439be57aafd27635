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
    Bound, Comparison, Cpu, Held, Judgement, LoadKind, Offered, OperationResult, Point, Search, Second,
    Server, SloOutcome, Stage, TargetName, Tried, Verdict, WarmUp,
};
pub use result::{Build, Layout, Requests, RunResult, SCHEMA, SCHEMA_MIN, State};
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
    /// There is no result to read.
    #[error("cannot read {}: there is no such file; give the folder of a press run", path.display())]
    Missing {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// The file is of a later schema.
    #[error("{} is a result of schema {schema}, made by a newer version; update millpond, this one reads schema {SCHEMA}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema it names.
        schema: u64,
    },
    /// The file is of an earlier schema.
    #[error("{} is a result of schema {schema}, made by an older version; this one reads schemas {SCHEMA_MIN} to {SCHEMA}: run the scenario again", path.display())]
    Older {
        /// The file.
        path: PathBuf,
        /// The schema it names.
        schema: u64,
    },
    /// The file ends before the result does.
    #[error("{} is cut off after {bytes} bytes; copy it again, or run the scenario again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// How long it is.
        bytes: usize,
    },
    /// The file is not a result of this version.
    #[error("{} is not a result of schemas {SCHEMA_MIN} to {SCHEMA}: {reason}; run the scenario again with this version", path.display())]
    BadResult {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}
