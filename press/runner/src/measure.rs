//! One load offered to one target: warm-up until it is stationary, the measurement, and what was used meanwhile.
//!
//! Its invariant: the clock of the measurement starts after the connections are up and the warm-up is over; what happens
//! before and after it is in no figure.

use std::time::{Duration, Instant, SystemTime};

use millpond_press_recorder::{CpuSample, Resources, Window, is_stationary, memory_bytes};
use millpond_press_report::{Cpu, Stage, WarmUp};
use millpond_press_workload::{Arrivals, Schedule};
use tokio::sync::watch;

use crate::engine::crew::{Crew, Handover};
use crate::engine::{Amount, Clock, Pace, Phase};
use crate::probe::Ready;
use crate::progress::Progress;
use crate::watcher::Watcher;
use crate::{Error, stages};

/// From the command to the first request, so that all threads begin together.
const LEAD: Duration = Duration::from_millis(20);
/// The width of a window of the test for a stationary state.
const WINDOW: Duration = Duration::from_millis(125);
/// How often it is looked whether to stop.
const TURN: Duration = Duration::from_millis(50);

/// One load.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    /// How requests arrive and how many a second; nothing in a closed loop.
    pub(crate) open: Option<(Arrivals, Option<f64>)>,
    pub(crate) think: Duration,
    pub(crate) amount: Amount,
    pub(crate) warmup_max: Duration,
    pub(crate) seed: u64,
}

/// What is watched while a load is offered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    pub(crate) server_pid: Option<u32>,
    pub(crate) port: Option<u16>,
    pub(crate) metrics: Option<Ready>,
}

/// What one load left behind.
pub(crate) struct Measured {
    pub(crate) handover: Handover,
    pub(crate) started_at: SystemTime,
    pub(crate) total: Duration,
    pub(crate) warm_up: WarmUp,
    pub(crate) resources: Resources,
    /// Requests on their way at the end of each second.
    pub(crate) outstanding: Vec<u64>,
    pub(crate) server_cpu: Option<Cpu>,
    pub(crate) client_cpu: Option<Cpu>,
    pub(crate) server_memory_bytes: Option<u64>,
    pub(crate) client_memory_bytes: Option<u64>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) interrupted: bool,
}

/// What is read before and after.
struct Samples {
    server: Option<CpuSample>,
    client: Option<CpuSample>,
    stages: stages::Totals,
}

/// Offers one load and waits for its end; a stop gives what there is by then.
pub(crate) async fn measure(
    crew: &mut Crew,
    clock: Clock,
    offer: &Offer,
    watched: &Watched,
    progress: &mut Progress,
    stop: &watch::Receiver<bool>,
) -> Result<Measured, Error> {
    let begin = clock.now() + LEAD.as_nanos() as u64;
    let known = if offer.warmup_max.is_zero() { begin } else { 0 };
    crew.offer(phases(crew.len(), offer, begin)?, known)?;
    let mut handover = Handover::default();
    let (from, warm_up_stationary) = match known {
        0 => warm_up(crew, clock, offer, begin, stop).await,
        begin => (begin, true),
    };
    let watcher = Watcher::start(clock, from, watched, &crew.lives)?;
    let before = Samples::take(watched);
    let started_at = SystemTime::now();
    progress.start(&crew.lives);
    let interrupted = wait(crew, &mut handover, progress, stop).await?;
    let after = Samples::take(watched);
    progress.sending(&crew.lives);
    let seen = watcher.end();
    let total = total(offer, from, handover.last_end, interrupted);
    Ok(Measured {
        started_at,
        total,
        warm_up: WarmUp {
            seconds: seconds(from.saturating_sub(begin)),
            answers: handover.warm_up_answers,
            stationary: warm_up_stationary,
        },
        server_cpu: used(before.server, after.server, Duration::ZERO),
        client_cpu: used(before.client, after.client, handover.idle),
        server_memory_bytes: watched.server_pid.and_then(memory_bytes),
        client_memory_bytes: memory_bytes(std::process::id()),
        stages: before.stages.until(&after.stages),
        resources: seen.resources,
        outstanding: seen.outstanding,
        handover,
        interrupted,
    })
}

/// The part of each thread in the load.
fn phases(threads: usize, offer: &Offer, begin: u64) -> Result<Vec<Phase>, Error> {
    let phase = |pace| Phase {
        begin,
        amount: offer.amount,
        pace,
    };
    let (Some((arrivals, rate)), Amount::For(length)) = (&offer.open, offer.amount) else {
        let think_ns = offer.think.as_nanos() as u64;
        return Ok((0..threads).map(|_| phase(Pace::Closed { think_ns })).collect());
    };
    let make = |length: Duration, seed: u64| {
        if length.is_zero() {
            return Ok(None);
        }
        Schedule::make(arrivals, *rate, length, seed)
            .map(Some)
            .map_err(Error::Requests)
    };
    let warm_up = make(offer.warmup_max, offer.seed ^ 0x5eed)?;
    let measured = make(length, offer.seed)?;
    let part = |schedule: &Option<Schedule>, index| {
        schedule
            .as_ref()
            .map(|schedule| schedule.part(index, threads))
            .unwrap_or_default()
    };
    let pace = |index| Pace::Open {
        warm_up: part(&warm_up, index),
        measured: part(&measured, index),
    };
    Ok((0..threads).map(|index| phase(pace(index))).collect())
}

/// Waits until rate and latency are stationary, or the limit; gives the start of the measurement.
async fn warm_up(
    crew: &Crew,
    clock: Clock,
    offer: &Offer,
    begin: u64,
    stop: &watch::Receiver<bool>,
) -> (u64, bool) {
    let limit = begin + offer.warmup_max.as_nanos() as u64;
    let mut windows: Vec<Window> = Vec::new();
    let mut last = crew.so_far();
    loop {
        tokio::time::sleep(WINDOW).await;
        let now = crew.so_far();
        windows.push(Window {
            answers: now.answers - last.answers,
            latency_ns_sum: now.latency_ns_sum.wrapping_sub(last.latency_ns_sum),
        });
        last = now;
        let stationary = is_stationary(&windows);
        if *stop.borrow() {
            // There will be no measurement.
            crew.stop();
            return (clock.now(), stationary);
        }
        if stationary || clock.now() >= limit {
            let from = clock.now() + LEAD.as_nanos() as u64;
            crew.measure_from(from);
            return (from, stationary);
        }
    }
}

/// Waits until every thread has handed over; true if someone stopped it.
async fn wait(
    crew: &mut Crew,
    handover: &mut Handover,
    progress: &mut Progress,
    stop: &watch::Receiver<bool>,
) -> Result<bool, Error> {
    let mut left = crew.len();
    let mut interrupted = false;
    let mut told = Instant::now();
    while left > 0 {
        if crew.handed(TURN, handover).await? {
            left -= 1;
        }
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            progress.sending(&crew.lives);
        }
        if *stop.borrow() && !interrupted {
            interrupted = true;
            crew.stop();
        }
    }
    Ok(interrupted)
}

/// A load of a given length is that long, also when the server died in it and the last answer came early.
fn total(offer: &Offer, from: u64, last_end: Option<u64>, interrupted: bool) -> Duration {
    let answered = Duration::from_nanos(last_end.unwrap_or(from).saturating_sub(from));
    match offer.amount {
        Amount::For(length) if !interrupted => answered.max(length),
        _ => answered,
    }
}

impl Samples {
    fn take(watched: &Watched) -> Samples {
        Samples {
            server: watched.server_pid.and_then(CpuSample::of),
            client: CpuSample::own(),
            stages: watched
                .metrics
                .as_ref()
                .map(stages::Totals::read)
                .unwrap_or_default(),
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The use between two samples, without the time that was spent idly.
fn used(before: Option<CpuSample>, after: Option<CpuSample>, idle: Duration) -> Option<Cpu> {
    let (before, after) = (before?, after?);
    let seconds = before.seconds_until(&after);
    let percent = before.percent_until(&after)?;
    let busy = (seconds - idle.as_secs_f64()).max(0.0);
    let percent = if seconds > 0.0 {
        percent * busy / seconds
    } else {
        0.0
    };
    Some(Cpu {
        seconds: busy,
        percent,
    })
}
