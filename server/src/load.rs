//! `millpond ordered load`: a file of entries into a store's folder, with no server running.
//! Its invariant: a line that cannot be loaded stops the load and is named; what was loaded before it stays.

use crate::Error;
use millpond_catalog::{self as catalog, Resources, open_store};
use millpond_engines_ordered::{Put, Section};
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Entries of one put: few enough to stay small, many enough that the log is synced seldom.
const ENTRIES_A_PUT: usize = 1000;

/// One line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    value: String,
}

/// What a load did.
#[derive(Debug, Clone, Copy)]
pub struct LoadSummary {
    /// Entries written.
    pub entries: u64,
    /// Keys in the store afterwards.
    pub keys: usize,
}

/// Loads `file`, one JSON object `{"key": text, "value": text}` a line, into the store at `section.path`.
///
/// # Errors
/// [`Error`] naming the line, or what the store says.
pub fn load_events(
    section: &Section,
    file: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<LoadSummary, Error> {
    let place = file.display().to_string();
    let opened =
        File::open(file).map_err(|error| Error::config(&place, format!("cannot be read: {error}")))?;
    let store = open_store("load", section, Resources::default().put_bytes_max)?;
    let mut entries = 0;
    let mut batch = Vec::with_capacity(ENTRIES_A_PUT);
    let mut write = |batch: &mut Vec<(Vec<u8>, Vec<u8>)>| {
        let put = Put {
            entries: std::mem::take(batch),
            if_version: None,
            if_absent: false,
        };
        entries += put.entries.len() as u64;
        store
            .put_wait(put)
            .map_err(|error| Error::config(&place, error.to_string()))?;
        progress(entries);
        Ok::<(), Error>(())
    };
    for (number, line) in BufReader::new(opened).lines().enumerate() {
        let at = |problem: String| Error::config(&format!("{place}, line {}", number + 1), problem);
        let line = line.map_err(|error| at(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(&line)
            .map_err(|error| at(format!("{error}; expected {{\"key\": \"…\", \"value\": \"…\"}}")))?;
        batch.push((line.key.into_bytes(), line.value.into_bytes()));
        if batch.len() == ENTRIES_A_PUT {
            write(&mut batch)?;
        }
    }
    if !batch.is_empty() {
        write(&mut batch)?;
    }
    let keys = store.len();
    store.close().map_err(catalog::Error::part("ordered", "load"))?;
    Ok(LoadSummary { entries, keys })
}
