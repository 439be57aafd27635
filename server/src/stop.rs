//! The stop of a server: what each part of it may take, and what is left behind.
//!
//! There is one deadline, counted from the word to stop: accepted calls have `server.drain_ms_max`, and everything else fits into the
//! second behind it, for the process ends then. Its invariant: no part waits for a thread that may never end.

use crate::{Server, Shared};
use millpond_calls::Admission;
use millpond_net::Transport;
use millpond_threads::{ends_by, join_by};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a stop waits for answers to leave their sockets, where nothing else presses.
const FLUSH_MAX: Duration = Duration::from_secs(2);
/// What answers have at least, behind the drain.
const FLUSH_LATE: Duration = Duration::from_millis(150);
/// When models and stores must have ended, behind the drain.
const ENGINES_LATE: Duration = Duration::from_millis(550);
/// When the process of a server ends at the latest, behind the drain; the log is flushed by then.
pub const STOP_LATE: Duration = Duration::from_millis(750);
/// When a parent kills the processes that have not ended by themselves, behind the drain.
pub(crate) const KILL_LATE: Duration = Duration::from_millis(820);
/// When a parent waits no longer for processes that it has killed and that have not ended, behind the drain.
pub(crate) const GONE_LATE: Duration = Duration::from_millis(900);
/// When a parent's process ends at the latest, behind the drain.
pub const PARENT_STOP_LATE: Duration = Duration::from_millis(950);
/// How long one with nothing left to do refuses what callers still send: a round trip and a thought of theirs.
const STRAGGLERS: Duration = Duration::from_millis(250);
/// What the thread that ends models and stores may take beyond their time to say which have not.
const SAY_MAX: Duration = Duration::from_millis(20);

/// What a stop left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Stopped {
    /// Calls that were not finished, threads that had not ended, stores that were not closed; each as a noun.
    pub left: Vec<String>,
}

impl Stopped {
    /// Whether everything was finished that was accepted, and everything has ended.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}

impl Server {
    /// Stops: no new connection, no new call, what was accepted is finished (for `server.drain_ms_max` at most). It returns less
    /// than a second after that, whatever hangs; what has not ended by then is left to itself, and named.
    pub fn shutdown(self) -> Stopped {
        if let Some(follower) = &self.follower {
            follower.leave();
        }
        self.data.stop_accepting();
        self.shared.calls.stop();
        let admission = &self.shared.calls.admission;
        tracing::info!(in_flight = admission.unfinished(), "draining");
        let drain = Duration::from_millis(self.shared.config.server.drain_ms_max);
        let now = Instant::now();
        let drained = now + drain;
        self.end_waits_by(now + drain / 2);
        // What the other processes have accepted is finished here, so this one stops behind them.
        ends_by(drained, || {
            admission.unfinished() == 0 && !self.is_called_by_others()
        });
        let mut left = unfinished(admission);
        self.answer_stragglers(drained);
        left.extend(self.close(drained));
        if left.is_empty() {
            tracing::info!("stopped");
        } else {
            let left = left.join(", ");
            tracing::error!(left, "stopped, and not all of it ended in order");
        }
        Stopped { left }
    }

    /// Writes that wait for a follower beyond then are answered that nobody knows what becomes of them: within the drain, as others.
    fn end_waits_by(&self, ends: Instant) {
        if let Some(engines) = self.shared.calls.state() {
            engines.stores.values().for_each(|store| store.end_waits_by(ends));
        }
    }

    /// Whether other processes of this server may still send calls on to this one.
    fn is_called_by_others(&self) -> bool {
        let stores = self.stores.as_ref();
        stores.is_some_and(|stores| stores.counters().live.load(Ordering::Relaxed) > 0)
    }

    /// What a stop has not finished yet, while another thread is in it.
    pub fn unfinished(&self) -> impl Fn() -> Vec<String> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || unfinished(&shared.calls.admission)
    }

    /// Goes on telling callers that the server stops, for as long as connections are open, [`STRAGGLERS`] pass and `until` is to
    /// come: who had an answer just now is sending the next call.
    fn answer_stragglers(&self, until: Instant) {
        let until = until.min(Instant::now() + STRAGGLERS);
        let counters = self.data.counters();
        ends_by(until, || counters.live.load(Ordering::Relaxed) == 0);
    }

    /// Ends everything, which a drain until then has left without work; returns what has not ended.
    pub(crate) fn close(self, drained: Instant) -> Vec<String> {
        self.arrivals.stop();
        self.following.stop();
        let now = Instant::now();
        let ends = drained + ENGINES_LATE;
        let engines = stop_engines(&self.shared, ends);
        let follower = self
            .follower
            .map(|follower| ("the thread that follows the map of nodes", follower.close()));
        let catching_up = self
            .catching_up
            .map(|catching_up| ("the thread that catches up with upserts", catching_up.stop()));
        let watch = Some(("the thread that watches the others", self.watch.stop()));
        let tls = self
            .tls
            .map(|tls| ("the thread that watches the files of server.tls", tls.close()));
        let grace = (drained + FLUSH_LATE)
            .saturating_duration_since(now)
            .min(FLUSH_MAX);
        let transports = [Some(self.data), self.admin, self.stores];
        let transports = transports.into_iter().flatten().collect();
        let mut left = Transport::close_all(transports, grace);
        left.extend(engines());
        let threads = watch.into_iter().chain(tls).chain(follower).chain(catching_up);
        for (name, thread) in threads {
            if join_by(thread, ends).is_err() {
                left.push(name.to_owned());
            }
        }
        left
    }
}

/// The calls that were accepted and not answered, as a noun, if there are any.
fn unfinished(admission: &Admission) -> Vec<String> {
    match admission.unfinished() {
        0 => Vec::new(),
        1 => vec!["1 unfinished call".to_owned()],
        calls => vec![format!("{calls} unfinished calls")],
    }
}

/// Begins to stop what answers; the function that is returned waits for the end, and says what has none.
fn stop_engines(shared: &Arc<Shared>, until: Instant) -> impl FnOnce() -> Vec<String> + use<> {
    let engines = shared.calls.state().map(|engines| Arc::clone(&engines));
    let here = engines.clone();
    let thread = std::thread::Builder::new().name("stop".into());
    let stopping = thread.spawn(move || engines.map_or(Vec::new(), |engines| engines.stop_by(until)));
    move || match stopping {
        Ok(stopping) => match join_by(stopping, until + SAY_MAX) {
            Ok(Ok(left)) => left,
            Ok(Err(_)) | Err(_) => vec!["models and stores".to_owned()],
        },
        // Without a thread it is done here, one behind the other.
        Err(_) => here.map_or(Vec::new(), |engines| engines.stop_by(until)),
    }
}

#[cfg(test)]
mod tests;
