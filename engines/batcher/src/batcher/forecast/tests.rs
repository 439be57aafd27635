//! Expected waits against hand-made timetables; a little is allowed for what learning from two sizes leaves open.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Instances that have all begun a run of one row at these milliseconds; a run takes ten, whatever its size.
fn forecast(began_ms: &[u32], batch_size_max: usize) -> (Forecast, Instant) {
    let origin = Instant::now();
    let mut forecast = Forecast::new(began_ms.len(), batch_size_max, origin);
    for rows in [1, batch_size_max].repeat(32) {
        forecast.service_time.observe(Measured { rows, took: 10 * MS });
    }
    for (instance, ms) in began_ms.iter().enumerate() {
        forecast.began(instance, 1, origin + *ms * MS);
    }
    (forecast, origin)
}

/// One more row behind `rows_ahead` at millisecond `now` is expected to wait so many milliseconds.
fn check(began_ms: &[u32], batch_size_max: usize, rows_ahead: usize, now: u32, expected_ms: f64) {
    let (forecast, origin) = forecast(began_ms, batch_size_max);
    let position = Position {
        rows_ahead,
        rows_waiting: rows_ahead,
        rows: 1,
    };
    let found = forecast.expected(position, origin + now * MS).unwrap();
    let wait_ms = found.wait.as_secs_f64() * 1e3;
    let expected_ms = expected_ms * (1.0 + IN_HAND);
    assert!(
        (wait_ms - expected_ms).abs() < 0.02 * expected_ms,
        "{began_ms:?}, {rows_ahead} ahead: {wait_ms}"
    );
    assert!((found.run.as_secs_f64() - 0.01).abs() < 4e-4, "{:?}", found.run);
}

#[test]
fn one_instance_serves_one_run_after_the_other() {
    check(&[0], 1, 0, 0, 10.0);
    check(&[0], 1, 0, 4, 6.0);
    check(&[0], 1, 3, 4, 36.0);
    check(&[0], 1, 3, 10, 30.0);
    check(&[0], 1, 3, 99, 30.0); // overdue: expected now
}

#[test]
fn a_batch_takes_many_rows_in_one_run() {
    check(&[0], 64, 63, 0, 10.0);
    check(&[0], 64, 64, 0, 20.0);
    check(&[0], 64, 640, 0, 110.0);
}

#[test]
fn instances_take_runs_as_they_become_free() {
    let began = [0, 2, 4, 6];
    for (ahead, expected) in [(0, 4.0), (1, 6.0), (2, 8.0), (3, 10.0), (4, 14.0), (9, 26.0)] {
        check(&began, 1, ahead, 6, expected);
    }
}

#[test]
fn an_instance_that_is_held_up_holds_up_nobody_else() {
    check(&[0, 1000], 1, 0, 0, 10.0);
    check(&[0, 1000], 1, 1, 0, 20.0);
    check(&[0, 1000], 1, 5, 0, 60.0);
}

#[test]
fn nothing_is_expected_before_anything_was_measured() {
    let origin = Instant::now();
    let position = Position {
        rows_ahead: 1000,
        rows_waiting: 1000,
        rows: 1,
    };
    assert_eq!(Forecast::new(1, 1, origin).expected(position, origin), None);
}

#[test]
fn a_large_request_runs_alone_in_chunks() {
    let (forecast, origin) = forecast(&[0], 64);
    let position = Position {
        rows_ahead: 65,
        rows_waiting: 65,
        rows: 129,
    };
    let found = forecast.expected(position, origin).unwrap();
    let wait = 0.03 * (1.0 + IN_HAND);
    assert!((found.wait.as_secs_f64() - wait).abs() < 6e-4, "{found:?}");
    assert!((found.run.as_secs_f64() - 0.03).abs() < 6e-4, "{found:?}");
}

#[test]
fn others_run_ahead_as_often_as_they_have_turns() {
    let check_with = |refilled, own: (usize, usize), all: (usize, usize), sources, expected| {
        let backlog = |(requests, rows)| Backlog {
            requests,
            rows,
            bytes: 0,
        };
        assert_eq!(
            rows_ahead(backlog(own), backlog(all), sources, refilled),
            expected
        );
    };
    let check = |own, all, sources, expected| check_with(0.0, own, all, sources, expected);
    check((0, 0), (0, 0), 0, 0);
    check((3, 12), (3, 12), 1, 12); // alone: all of its own
    check((0, 0), (10_000, 10_000), 1, 1); // one turn of the one other
    check((2, 2), (10_002, 10_002), 2, 2 + 3);
    check((0, 0), (6, 600), 3, 300); // three of six, of 100 rows each
    check((1, 5), (4, 8), 2, 7); // two turns of the other's three, one row each
    check((9, 9), (10, 11), 2, 11); // no more than there are
    check_with(1.0, (9, 9), (10, 11), 2, 9 + 20); // unless turns are filled again
    check_with(0.5, (9, 9), (10, 11), 2, 9 + 10);
    check_with(1.0, (3, 12), (3, 12), 1, 12);
    check_with(1.0, (0, 0), (0, 0), 0, 0);
}
