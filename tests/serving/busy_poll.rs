//! A net thread that polls before it sleeps: it answers, says what it polled, and sleeps when nothing comes.

use crate::harness::{Millpond, r1_folder};
use serde_json::json;
use std::time::{Duration, Instant};

fn polled_us(server: &Millpond) -> u64 {
    let (_, page) = server.admin_get("/metrics");
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("millpond_busy_poll_us_total "));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_thread_polls_for_the_next_request_and_then_sleeps() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &["server.busy_poll_us=2000"]);
    for _ in 0..20 {
        assert_eq!(server.call("*ping", &json!({})).0, 200);
    }
    // Between two requests it polls for 2 ms at most, so the count stands still when they end.
    let began = Instant::now();
    let mut before = polled_us(&server);
    assert!(before > 0);
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = polled_us(&server);
        if now == before {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{now} us polled");
        before = now;
    }
}

#[test]
fn a_thread_that_would_never_sleep_is_refused() {
    let folder = r1_folder();
    let (_, said) = Millpond::try_start(folder.path(), &["server.busy_poll_us=10001"])
        .err()
        .unwrap();
    assert!(
        said.contains("server.busy_poll_us is 10001; expected at most 10000"),
        "{said}"
    );
}

#[test]
fn nothing_is_polled_where_nothing_is_said() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(server.call("*ping", &json!({})).0, 200);
    assert_eq!(polled_us(&server), 0);
}
