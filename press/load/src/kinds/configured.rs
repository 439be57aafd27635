//! What a file describes, opened in this process: a server's tables, stores, models and pipelines, or a model alone.
//!
//! It calls nothing. Its invariant: targets that name the same file share what it describes, as long as one of them is open, as they would
//! share a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use millpond_catalog::{Handle, ModelSection, Resources, Sections, paths_mut};

/// What is open, by its file.
static OPEN: Mutex<BTreeMap<PathBuf, Weak<Handle>>> = Mutex::new(BTreeMap::new());

/// What the file describes, its models warm. The error names the file or what it lacks.
pub(super) fn open(file: &Path) -> Result<Arc<Handle>, String> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = open.get(file).and_then(Weak::upgrade) {
        return Ok(handle);
    }
    let handle = Handle::open(sections(file)?, Resources::default()).map_err(|error| error.to_string())?;
    handle.warm().map_err(|error| error.to_string())?;
    let handle = Arc::new(handle);
    open.insert(file.to_owned(), Arc::downgrade(&handle));
    Ok(handle)
}

/// What a file describes: the features, stores, models and pipelines of a server's configuration, or a model alone.
fn sections(file: &Path) -> Result<Sections, String> {
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    if file.extension().is_none_or(|extension| extension != "toml") {
        let path = file.to_str().ok_or_else(|| at(&"its path is not UTF-8"))?;
        let keys = toml::Table::from_iter([("path".to_owned(), path.into())]);
        return Ok(Sections {
            models: BTreeMap::from([("model".to_owned(), ModelSection::try_from(keys)?)]),
            ..Sections::default()
        });
    }
    let text = std::fs::read_to_string(file).map_err(|error| at(&error))?;
    let mut sections: Sections = toml::from_str(&text).map_err(|error| at(&error))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    for path in paths_mut(
        &mut sections.features,
        &mut sections.ordered,
        &mut sections.models,
        &mut sections.onnxruntime,
    ) {
        *path = folder.join(&*path);
    }
    sections.check().map_err(|problem| at(&problem.text))?;
    Ok(sections)
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(in crate::kinds) const MODEL: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../backends/onnxruntime/tests/data/mlp.onnx"
    );

    /// Has models run on the library of the demo's environment, where the environment names none and it is there.
    pub(in crate::kinds) fn choose_library() {
        let of_the_demo = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.demo/venv"));
        let is_wanted = std::env::var_os("ORT_DYLIB_PATH").is_none() && of_the_demo.is_dir();
        let library = is_wanted.then(|| of_the_demo.to_owned());
        millpond_catalog::Library { library }.choose().unwrap();
    }

    #[test]
    fn a_file_is_opened_once_while_it_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("millpond.toml");
        std::fs::write(
            &file,
            "[models.wait]\nbackend = \"practice\"\nbehaviour = \"wait\"\nus = 1",
        )
        .unwrap();
        let first = open(&file).unwrap();
        assert!(Arc::ptr_eq(&first, &open(&file).unwrap()));
        drop(first);
        std::fs::write(&file, "[pipelines.r1]\nrequest = \"samples\"").unwrap();
        assert!(open(&file).is_err_and(|error| error.contains("millpond.toml")));
    }
}
