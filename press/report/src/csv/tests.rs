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
        for text in [points_csv(&run), series_csv(&run)] {
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
    let rows = parse(&points_csv(&run));
    assert_eq!(rows.len(), run.points.len() + 1);
    assert_eq!(field(&rows, 1, "target"), "a \"b\", c\nd");
    assert_eq!(field(&rows, 1, "latency_us_p99"), "");
    assert_eq!(field(&rows, 1, "qps"), "1234.5");
    assert_eq!(field(&rows, 1, "judgement"), "VALID");
    assert_eq!(field(&rows, 1, "bound"), "offered");
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
