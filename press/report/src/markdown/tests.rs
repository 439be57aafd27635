//! The R1 table is golden: its columns are another report's. The others are tested for what they must say.

#![allow(clippy::unwrap_used)]
use millpond_press_recorder::{ErrorKind, LatencySummary, ResourceSecond};

use super::*;
use crate::{Cpu, Held, Layout, LeftOut, Point, Requests, Server, State, TargetName, sample};

fn point(connections: usize, level: &str) -> Point {
    let mut point = Point {
        number: 1,
        repeat: 1,
        target: TargetName {
            protocol: "http".into(),
            address: "127.0.0.1:13500".into(),
            path: "/service/infer".into(),
            ..TargetName::default()
        },
        client_threads: 1,
        us_total: 28_981,
        qps: 3_450.55,
        latency: LatencySummary {
            count: 100,
            us_mean: Some(286.4),
            us_p50: Some(280.0),
            us_p90: Some(301.0),
            us_max: Some(900.0),
            ..LatencySummary::default()
        },
        client_cpu: Some(Cpu {
            seconds: 0.01,
            percent: 34.6,
        }),
        ..Point::default()
    };
    point.offered.connections = connections;
    point.offered.in_flight = 1;
    point.offered.requests_per_connection = Some(100);
    if !level.is_empty() {
        point.grid.insert("log_level".into(), level.into());
    }
    point.counters.ok = 100;
    point
}

fn run(layout: Layout, points: Vec<Point>) -> RunResult {
    RunResult {
        name: "n".into(),
        layout,
        points,
        state: State::Complete,
        requests: vec![Requests {
            check_share: 1.0,
            ..Requests::default()
        }],
        ..RunResult::default()
    }
}

/// `text` with every run of spaces as one.
fn folded(text: &str) -> String {
    text.split(' ')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn assert_says(text: &str, expected: &[&str]) {
    let text = folded(text);
    for words in expected {
        assert!(text.contains(&folded(words)), "{words:?} is not in\n{text}");
    }
}

#[test]
fn the_general_table() {
    let mut busy = point(3_000, "");
    busy.counters.refused.insert(30_101, 2_000);
    busy.counters.wrong = 2;
    busy.counters.errors.insert(ErrorKind::Timeout, 1);
    busy.verdict.judgement = Judgement::GeneratorBound;
    busy.verdict.sentence = "The client's core was full.".into();
    busy.verdict.evidence = vec!["- 99 % of one core".into()];
    busy.server_cpu = Some(Cpu {
        seconds: 1.0,
        percent: 99.7,
    });
    let text = report(&run(Layout::General, vec![point(1, "2"), busy]));
    assert_says(
        &text,
        &[
            "| 1 | http /service/infer log_level=2 | 1×1 | 3451 | 0 | 0 | 280 | n/a (100) | n/a (100) | 900 | n/a (0) \
             | n/a | 35 | VALID |",
            "| 3000×1 | 3451 | 2000 | 3 | 280 | n/a (100) | n/a (100) | 900 | n/a (0) | 100 | 35 | GENERATOR-BOUND |",
            "- Point 1: http /service/infer, 3000×1: **GENERATOR-BOUND**. The client's core was full.\n  - \\- 99 % of",
            "**1 of 2 points cannot be taken at face value; their verdicts say why.**",
        ],
    );
}

#[test]
fn the_r1_tables() {
    let mut refused = point(1_500, "5");
    refused.counters.refused.insert(30_101, 500);
    refused.counters.not_sent = 49_500;
    refused.qps = 4_000.0;
    refused.server = Some(Server {
        providers: vec!["cuda".into()],
        ..Server::default()
    });
    refused.resources.seconds = [Some(30.0), None, Some(36.0)]
        .map(|accelerator_percent| ResourceSecond {
            accelerator_percent,
            ..ResourceSecond::default()
        })
        .into();
    refused.server_cpu = Some(Cpu {
        seconds: 1.0,
        percent: 88.0,
    });
    let text = tables(&run(Layout::R1, vec![point(1, "2"), point(1, "5"), refused]));
    let expected = "\
### log_level = 2

| testParams          | aveTime(us) | totalTime(us) |    qps | p50(us) |   p99(us) | refused | not sent | errors | server CPU % | client CPU % | GPU % | build | verdict |
| ------------------- | -----------:| -------------:| ------:| -------:| ---------:| -------:| --------:| ------:| ------------:| ------------:| -----:| ----- | ------- |
| json_1_200000_1_100 |         286 |         28981 | 3450.6 |     280 | n/a (100) |       0 |        0 |      0 |          n/a |           35 |   n/a | n/a   | VALID   |

### log_level = 5

| testParams             | aveTime(us) | totalTime(us) |    qps | p50(us) |   p99(us) | refused | not sent | errors | server CPU % | client CPU % | GPU % | build | verdict |
| ---------------------- | -----------:| -------------:| ------:| -------:| ---------:| -------:| --------:| ------:| ------------:| ------------:| -----:| ----- | ------- |
| json_1_200000_1_100    |         286 |         28981 | 3450.6 |     280 | n/a (100) |       0 |        0 |      0 |          n/a |           35 |   n/a | n/a   | VALID   |
| json_1_200000_1500_100 |         286 |         28981 | 4000.0 |     280 | n/a (100) |     500 |    49500 |      0 |           88 |           35 |    33 | CUDA  | VALID   |

### Summary

| build | grid          | aveTime (ms, 1 thread) | server CPU % at the best point | GPU % at the best point | qps, best point | threads |
| ----- | ------------- | ----------------------:| ------------------------------:| -----------------------:| ---------------:| -------:|
| n/a   | log_level = 2 |                  0.286 |                            n/a |                     n/a |          3450.6 |       1 |
| CUDA  | log_level = 5 |                  0.286 |                             88 |                      33 |          4000.0 |    1500 |
";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn the_r3_table() {
    let mut massive = point(200_000, "");
    massive.offered.rate = Some(4_000.0);
    massive.held = Some(Held {
        opened: 200_000,
        opening_s: 10.0,
        server_bytes: Some(48_000_000),
        kernel_bytes: Some(1_500_000_000),
        ..Held::default()
    });
    // Too few connections to tell what one costs, and a kernel that gave memory back.
    let mut few = point(100, "");
    few.held = Some(Held {
        opened: 100,
        opening_s: 0.0,
        server_bytes: Some(4 << 20),
        ..Held::default()
    });
    let text = tables(&run(Layout::R3, vec![massive, few]));
    let expected = "\
| connections |  QPS | mean response (usec) | offered QPS | p50 usec | p99 usec | p99.9 usec | max usec | refused | not sent | errors | \
opened a second | server bytes a connection | kernel bytes a connection | server CPU % | client CPU % | verdict |";
    assert_says(
        &text,
        &[
            expected,
            "| 200000 | 3451 | 286 | 4000 | 280 | n/a (100) | n/a (100) | 900 | 0 | 0 | 0 | 20000 | 240 | 7500 | n/a | 35 | VALID |",
            "| 100 | 3451 | 286 | n/a | 280 | n/a (100) | n/a (100) | 900 | 0 | 0 | 0 | n/a | n/a | n/a | n/a | 35 | VALID |",
        ],
    );
}

#[test]
fn peers_stand_side_by_side_with_their_ratios() {
    let mut peers = sample::run();
    peers.layout = Layout::Peers;
    let text = tables(&peers);
    assert_eq!(text.matches("### Load ").count(), 3, "{text}");
    assert_says(
        &text,
        &[
            "### Load 256×1",
            "| millpond native | 3 |",
            "| 1 (baseline) | 1 (baseline) |",
        ],
    );
    let row = |text: &str| {
        let rows: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with("| python"))
            .map(folded)
            .collect();
        rows[0].clone()
    };
    let ratio = &peers
        .comparisons
        .iter()
        .find(|one| one.target == "python baseline")
        .unwrap()
        .ratio;
    let words = crate::layout::repeats::interval(ratio);
    assert!(
        row(&text).contains(&inline(&words)),
        "{words} is not in {}",
        row(&text)
    );
    peers.comparisons.clear();
    assert!(!row(&tables(&peers)).contains('['));
}

#[test]
fn clients_of_a_target_stand_below_each_other() {
    let mut run = sample::run();
    run.layout = Layout::R4;
    let left = LeftOut {
        target: "torchpipe".into(),
        grid: [("batch".to_owned(), "4".to_owned())].into(),
        reason: "it does not install".into(),
    };
    run.left_out.push(left);
    let text = tables(&run);
    let rows: Vec<String> = text.lines().skip(2).map(folded).collect();
    assert_says(
        &text,
        &[
            "| target | clients | TP50 (ms) | QPS | p99 (ms) | p99.9 (ms) | max (ms) | errors | server CPU % | client CPU % | verdict | QPS ratio | TP50 ratio |",
        ],
    );
    let begins = |at: usize, words: &str| assert!(rows[at].starts_with(words), "{words}: {text}");
    begins(0, "| millpond native | 1 |");
    begins(1, "| millpond native | 4 |");
    begins(2, "| millpond native | 256 |");
    begins(3, "| millpond http | 1 |");
    assert_eq!(
        rows.iter()
            .filter(|row| row.contains("1 (baseline) | 1 (baseline) |"))
            .count(),
        3,
        "{text}"
    );
    // A latency of 123 us is 0.1230 ms, and a comparison in pairs has its interval.
    assert!(rows[3].contains('['), "{text}");
    assert_says(
        &report(&run),
        &["torchpipe was left out at batch = 4: it does not install"],
    );
    // A target with a load of its own is held against the only row of the first.
    let own = |target: &str, connections: usize| {
        let mut own = point(connections, "");
        own.target.name = target.into();
        own
    };
    let text = tables(&self::run(Layout::R4, vec![own("ours", 10), own("bare", 2)]));
    assert_eq!(text.matches("1 (baseline)").count(), 2, "{text}");
    assert!(
        text.lines()
            .any(|line| folded(line).starts_with("| bare | 2 |") && line.contains(" 1.00 |")),
        "{text}"
    );
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
    result.requests[0].check_share = 0.1;
    result.press.build = Some("dev".into());
    assert_says(
        &report(&result),
        &[
            "**This run was interrupted",
            "**The load generator is a dev build",
            "**Only 10 % of the answers were checked.**",
            "| wrong | 2 | 14 scores \\| expected 15 |",
            "| 30101: 7 |",
        ],
    );
    result.state = State::Failed;
    result.failure = Some("the server ended\n``` its last line".into());
    let text = report(&result);
    assert_says(
        &text,
        &[
            "**This run failed",
            "````\nthe server ended\n``` its last line\n````\n",
        ],
    );
    let clean = report(&run(Layout::General, vec![point(1, "")]));
    assert!(
        !clean.contains("went wrong") && !clean.contains("Refusals"),
        "{clean}"
    );
}

#[test]
fn a_full_report_has_every_section() {
    let mut full = sample::run();
    full.search = Some(crate::Search {
        target: "millpond native".into(),
        slo: "p99 <= 5ms".into(),
        rate_met: Some(41_000.0),
        sentence: "It sustains 41000/s.".into(),
        tried: vec![crate::Tried {
            rate: 41_000.0,
            point: 4,
            met: true,
        }],
        ..crate::Search::default()
    });
    let text = report(&full);
    for heading in [
        "Verdicts",
        "Comparisons",
        "The SLO",
        "The search",
        "Stages of the server",
        "What went wrong",
        "Refusals",
        "How it was measured",
        "Environment",
    ] {
        assert!(
            text.contains(&format!("\n## {heading}\n\n")),
            "{heading} is not in\n{text}"
        );
    }
    assert!(text.contains("\nIt sustains 41000/s.\n"));
}

#[test]
fn text_of_a_result_is_never_markup() {
    let text = report(&sample::hostile());
    let mut fence: Option<String> = None;
    for line in text.lines() {
        assert!(!line.contains(['\r', '\0']), "{line:?}");
        if let Some(open) = &fence {
            fence = (line != open).then(|| open.clone());
            continue;
        }
        if line.starts_with("```") {
            fence = Some(line.to_owned());
            continue;
        }
        // The one code span of a report is the command's, between more backticks than it holds.
        if line.contains("````") {
            continue;
        }
        let plain = line.replace("\\\\", "");
        assert!(!plain.replace("\\<", "").contains('<'), "a tag: {line}");
        assert!(!plain.replace("\\[", "").contains('['), "a link: {line}");
        assert!(!plain.replace("\\`", "").contains('`'), "code: {line}");
        assert!(!line.starts_with("# x"), "a heading: {line}");
    }
    assert!(fence.is_none());
    assert_eq!(block_start(&inline("# a")), "\\# a");
    assert_eq!(block_start(&inline("1. a")), "1\\. a");
    assert_eq!(inline("a_b _c_ &lt; 1 < 2"), "a_b \\_c\\_ \\&lt; 1 \\< 2");
}

#[test]
fn nothing_measured_is_said() {
    let text = report(&RunResult::default());
    assert!(text.contains("No point was finished."), "{text}");
}

#[test]
fn a_terminal_gets_the_same_words_without_the_escapes() {
    let mut point = point(1, "");
    point.target.name = "a*b [c] <d>".into();
    point.verdict.judgement = Judgement::Unstable;
    point.verdict.sentence = "The queue of `net_*` grew | and grew.".into();
    point.verdict.evidence = vec!["- 1 < 2\u{1b}[31m".into()];
    let mut run = run(Layout::General, vec![point]);
    run.title = "p99 < 5ms & more".into();
    run.failure = Some("line one\nline ``` two".into());
    run.state = State::Failed;
    let text = terminal(&run);
    assert_says(
        &text,
        &[
            "# p99 < 5ms & more\n",
            "| 1 | a*b [c] <d> | 1×1 |",
            "- Point 1: a*b [c] <d>, 1×1: UNSTABLE. The queue of `net_*` grew | and grew.\n  - - 1 < 2 [31m",
            "This run failed, as told below",
            "## Why it failed\n\nline one\nline ``` two\n",
        ],
    );
    assert!(!text.contains('\\') && !text.contains("**"), "{text}");
    assert_says(
        &report(&run),
        &["a\\*b \\[c\\] \\<d\\>", "**UNSTABLE**", "````\nline one"],
    );
}
