//! Reports from result folders, without measuring anything.
//!
//! Its invariant: the folders are only read, but for the page and the tables drawn beside their `result.json`.

use std::path::{Path, PathBuf};

use millpond_press_report::{Folder, RunResult, html, read, report, terminal};

use crate::Error;

/// What was drawn.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// Where the HTML page is.
    pub page: PathBuf,
    /// The reports of all folders in Markdown, one after the other.
    pub markdown: String,
    /// The same for a terminal.
    pub text: String,
    /// The results as a JSON array.
    pub json: String,
}

/// Draws one HTML page over all `folders`; each folder also gets its own report, page and CSV files anew. `page` is where the
/// page goes: by default `report.html` in the only folder, or in the current one for several.
///
/// # Errors
/// A folder holds no result of this version, or the disk refuses.
pub fn draw(folders: &[PathBuf], page: Option<&Path>) -> Result<Drawn, Error> {
    let mut runs: Vec<RunResult> = Vec::new();
    for folder in folders {
        runs.push(read(folder)?);
    }
    for (folder, run) in folders.iter().zip(&runs) {
        Folder::of(folder).draw(run)?;
    }
    let page = match (page, folders) {
        // It was just drawn.
        (None, [folder]) => folder.join("report.html"),
        (page, _) => {
            let page = page.unwrap_or(Path::new("report.html"));
            write(page, &html(&runs))?;
            page.to_owned()
        }
    };
    let markdown: Vec<String> = runs.iter().map(report).collect();
    Ok(Drawn {
        page,
        markdown: markdown.join("\n"),
        text: runs.iter().map(terminal).collect::<Vec<_>>().join("\n"),
        json: serde_json::to_string_pretty(&runs).unwrap_or_default(),
    })
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| {
        Error::Report(millpond_press_report::Error::Io {
            action: "write",
            path: path.to_owned(),
            source,
        })
    })
}
