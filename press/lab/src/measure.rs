//! One load offered to one target: warm-up until it is stationary, the measurement, and what was used meanwhile.
//!
//! Its invariant: the clock of the measurement starts after the connections are up and the warm-up is over; what happens
//! before and after it is in no figure.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millpond_press_recorder::{
    CpuSample, SILENCE_NS_MIN, Window, is_stationary, kernel_slab_bytes, longest_silence, memory_bytes,
    process_tree,
};
use millpond_press_verdict::{Cpu, Point, WarmUp};
use tokio::sync::watch;

use crate::crew::message::{FIGURES_NS, Order};
use crate::crew::{Crew, Handover};
use crate::probe::Ready;
use crate::progress::Progress;
use crate::session::server_bytes;
use crate::watcher::Watcher;
use crate::{Error, stages};
use millpond_press_load::{Amount, Clock, Offer};

/// The width of a window of the test for a stationary state.
const WINDOW: Duration = Duration::from_millis(125);
/// How long the figures of other processes may be on their way.
const FIGURES_LATE: Duration = Duration::from_millis(10);
/// How often it is looked whether to stop.
const TURN: Duration = Duration::from_millis(50);

/// What is watched while a load is offered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    pub(crate) server_pid: Option<u32>,
    pub(crate) port: Option<u16>,
    pub(crate) metrics: Option<Ready>,
    /// What runs beside it on purpose.
    pub(crate) antagonists: Vec<u32>,
}

/// What one load left behind.
pub(crate) struct Measured {
    pub(crate) handover: Handover,
    pub(crate) started_at: SystemTime,
    pub(crate) total: Duration,
    /// What was used and how it went; the rest follows from the scenario and from what threads handed over.
    pub(crate) point: Point,
    /// Requests on their way at the end of each second.
    pub(crate) outstanding: Vec<u64>,
    pub(crate) kernel_slab_bytes: Option<u64>,
    /// What the server counts itself: its connections, and the calls it answered meanwhile.
    pub(crate) server_connections: Option<u64>,
    pub(crate) server_calls: Option<u64>,
    /// The mean time of one of them by the server's own clock.
    pub(crate) server_call_us_mean: Option<f64>,
    /// The part of it in the server's queue.
    pub(crate) server_queue_us_mean: Option<f64>,
    /// The server's own figures before and after.
    pub(crate) pages: (stages::Totals, stages::Totals),
}

/// What is read before and after.
struct Samples {
    server: Option<CpuSample>,
    client: Option<CpuSample>,
    antagonists: Option<CpuSample>,
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
    let begin = crew.offer(clock, offer, stop).await?;
    let mut handover = Handover::default();
    let (from, warm_up_stationary) = match offer.warmup_max.is_zero() {
        false => warm_up(crew, clock, offer, begin, stop).await?,
        true => (begin, true),
    };
    let client_pids = crew.pids();
    let watcher = Watcher::start(clock, from, watched, &client_pids, &crew.lives)?;
    let before = Samples::take(watched, &client_pids);
    let started_at = SystemTime::now();
    progress.start(&crew.lives);
    let interrupted = wait(crew, &mut handover, progress, stop).await?;
    let after = Samples::take(watched, &client_pids);
    progress.sending(&crew.lives);
    let seen = watcher.end();
    let total = total(offer, from, handover.last_end, interrupted);
    let silent = longest_silence(&handover.silences, from, from + total.as_nanos() as u64);
    let silent = if silent < SILENCE_NS_MIN { 0 } else { silent };
    let point = Point {
        started_unix_s: started_at
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64()),
        interrupted,
        us_total: total.as_micros() as u64,
        us_silent_max: silent / 1_000,
        warm_up: WarmUp {
            seconds: seconds(from.saturating_sub(begin)),
            answers: handover.warm_up_answers,
            failed: handover.warm_up_failed,
            stationary: warm_up_stationary,
        },
        server_cpu: used(before.server, after.server, Duration::ZERO),
        client_cpu: used(before.client, after.client, handover.idle),
        antagonists_cpu: used(before.antagonists, after.antagonists, Duration::ZERO),
        server_memory_bytes: watched.server_pid.and_then(server_bytes),
        client_memory_bytes: client_pids.iter().map(|&pid| memory_bytes(pid)).sum(),
        stages: before.stages.until(&after.stages),
        resources: seen.resources,
        ..Point::default()
    };
    Ok(Measured {
        started_at,
        total,
        point,
        kernel_slab_bytes: kernel_slab_bytes(),
        server_connections: after.stages.connections(),
        server_calls: before.stages.calls_until(&after.stages),
        server_call_us_mean: before.stages.call_us_until(&after.stages),
        server_queue_us_mean: before.stages.queue_us_until(&after.stages),
        pages: (before.stages, after.stages),
        outstanding: seen.outstanding,
        handover,
    })
}

/// Waits until rate and latency are stationary, or the limit; gives the start of the measurement.
async fn warm_up(
    crew: &mut Crew,
    clock: Clock,
    offer: &Offer,
    begin: u64,
    stop: &watch::Receiver<bool>,
) -> Result<(u64, bool), Error> {
    let limit = begin + offer.warmup_max.as_nanos() as u64;
    let mut windows: Vec<Window> = Vec::new();
    let mut last = crew.so_far();
    loop {
        tokio::time::sleep(window(crew, clock)).await;
        let now = crew.so_far();
        windows.push(Window {
            answers: now.answers - last.answers,
            latency_ns_sum: now.latency_ns_sum.wrapping_sub(last.latency_ns_sum),
        });
        last = now;
        let stationary = is_stationary(&windows);
        if *stop.borrow() {
            // There will be no measurement.
            crew.tell(Order::Stop)?;
            return Ok((clock.now(), stationary));
        }
        if stationary || clock.now() >= limit {
            let from = clock.now() + crew.lead_ns();
            crew.tell(Order::MeasureFrom(from))?;
            return Ok((from, stationary));
        }
    }
}

/// How long it is to the end of a window. Where figures come from other processes in steps, a window ends with a step, or
/// it would hold now more of them and now fewer.
fn window(crew: &Crew, clock: Clock) -> Duration {
    if !crew.is_apart() {
        return WINDOW;
    }
    let width = WINDOW.as_nanos() as u64;
    debug_assert_eq!(width % FIGURES_NS, 0, "a window is a number of steps");
    let now = clock.now();
    // The first window is as long as it happens to be, but none is much too short.
    let end = ((now + width / 2) / width + 1) * width;
    Duration::from_nanos(end - now) + FIGURES_LATE
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
            crew.tell(Order::Stop)?;
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
    fn take(watched: &Watched, client_pids: &[u32]) -> Samples {
        Samples {
            server: watched
                .server_pid
                .and_then(|pid| CpuSample::of_all(&process_tree(pid))),
            client: CpuSample::of_all(client_pids),
            antagonists: of_trees(&watched.antagonists),
            stages: watched
                .metrics
                .as_ref()
                .map(stages::Totals::read)
                .unwrap_or_default(),
        }
    }
}

/// What processes used with all that they have started; nothing where there is none.
fn of_trees(pids: &[u32]) -> Option<CpuSample> {
    let all: Vec<u32> = pids.iter().flat_map(|&pid| process_tree(pid)).collect();
    CpuSample::of_all(&all).filter(|_| !pids.is_empty())
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
