//! Fresh rows over a table's versions: upserts in memory, with a log.
//!
//! A version is never changed; the overlay is what has been written since, and lookups see it over whichever version they read.
//! Invariants: an upsert is visible to the next lookup before it is answered, and answered only once it is as durable as
//! configured; and a lookup takes no lock.

mod block;
mod cells;
mod commit;
mod compact;
mod filter;
mod fold;
mod folded;
mod heap;
mod hidden;
mod index;
mod owner;
mod page;
mod record;
mod recovered;
mod renewal;
mod section;
mod seed;
mod slots;
mod stamp;
mod stored;
mod upsert;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use millpond_metrics::Metric;
use millpond_wal::{
    Clock, Disk, Done, Durability, Log, LogThread, Notice, Queue, ReadOnly, RealDisk, Refused, TornTail, Wake,
};

use crate::error::Error;
use crate::table::Table;
use commit::{Committer, Swept};
use compact::Compaction;
use index::Index;
use record::layout_of;
use recovered::{Opened, random_history};
use stored::row_bytes_of;
use upsert::Job;

pub(crate) use block::{Block, ones};
pub use fold::{Fold, FoldVersion, fold};
pub use folded::{Folded, Settled};
pub use hidden::{Hidden, Lost, hidden_by, hidden_by_version, lost_without};
pub use page::{FreshPage, FreshRow};
pub use record::UPSERT_BYTES_MAX;
pub use section::OverlaySection;
pub use stamp::Stamp;
pub use stored::stored_rows;
pub use upsert::{Upsert, UpsertError, Upserted};
pub(crate) use view::{Now, View};

/// Fresh rows of one table. It is shared by the versions that serve.
pub struct Overlay {
    state: Arc<State>,
    queue: Arc<Queue<Job>>,
    thread: LogThread,
    read_only: ReadOnly,
    history: u64,
    layout: u64,
    section: OverlaySection,
}

/// What readers and the log thread share.
pub(crate) struct State {
    index: Arc<Index>,
    /// Of the last upsert that is visible.
    sequence: AtomicU64,
    /// The time of the highest stamp that was written.
    newest: AtomicU64,
    clock: Clock,
    ttl_ms: Option<u64>,
    durability: Durability,
    counts: Counts,
    /// What the log takes on the disk.
    log_bytes: AtomicU64,
    /// What was taken away because all versions have it: its sequence, and its time.
    folded: (AtomicU64, AtomicU64),
    /// What the log says of the other replicas.
    settled: (AtomicU64, AtomicU64),
}

impl State {
    fn show_folded(&self, folded: Folded) {
        self.folded.0.store(folded.sequence, Ordering::Release);
        self.folded.1.store(folded.before_ms, Ordering::Release);
    }

    fn show_settled(&self, settled: Settled) {
        self.settled.0.store(settled.whole_ms, Ordering::Release);
        self.settled.1.store(settled.foldable_ms, Ordering::Release);
    }
}

#[derive(Default)]
struct Counts {
    upserts: AtomicU64,
    refused: AtomicU64,
    expired: AtomicU64,
}

/// What opening an overlay found in its log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverlayRecovery {
    /// Sound records.
    pub records: u64,
    /// Rows and removals that they left.
    pub entries: u64,
    /// The unfinished end that was cut off, if there was one.
    pub torn_tail: Option<TornTail>,
}

/// Whether a row that was written then is too old now.
#[inline]
fn is_old(written_ms: u64, ttl_ms: Option<u64>, now_ms: u64) -> bool {
    ttl_ms.is_some_and(|ttl_ms| written_ms.saturating_add(ttl_ms) <= now_ms)
}

impl Overlay {
    /// What a page has of it. Of several processes one has it.
    pub const METRICS: &'static [Metric<Overlay>] = &[
        Metric::gauge(
            "millpond_overlay_entries",
            "Fresh rows and removals over the table's versions.",
            |overlay: &Overlay| overlay.len() as f64,
        ),
        Metric::gauge(
            "millpond_overlay_bytes",
            "Memory that they take: rows in whole words and 39 bytes each, or 55 in tables over nodes.",
            |overlay: &Overlay| overlay.bytes() as f64,
        ),
        Metric::gauge(
            "millpond_overlay_log_bytes",
            "What its log takes on the disk; 0 without a log.",
            |overlay: &Overlay| overlay.log_bytes() as f64,
        ),
        Metric::gauge(
            "millpond_overlay_sequence",
            "Sequence of the last record that lookups see: an upsert's, or one of the log's own.",
            |overlay: &Overlay| overlay.sequence() as f64,
        ),
        Metric::gauge(
            "millpond_overlay_read_only",
            "1 once its log failed: lookups go on, upserts are refused until a restart.",
            |overlay: &Overlay| f64::from(overlay.read_only().is_some()),
        ),
        Metric::counter(
            "millpond_overlay_upserts_total",
            "Upserts that were written.",
            |overlay: &Overlay| overlay.state.counts.upserts.load(Ordering::Relaxed) as f64,
        ),
        Metric::counter(
            "millpond_overlay_refused_total",
            "Upserts that were refused because the overlay was full.",
            |overlay: &Overlay| overlay.state.counts.refused.load(Ordering::Relaxed) as f64,
        ),
        Metric::counter(
            "millpond_overlay_expired_total",
            "Rows and removals that were freed because they were older than ttl_ms.",
            |overlay: &Overlay| overlay.state.counts.expired.load(Ordering::Relaxed) as f64,
        ),
    ];

    /// Opens the overlay over a table and recovers it from its log. What the table's version has folded is left out.
    /// `queue_bytes_max` bounds the bytes of upserts that wait.
    ///
    /// # Errors
    /// [`Error::OverlayLog`] where the log cannot be made or read, is open elsewhere, or is damaged in a way that no crash
    /// explains; [`Error::Overlay`] where it does not go with the table, or names another one; [`Error::Argument`] where `bytes_max` is too small for one
    /// of the table's rows.
    pub fn open(
        section: &OverlaySection,
        table: &Table,
        queue_bytes_max: usize,
    ) -> Result<(Arc<Overlay>, OverlayRecovery), Error> {
        Overlay::open_on(Arc::new(RealDisk), section, table, queue_bytes_max)
    }

    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        section: &OverlaySection,
        table: &Table,
        queue_bytes_max: usize,
    ) -> Result<(Arc<Overlay>, OverlayRecovery), Error> {
        let layout = layout_of(table.schema());
        let Some(dir) = &section.path else {
            let opened = Opened::empty(random_history());
            return Overlay::start(opened, section, table, layout, queue_bytes_max);
        };
        let opened = Opened::recover(disk, dir, section, table, layout)?;
        Overlay::start(opened, section, table, layout, queue_bytes_max)
    }

    fn start(
        opened: Opened,
        section: &OverlaySection,
        table: &Table,
        layout: u64,
        queue_bytes_max: usize,
    ) -> Result<(Arc<Overlay>, OverlayRecovery), Error> {
        let (index, mut writer) = Index::new(row_bytes_of(table.schema()));
        section.check_holds(index.entry_bytes())?;
        let (last_ms, stamp) = (opened.found.time_ms, opened.found.stamp);
        opened
            .found
            .entries
            .into_values()
            .for_each(|entry| writer.put(&entry));
        let state = Arc::new(State {
            index,
            sequence: AtomicU64::new(opened.next_sequence - 1),
            newest: AtomicU64::new(stamp.time),
            clock: Clock::new(last_ms),
            ttl_ms: section.ttl_ms,
            durability: section.durability,
            counts: Counts::default(),
            log_bytes: AtomicU64::new(opened.log.as_ref().map_or(0, Log::bytes)),
            folded: Default::default(),
            settled: Default::default(),
        });
        state.show_folded(opened.found.folded);
        state.show_settled(opened.found.settled);
        let recovery = OverlayRecovery {
            records: opened.records,
            entries: state.index.len(),
            torn_tail: opened.torn_tail,
        };
        let read_only = opened.log.as_ref().map(Log::watch_read_only).unwrap_or_default();
        let committer = Committer {
            state: Arc::clone(&state),
            writer,
            log: opened.log,
            history: opened.history,
            layout,
            row_bytes: row_bytes_of(table.schema()),
            next_sequence: opened.next_sequence,
            bytes_max: section.bytes_max,
            segment_bytes_max: section.segment_bytes_max,
            swept: Swept::new(),
            compaction: Compaction::new(
                opened.found.segments,
                (opened.found.folded, opened.found.settled),
                opened.found.copied,
            ),
        };
        let queue = Arc::new(Queue::new(section.queue_max, queue_bytes_max));
        let thread = LogThread::start("overlay-log", &queue, opened.lock, move |queue| {
            committer.run(queue)
        });
        let overlay = Overlay {
            state,
            queue,
            thread: thread.map_err(Error::OverlayLog)?,
            read_only,
            history: opened.history,
            layout,
            section: section.clone(),
        };
        Ok((Arc::new(overlay), recovery))
    }
}

impl Overlay {
    /// Hands an upsert to the log thread. `done` is called once with its end, on that thread or, where it is refused, on this one.
    pub fn upsert(&self, upsert: Upsert, done: impl FnOnce(Result<Upserted, UpsertError>) + Send + 'static) {
        answer_refused(self.queue.push(Job::Upsert(upsert), Box::new(done)));
    }

    /// The same, but the log thread, which is returned where the upsert waits for it, learns of that when it is woken: the caller owes it that once
    /// all that there is to upsert now was handed over.
    pub fn upsert_later(
        &self,
        upsert: Upsert,
        done: impl FnOnce(Result<Upserted, UpsertError>) + Send + 'static,
    ) -> Option<Arc<dyn Wake>> {
        let pushed = self
            .queue
            .push_by(Job::Upsert(upsert), Box::new(done), (None, Notice::Later));
        let waits = pushed.is_ok();
        answer_refused(pushed);
        waits.then(|| Arc::clone(&self.queue) as Arc<dyn Wake>)
    }

    /// Upserts and waits for the end.
    #[cfg(test)]
    pub(crate) fn upsert_wait(&self, upsert: Upsert) -> Result<Upserted, UpsertError> {
        self.wait_for(|done| answer_refused(self.queue.push(Job::Upsert(upsert), done)))
    }

    /// Takes away what the versions that are open have folded, and gives the space of its log back. To be called once no lookup
    /// reads a version that has less. Waits for the log thread.
    ///
    /// # Errors
    /// The log failed, or is closed.
    pub fn forget(&self, folded: Folded) -> Result<(), UpsertError> {
        if folded.history != self.history {
            return Ok(());
        }
        // Switches come one after the other, and none is to leave it to the next because upserts fill the queue.
        let taken_out = self.wait_for(|done| {
            answer_refused(self.queue.push_beyond(Job::Folded(folded), done));
        });
        taken_out.map(drop)
    }

    /// Has the log say what the other replicas have, behind all upserts that were handed over before. It waits for nothing: what
    /// was said shows in [`Overlay::settled`].
    pub fn settle(&self, settled: Settled) {
        answer_refused(self.queue.push_beyond(Job::Settled(settled), Box::new(|_| ())));
    }

    /// What its log says of the other replicas; zeros without a log.
    pub fn settled(&self) -> Settled {
        Settled {
            whole_ms: self.state.settled.0.load(Ordering::Acquire),
            foldable_ms: self.state.settled.1.load(Ordering::Acquire),
        }
    }

    /// What was taken away because the versions that are open have it.
    pub fn forgotten(&self) -> Folded {
        Folded {
            history: self.history,
            sequence: self.state.folded.0.load(Ordering::Acquire),
            before_ms: self.folded_before_ms(),
        }
    }

    /// Upserts over nodes that were made before this time are here no more: versions have them.
    pub fn folded_before_ms(&self) -> u64 {
        self.state.folded.1.load(Ordering::Acquire)
    }

    /// The time before which every acknowledged upsert of this node's keys is here or in a version: of `table` or one before.
    pub fn whole_before_ms(&self, table: &Table) -> u64 {
        let folded = self.folded_in(table).before_ms.max(self.folded_before_ms());
        folded.max(self.settled().whole_ms)
    }

    fn wait_for(&self, push: impl FnOnce(Done<Job>)) -> Result<Upserted, UpsertError> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let done = Box::new(move |result| {
            let _ = sender.send(result);
        });
        push(done);
        let answer = receiver.recv();
        answer.unwrap_or_else(|_| Err(millpond_wal::outcome_unknown().into()))
    }

    /// Whether a version's rows are such that it can lie over them, and they have nothing of its log that it has not.
    ///
    /// # Errors
    /// [`Error::Overlay`].
    pub(crate) fn check_fits(&self, table: &Table) -> Result<(), Error> {
        let problem = match table.folded() {
            _ if layout_of(table.schema()) != self.layout => {
                "version {} stores its columns in another way than the rows of the overlay".to_owned()
            }
            Some(folded) if folded.history == self.history && folded.sequence > self.sequence() => {
                format!(
                    "version {{}} has it folded up to sequence {}, and it ends at {}",
                    folded.sequence,
                    self.sequence()
                )
            }
            _ => return Ok(()),
        };
        Err(Error::Overlay {
            path: self.section.path.clone().unwrap_or_default(),
            problem: problem.replace("{}", &table.version().to_string()),
        })
    }

    /// What it was opened by.
    pub fn section(&self) -> &OverlaySection {
        &self.section
    }

    /// What a version has of its log; nothing of it where that is another one's.
    pub fn folded_in(&self, table: &Table) -> Folded {
        let folded = table.folded().filter(|folded| folded.history == self.history);
        folded.unwrap_or(Folded {
            history: self.history,
            ..Folded::default()
        })
    }

    /// Whether the log thread has ended by a panic: no upsert succeeds any more.
    pub fn has_died(&self) -> bool {
        self.queue.has_died()
    }

    /// Rows and removals.
    pub fn len(&self) -> u64 {
        self.state.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that they take.
    pub fn bytes(&self) -> u64 {
        self.state.index.bytes()
    }

    /// What its log takes on the disk.
    pub fn log_bytes(&self) -> u64 {
        self.state.log_bytes.load(Ordering::Relaxed)
    }

    /// Of the last upsert that lookups see.
    pub fn sequence(&self) -> u64 {
        self.state.sequence.load(Ordering::Acquire)
    }

    /// The time of the highest stamp that it has written; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.state.newest.load(Ordering::Relaxed)
    }

    /// What the rows of its table are stored as, in one number: servers compare it before they take rows of each other.
    pub fn layout(&self) -> u64 {
        self.layout
    }

    /// What upserts survive.
    pub fn durability(&self) -> Durability {
        self.state.durability
    }

    /// The failure that ended the writing of its log, if one did.
    pub fn read_only(&self) -> Option<Arc<millpond_wal::Error>> {
        self.read_only.get().cloned()
    }

    /// Lets its clock be ahead of time.
    #[cfg(test)]
    pub(crate) fn skip_ms(&self, ms: u64) {
        self.state.clock.skip(ms);
    }

    /// Refuses upserts from here on, and waits for nothing.
    pub fn begin_close(&self) {
        self.queue.close();
    }

    /// Finishes every upsert taken in and syncs the log, until then at most.
    ///
    /// # Errors
    /// The log could not be synced, or was read-only, or the log thread died or has not ended in time.
    pub fn close_by(&self, until: Instant) -> Result<(), millpond_wal::Error> {
        self.thread.stop_by(&self.queue, until)
    }
}

/// Answers what was not taken in.
fn answer_refused(pushed: Result<(), Refused<Job>>) {
    if let Err(Refused::Full(_, done, error) | Refused::Ended(done, error)) = pushed {
        done(Err(error.into()));
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        // A caller that needs the result calls `close_by`.
        let _ = self.thread.stop(&self.queue);
    }
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Overlay({} entries, sequence {})", self.len(), self.sequence())
    }
}

#[cfg(test)]
mod tests;
