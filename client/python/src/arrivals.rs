//! Ended work on its way into one event loop: a queue, and a socket that is readable while there is something in it.
//!
//! The loop watches the socket like any other, so the client's thread needs no interpreter to wake it. It knows no futures:
//! Python keeps those by their numbers. Its invariant: one byte lies in the socket exactly while the queue holds something,
//! so many answers cost one wake-up.

use crate::ask::Ended;
use crate::driver::lock;
use crate::ending::{Use, hold};
use crate::failure::forked;
use crate::process::OfProcess;
use pyo3::prelude::*;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

/// What both sides hold.
pub(crate) struct Queue {
    ended: Mutex<Vec<(u64, Ended)>>,
    /// The end that is written to.
    wake_writer: UnixStream,
    /// The end that the loop watches.
    wake_reader: UnixStream,
}

impl Queue {
    fn new() -> io::Result<Queue> {
        let (wake_writer, wake_reader) = UnixStream::pair()?;
        wake_writer.set_nonblocking(true)?;
        wake_reader.set_nonblocking(true)?;
        Ok(Queue {
            ended: Mutex::default(),
            wake_writer,
            wake_reader,
        })
    }

    /// Leaves how the work of that number ended.
    pub(crate) fn put(&self, number: u64, ended: Ended) {
        let mut queue = lock(&self.ended);
        if queue.is_empty() {
            // At most this one byte is ever under way: there is always space for it.
            let _ = (&self.wake_writer).write(&[1]);
        }
        queue.push((number, ended));
    }

    fn take(&self) -> Vec<(u64, Ended)> {
        let mut queue = lock(&self.ended);
        if !queue.is_empty() {
            let _ = (&self.wake_reader).read(&mut [0]);
        }
        std::mem::take(&mut *queue)
    }
}

/// A number, and what its work gave or the exception that it ended in.
type Arrived = (u64, Option<Py<PyAny>>, Option<PyErr>);

/// Ended work for one event loop, by the numbers that Python gave it.
#[pyclass(frozen, module = "millpond._native")]
pub(crate) struct Arrivals {
    /// Shared with the work under way.
    pub(crate) queue: OfProcess<Arc<Queue>>,
}

#[pymethods]
impl Arrivals {
    #[new]
    fn new() -> PyResult<Arrivals> {
        Ok(Arrivals {
            queue: OfProcess::new(Arc::new(Queue::new()?)),
        })
    }

    /// The descriptor to watch for reading.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.queue.get().map_err(forked)?.wake_reader.as_raw_fd())
    }

    /// What has ended since the last time: `(number, what it gave, None)` or `(number, None, exception)`.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<Arrived>> {
        hold(py);
        let _use = Use::begin();
        let taken = self.queue.get().map_err(forked)?.take();
        let in_python = taken.into_iter().map(|(number, ended)| {
            let given = ended
                .map_err(|failure| failure.into_python(py))
                .and_then(|outcome| outcome.into_python(py));
            match given {
                Ok(given) => (number, Some(given), None),
                Err(error) => (number, None, Some(error)),
            }
        });
        Ok(in_python.collect())
    }
}
