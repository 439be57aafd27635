//! Looks whether the server's threads still do their work, and says so behind `/readyz` and `/healthz`.
//!
//! It fixes nothing: a thread that is stuck may come back, and one that has ended is for whoever supervises the process. Net
//! threads and acceptors are asked whether they turn; of the others it sees only that one has ended. Its invariant: while a net
//! thread or an acceptor has not turned for about a second, a thread has ended, a run goes on that was told to end, or it has not looked
//! itself for five seconds, the server is not ready.

use crate::Shared;
use crate::log::LogHandle;
use millpond_catalog::Catalog;
use millpond_net::{Pulses, Stuck};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one question to each thread to the next, and to each of several processes.
pub(crate) const BEAT: Duration = Duration::from_millis(300);
/// Questions without an answer, after which who is asked is stuck, and not ready: a second, and less than one and a half.
pub(crate) const STUCK: u32 = Pulses::STUCK;
/// Questions without an answer, after which nothing but a restart helps: ten seconds.
pub(crate) const HOPELESS: u32 = 33;
/// The same for those who are not asked, but turn with each question: what a turn takes is added.
pub(crate) const TURN_MAX: Duration = BEAT.saturating_mul(STUCK + 2);
pub(crate) const TURN_HOPELESS: Duration = BEAT.saturating_mul(HOPELESS);

/// How old the last look may be: the thread that looks asks locks of models and stores, which might not come back.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// When a thread last turned, for those who ask on others.
#[derive(Debug)]
pub(crate) struct LastTurn {
    began: Instant,
    /// In ms since `began`.
    turned_ms: AtomicU64,
}

impl LastTurn {
    pub(crate) fn now() -> LastTurn {
        LastTurn {
            began: Instant::now(),
            turned_ms: AtomicU64::new(0),
        }
    }

    /// It turns.
    pub(crate) fn note(&self) {
        let ms = self.began.elapsed().as_millis() as u64;
        self.turned_ms.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn is_older_than(&self, limit: Duration) -> bool {
        let turned = Duration::from_millis(self.turned_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(turned) > limit
    }
}

/// How the server's threads are.
#[derive(Debug)]
pub(crate) struct Health {
    /// When somebody last looked.
    looked: LastTurn,
    /// Somebody looks.
    is_watched: AtomicBool,
    /// Threads that do not turn.
    stuck: AtomicU32,
    /// There is no hope for one of the threads.
    hopeless: AtomicBool,
    /// What is wrong, for those who ask.
    words: Mutex<String>,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            looked: LastTurn::now(),
            is_watched: AtomicBool::new(false),
            stuck: AtomicU32::new(0),
            hopeless: AtomicBool::new(false),
            words: Mutex::default(),
        }
    }
}

impl Health {
    /// Why no call should come here, if there is a reason.
    pub(crate) fn complaint(&self) -> Option<String> {
        if !self.is_watched.load(Ordering::Relaxed) {
            return Some("nobody watches the server's threads".to_owned());
        }
        if self.looked.is_older_than(LOOK_MAX) {
            return Some("the thread that watches the others does not turn".to_owned());
        }
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        (!words.is_empty()).then(|| words.clone())
    }

    /// The same where only a restart helps.
    pub(crate) fn hopeless(&self) -> Option<String> {
        let is_stuck = self.is_watched.load(Ordering::Relaxed) && self.looked.is_older_than(TURN_HOPELESS);
        let hopeless = is_stuck || self.hopeless.load(Ordering::Relaxed);
        hopeless.then(|| self.complaint().unwrap_or_default())
    }

    /// Threads that do not turn now.
    pub(crate) fn stuck(&self) -> u32 {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Takes down what was found; says in the log what has changed.
    fn set(&self, stuck: &[Stuck], ended: &[String], overdue: &[String]) {
        self.looked.note();
        let hopeless = !ended.is_empty() || stuck.iter().any(|found| found.silent >= HOPELESS);
        let names = stuck
            .iter()
            .map(|found| format!("{} does not turn", found.thread));
        let ended = ended.iter().map(|name| format!("{name} has ended"));
        let overdue = overdue
            .iter()
            .map(|model| format!("a run of models.{model} does not end"));
        let words = names.chain(ended).chain(overdue).collect::<Vec<_>>().join(", ");
        self.stuck.store(stuck.len() as u32, Ordering::Relaxed);
        self.hopeless.store(hopeless, Ordering::Relaxed);
        let mut before = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if *before == words {
            return;
        }
        match words.is_empty() {
            true => tracing::info!("ready again: all threads turn"),
            false => tracing::error!("not ready: {words}"),
        }
        *before = words;
    }
}

/// The thread that looks.
pub(crate) struct Watch {
    /// It ends when this is dropped.
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

/// However it ends, that is seen.
struct Watching(Arc<Shared>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.health.is_watched.store(false, Ordering::Relaxed);
    }
}

impl Watch {
    /// Begins to look.
    pub(crate) fn start(shared: &Arc<Shared>, pulses: Pulses) -> Result<Watch, crate::Error> {
        let (stop, stopped) = sync_channel(1);
        shared.health.looked.note();
        shared.health.is_watched.store(true, Ordering::Relaxed);
        let watching = Watching(Arc::clone(shared));
        let thread = std::thread::Builder::new()
            .name("watch".into())
            .spawn(move || watch(&watching, &pulses, &stopped))
            .map_err(|source| millpond_net::Error::Thread {
                what: "the thread that watches the others".into(),
                source,
            })?;
        Ok(Watch { stop, thread })
    }

    /// Tells it to end; its thread.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        drop(self.stop);
        self.thread
    }
}

fn watch(watching: &Watching, pulses: &Pulses, stopped: &Receiver<()>) {
    let Watching(shared) = watching;
    while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
        shared.health.set(&pulses.ask(), &ended(shared), &overdue(shared));
    }
}

/// Threads that have ended by a panic, in a program that does not end by one.
fn ended(shared: &Shared) -> Vec<String> {
    let log = shared.program.log.as_ref().is_some_and(LogHandle::has_died);
    let tls = shared.certificate.get().is_some_and(|tls| tls.has_watch_died());
    let watcher = shared.switching.has_watcher_died.load(Ordering::Relaxed);
    let beside = [
        (log, "the log's thread"),
        (watcher, "a thread that watches the folder of a feature table"),
        (tls, "the thread that watches the files of server.tls"),
    ];
    let beside = beside.into_iter().filter(|(has_died, _)| *has_died);
    let mut ended = shared
        .calls
        .state()
        .map_or(Vec::new(), |engines| ended_of_engines(&engines));
    ended.extend(beside.map(|(_, name)| name.to_owned()));
    ended
}

/// Models of which a run lasts longer than it may, and was told to end.
fn overdue(shared: &Shared) -> Vec<String> {
    let Some(engines) = shared.calls.state() else {
        return Vec::new();
    };
    let models = engines.models.iter();
    let overdue = models.filter(|(_, model)| model.batcher.model().is_overdue());
    overdue.map(|(name, _)| name.to_string()).collect()
}

fn ended_of_engines(engines: &Catalog) -> Vec<String> {
    let models = engines
        .models
        .iter()
        .filter(|(_, model)| !model.batcher.is_whole());
    let models = models.map(|(name, _)| format!("an instance of models.{name}"));
    let stores = engines.stores.iter().filter(|(_, store)| store.has_died());
    let overlays = engines.overlays().filter(|(_, overlay)| overlay.has_died());
    let stages = engines.stage_threads().filter(|threads| !threads.is_whole());
    models
        .chain(stages.map(|threads| format!("a thread of stage {}", threads.name())))
        .chain(stores.map(|(name, _)| format!("the log thread of ordered.{name}")))
        .chain(overlays.map(|(name, _)| format!("the log thread of features.{name}.overlay")))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_stuck_for_long_or_has_ended_is_hopeless() {
        let health = Health::default();
        assert!(health.complaint().unwrap().contains("nobody watches"));
        health.is_watched.store(true, Ordering::Relaxed);
        assert_eq!((health.complaint(), health.hopeless()), (None, None));
        let stuck = |silent| Stuck {
            thread: "net-0".into(),
            silent,
        };
        health.set(&[stuck(STUCK)], &[], &[]);
        assert_eq!(health.complaint().unwrap(), "net-0 does not turn");
        assert_eq!((health.stuck(), health.hopeless()), (1, None));
        health.set(&[stuck(HOPELESS)], &[], &[]);
        assert_eq!(health.hopeless().unwrap(), "net-0 does not turn");
        health.set(&[], &["an instance of models.m".into()], &[]);
        assert_eq!(health.hopeless().unwrap(), "an instance of models.m has ended");
        health.set(&[], &[], &["m".into()]);
        let words = "a run of models.m does not end";
        assert_eq!(
            (health.complaint().as_deref(), health.hopeless()),
            (Some(words), None)
        );
        health.set(&[], &[], &[]);
        assert_eq!(
            (health.complaint(), health.hopeless(), health.stuck()),
            (None, None, 0)
        );
    }

    #[test]
    fn the_end_of_the_logs_thread_is_seen() {
        let in_program = |program| Shared::new(crate::config::Config::default(), program);
        assert!(ended(&in_program(crate::Program::default())).is_empty());
        let program = crate::Program {
            log: Some(LogHandle::dead()),
            ..crate::Program::default()
        };
        assert_eq!(ended(&in_program(program)), ["the log's thread"]);
    }
}
