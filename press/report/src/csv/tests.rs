//! The files are read by a small reader of RFC 4180.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::sample;

fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            other => field.push(other),
        }
    }
    assert!(
        !quoted && field.is_empty() && row.is_empty(),
        "the file ends within a row"
    );
    rows
}

fn field<'r>(rows: &'r [Vec<String>], row: usize, name: &str) -> &'r str {
    let column = rows[0].iter().position(|column| column == name).unwrap();
    &rows[row][column]
}

#[test]
fn every_row_has_the_header_s_fields() {
    for run in [sample::run(), sample::hostile(), crate::RunResult::default()] {
        for text in [points_csv(&run), series_csv(&run), controller_csv(&run)] {
            let rows = parse(&text);
            assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
        }
    }
}

#[test]
fn a_point_is_one_row_with_its_figures() {
    let mut run = sample::run();
    run.points[0].target.name = "a \"b\", c\nd".into();
    run.points[0].latency.us_p99 = None;
    run.points[0].qps = 1_234.5;
    run.points[0].offered.antagonists = Some(crate::Antagonists {
        interference: millpond_press_recorder::Interference::CacheL3,
        ..Default::default()
    });
    let rows = parse(&points_csv(&run));
    assert_eq!(rows.len(), run.points.len() + 1);
    assert_eq!(field(&rows, 1, "target"), "a \"b\", c\nd");
    assert_eq!(field(&rows, 1, "latency_us_p99"), "");
    assert_eq!(field(&rows, 1, "qps"), "1234.5");
    assert_eq!(
        (field(&rows, 1, "interference"), field(&rows, 2, "interference")),
        ("cache_l3", "")
    );
    assert_eq!(field(&rows, 1, "judgement"), "VALID");
    assert_eq!(field(&rows, 1, "bound"), "offered");
}

/// A point of 90 seconds, 100 answers and one refusal in each, of which one second took longer.
fn long_run() -> crate::RunResult {
    let mut run = sample::run();
    run.points.truncate(1);
    let point = &mut run.points[0];
    point.started_unix_s = 951_782_390.0;
    point.us_total = 90_000_000;
    point.counters.not_sent = 45;
    let second = |at: usize| crate::Second {
        s: at as f64 + 1.0,
        answers: 100,
        refused: 1,
        outstanding: if at == 0 { 9 } else { 4 },
        us_mean: Some(if at == 10 { 400.0 } else { 100.0 }),
        ..crate::Second::default()
    };
    point.series = (0..90).map(second).collect();
    for (at, used) in point.resources.seconds.iter_mut().enumerate() {
        used.load_minute_1 = Some(4.0);
        used.rx_bytes = Some(if at == 0 { 0.0 } else { 120.0 });
    }
    run
}

#[test]
fn minutes_have_the_columns_of_report_r3() {
    let run = long_run();
    let rows = parse(&controller_csv(&run));
    assert_eq!(rows.len(), 3, "90 seconds are two rows");
    let check = |row: usize, name: &str, expected: &str| {
        assert_eq!(field(&rows, row, name), expected, "{name} of row {row}");
    };
    check(1, "Record time (UTC)", "2000-02-29T00:00:50Z");
    check(1, "UTC Minute", "2000-02-29T00:00");
    check(1, "Second", "50");
    check(1, "Stress Connection Count", "1");
    // 101 ended in each second, and nine were on their way after the first, four after the others.
    check(1, "Average Send QPS", "101.067");
    check(1, "Min Send QPS", "96");
    check(1, "Max Send QPS", "110");
    check(2, "Average Send QPS", "101");
    check(1, "Average Recv QPS", "100");
    check(1, "Average Send Error Count", "0.5");
    check(1, "Average Recv Error Count", "1");
    check(1, "Average Time Cost (usec)", "105");
    check(1, "Min Time Cost (usec)", "100");
    check(1, "Max Time Cost (usec)", "400");
    check(2, "Max Time Cost (usec)", "100");
    check(1, "Server Connection Count", "1");
    check(1, "load", "4");
    check(1, "load/cpu", "0.5");
    check(1, "ping/2 (msec)", "0.042");
    check(1, "Recv Bytes/s", "110");
    // The resources of the second minute were not read.
    check(2, "load", "");
    check(2, "Record time (UTC)", "2000-02-29T00:01:20Z");
}

#[test]
fn seconds_and_resources_of_one_time_share_a_row() {
    let mut run = sample::run();
    run.points.truncate(1);
    let seconds = run.points[0].series.len();
    let rows = parse(&series_csv(&run));
    assert_eq!(rows.len(), seconds + 1);
    assert_ne!(field(&rows, 1, "server_cpu_percent"), "");
    run.points[0].resources.seconds[0].s = -10.0;
    run.points[0].resources.seconds.pop();
    let rows = parse(&series_csv(&run));
    assert_eq!(rows.len(), seconds + 2);
    assert_eq!(field(&rows, 1, "answers"), "");
    assert_eq!(field(&rows, 2, "server_cpu_percent"), "");
}
