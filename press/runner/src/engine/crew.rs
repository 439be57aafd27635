//! The threads of a load generator as one: started, connected, told what to offer, asked what came of it.
//!
//! Its invariant: the clock of a load starts after the connections are up, and a crew that is dropped leaves no thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use millpond_press_recorder::{Live, Tally, Window};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::watch;

use super::{Command, Control, Line, Phase, Plan, Report, client_thread, in_process_thread};
use crate::target::Protocol;
use crate::target::in_process::Local;
use crate::{Error, stopped};

/// The threads and the ways to speak with them.
pub(crate) struct Crew {
    handles: Vec<JoinHandle<()>>,
    commands: Vec<mpsc::SyncSender<Command>>,
    reports: Receiver<Report>,
    reporter: Sender<Report>,
    control: Arc<Control>,
    pub(crate) lives: Vec<Arc<Live>>,
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
    pub(crate) idle: Duration,
}

impl Crew {
    /// Starts the threads of a target with connections.
    pub(crate) fn start<P: Protocol>(plan: Plan<P>) -> Result<Crew, Error> {
        Crew::start_with(Arc::new(plan), client_thread::run)
    }

    /// Starts the threads of a target in this process.
    pub(crate) fn start_local<P: Local>(plan: Plan<P>) -> Result<Crew, Error> {
        Crew::start_with(Arc::new(plan), in_process_thread::run)
    }

    fn start_with<P: Send + Sync + 'static>(
        plan: Arc<Plan<P>>,
        body: fn(Arc<Plan<P>>, Line),
    ) -> Result<Crew, Error> {
        let plan_threads = plan.client_threads;
        // A thread has at most one report under way: it waits for a command after each.
        let (reporter, reports) = tokio::sync::mpsc::channel(2 * plan_threads.max(1));
        let mut crew = Crew {
            handles: Vec::new(),
            commands: Vec::new(),
            reports,
            reporter,
            control: Arc::default(),
            lives: Vec::new(),
        };
        for index in 0..plan_threads {
            // One load and the farewell.
            let (commands, received) = mpsc::sync_channel(2);
            let live = Arc::new(Live::default());
            let line = Line {
                index,
                commands: received,
                reports: crew.reporter.clone(),
                control: crew.control.clone(),
                live: live.clone(),
            };
            let plan = plan.clone();
            let thread = std::thread::Builder::new()
                .name(format!("press-client-{index}"))
                .spawn(move || body(plan, line));
            let handle = thread.map_err(|error| Error::ClientThread(error.to_string()))?;
            crew.handles.push(handle);
            crew.commands.push(commands);
            crew.lives.push(live);
        }
        Ok(crew)
    }

    /// Waits until every connection is up or has failed once; `tick` is called once a second.
    pub(crate) async fn connected(
        &mut self,
        stop: &mut watch::Receiver<bool>,
        mut tick: impl FnMut(&[Arc<Live>]),
    ) -> Result<Connected, Error> {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        seconds.tick().await;
        let (mut waiting, mut opened, mut reason) = (self.handles.len(), 0, None);
        while waiting > 0 {
            tokio::select! {
                report = self.reports.recv() => match report {
                    Some(Report::Ready { opened: more, failure }) => {
                        waiting -= 1;
                        opened += more;
                        reason = reason.or(failure);
                    }
                    Some(Report::Broken(why)) => return Err(Error::ClientThread(why)),
                    Some(Report::Done(_)) | None => return Err(self.defect()),
                },
                () = stopped(stop) => return Ok(Connected::Interrupted),
                _ = seconds.tick() => {
                    tick(&self.lives);
                    self.check_alive()?;
                }
            }
        }
        Ok(match reason {
            Some(reason) if opened == 0 => Connected::None(reason),
            _ => Connected::Up,
        })
    }

    /// Offers one load: each thread its own phase. `measure_from` 0 means that the measurement begins later.
    pub(crate) fn offer(&mut self, phases: Vec<Phase>, measure_from: u64) -> Result<(), Error> {
        self.control.measure_from.store(measure_from, Relaxed);
        for (commands, phase) in self.commands.iter().zip(phases) {
            if commands.try_send(Command::Offer(phase)).is_err() {
                return Err(self.defect());
            }
        }
        self.control.commands.fetch_add(1, Relaxed);
        Ok(())
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
                into.idle += handed.idle;
                into.tally.merge(&handed.tally);
                into.threads.push(handed.tally);
                Ok(true)
            }
            Ok(Some(Report::Broken(why))) => Err(Error::ClientThread(why)),
            Ok(Some(Report::Ready { .. }) | None) => Err(self.defect()),
        }
    }

    /// How many threads there are.
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
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

    /// Tells when the measurement begins.
    pub(crate) fn measure_from(&self, from: u64) {
        self.control.measure_from.store(from, Relaxed);
    }

    /// Tells all threads to drop what they do and hand over.
    pub(crate) fn stop(&self) {
        self.control.stop.store(true, Relaxed);
    }

    fn check_alive(&self) -> Result<(), Error> {
        if self.handles.iter().any(JoinHandle::is_finished) {
            return Err(self.defect());
        }
        Ok(())
    }

    fn defect(&self) -> Error {
        Error::ClientThread("it ended by itself, which is a defect of press".into())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.control.stop.store(true, Relaxed);
        for commands in &self.commands {
            let _ = commands.try_send(Command::Leave);
        }
        self.control.commands.fetch_add(1, Relaxed);
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
    }
}
