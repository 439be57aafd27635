//! Sections, tables and facts as HTML.
//!
//! Its invariant: what Markdown says is said here in the same words; a table has a caption and a header for each row and
//! column.

use std::fmt::Write as _;

use super::Place;
use super::escape::{escape, grouped};
use crate::Judgement;
use crate::section::{Block, Fact, Section};
use crate::table::{Cell, Table};

/// Longer words of a cell may be broken into lines.
const CHARACTERS_UNBROKEN: usize = 34;

/// A section with its heading.
pub(crate) fn section(section: &Section, place: &Place) -> String {
    wrapped(section.id, section.title, &blocks(section), place)
}

/// Content under a heading one level below that of the run.
pub(crate) fn wrapped(id: &str, title: &str, content: &str, place: &Place) -> String {
    let level = place.level + 1;
    format!(
        "<section id=\"{id}{}\">\n<h{level}>{}</h{level}>\n{content}</section>\n",
        place.suffix,
        escape(title)
    )
}

/// What a section holds.
pub(crate) fn blocks(section: &Section) -> String {
    section
        .blocks
        .iter()
        .map(|block| match block {
            Block::Paragraph(words) => format!("<p>{}</p>\n", escape(words)),
            Block::Table(one) => table(one),
            Block::Facts(facts) => list(facts),
            Block::Verbatim(words) => format!("<pre>{}</pre>\n", escape(words)),
        })
        .collect()
}

fn list(facts: &[Fact]) -> String {
    let mut text = String::from("<dl>\n");
    for fact in facts {
        let value = escape(&fact.value);
        let value = if fact.code {
            format!("<code>{value}</code>")
        } else {
            value
        };
        let _ = writeln!(text, "<div><dt>{}</dt><dd>{value}</dd></div>", escape(fact.name));
    }
    text + "</dl>\n"
}

/// A table that scrolls within its own box where it is too wide.
pub(crate) fn table(table: &Table) -> String {
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>\n<caption>{0}</caption>\n<thead><tr>",
        escape(&table.caption)
    );
    for column in &table.columns {
        let _ = write!(
            text,
            "<th scope=\"col\"{}>{}</th>",
            if column.figures { " class=\"figure\"" } else { "" },
            escape(&column.name)
        );
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        text += "<tr>";
        for (index, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            let content = match cell {
                Cell::Text(words) if column.figures => escape(&grouped(words)),
                Cell::Text(words) => escape(words),
                Cell::Judged(judgement) => badge(*judgement),
            };
            let class = match cell {
                _ if column.figures => " class=\"figure\"",
                Cell::Text(words) if words.chars().count() > CHARACTERS_UNBROKEN => " class=\"prose\"",
                _ => "",
            };
            text += &if index == 0 {
                format!("<th scope=\"row\"{class}>{content}</th>")
            } else {
                format!("<td{class}>{content}</td>")
            };
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>\n"
}

/// The word of a judgement on its colour.
pub(crate) fn badge(judgement: Judgement) -> String {
    let style = match judgement {
        Judgement::Valid => "valid",
        Judgement::GeneratorBound | Judgement::Unstable => "doubtful",
        Judgement::EnvDrift => "drift",
        Judgement::Failing => "failing",
    };
    format!("<span class=\"badge {style}\">{judgement}</span>")
}
