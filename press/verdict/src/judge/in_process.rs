//! What bounds a point without a network, whose calling threads do the engine's work themselves.
//!
//! Its invariant: a point with an address is never judged here.

use super::BUSY_PERCENT;
use super::observed::Observed;
use crate::{LoadKind, Point};

/// A wait of so much of the mean latency is most of what can be done about it.
const WAITED_SHARE: f64 = 0.4;

/// Without a network the caller does the engine's work itself.
pub(super) fn in_process(point: &Point, seen: &Observed) -> Option<String> {
    let is_busy =
        point.target.address.is_empty() && point.offered.kind == LoadKind::Closed && seen.client_busy >= 50.0;
    let answers = point.counters.answers();
    let cpu = point.client_cpu.filter(|_| is_busy && answers > 0)?;
    let each = cpu.seconds * 1e6 / answers as f64;
    let busy = seen.client_busy;
    Some(match point.target.protocol.as_str() {
        "program" => format!(
            "Server CPU: the program does the work itself, {busy:.0} % of a core in all, {each:.2} us a call with its callers."
        ),
        _ => format!(
            "Server CPU: the engine ran on the calling threads, {busy:.0} % of a core each, {each:.2} us a call with the recording \
             of it."
        ),
    })
}

/// The same in an open loop, whose callers wait for the next request too.
pub(super) fn full_caller(point: &Point, seen: &Observed) -> Option<String> {
    let (waited, worked) = split_in_process(point).filter(|_| seen.client_busy >= BUSY_PERCENT)?;
    Some(format!(
        "Server CPU: the engine ran on the calling threads, {:.0} % of a core each; a request took {worked:.0} us there, and waited \
         {waited:.0} us for that on average.",
        seen.client_busy
    ))
}

/// Requests that wait for the one before them although the engine has time to spare.
pub(super) fn waiting_callers(point: &Point, seen: &Observed) -> Option<String> {
    let (waited, worked) = split_in_process(point)?;
    (waited >= WAITED_SHARE * (waited + worked)).then(|| {
        format!(
            "Queueing: requests waited {waited:.0} us on average for those before them, and took {worked:.0} us in the engine, which ran \
             {:.0} % of a core.",
            seen.client_busy
        )
    })
}

/// What a request of an open loop waited and took in this process, on average, in microseconds.
fn split_in_process(point: &Point) -> Option<(f64, f64)> {
    let is_local = point.target.address.is_empty() && point.target.protocol != "program";
    let (whole, worked) = (point.latency.us_mean?, point.service.us_mean?);
    // What its own thread took to wake up is nobody's queue.
    let late = point.lateness.us_mean.unwrap_or(0.0);
    (is_local && point.offered.kind == LoadKind::Open).then(|| ((whole - worked - late).max(0.0), worked))
}
