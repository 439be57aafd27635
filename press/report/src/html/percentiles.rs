//! Latency by percentile: how long the tail is.
//!
//! Its invariant: lines of one name have one colour in every picture, and all pictures share their axes.

use millpond_press_recorder::LatencySummary;

use super::axis::{Axis, beyond};
use super::plot::{self, COLOURS, Plot, entry};
use crate::Point;
use crate::cases::{Case, distinct, loads, thinned};

const HEADING: &str = "Latency by percentile";

/// How many loads are drawn when each has a picture of its own.
const PICTURES_MAX: usize = 4;

const HEIGHT: f64 = 320.0;

/// A line of a picture.
struct Line<'c> {
    colour: usize,
    point: &'c Point,
}

/// A picture: its title and its lines.
struct Picture<'c> {
    title: String,
    lines: Vec<Line<'c>>,
}

/// What is drawn, with the names of the colours and what was left out.
struct Choice<'c> {
    pictures: Vec<Picture<'c>>,
    names: Vec<String>,
    left_out: Vec<String>,
}

/// The figure.
pub(crate) fn figure(cases: &[Case<'_>], suffix: &str) -> String {
    let id = format!("figure-percentiles{suffix}");
    let choice = choose(cases);
    let lines = || choice.pictures.iter().flat_map(|picture| &picture.lines);
    if lines().all(|line| curve(line.point).is_empty()) {
        return plot::nothing(
            &id,
            HEADING,
            "There is nothing to draw: no point has samples enough for a percentile.",
        );
    }
    let x = Axis::percentile(
        lines()
            .flat_map(|line| curve(line.point))
            .map(|(percentile, _)| percentile),
    );
    let y = Axis::latency(lines().flat_map(|line| {
        curve(line.point)
            .into_iter()
            .chain(known(&line.point.service))
            .map(|(_, us)| us)
    }));
    let pictures: Vec<String> = choice
        .pictures
        .iter()
        .enumerate()
        .map(|(index, picture)| draw(&format!("{id}-{}", index + 1), picture, &choice, &x, &y))
        .collect();
    let mut legend: String = choice
        .names
        .iter()
        .enumerate()
        .map(|(index, name)| entry(&format!("c{index}"), Some(index), name))
        .collect();
    legend += &entry("plain", None, "response latency");
    legend += &entry("plain dashed", None, "service time");
    let repeats = cases.iter().any(|case| case.points().len() > 1);
    let mut caption = String::from(
        "Each step to the right of 90 % leaves a tenth of the samples beyond. Lines end where fewer than ten samples lie \
         beyond. The gap between solid and dashed is waiting before a request was sent.",
    );
    if repeats {
        caption += " Of several repeats the one with the middle p99 is drawn.";
    }
    for words in &choice.left_out {
        caption += &format!(" {words}");
    }
    plot::figure(&id, HEADING, &pictures, &legend, &caption)
}

fn choose<'c>(cases: &'c [Case<'_>]) -> Choice<'c> {
    let series = distinct(cases.iter().map(|case| case.series.as_str()));
    let loads = loads(cases);
    let crowded = loads
        .iter()
        .any(|load| cases.iter().filter(|case| case.load == **load).count() > 1);
    if crowded {
        by_load(cases, &series, &loads)
    } else {
        in_one(cases, &series, &loads)
    }
}

/// One picture: every load has one line.
fn in_one<'c>(cases: &'c [Case<'_>], series: &[&str], loads: &[&str]) -> Choice<'c> {
    let drawn = thinned(loads, COLOURS);
    let chosen: Vec<&Case<'_>> = drawn
        .iter()
        .filter_map(|load| cases.iter().find(|case| case.load == **load))
        .collect();
    let name = |case: &Case<'_>| {
        if series.len() > 1 {
            format!("{}, {}", case.series, case.load)
        } else {
            case.load.clone()
        }
    };
    Choice {
        names: chosen.iter().map(|case| name(case)).collect(),
        left_out: left_out(drawn.len(), loads.len(), "loads"),
        pictures: vec![Picture {
            title: match series {
                [one] => (*one).to_owned(),
                _ => String::new(),
            },
            lines: lines(chosen.into_iter().enumerate()),
        }],
    }
}

/// A picture for each load, with a line for each series.
fn by_load<'c>(cases: &'c [Case<'_>], series: &[&str], loads: &[&str]) -> Choice<'c> {
    let (names, drawn) = (thinned(series, COLOURS), thinned(loads, PICTURES_MAX));
    let mut notes = left_out(names.len(), series.len(), "lines");
    notes.extend(left_out(drawn.len(), loads.len(), "loads"));
    let pictures = drawn.iter().map(|load| Picture {
        title: format!("Load {load}"),
        lines: lines(names.iter().enumerate().filter_map(|(colour, name)| {
            let found = cases
                .iter()
                .find(|case| case.series == *name && case.load == **load);
            found.map(|case| (colour, case))
        })),
    });
    Choice {
        pictures: pictures.collect(),
        names: names.iter().map(|&name| name.to_owned()).collect(),
        left_out: notes,
    }
}

fn lines<'c>(chosen: impl Iterator<Item = (usize, &'c Case<'c>)>) -> Vec<Line<'c>> {
    chosen
        .filter_map(|(colour, case)| case.typical().map(|point| Line { colour, point }))
        .collect()
}

fn left_out(drawn: usize, of: usize, what: &str) -> Vec<String> {
    if drawn < of {
        vec![format!("{drawn} of {of} {what} are drawn, evenly chosen.")]
    } else {
        Vec::new()
    }
}

fn draw(id: &str, picture: &Picture<'_>, choice: &Choice<'_>, x: &Axis, y: &Axis) -> String {
    let mut plot = Plot::new(x.clone(), y.clone(), 32.0, HEIGHT - 32.0 - 50.0, true);
    for line in &picture.lines {
        let style = format!("c{}", line.colour);
        let place = |points: Vec<(f64, f64)>| -> Vec<(f64, Option<f64>)> {
            points
                .into_iter()
                .map(|(percentile, us)| (beyond(percentile), Some(us)))
                .collect()
        };
        plot.line(&place(known(&line.point.service)), &format!("{style} dashed"));
        let curve = place(curve(line.point));
        plot.line(&curve, &style);
        if let Some(&(x, Some(us))) = curve.last() {
            plot.marker((x, us), line.colour);
        }
    }
    let names: Vec<&str> = picture
        .lines
        .iter()
        .filter_map(|line| choice.names.get(line.colour))
        .map(String::as_str)
        .collect();
    let title = format!("{HEADING}. {}", picture.title);
    let description = format!(
        "Percentile to the right, latency upwards, both logarithmic. Lines: {}.",
        names.join("; ")
    );
    let drawn = plot::picture(id, HEIGHT, &title, &description, &plot.drawn());
    plot::titled(&picture.title, &drawn)
}

/// The curve of a point, from its figures where it has none; sound values only, ascending.
fn curve(point: &Point) -> Vec<(f64, f64)> {
    let curve: Vec<(f64, f64)> = sound(point.curve.iter().copied());
    if curve.is_empty() {
        known(&point.latency)
    } else {
        curve
    }
}

/// The named percentiles of a summary.
fn known(latency: &LatencySummary) -> Vec<(f64, f64)> {
    sound(
        latency
            .percentiles()
            .into_iter()
            .filter_map(|(percentile, us)| us.map(|us| (percentile, us))),
    )
}

fn sound(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = points
        .filter(|&(percentile, us)| (0.0..100.0).contains(&percentile) && us.is_finite() && us > 0.0)
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
