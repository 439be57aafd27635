//! The page around the content, and the content of one run in order.
//!
//! Its invariant: the page allows itself nothing but its own style sheet.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::escape::escape;
use super::{Place, card, cases_of, figures, section};
use crate::section::{self as content, Section};
use crate::{Judgement, RunResult, describe, number};

const STYLE: &str = include_str!("style.css");

/// A whole page.
pub(crate) fn whole(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// One run.
pub(crate) fn run(run: &RunResult, place: &Place) -> String {
    let level = place.level;
    let mut text = format!(
        "<header>\n<h{level}>{}</h{level}>\n{}</header>\n",
        escape(&describe::title(run)),
        glance(run)
    );
    for warning in content::warnings(run) {
        let _ = writeln!(
            text,
            "<p class=\"warning\"><strong>Note.</strong> {}</p>",
            escape(&warning)
        );
    }
    let findings = content::findings(run);
    let circumstances = content::circumstances(run);
    if place.suffix.is_empty() {
        text += &contents(run, &findings, &circumstances);
    }
    text += &section::section(&content::results(run), place);
    text += &section::wrapped(
        "figures",
        "Figures",
        &figures(&cases_of(run), &[run], place),
        place,
    );
    for one in &findings {
        text += &section::section(one, place);
    }
    text += &card::cards(run, place);
    for one in &circumstances {
        text += &section::section(one, place);
    }
    text
}

fn contents(run: &RunResult, findings: &[Section], circumstances: &[Section]) -> String {
    let named = |sections: &[Section]| -> Vec<(&str, &str)> {
        sections.iter().map(|one| (one.id, one.title)).collect()
    };
    let mut links = vec![("results", "Results"), ("figures", "Figures")];
    links.extend(named(findings));
    if !run.points.is_empty() {
        links.push(("points", "Points"));
    }
    links.extend(named(circumstances));
    let links: String = links
        .into_iter()
        .map(|(id, title)| format!("<a href=\"#{id}\">{title}</a>\n"))
        .collect();
    format!("<nav aria-label=\"Sections\">\n{links}</nav>\n")
}

/// The run in a line or two: when, how long, how it ended, and how its points were judged.
fn glance(run: &RunResult) -> String {
    let mut facts = vec![run.state.to_string()];
    if !run.name.is_empty() && run.name != describe::title(run) {
        facts.insert(0, run.name.clone());
    }
    if !run.started_at.is_empty() {
        facts.push(format!("started {}", run.started_at));
    }
    if run.wall_s > 0.0 {
        facts.push(format!("{} s", number::short(run.wall_s)));
    }
    let facts: Vec<String> = facts
        .iter()
        .map(|fact| format!("<span>{}</span>", escape(fact)))
        .collect();
    let mut text = format!("<p class=\"glance\">{}</p>\n", facts.join(" "));
    let mut counts: BTreeMap<Judgement, usize> = BTreeMap::new();
    for point in &run.points {
        *counts.entry(point.verdict.judgement).or_default() += 1;
    }
    let badge = |(judgement, count)| format!("<span>{count} {}</span>", section::badge(judgement));
    let badges: Vec<String> = counts.into_iter().map(badge).collect();
    if !badges.is_empty() {
        let _ = writeln!(text, "<p class=\"glance\">{}</p>", badges.join(" "));
    }
    text
}
