//! The thread that looks at both sides while a load is offered.
//!
//! Looking costs some milliseconds a second. At an even footing with the server and the load generator that would show in
//! their 99th percentile, so this thread runs only when they leave a core free, as far as the system lets it step back. Its
//! invariant: it touches nothing of theirs, and ends when it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use millpond_press_recorder::{Live, Resources, Sampler};

use crate::Error;
use crate::measure::Watched;
use millpond_press_load::Clock;

/// The nice value of a thread that runs only when others leave a core free.
const STEPPED_BACK: i32 = 19;
/// How often threads are looked at.
const LOOK: Duration = Duration::from_millis(50);
const SECOND: u64 = 1_000_000_000;
/// What is left after the last second counts as an interval only if it is at least this long.
const REST_MIN: u64 = 300_000_000;

/// A running watch.
pub(crate) struct Watcher {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What was seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) resources: Resources,
    /// Requests on their way at the end of each second.
    pub(crate) outstanding: Vec<u64>,
}

struct Watch {
    clock: Clock,
    from: u64,
    lives: Vec<Arc<Live>>,
    sampler: Sampler,
    outstanding: Vec<u64>,
    /// When the next second ends.
    next: u64,
}

impl Watcher {
    /// Begins to watch at `from`, on the load's clock.
    pub(crate) fn start(
        clock: Clock,
        from: u64,
        watched: &Watched,
        client_pids: &[u32],
        lives: &[Arc<Live>],
    ) -> Result<Watcher, Error> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, watched, lives) = (is_over.clone(), watched.clone(), lives.to_vec());
        let clients = client_pids.to_vec();
        let body = move || {
            // A system that refuses leaves it as it is; on Linux the process of this number is the calling thread alone.
            let _ = rustix::process::setpriority_process(None, STEPPED_BACK);
            let servers = watched.server_pid.into_iter().collect();
            let watch = Watch {
                clock,
                from,
                lives,
                sampler: Sampler::new(servers, clients, watched.port),
                outstanding: Vec::new(),
                next: from + SECOND,
            };
            watch.run(&over)
        };
        let thread = std::thread::Builder::new()
            .name("press-watcher".into())
            .spawn(body);
        Ok(Watcher {
            is_over,
            thread: thread.map_err(|error| Error::ClientThread(error.to_string()))?,
        })
    }

    /// Ends the watch.
    pub(crate) fn end(self) -> Seen {
        self.is_over.store(true, Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

impl Watch {
    fn run(mut self, is_over: &AtomicBool) -> Seen {
        let mut has_begun = false;
        while !is_over.load(Relaxed) {
            let now = self.clock.now();
            if now < self.from {
                std::thread::park_timeout(LOOK.min(Duration::from_nanos(self.from - now)));
                continue;
            }
            if !std::mem::replace(&mut has_begun, true) {
                self.sampler.start();
            }
            self.sampler.tick_states();
            if now >= self.next {
                self.second();
            }
            std::thread::park_timeout(LOOK);
        }
        // Too short a rest would count as much as a whole second.
        let rest = (self.clock.now() + SECOND).saturating_sub(self.next);
        if self.outstanding.is_empty() || rest > REST_MIN {
            self.second();
        }
        Seen {
            resources: self.sampler.finish(),
            outstanding: self.outstanding,
        }
    }

    fn second(&mut self) {
        let now = self.clock.now();
        let outstanding = self.lives.iter().map(|live| live.outstanding.load(Relaxed));
        self.outstanding.push(outstanding.sum());
        while self.next <= now {
            self.next += SECOND;
        }
        self.sampler.second(now.saturating_sub(self.from) as f64 / 1e9);
    }
}
