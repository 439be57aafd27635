//! What a report says, in order, before it is drawn as Markdown or HTML.
//!
//! Its invariant: every sentence is derived from the [`RunResult`], and all text is plain: drawing escapes it.

mod conditions;
mod outcome;
mod trouble;

use crate::layout;
use crate::table::{Cell, Table, cells};
use crate::{Point, RunResult, State, describe};

/// One part of a report under a heading of its own.
#[derive(Debug)]
pub(crate) struct Section {
    /// What links point to; letters and hyphens.
    pub(crate) id: &'static str,
    /// The heading.
    pub(crate) title: &'static str,
    /// What it says.
    pub(crate) blocks: Vec<Block>,
}

/// One piece of a section.
#[derive(Debug)]
pub(crate) enum Block {
    /// Sentences.
    Paragraph(String),
    /// A table.
    Table(Table),
    /// Names with values.
    Facts(Vec<Fact>),
    /// Words of a program, line by line.
    Verbatim(String),
}

/// A name with its value.
#[derive(Debug)]
pub(crate) struct Fact {
    /// What it is.
    pub(crate) name: &'static str,
    /// Its value.
    pub(crate) value: String,
    /// Whether the value is something typed into a shell.
    pub(crate) code: bool,
}

/// The results: the answer of a search, then the tables in the scenario's layout.
pub(crate) fn results(run: &RunResult) -> Section {
    let mut blocks = Vec::new();
    if let Some(search) = run.search.as_ref().filter(|search| !search.sentence.is_empty()) {
        blocks.push(Block::Paragraph(search.sentence.clone()));
    }
    let tables = layout::tables(run);
    if tables.is_empty() {
        blocks.push(Block::Paragraph("No point was finished.".into()));
    } else {
        blocks.extend(tables.into_iter().map(Block::Table));
        blocks.push(Block::Paragraph(layout::note(run)));
    }
    Section {
        id: "results",
        title: "Results",
        blocks,
    }
}

/// What follows from the results; sections without content are left out.
pub(crate) fn findings(run: &RunResult) -> Vec<Section> {
    filled([
        outcome::comparisons(run),
        outcome::repeats(run),
        outcome::slo(run),
        outcome::search(run),
        outcome::operations(run),
        outcome::stages(run),
    ])
}

/// What went wrong and how it was measured; sections without content are left out.
pub(crate) fn circumstances(run: &RunResult) -> Vec<Section> {
    filled([
        trouble::failure(run),
        trouble::troubles(run),
        trouble::refusals(run),
        conditions::method(run),
        conditions::environment(run),
    ])
}

fn filled(sections: impl IntoIterator<Item = Section>) -> Vec<Section> {
    sections
        .into_iter()
        .filter(|section| !section.blocks.is_empty())
        .collect()
}

/// A section of one table, empty if the table is.
fn of_table(id: &'static str, title: &'static str, table: Table) -> Section {
    Section {
        id,
        title,
        blocks: table.unless_empty().map(Block::Table).into_iter().collect(),
    }
}

/// The cells that say which point a row is of.
fn place(point: &Point) -> [Cell; 3] {
    cells![
        point.number.to_string(),
        describe::target(point),
        describe::load(&point.offered),
    ]
}

/// What a reader must know before the figures.
pub(crate) fn warnings(run: &RunResult) -> Vec<String> {
    let mut warnings = Vec::new();
    match run.state {
        State::Complete => {}
        State::Running => warnings.push("This run has not ended, or its process died.".into()),
        State::Interrupted => warnings.push("This run was interrupted: the last point is cut short.".into()),
        State::Failed => {
            warnings.push("This run failed, as told below: it has the points before that.".into());
        }
    }
    for left in &run.left_out {
        let grid: String = left
            .grid
            .iter()
            .map(|(key, value)| format!(" at {key} = {value}"))
            .collect();
        warnings.push(format!("{} was left out{grid}: {}", left.target, left.reason));
    }
    let doubtful = run
        .points
        .iter()
        .filter(|point| point.verdict.judgement != crate::Judgement::Valid)
        .count();
    if doubtful > 0 {
        warnings.push(format!(
            "{doubtful} of {} points cannot be taken at face value; their verdicts say why.",
            run.points.len()
        ));
    }
    let servers = || run.points.iter().filter_map(|point| point.server.as_ref());
    if servers().any(|server| server.build.as_deref() == Some("dev")) {
        warnings.push("The server is a dev build: a release build is faster.".into());
    }
    if run.press.build.as_deref() == Some("dev") {
        warnings.push(
            "The load generator is a dev build: it costs more processor time than a release build.".into(),
        );
    }
    if !run.points.is_empty() {
        for requests in run.requests.iter().filter(|requests| requests.check_share < 1.0) {
            let target = if requests.target.is_empty() {
                String::new()
            } else {
                format!(" of {}", requests.target)
            };
            warnings.push(format!(
                "Only {} % of the answers{target} were checked.",
                crate::number::short(requests.check_share * 100.0)
            ));
        }
    }
    warnings
}

/// `Point 3: millpond, 64×1, repeat 2`.
pub(crate) fn point_title(run: &RunResult, point: &Point) -> String {
    let repeat = if run.points.iter().any(|point| point.repeat > 1) {
        format!(", repeat {}", point.repeat)
    } else {
        String::new()
    };
    format!(
        "Point {}: {}, {}{repeat}",
        point.number,
        describe::target(point),
        describe::load(&point.offered)
    )
}
