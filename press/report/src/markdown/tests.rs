//! Golden tables: a change of layout is a change of these.

use millpond_press_recorder::{ErrorKind, LatencySummary};

use super::*;
use crate::{Cpu, TargetName};

fn point(connections: usize, level: &str) -> Point {
    let mut point = Point {
        number: 1,
        target: TargetName {
            protocol: "http".into(),
            address: "127.0.0.1:13500".into(),
            path: "/service/infer".into(),
        },
        connections,
        in_flight: 1,
        client_threads: 1,
        requests_per_connection: Some(100),
        us_total: 28_981,
        qps: 3_450.55,
        latency: LatencySummary {
            count: 100,
            us_mean: Some(286.4),
            us_p50: Some(280),
            us_p90: Some(301),
            us_max: Some(900),
            ..LatencySummary::default()
        },
        client_cpu: Some(Cpu {
            seconds: 0.01,
            percent: 34.6,
        }),
        ..Point::default()
    };
    if !level.is_empty() {
        point.grid.insert("log_level".into(), level.into());
    }
    point.counters.ok = 100;
    point
}

fn run(layout: Layout, points: Vec<Point>) -> RunResult {
    let mut run = RunResult {
        name: "n".into(),
        layout,
        points,
        state: State::Complete,
        ..RunResult::default()
    };
    run.requests.check_share = 1.0;
    run
}

#[test]
fn the_general_table() {
    let mut busy = point(3_000, "");
    busy.counters.refused.insert(30_101, 2_000);
    busy.counters.wrong = 2;
    busy.counters.errors.insert(ErrorKind::Timeout, 1);
    busy.server_cpu = Some(Cpu {
        seconds: 1.0,
        percent: 99.7,
    });
    let text = tables(&run(Layout::General, vec![point(1, "2"), busy]));
    let expected = "\
| target                          | connections | in flight |   ok/s | refused | errors | p50 us | p90 us |    p99 us |  p99.9 us | max us | server CPU % | client CPU % |
| ------------------------------- | -----------:| ---------:| ------:| -------:| ------:| ------:| ------:| ---------:| ---------:| ------:| ------------:| ------------:|
| http /service/infer log_level=2 |           1 |         1 | 3450.6 |       0 |      0 |    280 |    301 | n/a (100) | n/a (100) |    900 |          n/a |           35 |
| http /service/infer             |        3000 |         1 | 3450.6 |    2000 |      3 |    280 |    301 | n/a (100) | n/a (100) |    900 |          100 |           35 |
";
    assert_eq!(text, expected);
}

#[test]
fn the_r1_tables() {
    let mut refused = point(1_500, "5");
    refused.counters.refused.insert(30_101, 500);
    refused.counters.not_sent = 49_500;
    refused.qps = 4_000.0;
    refused.server_cpu = Some(Cpu {
        seconds: 1.0,
        percent: 88.0,
    });
    let text = tables(&run(Layout::R1, vec![point(1, "2"), point(1, "5"), refused]));
    let expected = "\
## log_level = 2

| testParams          | aveTime(us) | totalTime(us) |    qps | p50(us) |   p99(us) | refused | not sent | errors | server CPU % | client CPU % |
| ------------------- | -----------:| -------------:| ------:| -------:| ---------:| -------:| --------:| ------:| ------------:| ------------:|
| json_1_200000_1_100 |         286 |         28981 | 3450.6 |     280 | n/a (100) |       0 |        0 |      0 |          n/a |           35 |

## log_level = 5

| testParams             | aveTime(us) | totalTime(us) |    qps | p50(us) |   p99(us) | refused | not sent | errors | server CPU % | client CPU % |
| ---------------------- | -----------:| -------------:| ------:| -------:| ---------:| -------:| --------:| ------:| ------------:| ------------:|
| json_1_200000_1_100    |         286 |         28981 | 3450.6 |     280 | n/a (100) |       0 |        0 |      0 |          n/a |           35 |
| json_1_200000_1500_100 |         286 |         28981 | 4000.0 |     280 | n/a (100) |     500 |    49500 |      0 |           88 |           35 |

## Summary

| grid          | aveTime (ms, 1 thread) | server CPU % at the best point | qps, best point | threads |
| ------------- | ----------------------:| ------------------------------:| ---------------:| -------:|
| log_level = 2 |                  0.286 |                            n/a |          3450.6 |       1 |
| log_level = 5 |                  0.286 |                             88 |          4000.0 |    1500 |
";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn what_went_wrong_is_told_with_its_first_message() {
    let mut bad = point(10, "");
    bad.counters.wrong = 2;
    bad.counters
        .first
        .insert("wrong".into(), "14 scores | expected 15".into());
    bad.counters.refused.insert(30_101, 7);
    bad.counters.connections_refused = 7;
    let mut result = run(Layout::General, vec![bad]);
    result.state = State::Interrupted;
    result.requests.check_share = 0.1;
    result.press.build = Some("dev".into());
    let text = report(&result);
    for expected in [
        "**This run was interrupted",
        "**The load generator is a dev build",
        "**Only 10 % of the answers were checked.**",
        "| wrong |        2 | 14 scores \\| expected 15 |",
        "| 30101: 7 |",
    ] {
        let spaces_folded = text
            .split(' ')
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        let expected_folded = expected
            .split(' ')
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            spaces_folded.contains(&expected_folded),
            "{expected} is not in\n{text}"
        );
    }
    result.state = State::Failed;
    result.failure = Some("the server ended\nits last line".into());
    let text = report(&result);
    assert!(
        text.contains("**This run failed") && text.contains("\nthe server ended\nits last line\n``````\n"),
        "{text}"
    );
    let clean = report(&run(Layout::General, vec![point(1, "")]));
    assert!(
        !clean.contains("went wrong") && !clean.contains("Refusals") && !clean.contains("**"),
        "{clean}"
    );
}
