//! Processes by number: those that are there, those that are to be started again, and their stop.
//!
//! The invariant: at any time a number has at most one process, and a stop ends in time whatever a process does. Even one
//! that the system cannot kill, because it stands in a disk that does not answer, is not waited for.

use crate::{Heard, Process, Worker};
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Pauses before a process is started again: the first, and the longest that they double up to.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(10);
/// How long a process may take to end once it was killed, or has closed its output.
const KILLED_MAX: Duration = Duration::from_millis(500);

/// A process: its number, and which of those that had the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who {
    /// From 0.
    pub number: usize,
    /// From 1.
    pub life: u64,
}

/// The processes of one parent.
#[derive(Debug)]
pub struct Fleet<O> {
    places: Vec<Place<O>>,
    stopper: Stopper,
    stopping: Option<Stopping>,
}

/// What a number has.
#[derive(Debug)]
struct Place<O> {
    worker: Option<Worker<O>>,
    lives: u64,
    /// Ends in a row without a sound life between them.
    failures: u32,
    again_at: Option<Instant>,
}

/// A stop under way.
#[derive(Debug)]
struct Stopping {
    /// When what is left is killed; nothing once it was.
    kill_at: Option<Instant>,
    /// When what is left even then is left behind.
    give_up_at: Instant,
}

impl<O: Serialize + Send + 'static> Fleet<O> {
    /// With so many numbers, and no process yet.
    pub fn new(count: usize) -> Fleet<O> {
        let place = |_| Place {
            worker: None,
            lives: 0,
            failures: 0,
            again_at: None,
        };
        Fleet {
            places: (0..count).map(place).collect(),
            stopper: Stopper::default(),
            stopping: None,
        }
    }

    /// Starts the process of a number that has none, whether or not that was planned for later; `heard` gets what it says, and at last that it is gone.
    ///
    /// # Errors
    /// The system's.
    pub fn start<S: DeserializeOwned>(
        &mut self,
        number: usize,
        command: Command,
        mut heard: impl FnMut(Who, Heard<S>) + Send + 'static,
    ) -> io::Result<&Worker<O>> {
        let place = &mut self.places[number];
        place.lives += 1;
        place.again_at = None;
        let life = place.lives;
        let worker = Worker::start(command, number, move |what| heard(Who { number, life }, what))?;
        self.stopper.add(number, worker.process());
        Ok(place.worker.insert(worker))
    }

    /// The process of that number, if it has one.
    pub fn worker(&self, number: usize) -> Option<&Worker<O>> {
        self.places.get(number)?.worker.as_ref()
    }

    /// Every process, with its number.
    pub fn workers(&self) -> impl Iterator<Item = (usize, &Worker<O>)> {
        let numbered = self.places.iter().enumerate();
        numbered.filter_map(|(number, place)| Some((number, place.worker.as_ref()?)))
    }

    /// Whether it is the one that the number has now.
    pub fn is_current(&self, who: Who) -> bool {
        let place = &self.places[who.number];
        place.worker.is_some() && place.lives == who.life
    }

    /// Takes a process away that says nothing any more: its number to the system, and how it ended. One that has not ended
    /// half a second later cannot be ended, and is left behind.
    pub fn take(&mut self, number: usize) -> Option<(u32, Option<ExitStatus>)> {
        let worker = self.places[number].worker.take()?;
        let process = worker.process();
        // Nothing to one that is ending, whose status is settled.
        process.kill();
        let status = process.ended_by(Instant::now() + KILLED_MAX);
        if status.is_none() {
            process.leave();
        }
        Some((process.pid(), status))
    }

    /// Plans to start the process of the number again; the pause before that, which doubles while no life was sound.
    pub fn plan(&mut self, number: usize, was_sound: bool) -> Duration {
        let place = &mut self.places[number];
        place.failures = if was_sound { 0 } else { place.failures };
        let pause = (AGAIN_FIRST * 2_u32.saturating_pow(place.failures.min(16))).min(AGAIN_MAX);
        place.failures += 1;
        place.again_at = Some(Instant::now() + pause);
        pause
    }

    /// The next number whose process is to be started again now.
    pub fn take_due(&mut self, now: Instant) -> Option<usize> {
        let is_due = |place: &mut Place<O>| place.again_at.take_if(|at| now >= *at).is_some();
        self.places.iter_mut().position(is_due)
    }

    /// When something is due next.
    pub fn due(&self) -> Option<Instant> {
        let again = self.places.iter().filter_map(|place| place.again_at);
        let stop = self.stopping.as_ref();
        let stop = stop.map(|stop| stop.kill_at.unwrap_or(stop.give_up_at));
        again.chain(stop).min()
    }

    /// What stops the processes from other threads.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Asks every process to end, once; what has not is killed at `kill_at`, and left behind at `give_up_at`.
    pub fn stop(&mut self, kill_at: Instant, give_up_at: Instant) {
        let kill_at = Some(kill_at);
        self.stopping.get_or_insert(Stopping { kill_at, give_up_at });
        self.places.iter_mut().for_each(|place| place.again_at = None);
        self.stopper.stop(false);
    }

    /// Whether a stop is under way.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Goes on with a stop: whether it is over. What cannot be ended is added to `left`.
    pub fn has_stopped(&mut self, left: &mut Vec<String>) -> bool {
        let Some(stopping) = &mut self.stopping else {
            return false;
        };
        let now = Instant::now();
        let is_late = stopping.kill_at.is_none() && now >= stopping.give_up_at;
        if stopping.kill_at.take_if(|at| now >= *at).is_some() {
            for (process, worker) in self.workers() {
                let pid = worker.process().pid();
                tracing::error!(process, pid, "a process has not stopped; it is killed");
            }
            self.stopper.stop(true);
        }
        for (number, place) in self.places.iter_mut().enumerate() {
            if let Some(worker) = place.worker.take_if(|_| is_late) {
                let pid = worker.process().pid();
                tracing::error!(
                    process = number,
                    pid,
                    "a process cannot be ended; it is left behind"
                );
                left.push(named(number, pid));
                worker.process().leave();
            }
        }
        self.workers().next().is_none()
    }

    /// Ends the input of every process, by which they end; those that have not by then are killed.
    pub fn close(&mut self, until: Instant) {
        let workers = self.places.iter_mut().filter_map(|place| place.worker.take());
        let closed: Vec<Arc<Process>> = workers.map(|worker| Arc::clone(worker.process())).collect();
        for process in closed {
            // A process that is dropped is killed.
            let _ = process.ended_by(until);
        }
    }
}

/// Whether a process ended in order when it was asked to: one that knew of no signal yet had begun nothing.
pub fn ended_in_order(status: ExitStatus) -> bool {
    status.success() || status.signal() == Some(Signal::TERM.as_raw())
}

/// Stops the processes of a fleet, from whatever thread, even where the fleet's own stands still; those that start from then
/// on are killed.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    processes: Vec<(usize, Weak<Process>)>,
    is_stopped: bool,
}

impl Known {
    fn running(&self) -> impl Iterator<Item = (usize, Arc<Process>)> {
        let known = self.processes.iter();
        known.filter_map(|(number, process)| Some((*number, process.upgrade()?)))
    }
}

/// A process, as what is left behind names it.
fn named(number: usize, pid: u32) -> String {
    format!("process {number} (pid {pid})")
}

impl Stopper {
    /// Asks every process to end, or kills it.
    pub fn stop(&self, at_once: bool) {
        let signal = if at_once { Signal::KILL } else { Signal::TERM };
        let mut known = self.known();
        known.is_stopped = true;
        let running = known.running();
        running.for_each(|(_, process)| process.signal(signal));
    }

    /// The processes that have not ended.
    pub fn left(&self) -> Vec<String> {
        let known = self.known();
        let running = known.running().filter(|(_, process)| process.ended().is_none());
        running
            .map(|(number, process)| named(number, process.pid()))
            .collect()
    }

    fn add(&self, number: usize, process: &Arc<Process>) {
        let mut known = self.known();
        if known.is_stopped {
            return process.kill();
        }
        known.processes.retain(|(_, process)| process.strong_count() > 0);
        known.processes.push((number, Arc::downgrade(process)));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
