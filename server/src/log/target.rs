//! What the log writes to: a file, a pipe in its place, or standard error; and words beside the log.
//!
//! Its invariants: opening waits for no reader, and nothing here takes the standard library's lock of standard error, which a
//! write that does not end would keep from everybody else.

use super::queue::{FILE_CHUNK_BYTES, PIPE_CHUNK_BYTES};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// How long words on standard error wait for a reader.
const READER_PATIENCE: Duration = Duration::from_secs(1);

/// Opens the place, and says how many bytes of lines may be written to it at once.
pub(super) fn open(path: Option<&Path>) -> io::Result<(File, usize)> {
    let Some(path) = path else {
        // It may be a pipe, and who else writes to it cannot be known: other processes of the server, their parent.
        return Ok((stderr()?, PIPE_CHUNK_BYTES));
    };
    if std::fs::metadata(path).is_ok_and(|what| what.file_type().is_fifo()) {
        // A named pipe that is opened for writing alone waits for a reader (fifo(7)).
        let pipe = OpenOptions::new().read(true).write(true).open(path);
        let pipe = pipe.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("{error} (a named pipe is opened for reading too)"),
            )
        });
        return Ok((pipe?, PIPE_CHUNK_BYTES));
    }
    Ok((
        OpenOptions::new().create(true).append(true).open(path)?,
        FILE_CHUNK_BYTES,
    ))
}

fn stderr() -> io::Result<File> {
    let own = io::stderr().as_fd().try_clone_to_owned()?;
    Ok(own.into())
}

/// Writes a line to standard error, and gives it up after a second in which nobody takes it.
pub fn say(text: &str) {
    say_within(text, READER_PATIENCE);
}

/// The same, given up after that long.
pub fn say_within(text: &str, patience: Duration) {
    let line = format!("{text}\n");
    let Ok(mut to) = stderr() else {
        return;
    };
    let (done, written) = sync_channel(1);
    let thread = std::thread::Builder::new().name("stderr".into());
    let started = thread.spawn(move || {
        // There is nobody else to tell.
        let _ = to.write_all(line.as_bytes());
        let _ = done.send(());
    });
    if started.is_ok() {
        // The process may end while the thread still stands in its write.
        let _ = written.recv_timeout(patience);
    }
}
