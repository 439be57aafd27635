//! What a verdict tells beside its reason: failures, short outages, and a schedule that held more or less than was asked.
//!
//! Its invariant: none of it changes what bounded a point; each is a sentence without its full stop.

use millpond_press_recorder::SILENCE_NS_MIN;
use millpond_press_report::{LoadKind, Point};

/// A silence is told when it is so many times as long as answers are apart: chance makes none of these.
const SILENT_GAPS: f64 = 20.0;
/// From here on the point is as little of one piece as one with a whole second without an answer.
const OUTAGE_US: u64 = 500_000;
/// The share by which a schedule may miss the rate that was asked before that is said.
const OFFERED_DIFFERS: f64 = 0.03;

/// How many requests failed, if any did.
pub(super) fn failures(point: &Point) -> Option<String> {
    let counters = &point.counters;
    let (failed, offered) = (counters.failed_total() + counters.not_sent, counters.offered());
    (failed > 0).then(|| {
        format!(
            "{failed} of {offered} requests failed or were never sent ({:.1} %)",
            100.0 * failed as f64 / offered.max(1) as f64
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
