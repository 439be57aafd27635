//! One thread of the load generator: a single-threaded runtime with its own connections and its own tally.
//!
//! Threads meet only at the start (a phase that is told to all) and at the end (tallies that are handed over). Its
//! invariant: nothing on the path of a request is shared with another thread, but counters that nobody else writes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use millpond_press_recorder::{ErrorKind, Live, Percentile, Tally};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::LocalSet;

use crate::check::{Answer, Checker};
use crate::connection;
use crate::scenario::Amount;
use crate::system::Cores;
use crate::target::Target;

/// What all threads of a point share, and none of them changes.
pub(crate) struct Plan<T> {
    pub(crate) target: Arc<T>,
    pub(crate) checker: Arc<Checker>,
    pub(crate) seed: u64,
    /// How many requests the set holds.
    pub(crate) set_len: usize,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    pub(crate) client_threads: usize,
    pub(crate) client_cpus: Vec<usize>,
    pub(crate) amount: Amount,
    pub(crate) warmup_requests: u64,
    pub(crate) connect_parallel: usize,
}

/// What all threads are told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Phase {
    /// Connect, warm up, say so, and wait.
    Prepare,
    /// Send; the clock started at this moment.
    Go(Instant),
    /// Drop everything.
    Stop,
}

/// What one thread says when its connections are up, or have failed to come up.
pub(crate) struct Ready {
    /// Connections it opened.
    pub(crate) opened: u64,
    /// Why the first of the others did not open.
    pub(crate) failure: Option<String>,
}

/// What one thread hands over in the end.
pub(crate) struct Handed {
    pub(crate) tally: Tally,
    /// When its last request ended.
    pub(crate) last_end: Option<Instant>,
}

/// What the connections of one thread share.
pub(crate) struct ClientThread<T> {
    pub(crate) plan: Arc<Plan<T>>,
    pub(crate) tally: RefCell<Tally>,
    pub(crate) live: Arc<Live>,
    pub(crate) phase: watch::Receiver<Phase>,
    /// How many connections may be made at the same time.
    pub(crate) connecting: Semaphore,
    pub(crate) last_end: Cell<Option<Instant>>,
    /// Requests on their way.
    pub(crate) outstanding: Cell<u64>,
    /// Requests taken from the fixed number.
    pub(crate) taken: Cell<u64>,
    /// Connections that are not ready yet.
    unready: Cell<usize>,
    ready: mpsc::Sender<Ready>,
    /// Room for the numbers of an answer.
    numbers: RefCell<Vec<f32>>,
    /// Grows by the share with every answer; a whole one is a check.
    check_credit: Cell<f64>,
}

/// Runs thread `index` of a point until its connections are done or it is told to stop.
pub(crate) fn run<T: Target>(
    plan: Arc<Plan<T>>,
    index: usize,
    live: Arc<Live>,
    phase: watch::Receiver<Phase>,
    ready: mpsc::Sender<Ready>,
) -> std::io::Result<Handed> {
    if !plan.client_cpus.is_empty() {
        Cores::of(&[plan.client_cpus[index % plan.client_cpus.len()]])?.bind()?;
    }
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let own: Vec<usize> = (index..plan.connections).step_by(plan.client_threads).collect();
    let thread = Rc::new(ClientThread {
        tally: RefCell::default(),
        live,
        phase,
        connecting: Semaphore::new(plan.connect_parallel.div_ceil(plan.client_threads)),
        last_end: Cell::new(None),
        outstanding: Cell::new(0),
        taken: Cell::new(0),
        unready: Cell::new(own.len()),
        ready,
        numbers: RefCell::default(),
        check_credit: Cell::new(0.0),
        plan,
    });
    let tasks = LocalSet::new();
    let offered = own.len() as u64;
    tasks.block_on(&runtime, async {
        let handles: Vec<_> = own
            .into_iter()
            .map(|number| tokio::task::spawn_local(connection::live(thread.clone(), number)))
            .collect();
        let show = tokio::task::spawn_local(show_percentile(thread.clone()));
        let mut phase = thread.phase.clone();
        tokio::select! {
            () = async { for handle in handles { let _ = handle.await; } } => {}
            // A closed channel means that the one who tells has gone: that is a stop too.
            _ = phase.wait_for(|phase| matches!(phase, Phase::Stop)) => {}
        }
        show.abort();
    });
    // Ends the connections, so that what they had on its way can be counted as cut.
    drop(tasks);
    drop(runtime);
    let mut tally = thread.tally.take();
    tally.counters.cut = thread.outstanding.get();
    if let Amount::Requests(each) = thread.plan.amount {
        tally.counters.not_sent = offered * each - thread.taken.get();
    }
    Ok(Handed {
        tally,
        last_end: thread.last_end.get(),
    })
}

/// Refreshes the percentile of the progress line.
async fn show_percentile<T>(thread: Rc<ClientThread<T>>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let us = thread.tally.borrow().latency.percentile_us(Percentile::P99);
        thread.live.us_p99.store(us.unwrap_or(0), Relaxed);
    }
}

impl<T> ClientThread<T> {
    /// One more connection is up (or has failed to come up) and warm.
    pub(crate) fn arrive(&self) {
        Live::bump(&self.live.connected);
        self.unready.set(self.unready.get() - 1);
        if self.unready.get() == 0 {
            // One place a thread: there is always room.
            let counters = &self.tally.borrow().counters;
            let failure = counters.first.get("not_connected").cloned();
            let _ = self.ready.try_send(Ready {
                opened: counters.connections_opened,
                failure,
            });
        }
    }

    /// Waits for the start; nothing when there will be none.
    pub(crate) async fn start(&self) -> Option<Instant> {
        let mut phase = self.phase.clone();
        match *phase
            .wait_for(|phase| !matches!(phase, Phase::Prepare))
            .await
            .ok()?
        {
            Phase::Go(start) => Some(start),
            Phase::Prepare | Phase::Stop => None,
        }
    }

    /// Whether an answer to request `index` is right, whatever the sampling says.
    pub(crate) fn is_right(&self, index: usize, answer: Answer<'_>) -> bool {
        self.plan
            .checker
            .check(index, answer, &mut self.numbers.borrow_mut())
            .is_ok()
    }

    /// Counts an answer, after checking it unless sampling leaves it out.
    pub(crate) fn answered(&self, index: usize, answer: Answer<'_>, took: Duration) {
        let mut tally = self.tally.borrow_mut();
        let credit = self.check_credit.get() + self.plan.checker.share();
        self.check_credit.set(credit - credit.floor());
        if credit < 1.0 {
            tally.unchecked(took);
            return Live::bump(&self.live.answers);
        }
        match self
            .plan
            .checker
            .check(index, answer, &mut self.numbers.borrow_mut())
        {
            Ok(()) => {
                tally.ok(took);
                Live::bump(&self.live.answers);
            }
            Err(wrong) => {
                tally.wrong(|| format!("request {}: {wrong}", index + 1));
                Live::bump(&self.live.failed);
            }
        }
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, code: u32, took: Duration) {
        self.tally.borrow_mut().refused(code, took);
        Live::bump(&self.live.refused);
    }

    /// Counts a request without an answer.
    pub(crate) fn failed(&self, index: usize, kind: ErrorKind, code: Option<u32>, why: &str) {
        self.tally
            .borrow_mut()
            .error(kind, code, || format!("request {}: {why}", index + 1));
        Live::bump(&self.live.failed);
    }
}
