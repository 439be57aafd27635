//! Refused requests and refused connections: counted by code, never as answers, never as errors.

use crate::Case;
use crate::fake::{Act, Fake, answer, refusal, right};

#[test]
fn a_refused_connection_is_not_tried_again() {
    // The limit is two connections; the others are told so and closed.
    let fake = Fake::start(|seen| {
        if seen.connection < 2 {
            vec![right()]
        } else {
            vec![refusal("Connection: close\r\n"), Act::Close]
        }
    });
    let outcome = Case::new(&fake.address, &["scenario.layout=r1"]).run().unwrap();
    assert_eq!(
        outcome.exit_code, 1,
        "refusals are no errors, but what is never sent is no success"
    );
    let counters = &outcome.result.points[0].counters;
    assert_eq!(
        (counters.ok, counters.refused[&30_101], counters.not_sent),
        (10, 2, 8)
    );
    assert_eq!(
        (counters.connections_refused, counters.connections_opened),
        (2, 4)
    );
    assert_eq!(fake.connections.load(std::sync::atomic::Ordering::SeqCst), 4);
    assert_eq!((counters.offered(), counters.failed_total()), (20, 0));
    assert_eq!(outcome.result.points[0].latency.count, 10);
    assert_eq!(outcome.result.points[0].latency_refused.count, 2);
    let header = outcome
        .markdown
        .lines()
        .find(|line| line.contains("testParams"))
        .unwrap();
    let row = outcome
        .markdown
        .lines()
        .find(|line| line.contains("json_1_200000_4_5"))
        .unwrap();
    let cell = |name: &str| {
        let column = header.split('|').position(|cell| cell.trim() == name).unwrap();
        row.split('|').nth(column).unwrap().trim().to_owned()
    };
    assert_eq!(
        (cell("refused"), cell("not sent"), cell("errors")),
        ("2".into(), "8".into(), "0".into())
    );
}

#[test]
fn a_refused_request_leaves_its_connection() {
    let fake = Fake::start(|seen| match seen.request {
        1 => vec![refusal("")],
        2 => vec![answer(
            503,
            "",
            r#"{"code":30103,"ex":"not ready","retryable":true}"#,
        )],
        _ => vec![right()],
    });
    let counters = Case::new(&fake.address, &[]).point().counters;
    assert_eq!(
        (counters.ok, counters.refused[&30_101], counters.refused[&30_103]),
        (12, 4, 4)
    );
    assert_eq!(
        (
            counters.connections_opened,
            counters.connections_refused,
            counters.not_sent
        ),
        (4, 0, 0)
    );
}

#[test]
fn a_failure_with_a_code_is_no_refusal() {
    let fake = Fake::start(|seen| match seen.request {
        1 => vec![answer(429, "", "slow down")],
        2 => vec![answer(500, "", r#"{"code":30101,"ex":"odd"}"#)],
        3 => vec![answer(503, "", r#"{"code":30108,"ex":"model failed"}"#)],
        _ => vec![right()],
    });
    let counters = Case::new(&fake.address, &[]).point().counters;
    assert_eq!(
        (counters.ok, counters.refused_total(), counters.failed_total()),
        (8, 4, 8)
    );
    // A 429 without a code is what other servers say instead of it.
    assert_eq!(counters.refused, [(429, 4)].into());
    assert_eq!(counters.status_codes, [(30_101, 4), (30_108, 4)].into());
}

#[test]
fn a_fixed_time_reconnects_after_a_refusal() {
    let fake = Fake::start(|seen| {
        // The first two connections are refused, whoever comes later is served.
        if seen.connection < 2 {
            vec![refusal("Connection: close\r\n"), Act::Close]
        } else {
            vec![right()]
        }
    });
    let text = crate::SCENARIO.replace("requests_per_connection = 5", "duration_s = 0.5")
        + &format!("[target]\naddress = \"{}\"\nmethod = \"infer\"\n", fake.address);
    let counters = Case::of_text(&text, &["load.connections=[2]", "load.warmup_s_max=0"])
        .point()
        .counters;
    assert_eq!((counters.connections_refused, counters.refused[&30_101]), (2, 2));
    assert_eq!((counters.connections_opened, counters.not_sent), (4, 0));
    assert!(counters.ok > 0);
    assert_eq!(counters.failed_total(), 0);
}

#[test]
fn a_file_that_does_not_open_is_the_scenarios_mistake() {
    for files in ["", "files = \"nowhere.toml\"\n"] {
        let text = format!("{}\n[target]\nprotocol = \"infer\"\n{files}", crate::SCENARIO);
        let refused = Case::of_text(&text, &[]).run().unwrap_err();
        assert_eq!(refused.exit_code(), 2, "{refused}");
    }
}

#[test]
fn warm_up_is_in_no_other_count() {
    let fake = Fake::start(|seen| {
        if seen.request < 3 {
            vec![answer(200, "", "{}")]
        } else {
            vec![right()]
        }
    });
    let point = Case::new(&fake.address, &["load.warmup_s_max=0.3"]).point();
    let counters = &point.counters;
    assert_eq!(
        (
            counters.ok,
            counters.wrong,
            counters.offered(),
            point.latency.count
        ),
        (20, 0, 20, 20)
    );
    assert!(point.warm_up.answers > 12 && point.warm_up.seconds > 0.0);

    let full = Fake::start(|_| vec![refusal("Connection: close\r\n"), Act::Close]);
    let outcome = Case::new(&full.address, &["load.warmup_s_max=0.3"])
        .run()
        .unwrap();
    let counters = &outcome.result.points[0].counters;
    assert_eq!(
        (
            counters.offered(),
            counters.connections_refused,
            counters.not_sent
        ),
        (20, 4, 20)
    );
    assert_eq!(outcome.exit_code, 3, "a point without an answer is no result");
}
