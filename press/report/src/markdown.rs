//! The report of a run as text: Markdown for files, and the same without its escapes for a terminal.
//!
//! Its invariant: in Markdown text of the result is escaped; it starts no tag, link, heading, code or table cell. In neither does
//! a control character of the result reach the reader.

use std::fmt::Write as _;

use crate::section::{self, Block, Section};
use crate::table::{Cell, Column, Table};
use crate::{Judgement, RunResult, describe};

/// Who reads the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// A program that draws Markdown.
    Markdown,
    /// A person at a terminal, to whom an escape is a typing error.
    Terminal,
}

/// The whole report as Markdown.
pub fn report(run: &RunResult) -> String {
    Reader::Markdown.report(run)
}

/// The whole report for a terminal: the same words and tables, without what Markdown needs around them.
pub fn terminal(run: &RunResult) -> String {
    Reader::Terminal.report(run)
}

/// The tables alone, in the scenario's layout, as Markdown.
pub fn tables(run: &RunResult) -> String {
    Reader::Markdown.blocks(&section::results(run))
}

impl Reader {
    fn report(self, run: &RunResult) -> String {
        let mut text = format!("# {}\n\n", self.inline(&describe::title(run)));
        for warning in section::warnings(run) {
            let _ = writeln!(text, "{}\n", self.strong(&self.inline(&warning)));
        }
        text += &self.blocks(&section::results(run));
        text += &self.verdicts(run);
        for section in section::findings(run).iter().chain(&section::circumstances(run)) {
            let _ = write!(text, "\n## {}\n\n{}", section.title, self.blocks(section));
        }
        text
    }

    /// For every point the sentence of its verdict; for those that are not valid the evidence too.
    fn verdicts(self, run: &RunResult) -> String {
        if run.points.is_empty() {
            return String::new();
        }
        let mut text = String::from("\n## Verdicts\n\n");
        for point in &run.points {
            let verdict = &point.verdict;
            let bound = describe::bound(verdict.bound)
                .map(|words| format!(", {words}"))
                .unwrap_or_default();
            let _ = writeln!(
                text,
                "- {}: {}{bound}. {}",
                self.inline(&section::point_title(run, point)),
                self.strong(&verdict.judgement.to_string()),
                self.inline(&describe::sentence(point))
            );
            if verdict.judgement != Judgement::Valid {
                for line in &verdict.evidence {
                    let _ = writeln!(text, "  - {}", self.block_start(&self.inline(line)));
                }
            }
        }
        text
    }

    /// Tables that have company are told apart by their captions.
    fn blocks(self, section: &Section) -> String {
        let tables = section
            .blocks
            .iter()
            .filter(|block| matches!(block, Block::Table(_)))
            .count();
        let mut text = String::new();
        for (index, block) in section.blocks.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            match block {
                Block::Paragraph(words) => {
                    let _ = writeln!(text, "{}", self.block_start(&self.inline(words)));
                }
                Block::Table(table) => {
                    if tables > 1 {
                        let _ = writeln!(text, "### {}\n", self.inline(&table.caption));
                    }
                    text += &self.draw(table);
                }
                Block::Facts(facts) => {
                    for fact in facts {
                        let value = if fact.code {
                            self.code(&fact.value)
                        } else {
                            self.inline(&fact.value)
                        };
                        let _ = writeln!(text, "- {}: {value}", fact.name);
                    }
                }
                Block::Verbatim(words) => {
                    let words = printable(words, true);
                    let fence = match self {
                        Reader::Markdown => "`".repeat(longest_run(&words).max(2) + 1) + "\n",
                        Reader::Terminal => String::new(),
                    };
                    let _ = write!(text, "{fence}{words}\n{fence}");
                }
            }
        }
        text
    }

    /// A table with padded columns; figures stand to the right.
    fn draw(self, table: &Table) -> String {
        let header: Vec<String> = table
            .columns
            .iter()
            .map(|column| self.inline(&column.name))
            .collect();
        let rows: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| self.cell(cell)).collect())
            .collect();
        let width = |index: usize| {
            std::iter::once(&header)
                .chain(&rows)
                .filter_map(|row| row.get(index))
                .map(|cell| cell.chars().count())
                .fold(3, usize::max)
        };
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        let mut text = line(&table.columns, &widths, &header);
        text.push('|');
        for (column, &width) in table.columns.iter().zip(&widths) {
            let _ = write!(
                text,
                " {}{}|",
                "-".repeat(width),
                if column.figures { ":" } else { " " }
            );
        }
        text.push('\n');
        for row in &rows {
            text += &line(&table.columns, &widths, row);
        }
        text
    }

    fn cell(self, cell: &Cell) -> String {
        match cell {
            Cell::Text(text) => self.inline(text),
            Cell::Judged(judgement) => judgement.to_string(),
        }
    }

    fn strong(self, text: &str) -> String {
        match self {
            Reader::Markdown => format!("**{text}**"),
            Reader::Terminal => text.to_owned(),
        }
    }

    fn inline(self, text: &str) -> String {
        match self {
            Reader::Markdown => inline(text),
            Reader::Terminal => printable(text, false),
        }
    }

    fn block_start(self, text: &str) -> String {
        match self {
            Reader::Markdown => block_start(text),
            Reader::Terminal => text.to_owned(),
        }
    }

    fn code(self, text: &str) -> String {
        match self {
            Reader::Markdown => code(text),
            Reader::Terminal => printable(text, false),
        }
    }
}

fn line(columns: &[Column], widths: &[usize], cells: &[String]) -> String {
    let mut text = String::from("|");
    for ((column, &width), cell) in columns.iter().zip(widths).zip(cells) {
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        text += &if column.figures {
            format!(" {padding}{cell} |")
        } else {
            format!(" {cell}{padding} |")
        };
    }
    text.push('\n');
    text
}

/// Text within a line: what Markdown or HTML would take for markup is escaped.
pub(crate) fn inline(text: &str) -> String {
    let text = printable(text, false);
    let mut escaped = String::with_capacity(text.len());
    let mut previous = ' ';
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        let marks = match character {
            '\\' | '`' | '*' | '<' | '>' | '[' | ']' | '|' | '~' => true,
            // Within a word it marks nothing, and names are full of it.
            '_' => !(previous.is_alphanumeric() && next.is_alphanumeric()),
            '&' => next == '#' || next.is_ascii_alphabetic(),
            _ => false,
        };
        if marks {
            escaped.push('\\');
        }
        escaped.push(character);
        previous = character;
    }
    escaped
}

/// Escaped text at the start of a line: no heading, list or rule begins with it.
fn block_start(escaped: &str) -> String {
    let digits = escaped.chars().take_while(char::is_ascii_digit).count();
    match escaped.chars().nth(digits) {
        Some('#' | '+' | '-' | '=') if digits == 0 => format!("\\{escaped}"),
        Some('.' | ')') if digits > 0 => format!("{}\\{}", &escaped[..digits], &escaped[digits..]),
        _ => escaped.to_owned(),
    }
}

/// Something typed, between more backticks than it holds in a row.
fn code(text: &str) -> String {
    let ticks = "`".repeat(longest_run(text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.is_empty() {
        " "
    } else {
        ""
    };
    format!("{ticks}{pad}{}{pad}{ticks}", printable(text, false))
}

fn longest_run(text: &str) -> usize {
    text.split(|character| character != '`')
        .map(str::len)
        .max()
        .unwrap_or(0)
}

/// Control characters become spaces; with `lines` the ends of lines stay.
fn printable(text: &str, lines: bool) -> String {
    text.chars()
        .map(|character| match character {
            '\n' if lines => '\n',
            character if character.is_control() => ' ',
            character => character,
        })
        .collect()
}

#[cfg(test)]
mod tests;
