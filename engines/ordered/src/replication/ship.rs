//! A leader's part: the records behind a follower's position, from the files of its log, when there are some.
//!
//! A thread of its own reads and answers; it begins with the first question. The log thread wakes it, and waits for nothing. Where a follower's place in
//! a file is not known, another thread looks for it (`place`), as that may take as long as reading the file does. Invariant: a follower gets records
//! only where its last one is this log's own, as far as the log still tells.

mod place;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use millpond_wal::{Clock, History, Mark, Tail, Taken};

use super::ends::last_of;
use super::{NotLeader, Position, Replication, Role, Shipment, lock};
use crate::checkpoint::keeper::Meet;
use crate::{Error, Store};
use place::Places;

/// How long a store that is asked for records waits at most for the next.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);
/// Followers that are known at a time.
const FOLLOWERS_MAX: usize = 64;
/// A follower that has not asked for so long is forgotten where another one needs its place, and the file that was read for it is closed.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// A follower's question for what comes behind its position, which says what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// Its name, the same in all its questions.
    pub follower: String,
    /// Where its log ends.
    pub position: Position,
    /// At most this many bytes are sent at once; a larger record is sent in pieces.
    pub bytes_max: usize,
    /// How long it waits where there is nothing; a minute at most.
    pub wait: Duration,
}

/// Why a follower gets nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The store leads nobody.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),

    /// The follower's log is another one.
    #[error(
        "the follower's log is another one than this store's: their histories differ; move the follower's folder away and start it again: it takes a copy"
    )]
    History,

    /// The follower has what this log has not.
    #[error(
        "the follower's log has gone another way than this store's: {0}; move the follower's folder away, keep it if what it has alone is wanted, and start it again: it takes a copy"
    )]
    Diverged(String),

    /// The log does not have what the follower needs.
    #[error(
        "this store's log begins behind record {0}, which is the follower's last: a checkpoint stands for the records between; a follower takes a copy of this store then (ordered.copy)"
    )]
    Gone(u64),

    /// More followers than are kept.
    #[error("{FOLLOWERS_MAX} followers are known already; give each of them one name")]
    TooMany,

    /// The log cannot be read.
    #[error(transparent)]
    Storage(Arc<Error>),

    /// The store is closed or closing, or keeps no log.
    #[error("the store is closed, or keeps no log")]
    Closed,
}

/// Called once with the answer, on the thread that reads the log.
pub type PullDone = Box<dyn FnOnce(Result<Shipment, PullError>) + Send + 'static>;

/// A follower, as its leader knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowerSeen {
    /// Its name.
    pub name: String,
    /// The last record that it has in its log.
    pub sequence: u64,
    /// Since its last question.
    pub age: Duration,
}

/// For so long beyond its wait a follower may wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

struct Waiting {
    pull: Pull,
    until: Instant,
    done: PullDone,
    /// Whether what it says of the follower's log was compared.
    is_checked: bool,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// What each follower has, and when it said so.
    followers: BTreeMap<String, (u64, Instant)>,
    /// Questions whose place was looked for.
    placed: Vec<Placed>,
    is_started: bool,
    is_stopped: bool,
}

/// A question, and its place in the log, where the log has that.
type Placed = (Waiting, Result<Option<Tail>, Error>);

/// What becomes of a question.
enum Served {
    /// It waits for more records.
    Waits,
    /// Where its records are is to be looked for.
    Unplaced,
    Answer(Shipment),
}

#[derive(Default)]
pub(super) struct Shipping {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the thread waits for records.
    is_waiting: AtomicBool,
}

impl Shipping {
    /// There are more records.
    pub fn wrote(&self) {
        if self.is_waiting.load(Ordering::SeqCst) {
            // Whoever is about to wait holds this until it does.
            drop(lock(&self.state));
            self.changed.notify_all();
        }
    }

    pub fn stop(&self) {
        lock(&self.state).is_stopped = true;
        self.changed.notify_all();
    }
}

impl Store {
    /// Answers a follower's question: at once where there are records behind its position, else when there are, or with none when it has
    /// waited as long as it says. A question of the same follower that waits is answered with none.
    pub fn pull(&self, pull: Pull, done: PullDone) {
        let Some(shared) = &self.handle.replication else {
            return done(Err(PullError::Closed));
        };
        let now = Instant::now();
        let waiting = Waiting {
            until: now + pull.wait.min(WAIT_MAX),
            pull,
            done,
            is_checked: false,
        };
        let mut state = lock(&shared.shipping.state);
        let name = &waiting.pull.follower;
        if state.followers.len() >= FOLLOWERS_MAX {
            state.followers.retain(|_, (_, at)| at.elapsed() < FORGOTTEN);
        }
        let is_known = state.followers.contains_key(name);
        let refused = match (
            state.is_stopped,
            is_known || state.followers.len() < FOLLOWERS_MAX,
        ) {
            (true, _) => Some(PullError::Closed),
            (false, false) => Some(PullError::TooMany),
            (false, true) => None,
        };
        if let Some(error) = refused {
            drop(state);
            return (waiting.done)(Err(error));
        }
        let has = (waiting.pull.position.sequence, now);
        state.followers.insert(name.clone(), has);
        // A newer question of the same follower ends the older one.
        for older in &mut state.waiting {
            if older.pull.follower == waiting.pull.follower {
                older.until = now;
            }
        }
        state.waiting.push(waiting);
        if !state.is_started {
            let (serves, meet) = (Arc::clone(shared), self.handle.meet.clone());
            let index = Arc::clone(&self.handle.index);
            let thread = thread::Builder::new().name("ordered-ship".into());
            match thread.spawn(move || serves.ship(meet.as_deref(), index.clock())) {
                Ok(_) => state.is_started = true,
                Err(error) => {
                    let waiting = std::mem::take(&mut state.waiting);
                    drop(state);
                    let error = Arc::new(Error::Thread(error));
                    for waiting in waiting {
                        (waiting.done)(Err(PullError::Storage(error.clone())));
                    }
                    return;
                }
            }
        }
        drop(state);
        shared.shipping.changed.notify_all();
    }

    /// The followers that have asked since it was opened.
    pub fn followers(&self) -> Vec<FollowerSeen> {
        let Some(shared) = &self.handle.replication else {
            return Vec::new();
        };
        let state = lock(&shared.shipping.state);
        let followers = state.followers.iter();
        let seen = |(name, (sequence, at)): (&String, &(u64, Instant))| FollowerSeen {
            name: name.clone(),
            sequence: *sequence,
            age: at.elapsed(),
        };
        followers.map(seen).collect()
    }
}

impl Replication {
    /// Answers questions until the store is closed.
    fn ship(self: &Arc<Replication>, meet: Option<&Meet>, clock: &Clock) {
        let mut places = Places::default();
        let (seek, sought) = sync_channel(FOLLOWERS_MAX);
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("ordered-place".into());
        // Without it this one looks for places itself.
        if let Err(error) = thread.spawn(move || shared.place(&sought)) {
            tracing::warn!(%error, "no thread looks for the places of followers in an ordered store's log: answers to others wait for it");
        }
        while let Some(mut ready) = self.ready() {
            let placed = std::mem::take(&mut lock(&self.shipping.state).placed);
            for (waiting, found) in placed {
                let follower = &waiting.pull.follower;
                places.sought.remove(follower);
                let found = found.map_err(|error| PullError::Storage(Arc::new(error)));
                match found.and_then(|tail| tail.ok_or(PullError::Gone(waiting.pull.position.sequence))) {
                    Ok(tail) => {
                        places.tails.insert(follower.clone(), tail);
                        match waiting.until + PATIENCE > Instant::now() {
                            true => ready.push(waiting),
                            // Nobody may wait for it any more; the next question finds the place known.
                            false => (waiting.done)(Ok(self.nothing(&lock(&self.position)))),
                        }
                    }
                    Err(error) => (waiting.done)(Err(error)),
                }
            }
            for waiting in ready {
                match self.serve(&waiting, meet, &mut places.tails) {
                    Ok(Served::Waits) => self.wait_on(waiting),
                    Ok(Served::Unplaced) => self.seek(waiting, &seek, &mut places.sought),
                    Ok(Served::Answer(shipment)) => {
                        let now_ms = clock.now_ms();
                        (waiting.done)(Ok(Shipment { now_ms, ..shipment }));
                    }
                    Err(error) => (waiting.done)(Err(error)),
                }
            }
            let state = lock(&self.shipping.state);
            let asks = |name: &String| {
                state
                    .followers
                    .get(name)
                    .is_some_and(|(_, at)| at.elapsed() < FORGOTTEN)
            };
            places.tails.retain(|name, _| asks(name));
        }
        let mut state = lock(&self.shipping.state);
        let placed = std::mem::take(&mut state.placed)
            .into_iter()
            .map(|(waiting, _)| waiting);
        let left: Vec<Waiting> = std::mem::take(&mut state.waiting)
            .into_iter()
            .chain(placed)
            .collect();
        drop(state);
        for waiting in left {
            (waiting.done)(Err(PullError::Closed));
        }
    }

    /// No records.
    fn nothing(&self, ours: &Position) -> Shipment {
        let last = self.offered.load(Ordering::SeqCst);
        Shipment {
            history: ours.history,
            epoch: ours.epoch,
            first: last + 1,
            last,
            bytes: Vec::new(),
            skipped: 0,
            rest: 0,
            now_ms: 0,
        }
    }

    /// Its position is this log's end: it waits for what comes.
    fn wait_on(&self, waiting: Waiting) {
        let mut state = lock(&self.shipping.state);
        let is_same = |newer: &Waiting| newer.pull.follower == waiting.pull.follower;
        let until = match state.waiting.iter().any(is_same) {
            true => Instant::now(),
            false => waiting.until,
        };
        state.waiting.push(Waiting {
            until,
            is_checked: true,
            ..waiting
        });
    }

    /// Waits for questions that can be answered; none where there have been none for long.
    fn ready(&self) -> Option<Vec<Waiting>> {
        let mut state = lock(&self.shipping.state);
        loop {
            // Where nobody asks, the log thread wakes nobody: the next question does.
            let is_asked = !state.waiting.is_empty();
            self.shipping.is_waiting.store(is_asked, Ordering::SeqCst);
            if state.is_stopped {
                return None;
            }
            let (last, leads, now) = (
                self.offered.load(Ordering::SeqCst),
                self.leads.load(Ordering::Acquire),
                Instant::now(),
            );
            let epoch = lock(&self.position).epoch;
            let is_ready = |waiting: &Waiting| {
                let has = &waiting.pull.position;
                !waiting.is_checked
                    || !leads
                    || has.sequence != last
                    || has.epoch > epoch
                    || waiting.until <= now
            };
            let mut ready = Vec::new();
            for waiting in std::mem::take(&mut state.waiting) {
                match is_ready(&waiting) {
                    true => ready.push(waiting),
                    false => state.waiting.push(waiting),
                }
            }
            if !ready.is_empty() || !state.placed.is_empty() {
                self.shipping.is_waiting.store(false, Ordering::SeqCst);
                return Some(ready);
            }
            let until = state.waiting.iter().map(|waiting| waiting.until).min();
            let long = until.map_or(WAIT_MAX, |until| until.saturating_duration_since(now));
            let waited = self.shipping.changed.wait_timeout(state, long);
            let (woken, timed) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            if timed.timed_out() && until.is_none() {
                return Some(Vec::new());
            }
            state = woken;
        }
    }

    /// What a question is answered; nothing yet where it can wait for more.
    fn serve(
        &self,
        waiting: &Waiting,
        meet: Option<&Meet>,
        tails: &mut BTreeMap<String, Tail>,
    ) -> Result<Served, PullError> {
        let pull = &waiting.pull;
        let (has, last) = (pull.position, self.offered.load(Ordering::SeqCst));
        let ours = *lock(&self.position);
        let is_ours = has.history == ours.history;
        if !is_ours && has.sequence > 0 {
            return Err(PullError::History);
        }
        if is_ours && has.epoch > ours.epoch && !self.fence(has.epoch) {
            let why = format!(
                "epochs are moments, and its epoch {} is more than a day ahead of this machine's clock",
                has.epoch
            );
            return Err(PullError::Diverged(why));
        }
        if self.role() != Role::Leads {
            return Err(self.not_leader().into());
        }
        if has.sequence > last {
            let why = format!(
                "it has record {}, and this one ends at record {last}",
                has.sequence
            );
            return Err(PullError::Diverged(why));
        }
        let known = tails.remove(&pull.follower);
        let Some(mut tail) = known.filter(|tail| tail.next_sequence() == has.sequence + 1) else {
            return Ok(Served::Unplaced);
        };
        compare(&has, &tail, is_ours, &self.dir)?;
        if is_ours {
            self.acknowledged(has.sequence);
            if let Some(meet) = meet {
                meet.holds.follows(&pull.follower, has.sequence, last);
            }
        }
        if has.sequence == last {
            tails.insert(pull.follower.clone(), tail);
            return Ok(match waiting.until <= Instant::now() {
                true => Served::Answer(self.nothing(&ours)),
                false => Served::Waits,
            });
        }
        let taken = tail.take(last, has.partial, pull.bytes_max);
        let taken = taken.map_err(|error| PullError::Storage(Arc::new(error)))?;
        let taken = taken.ok_or(PullError::Gone(has.sequence))?;
        let next = taken.history.map_or(1, |history| history.epoch);
        if is_ours && next < has.epoch && has.sequence > 0 {
            let why = format!(
                "the records behind its last were written in epoch {next}, and it was promoted in epoch {}",
                has.epoch
            );
            return Err(PullError::Diverged(why));
        }
        tails.insert(pull.follower.clone(), tail);
        Ok(Served::Answer(shipment(taken, &ours, last)))
    }
}

fn shipment(taken: Taken, ours: &Position, last: u64) -> Shipment {
    let History { epoch, id } = taken.history.unwrap_or(History {
        // Format 1 has none; its records are older than any promotion.
        epoch: 1,
        id: ours.history,
    });
    Shipment {
        history: id,
        epoch,
        first: taken.first,
        last,
        bytes: taken.bytes,
        skipped: taken.skipped,
        rest: taken.rest,
        now_ms: 0,
    }
}

/// Whether a follower's last record is the one that this log has there.
fn compare(has: &Position, tail: &Tail, is_ours: bool, dir: &Path) -> Result<(), PullError> {
    if has.sequence == 0 || !is_ours {
        return Ok(());
    }
    let diverged = |why: String| Err(PullError::Diverged(why));
    let Some(Mark { epoch, crc32c }) = tail.before() else {
        // A checkpoint stands for it: its writer is all that can be compared, or where its writer's epoch ended.
        let next = tail.history().map_or(1, |history| history.epoch);
        let epoch = History {
            epoch: has.epoch,
            id: has.history,
        };
        return match has.epoch == next || has.epoch < next && has.sequence <= last_of(dir, epoch) {
            true => Ok(()),
            false => Err(PullError::Gone(has.sequence)),
        };
    };
    let epoch = epoch.max(1);
    if epoch > has.epoch {
        let why = format!(
            "record {} is of epoch {epoch} here, and the follower is in epoch {}",
            has.sequence, has.epoch
        );
        return diverged(why);
    }
    match has.mark {
        Some(mark) if mark.epoch.max(1) != epoch => diverged(format!(
            "record {} is of epoch {epoch} here, and of epoch {} there",
            has.sequence, mark.epoch
        )),
        Some(mark) if mark.crc32c != crc32c => {
            diverged(format!("record {} is another one here", has.sequence))
        }
        // A checkpoint stands for it there: that it is the same is known by its writer alone, or by whoever went on behind it.
        None if has.epoch != epoch => {
            let behind = tail.history_behind();
            let behind = behind.map_err(|error| PullError::Storage(Arc::new(error)))?;
            match behind.is_some_and(|behind| behind.epoch == has.epoch) {
                true => Ok(()),
                false => Err(PullError::Gone(has.sequence)),
            }
        }
        _ => Ok(()),
    }
}
