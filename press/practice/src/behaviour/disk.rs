//! Every request is appended to a file and synced before it is answered.
//!
//! Its invariant: what was answered is on disk, as far as the system keeps its word.

use super::pooled::Task;
use crate::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

pub(crate) struct Disk {
    file: File,
}

impl Disk {
    pub(crate) fn open(path: &Path) -> Result<Disk, Error> {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Disk { file })
    }
}

impl Task for Disk {
    fn work(&self, request: &[u8]) -> io::Result<()> {
        (&self.file).write_all(request)?;
        self.file.sync_data()
    }
}
