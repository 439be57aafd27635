//! What the tables of report R5 say of points whose figures are known.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::{Antagonists, Cpu, Held, Layout, LeftOut, LoadKind};
use millpond_press_recorder::{Interference, ResourceSecond};

/// A point whose 95th percentile is this, in milliseconds.
fn point(name: &str, address: &str, rate: f64, p95: f64) -> Point {
    let mut point = Point::default();
    (point.target.name, point.target.address) = (name.into(), address.into());
    (point.offered.kind, point.offered.rate) = (LoadKind::Open, Some(rate));
    (point.latency.count, point.latency.us_mean, point.latency.us_p95) =
        (1_000, Some(400.0), Some(p95 * 1e3));
    point.service.us_mean = Some(300.0);
    point.lateness.us_mean = Some(30.0);
    point.client_cpu = Some(Cpu {
        seconds: 1.0,
        percent: 12.0,
    });
    point.server_cpu = Some(Cpu {
        seconds: 1.0,
        percent: 34.0,
    });
    point.resources.seconds = vec![ResourceSecond {
        rx_bytes: Some(2_048.0),
        tx_bytes: Some(1_024.0),
        ..ResourceSecond::default()
    }];
    point
}

fn beside(mut point: Point, interference: Interference) -> Point {
    point.offered.antagonists = Some(Antagonists {
        command: "stress-ng --cache 1".into(),
        cores: vec![1],
        beside: vec![0],
        interference,
    });
    point
}

fn tables_of(points: Vec<Point>) -> Vec<Table> {
    tables(&RunResult {
        layout: Layout::R5,
        points,
        ..RunResult::default()
    })
}

fn text(cell: &crate::table::Cell) -> String {
    match cell {
        crate::table::Cell::Text(text) => text.clone(),
        crate::table::Cell::Judged(judgement) => judgement.to_string(),
    }
}

/// The cell of a row, by the name of its column.
fn cell(table: &Table, row: usize, column: &str) -> String {
    let at = table
        .columns
        .iter()
        .position(|known| known.name == column)
        .unwrap();
    text(&table.rows[row][at])
}

#[test]
fn runs_stand_beside_each_other_and_the_reports_beside_them() {
    let mut first = point("loopback", "127.0.0.1:1", 400.0, 0.9);
    first.held = Some(Held {
        server_call_us_mean: Some(250.0),
        server_queue_us_mean: Some(50.0),
        ..Held::default()
    });
    let with = beside(
        point("loopback", "127.0.0.1:1", 400.0, 1.8),
        Interference::CpuContention,
    );
    let second = point("loopback", "127.0.0.1:1", 400.0, 0.7);
    let found = tables_of(vec![with, first, second]);
    let table = &found[0];
    assert_eq!((found.len(), table.rows.len()), (2, 2));
    assert_eq!(cell(table, 0, "beside"), "nothing");
    assert_eq!(cell(table, 0, "p95 ms"), "0.9000, 0.7000");
    assert_eq!(
        (cell(table, 0, "rxKB/s"), cell(table, 0, "txKB/s")),
        ("2.0, 2.0".into(), "1.0, 1.0".into())
    );
    assert_eq!(cell(table, 0, "CPU %"), "34, 34");
    assert!(
        cell(table, 0, "service ms").starts_with("0.2000, n/a"),
        "only one server counts"
    );
    assert!(cell(table, 0, "queue ms").starts_with("0.05000, n/a"));
    assert!(cell(table, 0, "rest ms").starts_with("0.1500, n/a"));
    assert_eq!(cell(table, 0, "report: p95 ms"), "0.804, 0.806 (i7); 4.563 (i9)");
    assert_eq!(cell(table, 0, "p95 worse by"), "n/a");
    assert_eq!(cell(table, 1, "beside"), "1 antagonist: CPU contention");
    assert_eq!(cell(table, 1, "p95 worse by"), "125.0 %");
    assert_eq!(cell(table, 1, "report: p95 worse by"), "8.8 % (i7)");
}

#[test]
fn in_process_the_caller_is_the_engine_and_the_wire_is_nobodys() {
    let found = tables_of(vec![
        point("integrated", "", 400.0, 0.5),
        point("network", "10.0.0.2:1", 300.0, 1.0),
    ]);
    let (own, network) = (&found[0], &found[1]);
    assert!(own.caption.contains("in process") && network.caption.contains("network"));
    assert_eq!(
        (cell(own, 0, "CPU % of press"), cell(own, 0, "rxKB/s")),
        ("12".into(), "n/a".into())
    );
    assert_eq!(
        (cell(own, 0, "service ms"), cell(own, 0, "queue ms")),
        ("0.3000".into(), "0.07000".into()),
        "what the thread was late is nobody's queue"
    );
    assert_eq!(cell(own, 0, "rest ms"), "0.03000");
    assert_eq!(
        cell(own, 0, "report: p95 ms"),
        "n/a",
        "the report has nothing in process"
    );
    assert_eq!(cell(network, 0, "report: p95 ms"), "6.022, 5.961 (i7)");
}

/// The label and its reason of a row of the last table.
fn explained(points: Vec<Point>, row: usize) -> (String, String) {
    let found = tables_of(points);
    let table = found.last().unwrap();
    (text(&table.rows[row][1]), text(&table.rows[row][2]))
}

#[test]
fn antagonists_are_reproduced_where_a_cache_is_shared_and_the_load_makes_it_worse() {
    let pair = |rate: f64, with: f64, kind| {
        [
            point("own", "", rate, 1.0),
            beside(point("own", "", rate, with), kind),
        ]
    };
    let label = |low: f64, high: f64, kind| {
        explained([pair(400.0, low, kind), pair(2_000.0, high, kind)].concat(), 0)
    };
    let (found, why) = label(1.1, 1.5, Interference::CacheL3);
    assert_eq!(found, "reproduced");
    assert!(
        why.contains("10.0 % at 400/s (noise: 5.0 %), 50.0 % at 2000/s"),
        "{why}"
    );
    assert_eq!(label(1.5, 1.1, Interference::CacheL2).0, "consistent with");
    assert_eq!(label(0.9, 0.8, Interference::CacheL2).0, "not reproducible here");
    let (found, why) = label(1.1, 1.5, Interference::SmtContention);
    assert_eq!(found, "not reproducible here");
    assert!(why.contains("SMT contention"), "{why}");
    let (found, why) = explained(vec![point("own", "", 400.0, 1.0)], 0);
    assert!(
        found == "not reproducible here" && why.contains("no antagonists ran"),
        "{why}"
    );
}

#[test]
fn the_networks_rows_follow_from_both_ways() {
    let network = |rate, p95| point("network", "10.0.0.2:1", rate, p95);
    let loopback = |rate, p95| point("loopback", "127.0.0.1:1", rate, p95);
    let load = |high| explained(vec![network(50.0, 1.0), network(300.0, high)], 1);
    assert_eq!(
        load(2.5).0,
        "consistent with",
        "what either answers at most is not known"
    );
    let (found, why) = load(1.2);
    assert!(
        found == "not reproducible here" && why.contains("1.200 ms at 300/s"),
        "{why}"
    );
    let below = |forty: f64, eighty: f64| {
        let points = vec![
            network(40.0, forty),
            network(80.0, eighty),
            loopback(40.0, 1.0),
            loopback(80.0, 1.0),
        ];
        explained(points, 2).0
    };
    assert_eq!(below(0.5, 0.6), "reproduced");
    assert_eq!(below(0.5, 1.6), "consistent with");
    assert_eq!(below(1.5, 1.6), "not reproducible here");
}

#[test]
fn a_network_that_was_left_out_says_why() {
    let run = RunResult {
        layout: Layout::R5,
        points: vec![point("loopback", "127.0.0.1:1", 40.0, 1.0)],
        left_out: [
            ("network", "root is needed"),
            ("loopback beside antagonists", "it is not here"),
        ]
        .map(|(target, reason)| LeftOut {
            target: target.into(),
            reason: reason.into(),
            ..LeftOut::default()
        })
        .into(),
        ..RunResult::default()
    };
    let found = tables(&run);
    let rows = &found.last().unwrap().rows;
    for row in [1, 2] {
        assert_eq!(text(&rows[row][2]), "network was left out: root is needed");
    }
    assert!(text(&rows[0][2]).ends_with("loopback beside antagonists was left out: it is not here"));
    assert!(text(&rows[3][2]).contains("0 were cut"));
}

/// Two rates with and without an antagonist that shares a cache; p95 is 1 ms without.
fn pairs(with: &[(f64, f64)]) -> Vec<Point> {
    let pair = |&(rate, with): &(f64, f64)| {
        [
            point("own", "", rate, 1.0),
            beside(point("own", "", rate, with), Interference::CacheL3),
        ]
    };
    with.iter().flat_map(pair).collect()
}

#[test]
fn noise_explains_nothing() {
    let label = |with: &[(f64, f64)]| explained(pairs(with), 0);
    assert_eq!(
        label(&[(400.0, 1.01), (2_000.0, 1.03)]).0,
        "not reproducible here"
    );
    let (found, why) = label(&[(400.0, 0.95), (2_000.0, 1.4)]);
    assert!(
        found == "consistent with" && why.contains("worse at the highest load, and not at the lowest"),
        "{why}"
    );
    let (found, why) = label(&[(400.0, 1.4)]);
    assert!(
        found == "consistent with" && why.contains("one load alone"),
        "{why}"
    );
    // Repeats that differ by more than the antagonist does.
    let mut spread = pairs(&[(400.0, 1.1), (2_000.0, 1.3)]);
    spread.extend([point("own", "", 2_000.0, 0.5), point("own", "", 2_000.0, 1.5)]);
    assert_eq!(explained(spread, 0).0, "not reproducible here");
}

#[test]
fn points_that_cannot_be_believed_explain_nothing() {
    let mut points = pairs(&[(400.0, 1.1), (2_000.0, 1.5)]);
    assert_eq!(explained(points.clone(), 0).0, "reproduced");
    points[3].verdict.judgement = crate::Judgement::Unstable;
    assert_eq!(explained(points, 0).0, "consistent with", "one pair is left");
}

#[test]
fn answers_that_were_cut_are_told_by_their_label() {
    let mut cut = point("loopback", "127.0.0.1:1", 40.0, 1.0);
    assert_eq!(explained(vec![cut.clone()], 3).0, "not reproducible here");
    cut.counters
        .errors
        .insert(millpond_press_recorder::ErrorKind::Closed, 2);
    let (found, why) = explained(vec![cut], 3);
    assert!(found == "consistent with" && why.contains("2 were cut"), "{why}");
}
