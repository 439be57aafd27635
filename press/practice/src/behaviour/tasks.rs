//! What the workers of a pool do for a request: sleep, hold the one lock, or sync a file.
//!
//! Its invariant: a request that was answered had its whole task done, on disk too as far as the system keeps its word.

use super::pooled::Task;
use super::work::burn;
use crate::error::Error;
use crate::quantity::ns;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Sleeps, and uses no processor while it does.
pub(super) fn sleep(length: Duration) -> Arc<Task> {
    Arc::new(move |_| {
        thread::sleep(length);
        Ok(())
    })
}

/// Holds the one lock of the server while it sleeps or burns processor time: however many workers there are, one works.
pub(super) fn lock(hold: Duration, asleep: bool) -> Arc<Task> {
    let lock = Mutex::new(());
    Arc::new(move |_| {
        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if asleep {
            thread::sleep(hold);
        } else {
            burn(ns(hold));
        }
        Ok(())
    })
}

/// Appends the request to a file and syncs it.
pub(super) fn disk(path: &Path) -> Result<Arc<Task>, Error> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    let file = opened.map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?;
    Ok(Arc::new(move |request: &[u8]| {
        (&file).write_all(request)?;
        file.sync_data()
    }))
}
