//! Latency against throughput: how much load is too much.
//!
//! Its invariant: a mark is at a load that was offered, and a knee is marked only where loads lie on both sides of it.

use super::axis::Axis;
use super::chart::{Chart, Line, Picture};
use super::plot::{COLOURS, entry};
use crate::cases::{Case, distinct, thinned};
use crate::number::{duration, thousands};
use crate::{Point, RunResult};

/// A figure of a point that is drawn.
type Figure = fn(&Point) -> Option<f64>;

const PERCENTILES: [(&str, Figure); 2] = [
    ("p50", |point| point.latency.us_p50),
    ("p99", |point| point.latency.us_p99),
];

/// One target under all its loads, lightest first.
struct Series<'c> {
    name: &'c str,
    cases: Vec<&'c Case<'c>>,
    knee: Option<Knee>,
}

/// Where a curve turns up.
struct Knee {
    qps: f64,
    words: String,
    at: usize,
}

/// The figure.
pub(crate) fn figure(cases: &[Case<'_>], runs: &[&RunResult], suffix: &str) -> String {
    let names = distinct(cases.iter().map(|case| case.series.as_str()));
    let series: Vec<Series<'_>> = thinned(&names, COLOURS)
        .into_iter()
        .map(|name| series(name, cases, runs))
        .collect();
    // Both percentiles of one series in one picture, or one percentile of several.
    let (pictures, colours) = match &series[..] {
        [alone] => {
            let lines = PERCENTILES.map(|(words, figure)| (words, alone, figure));
            (
                vec![picture(alone.name, &lines)],
                PERCENTILES.map(|(words, _)| words).to_vec(),
            )
        }
        several => {
            let of = |(words, figure): (&str, Figure)| {
                let lines: Vec<_> = several.iter().map(|one| (one.name, one, figure)).collect();
                picture(words, &lines)
            };
            (
                PERCENTILES.map(of).into(),
                several.iter().map(|one| one.name).collect(),
            )
        }
    };
    let colours = colours.into_iter().enumerate();
    let chart = Chart {
        id: format!("figure-throughput{suffix}"),
        heading: "Latency against throughput",
        pictures,
        legend: colours
            .map(|(colour, words)| entry(&format!("c{colour}"), Some(colour), words))
            .collect(),
        caption: caption(cases, &series, names.len()),
    };
    chart.drawn(|values| Axis::linear(values, "answers a second"))
}

/// Lines, each a figure of a series under a name of its own.
fn picture(title: &str, lines: &[(&str, &Series<'_>, Figure)]) -> Picture {
    let mut description = String::from("Answers a second to the right, latency upwards.");
    let mut drawn = Vec::new();
    for (colour, (name, series, figure)) in lines.iter().enumerate() {
        let line = through(series, *figure, colour);
        let words =
            |&(qps, us): &(f64, Option<f64>)| Some(format!("{} at {}/s", duration(us?), thousands(qps)));
        let values: Vec<String> = line.points.iter().filter_map(words).collect();
        description += &format!(" {name}: {}.", values.join(", "));
        drawn.push(line);
    }
    Picture {
        title: title.to_owned(),
        description,
        lines: drawn,
    }
}

/// A line through the medians, with every repeat as a pale dot, and a ring around the knee.
fn through(series: &Series<'_>, figure: Figure, colour: usize) -> Line {
    let median = |case: &Case<'_>| Some((case.median(|point| Some(point.qps))?, case.median(figure)));
    let repeated = series.cases.iter().filter(|case| case.points().len() > 1);
    let repeats = repeated.flat_map(|case| case.points());
    Line {
        colour,
        points: series.cases.iter().filter_map(|case| median(case)).collect(),
        markers: usize::MAX,
        dots: repeats
            .filter_map(|point| Some((point.qps, figure(point)?)))
            .collect(),
        ring: series.knee.as_ref().and_then(|knee| {
            let case = series.cases.get(knee.at)?;
            Some((knee.qps, case.median(figure)?))
        }),
        ..Line::default()
    }
}

fn series<'c>(name: &'c str, cases: &'c [Case<'c>], runs: &[&RunResult]) -> Series<'c> {
    let mut own: Vec<&Case<'_>> = cases.iter().filter(|case| case.series == name).collect();
    own.sort_by(|a, b| a.by_weight(b));
    let knee = searched(&own, runs).or_else(|| knee(&own));
    Series {
        name,
        cases: own,
        knee,
    }
}

/// The knee that a search found: the load tried that lies nearest to it.
fn searched(own: &[&Case<'_>], runs: &[&RunResult]) -> Option<Knee> {
    let first = own.first()?.points().first().copied()?;
    let run = runs
        .iter()
        .find(|run| run.points.iter().any(|point| std::ptr::eq(point, first)))?;
    let search = run.search.as_ref()?;
    let rate = search.rate_knee.filter(|rate| rate.is_finite())?;
    if search.target != crate::describe::target_name(first) {
        return None;
    }
    let away = |case: &Case<'_>| (case.weight.1 - rate).abs();
    let (at, case) = own
        .iter()
        .enumerate()
        .min_by(|(_, a), (_, b)| away(a).total_cmp(&away(b)))?;
    Some(Knee {
        qps: case.median(|point| Some(point.qps))?,
        words: format!("{}/s, as the search found", thousands(rate)),
        at,
    })
}

/// The load with the most answers for each unit of mean latency (Kleinrock's power).
fn knee(own: &[&Case<'_>]) -> Option<Knee> {
    if own.len() < 3 {
        return None;
    }
    let power = |case: &Case<'_>| {
        let us = case
            .median(|point| point.latency.us_mean)
            .filter(|&us| us > 0.0)?;
        Some(case.median(|point| Some(point.qps))? / us)
    };
    let powers: Option<Vec<f64>> = own.iter().map(|case| power(case)).collect();
    let (at, _) = powers?
        .into_iter()
        .enumerate()
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    if at == 0 || at + 1 == own.len() {
        return None;
    }
    let qps = own[at].median(|point| Some(point.qps))?;
    Some(Knee {
        qps,
        words: format!("{}/s under {}", thousands(qps), own[at].load),
        at,
    })
}

fn caption(cases: &[Case<'_>], series: &[Series<'_>], of: usize) -> String {
    let mut caption = String::from("Lines join the loads, lightest first.");
    if cases.iter().any(|case| case.points().len() > 1) {
        caption += " They run through the medians of the repeats, which are the pale dots.";
    }
    let knees: Vec<String> = series
        .iter()
        .filter_map(|one| {
            let words = &one.knee.as_ref()?.words;
            Some(format!("{} {words}", one.name))
        })
        .collect();
    if !knees.is_empty() {
        caption += &format!(
            " A ring marks the knee, the load with the most answers for its mean latency: {}.",
            knees.join("; ")
        );
    } else if series.iter().any(|one| one.cases.len() >= 3) {
        caption += " No knee lies within these loads.";
    }
    if series.len() < of {
        caption += &format!(" {} of {of} lines are drawn, evenly chosen.", series.len());
    }
    caption
}
