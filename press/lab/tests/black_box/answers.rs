//! Answers that are right in any framing, and answers that are wrong in any way.

use std::time::Duration;

use crate::fake::{Act, Fake, answer, right};
use crate::{Case, SCENARIO};

#[test]
fn right_answers_are_counted_and_timed() {
    let fake = Fake::start(|_| vec![right()]);
    let case = Case::new(&fake.address, &[]);
    let outcome = case.run().unwrap();
    assert_eq!(outcome.exit_code, 0);
    let point = &outcome.result.points[0];
    assert_eq!((point.counters.ok, point.counters.offered()), (20, 20));
    assert_eq!((point.latency.count, point.counters.connections_opened), (20, 4));
    assert!(point.us_total > 0 && point.latency.us_mean.unwrap() > 0.0);
    let qps = 20.0 / (point.us_total as f64 / 1e6);
    assert!((point.qps - qps).abs() < 1e-6 * qps, "{} is not {qps}", point.qps);
    assert!(point.client_cpu.unwrap().seconds > 0.0);
    assert_eq!(point.server_cpu, None);
}

#[test]
fn every_framing_is_read() {
    let fake = Fake::start(|seen| {
        match seen.number % 4 {
        0 => vec![right()],
        1 => vec![Act::Write(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n{\"scores\":[\r\nd\r\n0.5,0.5,0.25]\r\n1\r\n}\r\n0\r\n\r\n"
                .to_vec(),
        )],
        // Drips byte by byte.
        2 => b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"scores\":[1,0,0.5]}"
            .iter()
            .flat_map(|&byte| [Act::Write(vec![byte]), Act::Wait(Duration::from_micros(50))])
            .collect(),
        // To the end of the connection.
        _ => vec![Act::Write(b"HTTP/1.0 200 OK\r\n\r\n{\"scores\":[1,0,0.5]}".to_vec()), Act::Close],
    }
    });
    let point = Case::new(&fake.address, &[]).point();
    assert_eq!(
        (point.counters.ok, point.counters.offered()),
        (20, 20),
        "{:?}",
        point.counters
    );
    // A connection the server ends after an answer is made again, and that is no error.
    assert!(point.counters.connections_opened > 4);
}

#[test]
fn requests_arrive_as_the_workload_says() {
    let fake = Fake::start(|seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        let good =
            seen.line == "POST /service/infer HTTP/1.1" && body["samples"].as_array().unwrap().len() == 3;
        if good { vec![right()] } else { vec![Act::Close] }
    });
    assert_eq!(
        Case::new(&fake.address, &["load.client_threads=3"])
            .point()
            .counters
            .ok,
        20
    );
}

#[test]
fn wrong_answers_are_never_successes() {
    let bodies = [
        r#"{"scores":[0.25,0.5]}"#,
        r#"{"scores":[0.25,0.5,1.5]}"#,
        r#"{"scores":[0.25,0.5,null]}"#,
        r#"{"score":[0.25,0.5,0.75]}"#,
        "",
        "not json",
    ];
    let fake = Fake::start(move |seen| match bodies.get(seen.number) {
        Some(body) => vec![answer(200, "", body)],
        None => vec![right()],
    });
    let case = Case::new(&fake.address, &[]);
    let outcome = case.run().unwrap();
    assert_eq!(outcome.exit_code, 1);
    let point = &outcome.result.points[0];
    assert_eq!(
        (point.counters.wrong, point.counters.ok, point.latency.count),
        (6, 14, 14)
    );
    assert!(
        outcome.markdown.contains("What went wrong"),
        "{}",
        outcome.markdown
    );
    // The connection of a wrong answer is whole and stays.
    assert_eq!(point.counters.connections_opened, 4);
}

#[test]
fn sampling_leaves_answers_unchecked_and_says_so() {
    let fake = Fake::start(|_| vec![answer(200, "", "{}")]);
    let outcome = Case::new(&fake.address, &["check.share=0.25"]).run().unwrap();
    let counters = &outcome.result.points[0].counters;
    assert_eq!((counters.unchecked, counters.wrong), (15, 5));
    assert!(
        outcome
            .markdown
            .contains("Only 25 % of the answers of http were checked"),
        "{}",
        outcome.markdown
    );
}

#[test]
fn answers_are_compared_with_the_expected_ones() {
    let fake = Fake::start(|seen| {
        let twin = seen.body.starts_with(br#"{"items":[1]"#);
        vec![answer(
            200,
            "",
            if twin {
                r#"{"scores":[0.1]}"#
            } else {
                r#"{"scores":[0.2,0.3]}"#
            },
        )]
    });
    let head = SCENARIO.split("[requests.generate]").next().unwrap();
    let text = format!(
        "{head}[requests]\nfile = \"x\"\n[check]\nlength_of = \"items\"\n[load]\nconnections = [1]\n\
         requests_per_connection = 10\n[target]\naddress = \"{}\"\nmethod = \"rank\"\n",
        fake.address
    );
    let run = |expected: &str| {
        let dir = tempfile::tempdir().unwrap();
        let (bodies, answers) = (dir.path().join("b.jsonl"), dir.path().join("a.jsonl"));
        std::fs::write(&bodies, "{\"items\":[1]}\n{\"items\":[5,6]}\n").unwrap();
        std::fs::write(&answers, expected).unwrap();
        let file = format!("requests.file={}", bodies.display());
        let expected = format!("requests.expected={}", answers.display());
        Case::of_text(&text, &[&file, &expected]).point().counters
    };
    assert_eq!(run("{\"scores\":[0.1]}\n{\"scores\":[0.2,0.30005]}\n").ok, 10);
    let counters = run("{\"scores\":[0.1]}\n{\"scores\":[0.2,0.4]}\n");
    assert_eq!((counters.ok, counters.wrong), (5, 5));
    assert!(
        counters.first["wrong"].contains("number 1 is 0.3, expected 0.4"),
        "{:?}",
        counters.first
    );
}
