//! Ends runs that last longer than `run_ms_max`: one thread a model that has the key.
//!
//! It asks ONNX Runtime to end a run, which looks between two operators whether to; an operator that does not return is only
//! reported. Its invariants: a run that is over is never ended in place of the next one, and beginning a run wakes nobody.

use ort::session::RunOptions;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// A run that was told to end and goes on for so long hangs.
const GRACE: Duration = Duration::from_secs(1);

/// What bounds the runs of one model.
pub(crate) struct Limit {
    shared: Arc<Shared>,
    /// The thread ends when this is dropped.
    _stop: SyncSender<()>,
}

struct Shared {
    longest: Duration,
    /// One an instance.
    places: Mutex<Vec<Weak<Place>>>,
}

/// Where an instance runs.
pub(crate) struct Place {
    options: Arc<RunOptions>,
    longest: Duration,
    run: Mutex<Option<Run>>,
}

/// The run that an instance is at.
struct Run {
    began: Instant,
    is_told_to_end: bool,
}

impl Limit {
    /// Starts the thread.
    pub(crate) fn start(longest: Duration) -> io::Result<Limit> {
        let (stop, stopped) = sync_channel(1);
        let shared = Arc::new(Shared {
            longest,
            places: Mutex::default(),
        });
        let watched = Arc::clone(&shared);
        thread::Builder::new()
            .name("run-limit".into())
            .spawn(move || watch(&watched, &stopped))?;
        Ok(Limit { shared, _stop: stop })
    }

    /// A place for runs with these options.
    pub(crate) fn place(&self, options: &Arc<RunOptions>) -> Arc<Place> {
        let place = Arc::new(Place {
            options: Arc::clone(options),
            longest: self.shared.longest,
            run: Mutex::default(),
        });
        self.shared.places().push(Arc::downgrade(&place));
        place
    }

    /// Whether a run that was told to end goes on.
    pub(crate) fn is_overdue(&self) -> bool {
        let places = self.shared.places();
        let mut places = places.iter().filter_map(Weak::upgrade);
        places.any(|place| {
            let run = place.run();
            run.as_ref()
                .is_some_and(|run| run.is_told_to_end && run.began.elapsed() > place.longest + GRACE)
        })
    }
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, Vec<Weak<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn run(&self) -> MutexGuard<'_, Option<Run>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run begins.
    pub(crate) fn begin(&self) {
        *self.run() = Some(Run {
            began: Instant::now(),
            is_told_to_end: false,
        });
    }

    /// It is over. Returns why it failed, if it was told to end.
    pub(crate) fn end(&self) -> Option<String> {
        let mut run = self.run();
        if !run.take()?.is_told_to_end {
            return None;
        }
        // The options are those of the next run as well.
        let still = self.options.unterminate().err().map(|error| error.to_string());
        let ms = self.longest.as_millis();
        Some(still.unwrap_or_else(|| {
            format!("a run took longer than run_ms_max ({ms} ms) and was ended; raise run_ms_max, or send less at a time")
        }))
    }

    /// Ends its run if it has lasted too long; how long it may go on otherwise.
    fn look(&self, now: Instant) -> Option<Duration> {
        let mut run = self.run();
        let run = run.as_mut().filter(|run| !run.is_told_to_end)?;
        let left = self
            .longest
            .saturating_sub(now.saturating_duration_since(run.began));
        if left.is_zero() {
            // It fails where the library has no such call, which all that are loaded have.
            run.is_told_to_end = self.options.terminate().is_ok();
            return None;
        }
        Some(left)
    }
}

fn watch(shared: &Shared, stopped: &Receiver<()>) {
    let mut wait = shared.longest;
    while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let now = Instant::now();
        // What begins from here on is not over its time before that.
        wait = shared.longest;
        shared.places().retain(|place| {
            let Some(place) = place.upgrade() else {
                return false;
            };
            if let Some(left) = place.look(now) {
                wait = wait.min(left);
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::library;
    use std::io::Write;

    #[test]
    fn a_run_that_goes_on_is_overdue() {
        if let Err((problem, _)) = library::runtime() {
            // As cargo prints it, past its capture (.ci/skips.py).
            let line = format!("\ntest a_run_that_goes_on_is_overdue ... ignored, {problem}\n");
            io::stdout().write_all(line.as_bytes()).unwrap();
            return;
        }
        let limit = Limit::start(Duration::from_millis(10)).unwrap();
        let options = Arc::new(RunOptions::new().unwrap());
        let place = limit.place(&options);
        place.begin();
        assert!(!limit.is_overdue());
        let give_up = Instant::now() + Duration::from_secs(60);
        while !limit.is_overdue() {
            assert!(Instant::now() < give_up);
            thread::sleep(Duration::from_millis(20));
        }
        let problem = place.end().unwrap();
        assert!(problem.contains("run_ms_max (10 ms)"), "{problem}");
        assert!(!limit.is_overdue());
        // The next one is not ended in its place.
        place.begin();
        assert_eq!(place.end(), None);
    }
}
