//! What a verdict tells beside its reason: failures, short outages, and a schedule that held more or less than was asked.
//!
//! Its invariant: none of it changes what bounded a point; each is a sentence without its full stop.

use crate::{LoadKind, Point};
use millpond_press_recorder::SILENCE_NS_MIN;

use crate::outcomes::{FAILING, Outcomes};

/// A silence is told when it is so many times as long as answers are apart: chance makes none of these.
const SILENT_GAPS: f64 = 20.0;
/// From here on the point is as little of one piece as one with a whole second without an answer.
const OUTAGE_US: u64 = 500_000;
/// An antagonist that uses less of each of its cores than this hardly disturbs, in percent.
const IDLE_PERCENT: f64 = 50.0;
/// The share by which a schedule may miss the rate that was asked before that is said.
const OFFERED_DIFFERS: f64 = 0.03;

/// What stands beside the reason, each where there is something to tell.
pub(super) fn beside(point: &Point) -> impl Iterator<Item = String> {
    let told = [
        failures(point),
        operations(point),
        refusals(point),
        never_sent(point),
        warm_up(point),
        connections_down(point),
        silence(point),
        another_rate(point),
        split(point),
        antagonists(point),
    ];
    told.into_iter().flatten()
}

/// What the work on a request was of all that it took: as the server counts it, or in this process the call.
fn split(point: &Point) -> Option<String> {
    let split = point.split().filter(|_| point.offered.kind == LoadKind::Open)?;
    let (whole, service, rest) = (split.whole, split.service, split.rest);
    let is_local = point.target.address.is_empty();
    Some(match split.queue {
        Some(queue) if is_local => format!(
            "Of {whole:.0} us on average the call took {service:.0} us, {queue:.0} us were spent waiting for the calls before it, and the load \
             generator itself was {rest:.0} us late"
        ),
        Some(queue) => format!(
            "Of {whole:.0} us on average the server worked {service:.0} us, a request waited {queue:.0} us in the server's queue, and {rest:.0} us \
             went on the way and in the load generator"
        ),
        None => format!(
            "Of {whole:.0} us on average the server took {service:.0} us from the read of a request to its answer, and {rest:.0} us went on the \
             way and in queues"
        ),
    })
}

/// What ran beside it.
fn antagonists(point: &Point) -> Option<String> {
    let beside = point.offered.antagonists.as_ref()?;
    let cores = |cores: &[usize]| match cores {
        [] => "any core".to_owned(),
        [one] => format!("core {one}"),
        many => format!("cores {many:?}"),
    };
    let used = point.antagonists_cpu;
    let is_idle = used.is_some_and(|cpu| cpu.percent < IDLE_PERCENT * beside.cores.len() as f64);
    let idle = match is_idle {
        true => "; it used less than half of each of its cores, so that little may have been disturbed",
        false => "",
    };
    let used = used.map_or_else(String::new, |cpu| {
        format!(", which used {:.0} % of a core,", cpu.percent)
    });
    let (kind, program) = (
        beside.interference,
        beside.command.split(' ').next().unwrap_or_default(),
    );
    Some(format!(
        "Beside it `{program}`{used} ran on {}, and it on {}: {}{idle}",
        cores(&beside.cores),
        cores(&beside.beside),
        kind.in_words()
    ))
}

/// The lines of evidence that are not of the machine.
pub(super) fn evidence(point: &Point) -> impl Iterator<Item = String> {
    let told = [
        failures(point),
        refusals(point),
        never_sent(point),
        schedule(point),
        silence(point),
    ];
    told.into_iter().flatten()
}

/// A count of requests as words.
fn part(outcomes: &Outcomes, count: u64, what: &str) -> Option<String> {
    (count > 0).then(|| {
        let percent = 100.0 * outcomes.share(count);
        // A part that is rounded to nothing is not nothing.
        let percent = match percent {
            percent if percent < 0.05 => "under 0.1".to_owned(),
            percent => format!("{percent:.1}"),
        };
        format!("{count} of {} requests {what} ({percent} %)", outcomes.offered)
    })
}

/// How many requests failed, where that is few enough not to be the judgement.
fn failures(point: &Point) -> Option<String> {
    let outcomes = Outcomes::of(point);
    part(&outcomes, outcomes.failed, "failed").filter(|_| !outcomes.is_failing())
}

/// Operations of a mix that fail although the mix does not: a rare one may fail every time.
fn operations(point: &Point) -> Option<String> {
    let mut failing = point.operations.iter().filter(|one| {
        let all = one.answers + one.refused + one.failed;
        one.failed as f64 > FAILING * all as f64
    });
    let first = failing.next().filter(|_| !Outcomes::of(point).is_failing())?;
    let others = match failing.count() {
        0 => String::new(),
        others => format!(" (and of {others} more operations)"),
    };
    Some(format!(
        "Of the operation `{}` {} of {} requests failed{others}",
        first.name,
        first.failed,
        first.answers + first.refused + first.failed
    ))
}

/// How many were refused. It decides nothing: a refusal in time is an answer to who asked for too much.
fn refusals(point: &Point) -> Option<String> {
    let outcomes = Outcomes::of(point);
    part(&outcomes, outcomes.refused, "were refused")
}

fn never_sent(point: &Point) -> Option<String> {
    let outcomes = Outcomes::of(point);
    part(&outcomes, outcomes.not_sent, "were never sent")
}

/// Trouble before the clock, which is in no figure.
fn warm_up(point: &Point) -> Option<String> {
    let failed = point.warm_up.failed;
    (failed > 0).then(|| format!("In the warm-up {failed} requests failed, which are in no figure"))
}

/// Connections that were not there in the end.
pub(super) fn connections_down(point: &Point) -> Option<String> {
    let counters = &point.counters;
    let first = counters.first.get("not_connected");
    let first = first.map_or_else(String::new, |first| format!(" ({first})"));
    (counters.connections_down > 0).then(|| {
        format!(
            "{} of {} connections were down when the load ended{first}: less was offered than what names the point",
            counters.connections_down, point.offered.connections
        )
    })
}

/// An outage shorter than the seconds of the series, if there was one.
pub(super) fn silence(point: &Point) -> Option<String> {
    let gap_us = 1e6 / point.qps.max(1e-6);
    let times = point.us_silent_max as f64 / gap_us;
    let is_long = point.us_silent_max >= SILENCE_NS_MIN / 1_000;
    (is_long && times > SILENT_GAPS).then(|| {
        format!(
            "For {} ms no answer came while requests waited, {times:.0} times as long as answers are apart on average: the \
             server stood still or was away",
            point.us_silent_max / 1_000
        )
    })
}

/// The same, where it was so long that the figures are of two states.
pub(super) fn outage(point: &Point) -> Option<String> {
    silence(point).filter(|_| point.us_silent_max >= OUTAGE_US)
}

/// Requests of the schedule a second, and how many were asked.
fn offered_and_asked(point: &Point) -> Option<(f64, f64)> {
    let offered = &point.offered;
    let seconds = offered.duration_s.filter(|&seconds| seconds > 0.0)?;
    let is_whole = offered.kind == LoadKind::Open && !point.interrupted;
    let asked = offered.rate.filter(|&rate| is_whole && rate > 0.0)?;
    Some((point.counters.offered() as f64 / seconds, asked))
}

/// What the schedule held, as a line of evidence.
pub(super) fn schedule(point: &Point) -> Option<String> {
    let (offered, asked) = offered_and_asked(point)?;
    Some(format!(
        "schedule: {offered:.1} requests a second of {asked} asked"
    ))
}

/// That it held another rate than the one that names the point, if it did.
pub(super) fn another_rate(point: &Point) -> Option<String> {
    let (offered, asked) = offered_and_asked(point)?;
    let differs = offered / asked - 1.0;
    (differs.abs() > OFFERED_DIFFERS).then(|| {
        let arrivals = point.offered.arrivals.as_deref().unwrap_or("these arrivals");
        let (amount, than) = if differs > 0.0 { ("more", "than") } else { ("less", "than") };
        format!(
            "The schedule offered {offered:.0}/s, {:.0} % {amount} {than} the {asked:.0}/s asked: with {arrivals}, {} s are too \
             short to keep to the mean",
            100.0 * differs.abs(),
            point.offered.duration_s.unwrap_or_default()
        )
    })
}
