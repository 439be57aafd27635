//! Runs that must not end as a success: most answers are failures, refusals, or are missing.

use serde_json::Value;

use crate::fake::{Act, Fake, Seen, answer, refusal, right};
use crate::{Case, SCENARIO};

/// An objective that any answer of this machine meets.
const LOOSE: &str = "p99 < 60s, mean < 60s, max < 60s";

/// A server that answers every twentieth request rightly and the others with `bad`.
fn mostly(bad: fn(&Seen) -> Vec<Act>) -> Fake {
    Fake::start(move |seen| match seen.number % 20 {
        0 => vec![right()],
        _ => bad(seen),
    })
}

struct Run {
    code: u8,
    judgement: String,
    sentence: String,
    met: Option<bool>,
    failures: String,
    markdown: String,
}

/// Four connections with 300 requests each.
fn run(fake: &Fake, slo: &str, set: &[&str]) -> Run {
    let slo = match slo {
        "" => String::new(),
        slo => format!("slo = \"{slo}\"\n"),
    };
    let text = format!(
        "{slo}{SCENARIO}\n[target]\naddress = \"{}\"\nmethod = \"infer\"\n",
        fake.address
    );
    let outcome = Case::of_text(&text, &[&["load.requests_per_connection=300"], set].concat())
        .run()
        .unwrap();
    let result: Value = serde_json::from_str(&outcome.json).unwrap();
    let point = &result["points"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Run {
        code: outcome.exit_code,
        judgement: text(&point["verdict"]["judgement"]),
        sentence: text(&point["verdict"]["sentence"]),
        met: point["slo"]["met"].as_bool(),
        failures: point["slo"]["failures"].to_string(),
        markdown: outcome.markdown,
    }
}

#[test]
fn a_latency_objective_is_not_met_by_the_answers_that_came() {
    let fake = mostly(|_| vec![answer(500, "", "oops")]);
    let run = run(&fake, LOOSE, &[]);
    assert_eq!(run.met, Some(false));
    for objective in ["p99 < 60s", "mean < 60s", "max < 60s"] {
        assert!(run.failures.contains(objective), "{}", run.failures);
    }
    assert!(
        run.failures.contains("1140 of 1200 requests failed"),
        "{}",
        run.failures
    );
    assert_eq!(
        (run.judgement.as_str(), run.code),
        ("FAILING", 1),
        "{}",
        run.sentence
    );
    assert!(
        run.sentence.contains("1140 of 1200 requests failed (95.0 %)") && run.sentence.contains("500"),
        "{}",
        run.sentence
    );
    assert!(run.markdown.contains("**FAILING**"), "{}", run.markdown);
}

#[test]
fn what_is_asked_of_the_answers_alone_says_so_and_fails_with_the_run() {
    let fake = mostly(|_| vec![answer(500, "", "oops")]);
    let asked = run(&fake, "accepted.p50 < 60s", &[]);
    assert_eq!((asked.met, asked.code), (Some(false), 1));
    assert!(
        !asked.failures.contains("accepted.p50") && asked.failures.contains("1140 of 1200"),
        "{}",
        asked.failures
    );
    assert!(
        asked.markdown.contains("accepted.p50 \\< 60s"),
        "{}",
        asked.markdown
    );
    // Who names the failures decides about them.
    let allowed = run(&fake, "accepted.p50 < 60s, errors < 96%", &[]);
    assert_eq!(
        (allowed.met, allowed.judgement.as_str()),
        (Some(true), "FAILING"),
        "{}",
        allowed.failures
    );
}

#[test]
fn refusals_are_slower_than_any_limit_but_no_failure() {
    let fake = mostly(|_| vec![refusal("")]);
    let asked = run(&fake, "p99 < 60s", &[]);
    assert_eq!(asked.met, Some(false), "{}", asked.failures);
    assert!(
        asked.failures.contains("1140 of 1200 requests were refused"),
        "{}",
        asked.failures
    );
    assert_ne!(asked.judgement, "FAILING", "{}", asked.sentence);
    assert!(
        asked
            .sentence
            .contains("1140 of 1200 requests were refused (95.0 %)"),
        "{}",
        asked.sentence
    );
    let accepted = run(&fake, "accepted.p50 < 60s", &[]);
    assert_eq!(accepted.met, Some(true), "{}", accepted.failures);
    let named = run(&fake, "accepted.p50 < 60s, refused < 90%", &[]);
    assert_eq!(named.met, Some(false), "{}", named.failures);
}

#[test]
fn requests_that_were_never_sent_are_no_success() {
    // Two of the four connections are refused, so their requests are never sent.
    let fake = Fake::start(|seen| match seen.connection {
        0 | 1 => vec![right()],
        _ => vec![refusal("Connection: close\r\n"), Act::Close],
    });
    let plain = run(&fake, "", &[]);
    assert_eq!(plain.code, 1, "{}", plain.sentence);
    assert!(
        plain.sentence.contains("598 of 1200 requests were never sent"),
        "{}",
        plain.sentence
    );
    let fake = Fake::start(|seen| match seen.connection {
        0 | 1 => vec![right()],
        _ => vec![refusal("Connection: close\r\n"), Act::Close],
    });
    let asked = run(&fake, "p90 < 60s", &[]);
    assert_eq!(asked.met, Some(false), "{}", asked.failures);
    // 3 where this machine was too busy to blame the server.
    assert!(matches!(asked.code, 1 | 3), "{}", asked.sentence);
}

#[test]
fn a_refused_connection_hides_no_lost_one() {
    // Two connections are refused at their last request, so they leave nothing unsent; another one is lost at its first.
    let fake = Fake::start(|seen| match (seen.connection, seen.request) {
        (0, _) | (1 | 2, ..299) => vec![right()],
        (1 | 2, _) => vec![refusal("Connection: close\r\n"), Act::Close],
        _ => vec![Act::Close],
    });
    let run = run(&fake, "", &[]);
    assert_eq!(
        (run.judgement.as_str(), run.code),
        ("FAILING", 1),
        "{}",
        run.sentence
    );
    assert!(
        run.sentence
            .contains("295 never sent on connections that were lost"),
        "{}",
        run.sentence
    );
}

#[test]
fn a_sample_of_wrong_answers_stands_for_the_others() {
    let fake = mostly(|_| vec![answer(200, "", "{}")]);
    let run = run(&fake, "p99 < 60s", &["check.share=0.03"]);
    assert_eq!(
        (run.judgement.as_str(), run.met, run.code),
        ("FAILING", Some(false), 1)
    );
}

#[test]
fn failures_of_a_warm_up_are_told() {
    let fake = Fake::start(|seen| match seen.request {
        0..3 => vec![answer(500, "", "oops")],
        _ => vec![right()],
    });
    let run = run(&fake, "", &["load.warmup_s_max=0.3"]);
    assert_eq!(run.code, 0, "{}", run.sentence);
    assert!(
        run.sentence.contains("In the warm-up 12 requests failed"),
        "{}",
        run.sentence
    );
}
