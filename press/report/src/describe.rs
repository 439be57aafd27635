//! Loads, targets, judgements and states in words.
//!
//! Its invariant: the same thing has the same words in every report, so that rows can be found by them.

pub(crate) use millpond_press_verdict::{load_in_words as load, point_in_words};

use crate::number::rate;
use crate::{Bound, Judgement, Point, RunResult};

/// A target with its grid: `millpond log_level=2`.
pub(crate) fn target(point: &Point) -> String {
    let mut text = target_name(point);
    for (key, value) in &point.grid {
        text += &format!(" {key}={value}");
    }
    text
}

/// A target's name; its protocol and path where it has none.
pub(crate) fn target_name(point: &Point) -> String {
    let target = &point.target;
    if target.name.is_empty() {
        format!("{} {}", target.protocol, target.path).trim().to_owned()
    } else {
        target.name.clone()
    }
}

/// The grid as a heading: `log_level = 2`; the target where there is no grid.
pub(crate) fn grid(point: &Point) -> String {
    if point.grid.is_empty() {
        return target_name(point);
    }
    let parts: Vec<String> = point
        .grid
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    parts.join(", ")
}

/// The gravest of several judgements: what a median over repeats must be read with.
pub(crate) fn gravest(judgements: impl IntoIterator<Item = Judgement>) -> Judgement {
    judgements.into_iter().max().unwrap_or_default()
}

/// What bounded a point, in words; nothing where the evidence does not say.
pub(crate) fn bound(bound: Bound) -> Option<&'static str> {
    Some(match bound {
        Bound::Unknown => return None,
        Bound::Offered => "bounded by the offered load",
        Bound::ServerCpu => "bounded by the server's CPU",
        Bound::ClientCpu => "bounded by the load generator's CPU",
        Bound::Wire => "bounded by the wire",
        Bound::Queueing => "bounded by queueing",
        Bound::Timer => "bounded by a timer",
        Bound::Lock => "bounded by a lock",
        Bound::Disk => "bounded by the disk",
    })
}

/// The sentence of a point's verdict.
pub(crate) fn sentence(point: &Point) -> String {
    if point.verdict.sentence.is_empty() {
        "No reason is recorded.".into()
    } else {
        point.verdict.sentence.clone()
    }
}

/// The title of a run; its name where it has none.
pub(crate) fn title(run: &RunResult) -> String {
    for words in [&run.title, &run.name] {
        if !words.trim().is_empty() {
            return words.clone();
        }
    }
    "A run without a name".into()
}

/// A rate with its unit.
pub(crate) fn per_second(value: f64) -> String {
    format!("{}/s", rate(value))
}
