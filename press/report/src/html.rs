//! One run or several as one page: tables, and figures drawn as SVG within it.
//!
//! It loads nothing and runs nothing: no script, no font, no address is in it. Its invariant: the page is well-formed
//! whatever the result holds, and text of the result is text on the page.

mod axis;
mod card;
mod chart;
mod escape;
mod overview;
mod page;
mod percentiles;
mod plot;
mod section;
mod throughput;
mod timeline;

use crate::cases::{self, Case};
use crate::{RunResult, describe};

/// The page of `runs`; with several, their figures are first laid over each other.
pub fn html(runs: &[RunResult]) -> String {
    match runs {
        [] => page::whole("No run", "<h1>No run</h1>\n<p>There is no run to report.</p>\n"),
        [run] => page::whole(&describe::title(run), &page::run(run, &Place::alone())),
        several => page::whole(
            &format!("{} runs", several.len()),
            &overview::runs(several, &overview::names(several)),
        ),
    }
}

/// Where on the page a run stands.
#[derive(Debug, Clone)]
struct Place {
    /// What ids of it end in.
    suffix: String,
    /// The level of its own heading.
    level: usize,
}

impl Place {
    fn alone() -> Place {
        Place {
            suffix: String::new(),
            level: 1,
        }
    }

    /// Behind others, as number `number`.
    fn among(number: usize) -> Place {
        Place {
            suffix: format!("-run-{number}"),
            level: 2,
        }
    }
}

/// The figures in which lines can be compared.
fn figures(cases: &[Case<'_>], runs: &[&RunResult], place: &Place) -> String {
    percentiles::figure(cases, &place.suffix) + &throughput::figure(cases, runs, &place.suffix)
}

/// The cases of one run, named by target and grid.
fn cases_of(run: &RunResult) -> Vec<Case<'_>> {
    cases::join(&run.points, describe::target)
}

#[cfg(test)]
mod tests;
