//! One point of a closed loop: all connections up, then the clock, then every connection keeps its requests outstanding.
//!
//! Its invariant: the clock starts after the last connection is up and stops when the last request ends; what happens
//! before and after is in no figure.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond_press_recorder::{CpuSample, Live, Tally, memory_bytes};
use millpond_press_report::{Cpu, Second};
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use crate::client_thread::{self, Handed, Phase, Plan, Ready};
use crate::progress::Progress;
use crate::scenario::Amount;
use crate::target::Target;
use crate::{Error, stopped};

/// What one point left behind.
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    pub(crate) us_total: u64,
    pub(crate) client_threads: usize,
    pub(crate) server_cpu: Option<Cpu>,
    pub(crate) client_cpu: Option<Cpu>,
    pub(crate) server_memory_bytes: Option<u64>,
    pub(crate) client_memory_bytes: Option<u64>,
    pub(crate) series: Vec<Second>,
    pub(crate) interrupted: bool,
}

/// The threads of a point and the ways to speak with them.
struct Crew {
    handles: Vec<JoinHandle<std::io::Result<Handed>>>,
    phase: watch::Sender<Phase>,
    ready: mpsc::Receiver<Ready>,
    done: mpsc::Receiver<()>,
    progress: Progress,
}

/// How preparing ended.
enum Prepared {
    AllUp,
    NoneUp(String),
    Interrupted,
    /// A thread ended early; joining it says why.
    Broken,
}

/// What is sampled before and after.
struct Samples {
    server: Option<CpuSample>,
    client: Option<CpuSample>,
}

/// Runs one point. `name` is for progress lines, `address` for the error when nothing listens there.
pub(crate) async fn measure<T: Target>(
    plan: Arc<Plan<T>>,
    (name, address): (String, &str),
    server_pid: Option<u32>,
    stop: &mut watch::Receiver<bool>,
    shown: bool,
) -> Result<Measured, Error> {
    let connections = plan.connections;
    let client_threads = plan.client_threads;
    // A run of a given length is that long, also when the server died in it and the last answer came early.
    let planned = match plan.amount {
        Amount::For(length) => length,
        Amount::Requests(_) => Duration::ZERO,
    };
    let mut crew = Crew::start(plan, name, shown)?;
    let prepared = crew.prepare(connections, stop).await;
    let mut interrupted = matches!(prepared, Prepared::Interrupted);
    let mut series = Vec::new();
    let before = Samples::take(server_pid);
    let start = Instant::now();
    if let Prepared::AllUp = prepared {
        interrupted = crew.send(start, &mut series, stop).await;
    } else {
        crew.phase.send_replace(Phase::Stop);
    }
    let after = Samples::take(server_pid);
    let (server_memory_bytes, client_memory_bytes) = (
        server_pid.and_then(memory_bytes),
        memory_bytes(std::process::id()),
    );
    let (tally, last_end) = crew.join()?;
    if let Prepared::NoneUp(reason) = prepared {
        return Err(Error::Absent {
            address: address.to_owned(),
            reason,
        });
    }
    let total = last_end.map_or(Duration::ZERO, |end| end.saturating_duration_since(start));
    let total = if interrupted { total } else { total.max(planned) };
    series.push(Second {
        s: total.as_secs_f64(),
        answers: tally.counters.answers(),
        refused: tally.counters.refused_total(),
        failed: tally.counters.failed_total(),
    });
    Ok(Measured {
        tally,
        us_total: total.as_micros() as u64,
        client_threads,
        server_cpu: used(before.server, after.server),
        client_cpu: used(before.client, after.client),
        server_memory_bytes,
        client_memory_bytes,
        series,
        interrupted,
    })
}

impl Crew {
    fn start<T: Target>(plan: Arc<Plan<T>>, name: String, shown: bool) -> Result<Crew, Error> {
        let threads = plan.client_threads;
        let (phase, phase_seen) = watch::channel(Phase::Prepare);
        let (ready_here, ready) = mpsc::channel(threads);
        let (done_here, done) = mpsc::channel(threads);
        let mut handles = Vec::new();
        let mut lives = Vec::new();
        for index in 0..threads {
            let live = Arc::new(Live::default());
            lives.push(live.clone());
            let (plan, phase) = (plan.clone(), phase_seen.clone());
            let (ready, done) = (ready_here.clone(), done_here.clone());
            let body = move || {
                let handed = client_thread::run(plan, index, live, phase, ready);
                // One place a thread: there is always room.
                let _ = done.try_send(());
                handed
            };
            let thread = std::thread::Builder::new()
                .name(format!("press-client-{index}"))
                .spawn(body);
            handles.push(thread.map_err(|error| Error::ClientThread(error.to_string()))?);
        }
        Ok(Crew {
            handles,
            phase,
            ready,
            done,
            progress: Progress::new(shown, name, lives),
        })
    }

    async fn prepare(&mut self, connections: usize, stop: &mut watch::Receiver<bool>) -> Prepared {
        let mut seconds = every_second();
        let (mut waiting, mut opened, mut reason) = (self.handles.len(), 0, None);
        while waiting > 0 {
            tokio::select! {
                Some(ready) = self.ready.recv() => {
                    waiting -= 1;
                    opened += ready.opened;
                    reason = reason.or(ready.failure);
                }
                _ = self.done.recv() => return Prepared::Broken,
                () = stopped(stop) => return Prepared::Interrupted,
                _ = seconds.tick() => self.progress.connecting(connections),
            }
        }
        match reason {
            Some(reason) if opened == 0 => Prepared::NoneUp(reason),
            _ => Prepared::AllUp,
        }
    }

    /// Starts the clock and waits for every thread; true if the run was interrupted.
    async fn send(
        &mut self,
        start: Instant,
        series: &mut Vec<Second>,
        stop: &mut watch::Receiver<bool>,
    ) -> bool {
        self.progress.start(start);
        self.phase.send_replace(Phase::Go(start));
        let mut seconds = every_second();
        let mut interrupted = false;
        let mut running = self.handles.len();
        while running > 0 {
            tokio::select! {
                // Without a message, every thread has gone in one way or another.
                done = self.done.recv() => running = if done.is_some() { running - 1 } else { 0 },
                () = stopped(stop), if !interrupted => {
                    interrupted = true;
                    self.phase.send_replace(Phase::Stop);
                }
                _ = seconds.tick() => {
                    self.progress.sending();
                    series.push(self.progress.second(start.elapsed()));
                }
            }
        }
        interrupted
    }

    fn join(self) -> Result<(Tally, Option<Instant>), Error> {
        let mut tally = Tally::default();
        let mut last_end = None;
        for handle in self.handles {
            let handed = match handle.join() {
                Ok(handed) => handed.map_err(|error| Error::ClientThread(error.to_string()))?,
                Err(_) => {
                    return Err(Error::ClientThread(
                        "it panicked, which is a defect of press".into(),
                    ));
                }
            };
            tally.merge(&handed.tally);
            last_end = last_end.max(handed.last_end);
        }
        Ok((tally, last_end))
    }
}

impl Samples {
    fn take(server_pid: Option<u32>) -> Samples {
        Samples {
            server: server_pid.and_then(CpuSample::of),
            client: CpuSample::own(),
        }
    }
}

/// One tick a second, the first after a second.
fn every_second() -> Interval {
    let second = Duration::from_secs(1);
    let mut interval = interval_at(tokio::time::Instant::now() + second, second);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval
}

fn used(before: Option<CpuSample>, after: Option<CpuSample>) -> Option<Cpu> {
    let (before, after) = (before?, after?);
    Some(Cpu {
        seconds: before.seconds_until(&after),
        percent: before.percent_until(&after)?,
    })
}
