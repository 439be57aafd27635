//! A point second by second: rate, latency and processor time on one axis of time.
//!
//! Its invariant: at most 400 places of time are drawn; of a group the mean of rates and the highest latency.

use super::axis::Axis;
use super::plot::{self, Plot, entry};
use crate::{Point, Second};

/// Places of time in a picture.
const PLACES_MAX: usize = 400;

const HEIGHT: f64 = 474.0;

/// Values over time.
type Track = Vec<(f64, Option<f64>)>;

/// Whether there is more than a second or two to draw.
pub(crate) fn is_worth_drawing(point: &Point) -> bool {
    point.series.len() >= 2
}

/// The figure of a point, `number` telling it apart; `title` says which it is.
pub(crate) fn figure(point: &Point, number: usize, title: &str, suffix: &str) -> String {
    let id = format!("figure-timeline-{number}{suffix}");
    let rates = rates(point);
    let p99 = grouped(&latency(point, |second| second.us_p99), highest);
    let max = grouped(&latency(point, |second| second.us_max), highest);
    let used = used(point);
    let x = Axis::seconds(ends(point));
    let values = |tracks: &[&Track]| -> Vec<f64> {
        tracks
            .iter()
            .flat_map(|track| track.iter().filter_map(|&(_, value)| value))
            .collect()
    };
    let y = Axis::linear(values(&[&rates[0], &rates[1], &rates[2]]).into_iter(), "a second");
    let mut rate = Plot::new(x.clone(), y, 32.0, 96.0, false);
    rate.line(&rates[0], "c0");
    rate.line(&rates[1], "c4 dotted");
    rate.line(&rates[2], "c1 dashed");
    let mut late = Plot::new(
        x.clone(),
        Axis::latency(values(&[&p99, &max]).into_iter()),
        172.0,
        112.0,
        false,
    );
    late.line(&max, "c3 dashed");
    late.line(&p99, "c2");
    let all: Vec<&Track> = used.iter().map(|(_, _, track)| track).collect();
    let mut cpu = Plot::new(
        x,
        Axis::linear(values(&all).into_iter(), "CPU, % of one core"),
        328.0,
        96.0,
        true,
    );
    for (style, _, track) in &used {
        cpu.line(track, style);
    }
    let body = rate.drawn() + &late.drawn() + &cpu.drawn();
    let description = format!(
        "Three plots over the same seconds: answers a second, latency p99 and highest, processor time. {} seconds.",
        point.series.len()
    );
    let picture = plot::picture(
        &id,
        HEIGHT,
        &format!("{title}, second by second"),
        &description,
        &body,
    );
    format!(
        "<figure id=\"{id}\" class=\"timeline\">\n<ul class=\"legend\">\n{}</ul>\n<div class=\"pictures\">\n\
         {picture}</div>\n</figure>\n",
        legend(&rates, &used)
    )
}

/// The ends of all seconds and intervals.
fn ends(point: &Point) -> impl Iterator<Item = f64> {
    let seconds = point.series.iter().map(|second| second.s);
    seconds.chain(point.resources.seconds.iter().map(|used| used.s))
}

fn legend(rates: &[Track; 3], used: &[(&str, &str, Track)]) -> String {
    let mut legend = entry("c0", None, "answers");
    if !rates[1].is_empty() {
        legend += &entry("c4 dotted", None, "refused");
    }
    if !rates[2].is_empty() {
        legend += &entry("c1 dashed", None, "failed");
    }
    legend += &entry("c2", None, "p99");
    legend += &entry("c3 dashed", None, "highest latency");
    for (style, words, _) in used {
        legend += &entry(style, None, words);
    }
    legend
}

/// Answers, refusals and failures a second; the last two are empty where there are none.
fn rates(point: &Point) -> [Track; 3] {
    let track = |count: fn(&Second) -> u64| -> Track {
        let mut before = 0.0;
        let track = point.series.iter().map(|second| {
            let took = second.s - before;
            before = second.s;
            let rate = count(second) as f64 / took;
            (second.s, (took > 0.05 && rate.is_finite()).then_some(rate))
        });
        grouped(&track.collect::<Track>(), mean)
    };
    let unless_zero = |count: fn(&Second) -> u64| {
        if point.series.iter().any(|second| count(second) > 0) {
            track(count)
        } else {
            Track::new()
        }
    };
    [
        track(|second| second.answers),
        unless_zero(|second| second.refused),
        unless_zero(|second| second.failed),
    ]
}

fn latency(point: &Point, figure: fn(&Second) -> Option<f64>) -> Track {
    point
        .series
        .iter()
        .map(|second| (second.s, figure(second)))
        .collect()
}

/// Processor time of both sides and of others; tracks without a value are left out.
fn used(point: &Point) -> Vec<(&'static str, &'static str, Track)> {
    let seconds = &point.resources.seconds;
    let server: Track = seconds
        .iter()
        .map(|used| (used.s, used.server.map(|used| used.cpu_percent)))
        .collect();
    let client: Track = seconds
        .iter()
        .map(|used| (used.s, used.client.map(|used| used.cpu_percent)))
        .collect();
    let foreign: Track = seconds
        .iter()
        .map(|used| (used.s, used.foreign_percent))
        .collect();
    [
        ("c5", "server CPU", server),
        ("c4 dashed", "client CPU", client),
        ("c7 dotted", "other processes", foreign),
    ]
    .into_iter()
    .filter(|(_, _, track)| track.iter().any(|(_, value)| value.is_some()))
    .map(|(style, words, track)| (style, words, grouped(&track, mean)))
    .collect()
}

fn grouped(track: &[(f64, Option<f64>)], join: fn(&[f64]) -> f64) -> Track {
    let size = track.len().div_ceil(PLACES_MAX).max(1);
    track
        .chunks(size)
        .filter_map(|group| {
            let values: Vec<f64> = group.iter().filter_map(|&(_, value)| value).collect();
            let last = group.last()?.0;
            Some((last, (!values.is_empty()).then(|| join(&values))))
        })
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
