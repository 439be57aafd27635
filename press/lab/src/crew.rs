//! The threads of a load generator as one: started, connected, told what to offer, asked what came of it.
//!
//! They are in this process or in several others; nobody else needs to know which. Its invariant: the clock of a load starts
//! after the connections are up, and a crew that is dropped leaves no thread and no process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millpond_press_recorder::{Live, Silence, Tally, Window, both_silent};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::watch;

pub(crate) mod message;
mod processes;

use crate::{Error, stopped};
use message::{Order, Task};
use millpond_press_load::{Clock, Error as LoadError, Offer, Part, Plan, Report, Target, Threads};
use processes::Processes;

/// From the command to the first request, so that all threads begin together.
const LEAD: Duration = Duration::from_millis(20);
/// The same where another process must be told first, on a machine that is busy.
const LEAD_APART: Duration = Duration::from_millis(100);

/// How often it is looked whether all of them are alive.
const LOOK: Duration = Duration::from_millis(50);
/// So many looks are a second.
const LOOKS_A_SECOND: u32 = 20;

/// The threads and the ways to speak with them.
pub(crate) struct Crew {
    // Dropped first: threads and processes may still report while they end.
    hands: Hands,
    reports: Receiver<Report>,
    /// Whether the threads were told to stop, or somebody wants them to.
    stopping: bool,
    pub(crate) lives: Vec<Arc<Live>>,
}

/// Where the threads are.
enum Hands {
    Here(Threads),
    Apart(Processes),
}

/// How connecting ended.
pub(crate) enum Connected {
    /// At least one is up.
    Up,
    /// None is, and this is why.
    None(String),
    Interrupted,
}

/// What all threads handed over.
#[derive(Default)]
pub(crate) struct Handover {
    pub(crate) tally: Tally,
    /// By thread, for the log of histograms.
    pub(crate) threads: Vec<Tally>,
    pub(crate) last_end: Option<u64>,
    pub(crate) sent: u64,
    pub(crate) warm_up_answers: u64,
    pub(crate) warm_up_failed: u64,
    pub(crate) idle: Duration,
    /// Where no thread got an answer.
    pub(crate) silences: Vec<Silence>,
}

impl Crew {
    /// Starts those threads of a target that are in `part`.
    pub(crate) fn start(target: &dyn Target, plan: Plan, part: Part) -> Result<Crew, Error> {
        let threads = part.threads(plan.client_threads).count();
        Crew::with(threads, 0, |reporter, lives| {
            Ok(Hands::Here(target.drive(plan, part, reporter, lives)?))
        })
    }

    /// Starts a process for each of the tasks, which have this many threads together.
    pub(crate) fn start_apart(program: &Path, tasks: &[Task], threads: usize) -> Result<Crew, Error> {
        Crew::with(threads, tasks.len(), |reporter, lives| {
            Processes::start(program, tasks, reporter, lives).map(Hands::Apart)
        })
    }

    fn with(
        threads: usize,
        processes: usize,
        start: impl FnOnce(&Sender<Report>, &[Arc<Live>]) -> Result<Hands, Error>,
    ) -> Result<Crew, Error> {
        // A thread has at most one report under way: it waits for a command after each. A process may also be ready, or lost.
        let (reporter, reports) = tokio::sync::mpsc::channel(2 * (threads + processes).max(1));
        let lives: Vec<Arc<Live>> = (0..threads).map(|_| Arc::default()).collect();
        Ok(Crew {
            hands: start(&reporter, &lives)?,
            reports,
            stopping: false,
            lives,
        })
    }

    /// Waits until every connection is up or has failed once; `tick` is called once a second.
    pub(crate) async fn connected(
        &mut self,
        stop: &mut watch::Receiver<bool>,
        mut tick: impl FnMut(&[Arc<Live>]),
    ) -> Result<Connected, Error> {
        let mut looks = tokio::time::interval(LOOK);
        looks.tick().await;
        let (mut waiting, mut opened, mut reason, mut looked) = (self.len(), 0, None, 0);
        while waiting > 0 {
            tokio::select! {
                report = self.reports.recv() => match report {
                    Some(Report::Ready { opened: more, failure }) => {
                        waiting -= 1;
                        opened += more;
                        reason = reason.or(failure);
                    }
                    other => return Err(self.trouble(other)),
                },
                () = stopped(stop) => return Ok(Connected::Interrupted),
                _ = looks.tick() => {
                    looked += 1;
                    if looked % LOOKS_A_SECOND == 0 {
                        tick(&self.lives);
                    }
                    self.check_alive()?;
                }
            }
        }
        Ok(match reason {
            Some(reason) if opened == 0 => Connected::None(reason),
            _ => Connected::Up,
        })
    }

    /// Offers one load, each thread its own part, and gives its begin. The measurement begins with it, or where there is a
    /// warm-up when [`Order::MeasureFrom`] says so.
    pub(crate) async fn offer(
        &mut self,
        clock: Clock,
        offer: &Offer,
        stop: &watch::Receiver<bool>,
    ) -> Result<u64, Error> {
        self.tell(Order::Prepare(offer.clone()))?;
        let mut unprepared = match &self.hands {
            Hands::Here(_) => 0,
            Hands::Apart(processes) => processes.len(),
        };
        while unprepared > 0 {
            match tokio::time::timeout(LOOK, self.reports.recv()).await {
                Ok(Some(Report::Prepared)) => unprepared -= 1,
                Ok(other) => return Err(self.trouble(other)),
                Err(_) => {
                    self.stopping |= *stop.borrow();
                    self.check_alive()?;
                }
            }
        }
        let begin = clock.now() + self.lead_ns();
        let has_warm_up = !offer.warmup_max.is_zero();
        let measure_from = if has_warm_up { 0 } else { begin };
        self.tell(Order::Begin { begin, measure_from })?;
        Ok(begin)
    }

    /// Tells all threads something.
    pub(crate) fn tell(&mut self, order: Order) -> Result<(), Error> {
        self.stopping |= matches!(order, Order::Stop);
        match (&mut self.hands, order) {
            (Hands::Apart(processes), order) => processes.tell(&order),
            (Hands::Here(threads), Order::Prepare(offer)) => threads.prepare(&offer)?,
            (Hands::Here(threads), Order::Begin { begin, measure_from }) => {
                let begun = threads.begin(begin, measure_from);
                begun.map_err(|error| self.explained(error.into()))?;
            }
            (Hands::Here(threads), Order::MeasureFrom(from)) => threads.measure_from(from),
            (Hands::Here(threads), Order::Stop) => threads.stop(),
            // They have connected when they were started.
            (Hands::Here(_), Order::Take(_)) => {}
        }
        Ok(())
    }

    /// The next thing that a thread or a process says.
    pub(crate) async fn report(&mut self) -> Option<Report> {
        self.reports.recv().await
    }

    /// Waits for the next thread that hands over; nothing when none did within `span`.
    pub(crate) async fn handed(&mut self, span: Duration, into: &mut Handover) -> Result<bool, Error> {
        match tokio::time::timeout(span, self.reports.recv()).await {
            Err(_) => {
                self.check_alive()?;
                Ok(false)
            }
            Ok(Some(Report::Done(handed))) => {
                into.last_end = into.last_end.max(handed.last_end);
                into.sent += handed.sent;
                into.warm_up_answers += handed.warm_up_answers;
                into.warm_up_failed += handed.warm_up_failed;
                into.idle += handed.idle;
                into.silences = match into.threads.is_empty() {
                    true => handed.silences,
                    false => both_silent(&into.silences, &handed.silences),
                };
                into.tally.merge(&handed.tally);
                into.threads.push(handed.tally);
                Ok(true)
            }
            Ok(other) => Err(self.trouble(other)),
        }
    }

    /// How many threads there are.
    pub(crate) fn len(&self) -> usize {
        self.lives.len()
    }

    /// The processes that the load generator is: this one, where its threads are, and a program that makes the calls.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut pids = vec![std::process::id()];
        match &self.hands {
            Hands::Here(threads) => pids.extend(threads.program_pids()),
            Hands::Apart(processes) => pids.extend(processes.pids()),
        }
        pids
    }

    /// Whether the figures so far come from other processes, a while later and in steps of [`message::FIGURES_NS`].
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self.hands, Hands::Apart(_))
    }

    /// How far ahead of now a moment must be that every thread is to know of in time.
    pub(crate) fn lead_ns(&self) -> u64 {
        let lead = if self.is_apart() { LEAD_APART } else { LEAD };
        lead.as_nanos() as u64
    }

    /// Answers and their latencies so far, for the test of whether a load has settled.
    pub(crate) fn so_far(&self) -> Window {
        let sum = |figure: fn(&Live) -> &std::sync::atomic::AtomicU64| {
            self.lives.iter().map(|live| figure(live).load(Relaxed)).sum()
        };
        Window {
            answers: sum(|live| &live.answers),
            latency_ns_sum: sum(|live| &live.latency_ns_sum),
        }
    }

    /// An error if a thread of this process has ended, or another process is stuck; of one that ended [`Report::Lost`] tells.
    pub(crate) fn check_alive(&mut self) -> Result<(), Error> {
        let alive = match &self.hands {
            Hands::Here(threads) => threads.check_alive().map_err(Error::from),
            Hands::Apart(processes) => processes.check_alive(self.stopping),
        };
        alive.map_err(|error| self.explained(error))
    }

    /// The error that a thread reported before it ended, where it did: `error` says only that it has.
    fn explained(&mut self, error: Error) -> Error {
        while let Ok(report) = self.reports.try_recv() {
            if matches!(report, Report::Broken(_) | Report::Lost { .. }) {
                return self.trouble(Some(report));
            }
        }
        error
    }

    /// The error in a report that is not the one that is due.
    fn trouble(&mut self, report: Option<Report>) -> Error {
        match (report, &mut self.hands) {
            (Some(Report::Broken(why)), _) => Error::ClientThread(why),
            (Some(Report::Lost { at, said }), Hands::Apart(processes)) => processes.lost(at, said),
            _ => LoadError::ended().into(),
        }
    }
}
