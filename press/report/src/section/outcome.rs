//! What the points come to: ratios, the SLO, the search, operations and stages.
//!
//! Its invariant: a section without content has no block.

use super::{Block, Fact, Section, of_table, place};
use crate::describe::{self, per_second};
use crate::layout::columns::{self, yes};
use crate::layout::repeats::interval;
use crate::number::{ABSENT, rate, us, us_of};
use crate::table::{Cell, Table, cells};
use crate::{Point, RunResult};
use millpond_press_recorder::Interval;

/// Targets held against each other.
pub(crate) fn comparisons(run: &RunResult) -> Section {
    let mut table = Table::new(
        "Ratios of paired repeats with their 95 % intervals",
        "(figure)|(load)|(target)|(against)|ratio|pairs",
    );
    for one in &run.comparisons {
        table.row(cells![
            one.figure.as_str(),
            one.load.as_str(),
            one.target.as_str(),
            one.baseline.as_str(),
            interval(&one.ratio),
            match one.left_out {
                0 => one.ratio.n.to_string(),
                left_out => format!("{} ({left_out} left out, FAILING)", one.ratio.n),
            },
        ]);
    }
    of_table("comparisons", "Comparisons", table)
}

/// What repeats of the same point came to: the mean with its interval, which says how far a figure can be relied on.
pub(crate) fn repeats(run: &RunResult) -> Section {
    let mut table = Table::new(
        "Means of the repeats with their 95 % intervals",
        "(target)|(load)|repeats|ok/s|p50 us|p99 us",
    );
    let mut seen: Vec<(String, String)> = Vec::new();
    for point in &run.points {
        let key = (describe::target(point), describe::point_in_words(point));
        if seen.contains(&key) {
            continue;
        }
        let is_same = |other: &&Point| (describe::target(other), describe::point_in_words(other)) == key;
        let same: Vec<&Point> = run.points.iter().filter(is_same).collect();
        if same.len() > 1 {
            let mean = |figure: fn(&Point) -> Option<f64>| {
                let values: Vec<f64> = same.iter().filter_map(|point| figure(point)).collect();
                let whole = Interval::of(&values).filter(|_| values.len() == same.len());
                let words = |mean: Interval| {
                    format!("{} [{}, {}]", us(mean.mean), us(mean.low.max(0.0)), us(mean.high))
                };
                whole.map_or_else(|| ABSENT.to_owned(), words)
            };
            table.row(cells![
                key.0.as_str(),
                key.1.as_str(),
                same.len().to_string(),
                mean(|point| Some(point.qps)),
                mean(|point| point.latency.us_p50),
                mean(|point| point.latency.us_p99),
            ]);
        }
        seen.push(key);
    }
    of_table("repeats", "Repeats", table)
}

/// What became of the SLO.
pub(crate) fn slo(run: &RunResult) -> Section {
    let judged = run.points.iter().filter(|point| point.slo.is_some());
    let table = columns::table("The SLO at every point", columns::SLO, judged);
    of_table("slo", "The SLO", table)
}

/// What the search came to, and every rate it tried.
pub(crate) fn search(run: &RunResult) -> Section {
    let mut blocks = Vec::new();
    if let Some(search) = &run.search {
        let fact = |name, value| Fact {
            name,
            value,
            code: false,
        };
        let at = |rate: Option<f64>| rate.map_or_else(|| "none".into(), per_second);
        blocks.push(Block::Facts(vec![
            fact("Target", search.target.clone()),
            fact("SLO", search.slo.clone()),
            fact("Highest rate that met it", at(search.rate_met)),
            fact("Lowest rate that missed it", at(search.rate_missed)),
            fact("Knee of the curve", at(search.rate_knee)),
        ]));
        let mut table = Table::new(
            "Every rate that was tried, in order",
            "(point)|rate/s|ok/s|p50 us|p99 us|(SLO met)|(verdict)",
        );
        for tried in &search.tried {
            let point = run.points.iter().find(|point| point.number == tried.point);
            let figure = |figure: &dyn Fn(&Point) -> String| point.map_or_else(|| ABSENT.into(), figure);
            let mut row = cells![
                tried.point.to_string(),
                rate(tried.rate),
                figure(&|point| rate(point.qps)),
                figure(&|point| us_of(point.latency.us_p50, &point.latency)),
                figure(&|point| us_of(point.latency.us_p99, &point.latency)),
                yes(tried.met),
                ABSENT,
            ];
            if let Some(point) = point {
                row[6] = point.verdict.judgement.into();
            }
            table.row(row);
        }
        blocks.extend(table.unless_empty().map(Block::Table));
    }
    Section {
        id: "search",
        title: "The search",
        blocks,
    }
}

/// A mix, operation by operation.
pub(crate) fn operations(run: &RunResult) -> Section {
    let mut table = Table::new(
        "Operations of the mix",
        "(point)|(target)|(load)|(operation)|answers|refused|failed|p50 us|p99 us|max us",
    );
    for point in &run.points {
        for one in &point.operations {
            let figures = cells![
                one.name.as_str(),
                one.answers.to_string(),
                one.refused.to_string(),
                one.failed.to_string(),
                us_of(one.latency.us_p50, &one.latency),
                us_of(one.latency.us_p99, &one.latency),
                us_of(one.latency.us_max, &one.latency),
            ];
            table.row(place(point).into_iter().chain(figures));
        }
    }
    of_table("operations", "Operations", table)
}

/// The server's own split of its work: a column for each stage.
pub(crate) fn stages(run: &RunResult) -> Section {
    let mut names: Vec<&str> = Vec::new();
    for stage in run.points.iter().flat_map(|point| &point.stages) {
        if !names.contains(&stage.name.as_str()) {
            names.push(&stage.name);
        }
    }
    let mut table = Table::new(
        "Where the server says its time went: the mean time in each stage, in us",
        "(point)|(target)|(load)",
    );
    for &name in &names {
        table.figures(name);
    }
    table.figures("service, mean us");
    for point in run.points.iter().filter(|point| !point.stages.is_empty()) {
        let stages = names.iter().map(|&name| {
            let stage = point.stages.iter().find(|stage| stage.name == name);
            Cell::from(stage.map_or_else(|| ABSENT.into(), |stage| us(stage.us_mean)))
        });
        let service = Cell::from(us_of(point.service.us_mean, &point.service));
        table.row(place(point).into_iter().chain(stages).chain([service]));
    }
    of_table("stages", "Stages of the server", table)
}
