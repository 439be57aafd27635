//! The few things the log asks of a file system, as a trait, so that tests can make each of them fail.
//!
//! Not a general file system: reading goes through `std::fs`. Invariant: what a method reports as
//! done is done to the file itself; nothing is buffered in this process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Makes and opens the files of a log's folder.
pub trait Disk: Send + Sync {
    /// Creates a file that must not be there yet.
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;
    /// Opens an existing file for writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;
    /// Gives a file another name, in place of the file that has that, if there is one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, new names and removals in the folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// One file that is being written.
pub trait LogFile: Send + Sync {
    /// Writes at the offset, possibly fewer bytes than given; returns how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes written bytes durable.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file to `length` bytes and makes the cut durable.
    fn truncate(&self, length: u64) -> io::Result<()>;
}

/// The file system of this machine.
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let file = OpenOptions::new().write(true).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

struct RealFile(File);

impl LogFile for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let because = |what| move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
        self.0.set_len(length).map_err(because("cannot cut the file"))?;
        // The whole sync: a shorter length is metadata that a data sync may leave behind.
        self.0
            .sync_all()
            .map_err(because("it was cut, but cannot be synced"))
    }
}
