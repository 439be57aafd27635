//! The table of report R2 is golden: its rows are another report's, and so are its reference figures.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::{Bound, Cpu, Held, Judgement, Layout, LoadKind, Requests, tables};

fn latency() -> LatencySummary {
    LatencySummary {
        count: 100_000,
        us_mean: Some(286.4),
        us_p50: Some(280.0),
        us_p70: Some(290.0),
        us_p80: Some(295.0),
        us_p90: Some(301.0),
        us_p95: Some(320.0),
        us_p97: Some(340.0),
        us_p99: Some(400.0),
        us_p99_9: Some(900.0),
        ..LatencySummary::default()
    }
}

fn point(target: &str, rate: f64, qps: f64) -> Point {
    let mut point = Point {
        qps,
        latency: latency(),
        client_cpu: Some(Cpu {
            seconds: 1.0,
            percent: 34.6,
        }),
        held: Some(Held {
            connect_us_min: Some(31.5),
            ..Held::default()
        }),
        ..Point::default()
    };
    point.target.name = target.into();
    (point.offered.kind, point.offered.rate) = (LoadKind::Open, Some(rate));
    (point.offered.connections, point.offered.in_flight) = (32, 256);
    point.verdict.bound = Bound::ServerCpu;
    point
}

/// A run in which Millpond was asked for `keys` a request, beside an echo.
fn run(keys: f64, points: Vec<Point>) -> RunResult {
    let requests = |target: &str, keys| Requests {
        target: target.into(),
        keys,
        ..Requests::default()
    };
    RunResult {
        layout: Layout::R2,
        requests: vec![requests("millpond", Some(keys)), requests("echo", None)],
        points,
        ..RunResult::default()
    }
}

/// `text` with every run of spaces as one.
fn folded(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn assert_says(text: &str, expected: &[&str]) {
    let text = folded(text);
    for words in expected {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn targets_stand_beside_cube_where_the_same_was_offered() {
    let mut late = point("echo", 20_000.0, 12_000.0);
    late.counters.not_sent = 40_000;
    late.verdict.judgement = Judgement::Unstable;
    let points = vec![
        point("millpond", 2_000.0, 2_000.0),
        point("millpond", 20_000.0, 19_990.0),
        late,
    ];
    let text = tables(&run(100.0, points));
    let expected = "\
100 keys a request, 20000/s on 32×256

|              | Cube (reference) |     millpond |         echo |
| ------------ | ----------------:| ------------:| ------------:|
| qps          |            20000 |        19990 |        12000 |
| kps          |          2000000 |      1999000 |          n/a |
| avg (us)     |              375 |          286 |          286 |
| p50 (us)     |              346 |          280 |          280 |
| p70 (us)     |              390 |          290 |          290 |
| p80 (us)     |              n/a |          295 |          295 |
| p90 (us)     |              498 |          301 |          301 |
| p95 (us)     |              582 |          320 |          320 |
| p97 (us)     |              648 |          340 |          340 |
| p99 (us)     |              908 |          400 |          400 |
| p99.9 (us)   |             1623 |          900 |          900 |
| p99.99 (us)  |             3312 | n/a (100000) | n/a (100000) |
| cpu(top) %   |              3.5 |          n/a |          n/a |
| ping (us)    |              n/a |         31.5 |         31.5 |
| client CPU % |              n/a |           35 |           35 |
| not sent     |              n/a |            0 |        40000 |
| refused      |              n/a |            0 |            0 |
| errors       |              n/a |            0 |            0 |
| verdict      |              n/a |        VALID |     UNSTABLE |
| bounded by   |              n/a |   server cpu |   server cpu |

";
    assert_eq!(text.split("### ").nth(2).unwrap(), expected);
    // Where the report has no such rate, there is no column for it.
    assert!(
        text.starts_with("### 100 keys a request, 2000/s on 32×256\n\n|              |     millpond |\n"),
        "{text}"
    );
}

#[test]
fn what_was_not_offered_stands_at_the_end() {
    let text = tables(&run(100.0, vec![point("millpond", 20_000.0, 19_990.0)]));
    assert_says(
        text.split("### ").nth(2).unwrap(),
        &[
            "What report R2 says of Cube at rates that were not offered here",
            "| Cube, 100 keys, 100000/s (reference) | Cube, 100 keys, 200000/s (reference) |",
            "| kps | 10000000 | 20000000 |",
            "| p99.99 (us) | 6273 | 16028 |",
            "| cpu(top) % | 17.8 | 37.6 |",
        ],
    );
    let every: Vec<Point> = [100_000.0, 500_000.0, 1_000_000.0]
        .map(|rate| point("millpond", rate, 90_000.0))
        .into();
    let text = tables(&run(1.0, every));
    assert!(!text.contains("not offered"), "{text}");
    assert_says(
        &text,
        &[
            "1 key a request, 1000000/s",
            "| avg (us) | 4234 | 286 |",
            "| p99.99 (us) | 7340 | n/a (100000) |",
            "| cpu(top) % | 6.5 | n/a |",
        ],
    );
    // Of seven keys the report says nothing.
    assert!(!tables(&run(7.0, vec![point("millpond", 20_000.0, 1.0)])).contains("(reference)"));
}

/// The third table: ten shards, and a client that fans out and asks 100 times a second.
#[test]
fn shards_are_named() {
    for (keys, row) in [
        (100.0, "| avg (us) | 324 | 286 |"),
        (500.0, "| p80 (us) | 488 | 295 |"),
        (1_000.0, "| p99 (us) | 2101 | 400 |"),
    ] {
        assert_says(
            &tables(&run(keys, vec![point("millpond", 100.0, 100.0)])),
            &[
                "| Cube, 10 shards (reference) | millpond |",
                row,
                "| ping (us) | 60 | 31.5 |",
            ],
        );
    }
}
