//! What bounds a point beside antagonists that want the same cores.
//!
//! Its invariant: an antagonist is named only where a wait for a core was measured, and the antagonist used a core as long.

use super::observed::Observed;
use crate::{Antagonists, Point};
use millpond_press_recorder::Interference;

/// A wait for a core that is so much of the time of a request is what made it.
const CONTENDED_SHARE: f64 = 0.25;
/// An antagonist that used less than this part of what was waited is not what was waited for.
const USED_SHARE: f64 = 0.5;

/// The antagonists that contend for the same cores, if there are any.
fn contending(point: &Point) -> Option<&Antagonists> {
    let antagonists = point.offered.antagonists.as_ref();
    antagonists.filter(|beside| {
        matches!(
            beside.interference,
            Interference::CpuContention | Interference::SmtContention
        )
    })
}

/// Whether the point was to contend for its cores.
pub(super) fn is_meant(point: &Point) -> bool {
    contending(point).is_some()
}

/// The wait of the server's threads for a core, in process of the caller's, is much of what a request took.
pub(super) fn contended(point: &Point, seen: &Observed) -> Option<String> {
    let beside = contending(point)?;
    let used = point.antagonists_cpu?.percent;
    let service = point.service.us_mean.filter(|_| point.qps > 0.0)?;
    let (who, waited) = match point.target.address.is_empty() {
        true => (
            "the calling threads",
            seen.client_wait * point.client_threads.max(1) as f64,
        ),
        false => ("the server's threads", seen.server_wait),
    };
    // Percent of the time are hundredths of a second in each second.
    let each = waited * 1e4 / point.qps;
    (each >= CONTENDED_SHARE * service && used >= USED_SHARE * waited).then(|| {
        format!(
            "{} with the antagonist `{}`, which used {used:.0} % of a core: {who} were ready to run but waited for a core {waited:.0} % of the \
             time, {each:.0} us a request, which took {service:.0} us.",
            upper_first(beside.interference.in_words()),
            beside.command.split(' ').next().unwrap_or_default(),
        )
    })
}

/// Words that stand in the middle of a sentence elsewhere.
fn upper_first(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + chars.as_str()
    })
}
