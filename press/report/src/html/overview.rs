//! Several runs on one page: a table of them, and their figures laid over each other.
//!
//! Its invariant: runs have different names on the page, whatever they call themselves.

use super::escape::escape;
use super::{Place, figures, page, section};
use crate::cases::{self, Case};
use crate::number::{ABSENT, rate};
use crate::table::{Table, cells};
use crate::{RunResult, describe};

/// Names that differ: a run's own, with its number where another has it too.
pub(crate) fn names(runs: &[RunResult]) -> Vec<String> {
    let own = |run: &RunResult| {
        if run.name.trim().is_empty() {
            describe::title(run)
        } else {
            run.name.clone()
        }
    };
    runs.iter()
        .enumerate()
        .map(|(index, run)| {
            let name = own(run);
            if runs.iter().filter(|other| own(other) == name).count() > 1 {
                format!("{name} (run {})", index + 1)
            } else {
                name
            }
        })
        .collect()
}

/// What stands within the page.
pub(crate) fn runs(runs: &[RunResult], names: &[String]) -> String {
    let place = Place::alone();
    let mut cases: Vec<Case<'_>> = Vec::new();
    for (run, name) in runs.iter().zip(names) {
        let alone = super::cases_of(run)
            .windows(2)
            .all(|pair| pair[0].series == pair[1].series);
        cases.extend(cases::join(&run.points, |point| {
            if alone {
                name.clone()
            } else {
                format!("{name}, {}", describe::target(point))
            }
        }));
    }
    let references: Vec<&RunResult> = runs.iter().collect();
    let mut text = format!("<h1>{} runs</h1>\n{}", runs.len(), contents(names));
    text += &section::wrapped("runs", "The runs", &section::table(&table(runs, names)), &place);
    text += &section::wrapped(
        "compared",
        "Laid over each other",
        &figures(&cases, &references, &place),
        &place,
    );
    for (index, run) in runs.iter().enumerate() {
        let place = Place::among(index + 1);
        text += &format!(
            "<article id=\"run-{}\" class=\"run\">\n{}</article>\n",
            index + 1,
            page::run(run, &place)
        );
    }
    text
}

fn contents(names: &[String]) -> String {
    let links: String = names
        .iter()
        .enumerate()
        .map(|(index, name)| format!("<a href=\"#run-{}\">{}</a>\n", index + 1, escape(name)))
        .collect();
    format!("<nav aria-label=\"Runs\">\n<a href=\"#compared\">Laid over each other</a>\n{links}</nav>\n")
}

fn table(runs: &[RunResult], names: &[String]) -> Table {
    let mut table = Table::new(
        "What is compared",
        "(run)|(title)|(started)|(state)|points|best ok/s|(gravest verdict)",
    );
    for (run, name) in runs.iter().zip(names) {
        let best = run
            .points
            .iter()
            .map(|point| point.qps)
            .filter(|qps| qps.is_finite())
            .reduce(f64::max);
        let mut row = cells![
            name.as_str(),
            describe::title(run),
            run.started_at.as_str(),
            run.state.to_string(),
            run.points.len().to_string(),
            best.map_or_else(|| ABSENT.into(), rate),
            ABSENT,
        ];
        if !run.points.is_empty() {
            row[6] = describe::gravest(run.points.iter().map(|point| point.verdict.judgement)).into();
        }
        table.row(row);
    }
    table
}
