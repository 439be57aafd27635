//! Latency by percentile: how long the tail is.
//!
//! Its invariant: lines of one name have one colour in every picture.

use millpond_press_recorder::LatencySummary;

use super::axis::{Axis, beyond};
use super::chart::{Chart, Line, Picture};
use super::plot::{COLOURS, entry};
use crate::Point;
use crate::cases::{Case, distinct, loads, thinned};

/// How many loads are drawn when each has a picture of its own.
const PICTURES_MAX: usize = 4;

/// The figure.
pub(crate) fn figure(cases: &[Case<'_>], suffix: &str) -> String {
    let series = distinct(cases.iter().map(|case| case.series.as_str()));
    let loads = loads(cases);
    let is_crowded = loads.iter().any(|load| with_load(cases, load).count() > 1);
    let mut caption = String::from(
        "Each step to the right of 90 % leaves a tenth of the samples beyond. Lines end where fewer than ten samples lie \
         beyond. The gap between solid and dashed is waiting before a request was sent.",
    );
    if cases.iter().any(|case| case.points().len() > 1) {
        caption += " Of several repeats the one with the middle p99 is drawn.";
    }
    let (names, pictures) = if is_crowded {
        // A picture for each load, with a line for each series.
        let drawn = kept(&series, COLOURS, "lines", &mut caption);
        let names: Vec<String> = drawn.iter().map(|&name| name.to_owned()).collect();
        let pictures = kept(&loads, PICTURES_MAX, "loads", &mut caption).into_iter();
        let pictures = pictures.map(|load| {
            let found = |name: &&str| with_load(cases, load).find(|case| case.series == *name);
            picture(format!("Load {load}"), &names, drawn.iter().map(found))
        });
        let pictures = pictures.collect();
        (names, pictures)
    } else {
        // One picture: every load has one line.
        let drawn = kept(&loads, COLOURS, "loads", &mut caption).into_iter();
        let drawn: Vec<&Case<'_>> = drawn.filter_map(|load| with_load(cases, load).next()).collect();
        let name = |case: &&Case<'_>| match series.len() {
            0 | 1 => case.load.clone(),
            _ => format!("{}, {}", case.series, case.load),
        };
        let names: Vec<String> = drawn.iter().map(name).collect();
        let title = if let [alone] = series[..] { alone } else { "" };
        let picture = picture(title.to_owned(), &names, drawn.into_iter().map(Some));
        (names, vec![picture])
    };
    let colours = names.iter().enumerate();
    let legend: String = colours
        .map(|(colour, name)| entry(&format!("c{colour}"), Some(colour), name))
        .collect();
    let chart = Chart {
        id: format!("figure-percentiles{suffix}"),
        heading: "Latency by percentile",
        pictures,
        legend: legend
            + &entry("plain", None, "response latency")
            + &entry("plain dashed", None, "service time"),
        caption,
    };
    chart.drawn(|values| Axis::percentile(values))
}

fn with_load<'c>(cases: &'c [Case<'c>], load: &str) -> impl Iterator<Item = &'c Case<'c>> {
    cases.iter().filter(move |case| case.load == load)
}

/// At most so many of the items; the caption says where some are left out.
fn kept<'c>(items: &[&'c str], limit: usize, what: &str, caption: &mut String) -> Vec<&'c str> {
    let kept = thinned(items, limit);
    if kept.len() < items.len() {
        *caption += &format!(
            " {} of {} {what} are drawn, evenly chosen.",
            kept.len(),
            items.len()
        );
    }
    kept
}

/// One line for each case, coloured by its place, beside its service time.
fn picture<'c>(
    title: String,
    names: &[String],
    cases: impl Iterator<Item = Option<&'c Case<'c>>>,
) -> Picture {
    let mut lines = Vec::new();
    let mut drawn = Vec::new();
    for ((colour, name), case) in names.iter().enumerate().zip(cases) {
        let Some(point) = case.and_then(Case::typical) else {
            continue;
        };
        drawn.push(name.as_str());
        lines.push(Line {
            colour,
            is_dashed: true,
            points: known(&point.service),
            ..Line::default()
        });
        lines.push(Line {
            colour,
            points: curve(point),
            markers: 1,
            ..Line::default()
        });
    }
    Picture {
        title,
        description: format!(
            "Percentile to the right, latency upwards, both logarithmic. Lines: {}.",
            drawn.join("; ")
        ),
        lines,
    }
}

/// The curve of a point, from its figures where it has none.
fn curve(point: &Point) -> Vec<(f64, Option<f64>)> {
    let curve = sound(point.curve.iter().copied());
    match curve.is_empty() {
        true => known(&point.latency),
        false => curve,
    }
}

/// The named percentiles of a summary.
fn known(latency: &LatencySummary) -> Vec<(f64, Option<f64>)> {
    let named = latency.percentiles().into_iter();
    sound(named.filter_map(|(percentile, us)| Some((percentile, us?))))
}

/// Sound values only, ascending, each by how many samples one beyond it stands for.
fn sound(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, Option<f64>)> {
    let mut points: Vec<(f64, f64)> = points
        .filter(|&(percentile, us)| (0.0..100.0).contains(&percentile) && us.is_finite() && us > 0.0)
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let place = |(percentile, us)| (beyond(percentile), Some(us));
    points.into_iter().map(place).collect()
}
