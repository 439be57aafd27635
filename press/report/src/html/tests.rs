//! Pages are read by a small strict reader: tags nest, attributes are quoted, ids are unique.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::collections::BTreeSet;

use super::*;
use crate::{Judgement, Layout, Point, Search, State, Tried, sample};

/// Elements without an end.
const VOID: [&str; 1] = ["meta"];

/// Checks the page and returns its ids.
fn well_formed(page: &str) -> BTreeSet<String> {
    let mut open: Vec<String> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        if open.last().is_none_or(|name| name != "style") {
            assert!(!text.contains('>'), "a stray > in {text:?}");
            entities(text);
        }
        let end = rest[start..].find('>').expect("a tag ends") + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(
                open.pop().as_deref(),
                Some(name),
                "closed before {:?}",
                &rest[..rest.len().min(80)]
            );
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(
            name.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            "tag {name:?}"
        );
        assert_ne!(name, "script");
        for (name, value) in attributes_of(attributes) {
            assert!(!name.starts_with("on") && name != "src", "attribute {name}");
            entities(&value);
            if name == "id" {
                assert!(ids.insert(value.clone()), "id {value} twice");
            }
            if name == "href" {
                assert!(value.starts_with('#'), "a link out: {value}");
            }
            if name == "d" || name == "viewBox" {
                assert!(!value.contains("NaN") && !value.contains("inf"), "{value}");
            }
        }
        if !closed && !VOID.contains(&name) {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("url("));
    ids
}

fn attributes_of(mut text: &str) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    while !text.trim().is_empty() {
        let (name, rest) = text
            .split_once("=\"")
            .unwrap_or_else(|| panic!("not quoted: {text:?}"));
        let (value, rest) = rest.split_once('"').expect("a closing quote");
        assert!(!name.trim().contains([' ', '"', '\'']), "attribute {name:?}");
        attributes.push((name.trim().to_owned(), value.to_owned()));
        text = rest;
    }
    attributes
}

fn entities(text: &str) {
    for part in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        assert!(
            known.iter().any(|entity| part.starts_with(entity)),
            "a bare & in {text:?}"
        );
    }
}

fn assert_ids(ids: &BTreeSet<String>, expected: &[&str]) {
    for id in expected {
        assert!(ids.contains(*id), "{id} is not among {ids:?}");
    }
}

#[test]
fn a_full_run_has_every_figure_and_section() {
    let run = sample::run();
    let page = html(std::slice::from_ref(&run));
    let ids = well_formed(&page);
    assert_ids(
        &ids,
        &[
            "figure-percentiles",
            "figure-throughput",
            "results",
            "points",
            "slo",
            "stages",
            "comparisons",
            "method",
            "environment",
        ],
    );
    for number in 1..=run.points.len() {
        assert_ids(&ids, &[&format!("figure-timeline-{number}")]);
    }
    for word in [
        "VALID",
        "GENERATOR-BOUND",
        "UNSTABLE",
        "ENV-DRIFT",
        "prefers-color-scheme: dark",
        "@media print",
    ] {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(page.matches("<details class=\"card\" open=\"open\">").count(), 3);
    assert_eq!(page.matches("<table>").count(), page.matches("<caption>").count());
    assert!(page.matches("role=\"img\"").count() >= run.points.len() + 4);
    assert_eq!(
        page.matches("role=\"img\"").count(),
        page.matches("<desc ").count()
    );
}

#[test]
fn hostile_text_stays_text() {
    let run = sample::hostile();
    well_formed(&html(std::slice::from_ref(&run)));
    for layout in [Layout::R1, Layout::R3, Layout::R4, Layout::Peers] {
        let run = RunResult {
            layout,
            ..run.clone()
        };
        well_formed(&html(&[run.clone(), run]));
    }
}

#[test]
fn an_empty_or_partial_result_is_a_page_that_says_so() {
    assert!(html(&[]).contains("There is no run to report."));
    well_formed(&html(&[]));
    for state in [State::Running, State::Interrupted, State::Failed] {
        let run = RunResult {
            state,
            failure: Some("the server ended".into()),
            ..RunResult::default()
        };
        let page = html(&[run]);
        assert_ids(
            &well_formed(&page),
            &["figure-percentiles", "figure-throughput", "failure"],
        );
        assert!(page.contains("No point was finished.") && page.contains("nothing to draw"));
    }
    let run = RunResult {
        points: vec![Point::default()],
        ..RunResult::default()
    };
    let page = html(&[run]);
    assert_ids(
        &well_formed(&page),
        &["figure-percentiles", "figure-throughput", "points"],
    );
    assert!(page.contains("n/a (0)") && page.contains("too short for a timeline"));
}

#[test]
fn twelve_loads_of_one_target_are_thinned_and_have_a_knee() {
    let mut run = sample::run();
    let pattern = run.points[0].clone();
    run.points = (1..=12usize)
        .map(|number| {
            let mut point = pattern.clone();
            point.number = number;
            point.offered.connections = 1 << number;
            point.qps = (number as f64 * 1_000.0).min(6_000.0);
            point.latency.us_mean = Some(100.0 + (number.max(6) - 6) as f64 * 400.0);
            point
        })
        .collect();
    let page = html(std::slice::from_ref(&run));
    well_formed(&page);
    assert!(page.contains("8 of 12 loads are drawn, evenly chosen."));
    assert!(
        page.contains("millpond native 6\u{a0}k/s under 64×1."),
        "the knee"
    );
    run.points.truncate(6);
    assert!(html(&[run]).contains("No knee lies within these loads."));
}

#[test]
fn the_knee_of_a_search_is_marked() {
    let mut run = sample::run();
    run.points.truncate(1);
    run.points[0].offered.rate = Some(20_000.0);
    run.points[0].offered.kind = crate::LoadKind::Open;
    run.search = Some(Search {
        target: "millpond native".into(),
        rate_knee: Some(21_000.0),
        sentence: "It sustains 20000/s.".into(),
        tried: vec![
            Tried {
                rate: 20_000.0,
                point: 1,
                met: true,
            },
            Tried {
                point: 9,
                ..Tried::default()
            },
        ],
        ..Search::default()
    });
    let page = html(&[run]);
    assert_ids(&well_formed(&page), &["search"]);
    assert!(page.contains("21\u{a0}k/s, as the search found") && page.contains("class=\"ring"));
}

#[test]
fn several_runs_are_laid_over_each_other() {
    let mut other = sample::run();
    other.points.retain(|point| point.target.name == "millpond http");
    let runs = [sample::run(), other, RunResult::default()];
    let page = html(&runs);
    let ids = well_formed(&page);
    assert_ids(
        &ids,
        &[
            "figure-percentiles",
            "figure-percentiles-run-1",
            "figure-throughput-run-2",
            "figure-timeline-1-run-1",
            "run-3",
        ],
    );
    assert!(page.contains("rank-peers (run 2)"));
}

#[test]
fn a_long_run_is_drawn_in_bounds() {
    let mut run = sample::run();
    run.points.truncate(1);
    let second = run.points[0].series[0].clone();
    run.points[0].series = (1..=100_000)
        .map(|s| crate::Second {
            s: f64::from(s),
            ..second.clone()
        })
        .collect();
    run.points[0].verdict.judgement = Judgement::EnvDrift;
    assert!(html(&[run]).len() < 200_000);
}

/// Writes the page of the sample where MILLPOND_SAMPLE_REPORT says, to be looked at; with `.two.` in the name, of two runs.
#[test]
fn the_sample_can_be_looked_at() {
    let Some(path) = std::env::var_os("MILLPOND_SAMPLE_REPORT") else {
        return;
    };
    let mut runs = vec![sample::run()];
    if path.to_string_lossy().contains(".two.") {
        let mut other = sample::run();
        other.name = "rank-peers-before".into();
        other.layout = Layout::Peers;
        for point in &mut other.points {
            point.qps *= 0.83;
            point.curve.iter_mut().for_each(|(_, us)| *us *= 1.2);
        }
        runs.push(other);
    }
    std::fs::write(path, html(&runs)).unwrap();
}
