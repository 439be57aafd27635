//! The folder a run leaves, whatever happens to it.

use std::time::Duration;

use millpond_press_lab::run_until;
use millpond_press_report::{State, read, report};
use tokio::sync::watch;

use crate::Case;
use crate::fake::{Fake, answer, refusal, right};

#[test]
fn the_folder_holds_everything_and_reads_back() {
    let fake = Fake::start(|seen| {
        if seen.request == 4 {
            vec![refusal("")]
        } else {
            vec![right()]
        }
    });
    let mut case = Case::new(&fake.address, &["load.connections=[1, 4]", "scenario.seed=77"]);
    case.options.json = true;
    let outcome = case.run().unwrap();
    let out = case.out();
    assert_eq!(outcome.folder, out);
    let result = read(&out).unwrap();
    assert_eq!(result.state, State::Complete);
    assert_eq!(
        (result.seed, result.requests[0].count, result.requests[0].distinct),
        (77, 50, 50)
    );
    assert_eq!(result.set, ["load.connections=[1, 4]", "scenario.seed=77"]);
    assert!(!result.command.is_empty() && result.machine.kernel.is_some());
    let connections: Vec<usize> = result
        .points
        .iter()
        .map(|point| point.offered.connections)
        .collect();
    assert_eq!(connections, [1, 4]);
    assert_eq!(outcome.output, outcome.json);
    assert_eq!(
        serde_json::from_str::<millpond_press_lab::RunResult>(&outcome.output)
            .unwrap()
            .points
            .len(),
        2
    );
    assert_eq!(
        std::fs::read_to_string(out.join("report.md")).unwrap(),
        report(&result)
    );
    let scenario = std::fs::read(case.dir.path().join("s.toml")).unwrap();
    assert_eq!(std::fs::read(out.join("scenario.toml")).unwrap(), scenario);
    for (point, number) in result.points.iter().zip(["0001", "0002"]) {
        let stored = |kind: &str| {
            let text = std::fs::read_to_string(out.join(format!("{kind}-{number}.csv"))).unwrap();
            let counts = text.lines().skip(1).map(|line| line.split_once(',').unwrap().1);
            counts.map(|count| count.parse::<u64>().unwrap()).sum::<u64>()
        };
        assert_eq!(stored("latency"), point.latency.count);
        assert_eq!(stored("refused"), point.latency_refused.count);
    }
}

#[test]
fn a_folder_in_use_is_refused_before_anything_is_sent() {
    let fake = Fake::start(|_| vec![right()]);
    let mut case = Case::new(&fake.address, &[]);
    case.run().unwrap();
    let sent = fake.requests.load(std::sync::atomic::Ordering::SeqCst);
    let error = case.run().expect_err("refused");
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(fake.requests.load(std::sync::atomic::Ordering::SeqCst), sent);
    case.options.force = true;
    assert_eq!(case.run().unwrap().exit_code, 0);
}

#[test]
fn an_interrupted_run_leaves_a_valid_partial_result() {
    let fake = Fake::start(|seen| {
        if seen.request < 3 {
            vec![right()]
        } else {
            vec![crate::fake::Act::Hang]
        }
    });
    let case = Case::new(&fake.address, &["load.connections=[4, 4]"]);
    let (stop, seen) = watch::channel(false);
    let requests = fake.requests.clone();
    let stopper = std::thread::spawn(move || {
        // Three answered and one hanging on each of the four connections.
        while requests.load(std::sync::atomic::Ordering::SeqCst) < 16 {
            std::thread::sleep(Duration::from_millis(2));
        }
        stop.send_replace(true);
    });
    let outcome = run_until(case.options.clone(), seen).unwrap();
    stopper.join().unwrap();
    assert_eq!(outcome.exit_code, 3);
    let result = read(&case.out()).unwrap();
    assert_eq!(result.state, State::Interrupted);
    assert_eq!(result.points.len(), 1);
    let counters = &result.points[0].counters;
    assert_eq!(
        (counters.ok, counters.cut, counters.not_sent, counters.offered()),
        (12, 4, 4, 20)
    );
    // No connection was lost, so nothing failed.
    let judgement = result.points[0].verdict.judgement;
    assert_eq!(counters.not_sent_lost, 0);
    assert_ne!(judgement, millpond_press_report::Judgement::Failing);
    assert!(outcome.markdown.contains("interrupted"), "{}", outcome.markdown);
}

#[test]
fn the_server_says_what_it_is() {
    let pid = std::process::id();
    let fake = Fake::start(move |seen| {
        if seen.line.starts_with("POST /service/*infos ") {
            assert_eq!(seen.body, b"{}");
            let said = format!(
                r#"{{"FPNN.status":{{}},"millpond":{{"pid":{pid},"version":"9.8","build":"dev","x":1}}}}"#
            );
            return vec![answer(200, "", &said)];
        }
        vec![right()]
    });
    let outcome = Case::new(&fake.address, &["target.server_pid_from=infos"])
        .run()
        .unwrap();
    let point = &outcome.result.points[0];
    let server = point.server.clone().unwrap();
    assert_eq!((server.pid, server.version.as_deref()), (Some(pid), Some("9.8")));
    assert!(point.server_cpu.unwrap().seconds > 0.0 && point.server_memory_bytes.unwrap() > 0);
    assert!(
        outcome.markdown.contains("The server is a dev build"),
        "{}",
        outcome.markdown
    );
    assert!(
        outcome.markdown.contains("version 9.8, dev build"),
        "{}",
        outcome.markdown
    );
}

#[test]
fn a_server_that_says_nothing_is_measured_all_the_same() {
    let fake = Fake::start(|seen| match seen.line.contains("infos") {
        true => vec![answer(404, "", "{}")],
        false => vec![right()],
    });
    let outcome = Case::new(&fake.address, &["target.server_pid_from=infos"])
        .run()
        .unwrap();
    assert_eq!(outcome.exit_code, 0);
    assert_eq!(outcome.result.points[0].server, None);
    let row = outcome
        .markdown
        .lines()
        .find(|line| line.starts_with("| 1 "))
        .unwrap();
    assert!(row.contains("n/a"), "{row}");
}
