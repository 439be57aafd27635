//! What report R5 could not explain, held against this run: reproduced, consistent with it, or not reproducible here.
//!
//! Its invariant: each label follows from figures of this run, which stand beside it; what was not measured is not reproducible here.

use super::{Mode, first, is_disturbed, is_same_load, mean_a_second, rate, worse_by};
use crate::cases::{self, Case};
use crate::number::{ABSENT, fixed, short};
use crate::table::{Table, cells};
use crate::{BESIDE_ANTAGONISTS, Judgement, RunResult, describe};

const REPRODUCED: &str = "reproduced";
const CONSISTENT: &str = "consistent with";
const NOT_HERE: &str = "not reproducible here";

/// A change of p95 is never taken for more than noise below this, in percent: one repeat does not show its own spread.
const MARGIN_MIN: f64 = 5.0;

/// A label and what it rests on.
type Found = (&'static str, String);

/// One row each.
pub(super) fn table(run: &RunResult) -> Table {
    let mut table = Table::new(
        "What the report could not explain, and this run",
        "(the report)|(here)|(what was measured)",
    );
    // What cannot be believed explains nothing.
    let valid = run
        .points
        .iter()
        .filter(|point| point.verdict.judgement == Judgement::Valid);
    let cases = cases::join(valid, describe::target);
    for (what, (label, why)) in [
        (
            "Cache antagonists make p95 worse, and the more the higher the load: 8.8 % at 400/s, 41.0 % at 2,000/s",
            antagonists(run, &cases),
        ),
        (
            "The network answers a tenth of what loopback does, with p95 from 2.4 ms at 50/s to 6.0 ms at 300/s, at 3 MB/s of a link of 10 GbE",
            network_load(run, &cases),
        ),
        (
            "On the i9 the network's p95 lies below loopback's at 40/s and 80/s: 0.8 ms against 4.2 ms",
            network_below(run, &cases),
        ),
        (
            "The harness ends with recvd=…, expected=…, when an answer comes in parts",
            parts(run),
        ),
    ] {
        table.row(cells![what, label, why]);
    }
    table
}

fn mode(case: &Case<'_>) -> Option<Mode> {
    first(case).map(Mode::of)
}

fn p95_ms(case: &Case<'_>) -> Option<f64> {
    Some(case.median(|point| point.latency.us_p95)? / 1_000.0)
}

/// The least and the largest p95 of the repeats, in milliseconds.
fn p95_bounds(case: &Case<'_>) -> Option<(f64, f64)> {
    let found = case.points().iter().filter_map(|point| point.latency.us_p95);
    let bounds = found.map(|us| (us / 1_000.0, us / 1_000.0));
    bounds.reduce(|(low, high), (least, most)| (low.min(least), high.max(most)))
}

/// What the p95 of the repeats of a case differs by, in percent of its median.
fn spread(case: &Case<'_>) -> f64 {
    let (bounds, median) = (p95_bounds(case), p95_ms(case).filter(|ms| *ms > 0.0));
    bounds
        .zip(median)
        .map_or(0.0, |((low, high), median)| 100.0 * (high - low) / median)
}

/// A figure of milliseconds.
fn ms(figure: f64) -> String {
    format!("{} ms", fixed(figure, 3))
}

/// Whether antagonists that share a cache make p95 worse, and more so at higher rates.
fn antagonists(run: &RunResult, cases: &[Case<'_>]) -> Found {
    let disturbed: Vec<&Case<'_>> = cases.iter().filter(|case| is_disturbed(case)).collect();
    let kind = |case: &Case<'_>| {
        first(case)?
            .offered
            .antagonists
            .as_ref()
            .map(|beside| beside.interference)
    };
    let mut pairs: Vec<(f64, f64, f64)> = Vec::new();
    for with in disturbed
        .iter()
        .filter(|case| kind(case).is_some_and(|kind| kind.is_of_cache()))
    {
        let is_pair = |other: &&Case<'_>| {
            !is_disturbed(other) && other.series == with.series && is_same_load(other, with)
        };
        if let Some(without) = cases.iter().find(is_pair)
            && let Some((rate, worse)) = rate(with).zip(worse_by(without, with))
        {
            let margin = (spread(without) + spread(with)).max(MARGIN_MIN);
            pairs.push((rate, worse, margin));
        }
    }
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let words: Vec<String> = pairs
        .iter()
        .map(|(rate, worse, margin)| format!("{worse:.1} % at {}/s (noise: {margin:.1} %)", short(*rate)))
        .collect();
    let words = words.join(", ");
    match (pairs.first(), pairs.last()) {
        (Some(low), Some(high)) => of_pairs(*low, *high, pairs.len(), &words),
        _ => {
            let kinds: Vec<&str> = disturbed
                .iter()
                .filter_map(|case| kind(case))
                .map(|kind| kind.in_words())
                .collect();
            let kinds = cases::distinct(kinds.into_iter()).join(", ");
            let what = if kinds.is_empty() {
                left_out(run, true).unwrap_or_else(|| "no antagonists ran".into())
            } else {
                format!("what antagonists did was {kinds}")
            };
            (
                NOT_HERE,
                format!("no pair of points tells what a shared cache does: {what}"),
            )
        }
    }
}

/// The label of rates with how much worse p95 was there and what of that is noise: the lowest and the highest of so many.
fn of_pairs(low: (f64, f64, f64), high: (f64, f64, f64), count: usize, words: &str) -> Found {
    let is_worse = |(_, worse, margin): (f64, f64, f64)| worse > margin;
    let grows = high.1 - low.1 > low.2.max(high.2);
    let (label, why) = match (is_worse(low), is_worse(high)) {
        (_, true) if count == 1 => (
            CONSISTENT,
            "one load alone, so that nothing is known of how it grows",
        ),
        (true, true) if grows => (
            REPRODUCED,
            "worse, and more so at the highest load than at the lowest",
        ),
        (true, true) => (
            CONSISTENT,
            "worse, without growing from the lowest load to the highest beyond noise",
        ),
        (false, true) => (CONSISTENT, "worse at the highest load, and not at the lowest"),
        (_, false) => (NOT_HERE, "at the highest load no worse than noise"),
    };
    (label, format!("p95 changed by {words}: {why}"))
}

/// The undisturbed cases of a mode that have a rate and a p95, by rate.
fn of_mode<'c, 'a>(cases: &'c [Case<'a>], of: Mode) -> Vec<(&'c Case<'a>, f64, f64)> {
    let own = cases
        .iter()
        .filter(|case| mode(case) == Some(of) && !is_disturbed(case));
    let mut found: Vec<(&Case<'_>, f64, f64)> = own
        .filter_map(|case| Some((case, rate(case)?, p95_ms(case)?)))
        .collect();
    found.sort_by(|one, other| one.1.total_cmp(&other.1));
    found
}

/// What was left out and why: targets, or their loads beside antagonists.
fn left_out(run: &RunResult, is_of_antagonists: bool) -> Option<String> {
    let all = run.left_out.iter();
    let of_kind = all.filter(|left| left.target.ends_with(BESIDE_ANTAGONISTS) == is_of_antagonists);
    let words: Vec<String> = of_kind
        .map(|left| format!("{} was left out: {}", left.target, left.reason))
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Why there is no network in this run.
fn no_network(run: &RunResult) -> Found {
    let why = left_out(run, false).unwrap_or_else(|| "no point over a network has a p95".into());
    (NOT_HERE, why)
}

/// Whether the latency over the network grows over the report's rates as it did there, to twice and more.
fn network_load(run: &RunResult, cases: &[Case<'_>]) -> Found {
    let found = of_mode(cases, Mode::Network);
    let (Some((low, low_rate, low_ms)), Some((high, high_rate, high_ms))) = (found.first(), found.last())
    else {
        return no_network(run);
    };
    if found.len() < 2 {
        return (NOT_HERE, "the network has one rate with a p95 alone".into());
    }
    let received = high.median(|point| Some(mean_a_second(point, |second| second.rx_bytes)? / 1e6));
    let cpu = high.median(|point| point.server_cpu.map(|cpu| cpu.percent));
    let or_absent =
        |figure: Option<f64>, digits| figure.map_or_else(|| ABSENT.into(), |figure| fixed(figure, digits));
    let words = format!(
        "p95 was {} at {}/s and {} at {}/s, with {} MB/s received and the server at {} % of a core",
        ms(*low_ms),
        short(*low_rate),
        ms(*high_ms),
        short(*high_rate),
        or_absent(received, 1),
        or_absent(cpu, 0)
    );
    // Of all repeats: the least of the high rate against the most of the low one.
    let grown = p95_bounds(high)
        .zip(p95_bounds(low))
        .map(|((least, _), (_, most))| least / most);
    let words = format!("{words}; how much either way can answer at most was not measured");
    match grown {
        Some(grown) if grown >= 2.0 => (CONSISTENT, words),
        _ => (NOT_HERE, words),
    }
}

/// Whether the network's p95 lies below loopback's at the rates that both have.
fn network_below(run: &RunResult, cases: &[Case<'_>]) -> Found {
    let (network, loopback) = (of_mode(cases, Mode::Network), of_mode(cases, Mode::Loopback));
    if network.is_empty() {
        return no_network(run);
    }
    let both: Vec<(f64, f64, f64, bool)> = network
        .iter()
        .filter_map(|(case, rate, network)| {
            let (other, _, loopback) = loopback.iter().find(|(other, ..)| is_same_load(other, case))?;
            let is_below = p95_bounds(case)?.1 < p95_bounds(other)?.0;
            Some((*rate, *network, *loopback, is_below))
        })
        .collect();
    if both.is_empty() {
        return (NOT_HERE, "no rate was offered over both".into());
    }
    let states = run
        .machine
        .c_states
        .as_ref()
        // Without a driver the host decides, of which nothing is known here.
        .filter(|states| !states.is_empty())
        .map(|states| format!("cores may sleep in {}", states.join(", ")));
    let words: Vec<String> = both
        .iter()
        .map(|(rate, network, loopback, _)| {
            format!(
                "at {}/s {} over the network and {} over loopback",
                short(*rate),
                ms(*network),
                ms(*loopback)
            )
        })
        .chain(states)
        .collect();
    let words = words.join("; ");
    // In every repeat.
    let below = both.iter().filter(|(.., is_below)| *is_below).count();
    match below {
        0 => (NOT_HERE, words),
        below if below == both.len() => (REPRODUCED, words),
        _ => (CONSISTENT, words),
    }
}

/// Answers that were cut: press reads on until an answer is whole.
fn parts(run: &RunResult) -> Found {
    let (mut answers, mut broken) = (0u64, 0u64);
    for point in &run.points {
        answers = answers.saturating_add(point.counters.answers());
        let errors = point.counters.errors.iter();
        let cut = errors.filter(|(kind, _)| matches!(kind.as_str(), "garbage" | "closed" | "reset"));
        broken = cut.fold(broken, |sum, (_, count)| sum.saturating_add(*count));
    }
    let words = format!(
        "press reads on until an answer is whole: {answers} came whole, {broken} were cut or broken off"
    );
    match broken {
        0 => (NOT_HERE, words),
        _ => (CONSISTENT, words),
    }
}
