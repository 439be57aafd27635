//! Whether so many requests failed that a point says nothing of a server that works, and what they failed of.
//!
//! Its invariant: refusals are no failures; a server that says no to what it cannot do in time works.

use crate::Point;

use crate::outcomes::Outcomes;

/// Kinds of failures that are named.
const KINDS_MAX: usize = 3;

/// What failed, if it was too much.
pub(super) fn why(point: &Point) -> Option<String> {
    let outcomes = Outcomes::of(point);
    if !outcomes.is_failing() {
        return None;
    }
    let count = outcomes.failed + outcomes.lost;
    let about = if outcomes.assumed > 0 { "about " } else { "" };
    let mut words = format!(
        "{about}{count} of {} requests failed ({:.1} %)",
        outcomes.offered,
        100.0 * outcomes.share(count)
    );
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Some(format!("{words}: {}", kinds(point, &outcomes).join(", ")))
}

/// The kinds of failures, the most frequent first, each with the first message of its kind.
fn kinds(point: &Point, outcomes: &Outcomes) -> Vec<String> {
    let counters = &point.counters;
    let errors = counters
        .errors
        .iter()
        .map(|(kind, &count)| (count, kind.as_str()));
    let mut kinds: Vec<(u64, &str)> = errors
        .chain([(counters.wrong, "wrong"), (outcomes.lost, "not_connected")])
        .filter(|(count, _)| *count > 0)
        .collect();
    kinds.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    kinds
        .into_iter()
        .take(KINDS_MAX)
        .map(|(count, kind)| {
            let what = match kind {
                "not_connected" => "never sent on connections that were lost".to_owned(),
                "wrong" if outcomes.assumed > 0 => "wrong of those that were checked".to_owned(),
                other => other.replace('_', " "),
            };
            let first = counters.first.get(kind);
            let first = first.map_or_else(String::new, |first| format!(" (the first: {first})"));
            format!("{count} {what}{first}")
        })
        .collect()
}
