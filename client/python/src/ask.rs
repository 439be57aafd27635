//! Handing work to the driver, and the two ways to its end: a thread that waits, or an event loop that is notified.
//!
//! It knows no methods. Its invariant: the caller learns exactly once how it ended, also when the work panics; and work
//! that nobody waits for any more is stopped.

use crate::arrivals::{Arrivals, Queue};
use crate::driver::{Driver, Order, lock};
use crate::ending::detach;
use crate::failure::{Failure, forked};
use crate::pool::Outcome;
use crate::process::OfProcess;
use millpond_client_rust::CallError;
use pyo3::prelude::*;
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How a piece of work ended.
pub(crate) type Ended = Result<Outcome, Failure>;

/// The event loop to tell, and under which number: `(arrivals, number)` in Python.
pub(crate) type Listener<'py> = (PyRef<'py, Arrivals>, u64);

/// How often a waiting thread looks for signals: what a Ctrl-C waits at the longest.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Has `work` done. Without a listener, waits for its end and returns what it gave; with one, returns a [`Ticket`] at once.
///
/// # Errors
/// Without a listener, the work's own, and what a signal handler raised meanwhile (the work is stopped then).
pub(crate) fn ask(
    py: Python<'_>,
    driver: &Arc<Driver>,
    listener: Option<Listener<'_>>,
    work: impl Future<Output = Result<Outcome, CallError>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let (sender, left) = oneshot::channel::<()>();
    let asker = Asker {
        driver: driver.clone(),
        sender,
    };
    let hand_over = |to: To| {
        let reply = Reply::new(to);
        driver.submit(Order::Begin(Box::pin(async move {
            tokio::select! {
                biased;
                _ = left => reply.unheard(),
                ended = work => reply.send(ended.map_err(Failure::Call)),
            }
        })));
    };
    if let Some((arrivals, number)) = listener {
        let queue = arrivals.queue.get().map_err(forked)?.clone();
        hand_over(To::Loop { queue, number });
        let asker = Mutex::new(Some(OfProcess::new(asker)));
        return Ok(Py::new(py, Ticket { asker })?.into_any());
    }
    let slot = Arc::new(Slot::default());
    hand_over(To::Thread(slot.clone()));
    let ended = slot.wait(py);
    asker.leave();
    ended?.map_err(|failure| failure.into_python(py))?.into_python(py)
}

/// The caller that waits for work.
struct Asker {
    driver: Arc<Driver>,
    /// The work stops when it is dropped.
    sender: oneshot::Sender<()>,
}

impl Asker {
    /// Stops the work, if it has not ended.
    fn leave(self) {
        if !self.sender.is_closed() {
            self.driver.submit(Order::Stop(self.sender));
        }
    }
}

/// Who receives the result.
pub(crate) enum To {
    Thread(Arc<Slot>),
    Loop { queue: Arc<Queue>, number: u64 },
}

/// Tells how the work ended; dropped untold, it says that the work was lost.
pub(crate) struct Reply {
    /// `None` once it was delivered.
    to: Option<To>,
}

impl Reply {
    pub(crate) fn new(to: To) -> Reply {
        Reply { to: Some(to) }
    }

    pub(crate) fn send(mut self, ended: Ended) {
        self.tell(ended);
    }

    /// Nobody waits for it any more.
    fn unheard(mut self) {
        self.to = None;
    }

    fn tell(&mut self, ended: Ended) {
        match self.to.take() {
            Some(To::Thread(slot)) => slot.put(ended),
            Some(To::Loop { queue, number }) => queue.put(number, ended),
            None => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.tell(Err(Failure::Lost));
    }
}

/// Where a waiting thread finds how its work ended.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    ended: Option<Ended>,
    /// A thread sleeps on `filled`. Without one, `put` saves the system call that would wake it.
    is_awaited: bool,
}

impl Slot {
    fn put(&self, ended: Ended) {
        let mut state = lock(&self.state);
        state.ended = Some(ended);
        let is_awaited = state.is_awaited;
        drop(state);
        if is_awaited {
            self.filled.notify_one();
        }
    }

    /// Whether it is known how the work ended.
    pub(crate) fn is_filled(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// Waits with the interpreter let go, but for looks at its signals.
    ///
    /// # Errors
    /// What a signal handler raised.
    pub(crate) fn wait(&self, py: Python<'_>) -> PyResult<Ended> {
        Ok(self.wait_until(py, None)?.unwrap_or(Err(Failure::Lost)))
    }

    /// The same, until then; `None` where the work has not ended.
    pub(crate) fn wait_until(&self, py: Python<'_>, until: Option<Instant>) -> PyResult<Option<Ended>> {
        let mut ended = lock(&self.state).ended.take();
        while ended.is_none() && until.is_none_or(|until| Instant::now() < until) {
            ended = detach(py, || self.wait_slice());
            if ended.is_none() {
                py.check_signals()?;
            }
        }
        Ok(ended)
    }

    fn wait_slice(&self) -> Option<Ended> {
        let mut state = lock(&self.state);
        state.is_awaited = true;
        let empty = |state: &mut State| state.ended.is_none();
        let (mut state, _) = self
            .filled
            .wait_timeout_while(state, SIGNALS_EVERY, empty)
            .unwrap_or_else(PoisonError::into_inner);
        state.is_awaited = false;
        state.ended.take()
    }
}

/// What the caller in an event loop holds while he waits. Given up or collected, it stops the work.
#[pyclass(frozen, module = "millpond._native")]
pub(crate) struct Ticket {
    /// `None` once it was given up.
    asker: Mutex<Option<OfProcess<Asker>>>,
}

#[pymethods]
impl Ticket {
    /// Stops the work, if it has not ended.
    fn abandon(&self) {
        let asker = lock(&self.asker).take();
        if let Some(asker) = asker.and_then(OfProcess::into_inner) {
            asker.leave();
        }
    }
}
