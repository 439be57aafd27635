//! Latency against throughput: how much load is too much.
//!
//! Its invariant: a mark is at a load that was offered, and a knee is marked only where loads lie on both sides of it.

use super::axis::Axis;
use super::plot::{self, COLOURS, Plot, entry};
use crate::cases::{Case, distinct, thinned};
use crate::number::{duration, thousands};
use crate::{Point, RunResult};

const HEADING: &str = "Latency against throughput";

const HEIGHT: f64 = 320.0;

/// A figure of a point that is drawn.
type Figure = fn(&Point) -> Option<f64>;

const P50: Figure = |point| point.latency.us_p50;
const P99: Figure = |point| point.latency.us_p99;

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
    let id = format!("figure-throughput{suffix}");
    let names = distinct(cases.iter().map(|case| case.series.as_str()));
    let series: Vec<Series<'_>> = thinned(&names, COLOURS)
        .into_iter()
        .map(|name| series(name, cases, runs))
        .collect();
    let drawn = || series.iter().flat_map(|one| one.cases.iter().copied());
    let latencies = |case: &Case<'_>| [P50, P99].map(|figure| case.median(figure));
    if drawn().all(|case| latencies(case).iter().all(Option::is_none)) {
        return plot::nothing(
            &id,
            HEADING,
            "There is nothing to draw: no point has samples enough for a percentile.",
        );
    }
    let x = Axis::linear(
        drawn().flat_map(|case| case.points()).map(|point| point.qps),
        "answers a second",
    );
    let y = Axis::latency(
        drawn()
            .flat_map(|case| case.points())
            .flat_map(|point| [P50(point), P99(point)])
            .flatten(),
    );
    let (pictures, legend) = match &series[..] {
        [alone] => (
            vec![together(&format!("{id}-1"), alone, &x, &y)],
            together_legend(),
        ),
        several => (
            [("p50", P50), ("p99", P99)]
                .iter()
                .map(|&(words, figure)| apart(&format!("{id}-{words}"), words, figure, several, &x, &y))
                .collect(),
            several
                .iter()
                .enumerate()
                .map(|(index, one)| entry(&format!("c{index}"), Some(index), one.name))
                .collect(),
        ),
    };
    plot::figure(
        &id,
        HEADING,
        &pictures,
        &legend,
        &caption(cases, &series, names.len()),
    )
}

fn series<'c>(name: &'c str, cases: &'c [Case<'c>], runs: &[&RunResult]) -> Series<'c> {
    let mut own: Vec<&Case<'_>> = cases.iter().filter(|case| case.series == name).collect();
    own.sort_by(|a, b| {
        a.weight
            .0
            .cmp(&b.weight.0)
            .then(a.weight.1.total_cmp(&b.weight.1))
    });
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

/// Both percentiles of one series in one picture.
fn together(id: &str, alone: &Series<'_>, x: &Axis, y: &Axis) -> String {
    let mut plot = Plot::new(x.clone(), y.clone(), 32.0, HEIGHT - 32.0 - 50.0, true);
    for (index, figure) in [P50, P99].into_iter().enumerate() {
        through(&mut plot, alone, figure, index);
    }
    picture(id, alone.name, &plot.drawn(), std::slice::from_ref(alone), P99)
}

fn together_legend() -> String {
    entry("c0", Some(0), "p50") + &entry("c1", Some(1), "p99")
}

/// One percentile of several series.
fn apart(id: &str, words: &str, figure: Figure, several: &[Series<'_>], x: &Axis, y: &Axis) -> String {
    let mut plot = Plot::new(x.clone(), y.clone(), 32.0, HEIGHT - 32.0 - 50.0, true);
    for (index, one) in several.iter().enumerate() {
        through(&mut plot, one, figure, index);
    }
    picture(id, words, &plot.drawn(), several, figure)
}

/// A line through the medians, with every repeat as a pale dot.
fn through(plot: &mut Plot, one: &Series<'_>, figure: Figure, index: usize) {
    let style = format!("c{index}");
    let median = |case: &Case<'_>| case.median(|point| Some(point.qps));
    for point in one
        .cases
        .iter()
        .filter(|case| case.points().len() > 1)
        .flat_map(|case| case.points())
    {
        if let Some(us) = figure(point) {
            plot.dot((point.qps, us), &style);
        }
    }
    let line: Vec<(f64, Option<f64>)> = one
        .cases
        .iter()
        .filter_map(|case| median(case).map(|qps| (qps, case.median(figure))))
        .collect();
    plot.line(&line, &style);
    for (qps, us) in line {
        if let Some(us) = us {
            plot.marker((qps, us), index);
        }
    }
    let knee = one.knee.as_ref().and_then(|knee| {
        let us = one.cases.get(knee.at)?.median(figure)?;
        Some((knee.qps, us))
    });
    if let Some(at) = knee {
        plot.ring(at, &style);
    }
}

fn picture(id: &str, words: &str, body: &str, series: &[Series<'_>], figure: Figure) -> String {
    let mut description = String::from("Answers a second to the right, latency upwards.");
    for one in series {
        let values: Vec<String> = one
            .cases
            .iter()
            .filter_map(|case| {
                let us = case.median(figure)?;
                let qps = case.median(|point| Some(point.qps))?;
                Some(format!("{} at {}/s", duration(us), thousands(qps)))
            })
            .collect();
        description += &format!(" {}: {}.", one.name, values.join(", "));
    }
    let drawn = plot::picture(id, HEIGHT, &format!("{HEADING}, {words}"), &description, body);
    plot::titled(words, &drawn)
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
