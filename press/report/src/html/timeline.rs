//! A point second by second: rate, latency and processor time on one axis of time.
//!
//! Its invariant: at most 400 places of time are drawn; of a group the mean of rates and the highest latency.

use millpond_press_recorder::ResourceSecond;

use super::axis::Axis;
use super::plot::{self, Plot, entry};
use crate::{Point, Second};

/// Places of time in a picture.
const PLACES_MAX: usize = 400;

const HEIGHT: f64 = 474.0;

/// Values over time, in a style, under a name.
struct Track {
    style: &'static str,
    words: &'static str,
    values: Vec<(f64, Option<f64>)>,
}

/// Whether there is more than a second or two to draw.
pub(crate) fn is_worth_drawing(point: &Point) -> bool {
    point.series.len() >= 2
}

/// The figure of a point, `number` telling it apart; `title` says which it is.
pub(crate) fn figure(point: &Point, number: usize, title: &str, suffix: &str) -> String {
    let id = format!("figure-timeline-{number}{suffix}");
    let seconds = point.series.iter().map(|second| second.s);
    let x = Axis::seconds(seconds.chain(point.resources.seconds.iter().map(|used| used.s)));
    let latency = |style, words, figure: fn(&Second) -> Option<f64>| {
        let values = point.series.iter().map(|second| (second.s, figure(second)));
        track(style, words, values, highest)
    };
    let rates = vec![
        rate(point, "c0", "answers", |second| second.answers),
        rate(point, "c4 dotted", "refused", |second| second.refused),
        rate(point, "c1 dashed", "failed", |second| second.failed),
    ];
    let latencies = vec![
        latency("c2", "p99", |second| second.us_p99),
        latency("c3 dashed", "highest latency", |second| second.us_max),
    ];
    let panels = [
        (rates, "a second", 32.0, 96.0),
        (latencies, "", 172.0, 112.0),
        (used(point), "CPU, % of one core", 328.0, 96.0),
    ];
    let (mut legend, mut body) = (String::new(), String::new());
    for (tracks, unit, top, height) in panels {
        let values = tracks
            .iter()
            .flat_map(|track| &track.values)
            .filter_map(|&(_, value)| value);
        let y = match unit {
            "" => Axis::latency(values),
            unit => Axis::linear(values, unit),
        };
        // The lowest frame has the words of the axis that all share.
        let mut plot = Plot::new(x.clone(), y, top, height, top > 300.0);
        for track in tracks.iter().filter(|track| !track.values.is_empty()) {
            plot.line(&track.values, track.style);
            legend += &entry(track.style, None, track.words);
        }
        body += &plot.drawn();
    }
    let description = format!(
        "Three plots over the same seconds: answers a second, latency p99 and highest, processor time. {} seconds.",
        point.series.len()
    );
    let title = format!("{title}, second by second");
    let picture = plot::picture(&id, HEIGHT, &title, &description, &body);
    format!(
        "<figure id=\"{id}\" class=\"timeline\">\n<ul class=\"legend\">\n{legend}</ul>\n<div class=\"pictures\">\n\
         {picture}</div>\n</figure>\n"
    )
}

/// So many a second; nothing where there are none at all, unless they are answers.
fn rate(point: &Point, style: &'static str, words: &'static str, count: fn(&Second) -> u64) -> Track {
    let mut before = 0.0;
    let rates = point.series.iter().map(|second| {
        let took = second.s - before;
        before = second.s;
        let rate = count(second) as f64 / took;
        (second.s, (took > 0.05 && rate.is_finite()).then_some(rate))
    });
    let is_any = words == "answers" || point.series.iter().any(|second| count(second) > 0);
    track(style, words, rates.filter(|_| is_any), mean)
}

/// Processor time of both sides and of others; tracks without a value are left out.
fn used(point: &Point) -> Vec<Track> {
    let cpu = |style, words, figure: fn(&ResourceSecond) -> Option<f64>| {
        let values = point.resources.seconds.iter().map(|used| (used.s, figure(used)));
        track(style, words, values, mean)
    };
    let mut tracks = vec![
        cpu("c5", "server CPU", |used| Some(used.server?.cpu_percent)),
        cpu("c4 dashed", "client CPU", |used| Some(used.client?.cpu_percent)),
        cpu("c7 dotted", "other processes", |used| used.foreign_percent),
    ];
    tracks.retain(|track| track.values.iter().any(|(_, value)| value.is_some()));
    tracks
}

/// A track of at most [`PLACES_MAX`] values; those of a group are joined.
fn track(
    style: &'static str,
    words: &'static str,
    values: impl Iterator<Item = (f64, Option<f64>)>,
    join: fn(&[f64]) -> f64,
) -> Track {
    let values: Vec<(f64, Option<f64>)> = values.collect();
    let groups = values.chunks(values.len().div_ceil(PLACES_MAX).max(1));
    let joined = groups.filter_map(|group| {
        let values: Vec<f64> = group.iter().filter_map(|&(_, value)| value).collect();
        Some((group.last()?.0, (!values.is_empty()).then(|| join(&values))))
    });
    Track {
        style,
        words,
        values: joined.collect(),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
