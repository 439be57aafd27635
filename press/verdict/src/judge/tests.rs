//! Points made up for each verdict.

mod contention;
mod in_process;

use super::*;
use crate::{Cpu, Second};
use millpond_press_recorder::{ResourceSecond, Side, Used};

/// A calm point of ten seconds: a closed loop, both sides half busy.
fn calm() -> Point {
    let mut point = Point {
        qps: 1_000.0,
        us_total: 10_000_000,
        client_threads: 1,
        ..Point::default()
    };
    point.target.address = "127.0.0.1:1".into();
    point.counters.ok = 10_000;
    point.latency.us_p50 = Some(8_000.0);
    point.latency.us_p99 = Some(9_000.0);
    point.service.us_p50 = Some(8_000.0);
    point.service.us_mean = Some(8_000.0);
    point.lateness.us_p99 = Some(5.0);
    point.client_cpu = Some(Cpu {
        seconds: 5.0,
        percent: 50.0,
    });
    for s in 1..=10 {
        point.series.push(Second {
            s: f64::from(s),
            answers: 1_000,
            outstanding: 8,
            ..Second::default()
        });
        point.resources.seconds.push(ResourceSecond {
            s: f64::from(s),
            server: Some(Used {
                cpu_percent: 30.0,
                ..Used::default()
            }),
            steal_percent: Some(3.0),
            foreign_percent: Some(2.0),
            ..ResourceSecond::default()
        });
    }
    thread(
        &mut point,
        Side::Client,
        "press-client-0",
        50.0,
        &[("running", 0.5), ("poll", 0.5)],
    );
    point
}

fn thread(point: &mut Point, side: Side, name: &str, cpu_percent: f64, states: &[(&str, f64)]) {
    point.resources.threads.push(ThreadUse {
        side,
        pid: 1,
        tid: 1,
        name: name.into(),
        cpu_percent,
        wait_percent: 0.0,
        switches_voluntary: 0,
        switches_involuntary: 0,
        states: states
            .iter()
            .map(|&(state, share)| (state.to_owned(), share))
            .collect(),
    });
}

fn check(point: &Point, judgement: Judgement, bound: Bound, words: &str) {
    let verdict = judge(point);
    assert_eq!(
        (verdict.judgement, verdict.bound),
        (judgement, bound),
        "{}",
        verdict.sentence
    );
    assert!(verdict.sentence.contains(words), "{}", verdict.sentence);
}

#[test]
fn what_the_server_waited_for_is_named() {
    let with = |states: &[(&str, f64)], count: usize| {
        let mut point = calm();
        for _ in 0..count {
            thread(&mut point, Side::Server, "worker", 5.0, states);
        }
        point
    };
    check(
        &with(&[("sleep", 0.9)], 4),
        Judgement::Valid,
        Bound::Timer,
        "slept in a timer",
    );
    check(
        &with(&[("fsync", 0.6), ("futex", 0.4)], 4),
        Judgement::Valid,
        Bound::Disk,
        "waited for it",
    );
    check(
        &with(&[("futex", 0.8), ("running", 0.2)], 4),
        Judgement::Valid,
        Bound::Lock,
        "futex",
    );
    check(
        &with(&[("poll", 0.9)], 1),
        Judgement::Valid,
        Bound::Timer,
        "in poll",
    );
}

#[test]
fn idle_workers_are_no_lock() {
    let mut point = calm();
    point.qps = 100.0;
    for _ in 0..4 {
        thread(&mut point, Side::Server, "worker", 5.0, &[("futex", 0.95)]);
    }
    assert_ne!(judge(&point).bound, Bound::Lock);
}

#[test]
fn threads_that_never_run_are_no_lock_either() {
    let mut point = calm();
    thread(
        &mut point,
        Side::Server,
        "main",
        60.0,
        &[("running", 0.6), ("poll", 0.4)],
    );
    for _ in 0..4 {
        thread(&mut point, Side::Server, "background", 0.0, &[("futex", 1.0)]);
    }
    assert_ne!(judge(&point).bound, Bound::Lock);
}

#[test]
fn a_full_core_is_the_servers() {
    let mut point = calm();
    point.server_cpu = Some(Cpu {
        seconds: 9.8,
        percent: 98.0,
    });
    thread(&mut point, Side::Server, "net-0", 98.0, &[("running", 1.0)]);
    check(&point, Judgement::Valid, Bound::ServerCpu, "`net-0` used 98 %");
    // Also when the client is as busy: the server could not have given more.
    point.client_cpu = Some(Cpu {
        seconds: 9.9,
        percent: 99.0,
    });
    check(&point, Judgement::Valid, Bound::ServerCpu, "980.0 us a request");
}

#[test]
fn a_generator_that_is_late_starved_or_full_is_found_out() {
    let mut point = calm();
    point.lateness.us_p99 = Some(5_000.0);
    check(
        &point,
        Judgement::GeneratorBound,
        Bound::ClientCpu,
        "5000 us late",
    );
    let mut point = calm();
    point.resources.threads[0].wait_percent = 45.0;
    check(&point, Judgement::GeneratorBound, Bound::ClientCpu, "45 %");
    let mut point = calm();
    point.client_cpu = Some(Cpu {
        seconds: 9.9,
        percent: 99.0,
    });
    check(&point, Judgement::GeneratorBound, Bound::ClientCpu, "99 %");
}

#[test]
fn others_on_the_machine_make_a_drift() {
    let mut point = calm();
    point
        .resources
        .seconds
        .iter_mut()
        .for_each(|second| second.foreign_percent = Some(60.0));
    assert_eq!(judge(&point).judgement, Judgement::EnvDrift);
    let mut point = calm();
    point
        .resources
        .seconds
        .iter_mut()
        .for_each(|second| second.steal_percent = Some(60.0));
    assert!(judge(&point).sentence.contains("hypervisor took 60 %"));
}

#[test]
fn a_load_that_was_not_offered_is_told_before_a_drift() {
    let mut disturbed = calm();
    for second in &mut disturbed.resources.seconds {
        second.foreign_percent = Some(60.0);
    }
    let check = |point: &Point, judgement, words: [&str; 2]| {
        let verdict = judge(point);
        assert_eq!(verdict.judgement, judgement, "{}", verdict.sentence);
        let says = |words: &&str| verdict.sentence.contains(*words);
        assert!(words.iter().all(says), "{}", verdict.sentence);
    };
    let others = "other processes of the machine used 60 %";
    let mut closed = disturbed.clone();
    closed.offered.connections = 100;
    closed.counters.connections_down = 60;
    check(
        &closed,
        Judgement::Unstable,
        ["60 of 100 connections were down", others],
    );
    let mut open = disturbed.clone();
    open.offered.kind = LoadKind::Open;
    open.counters.not_sent = 90_000;
    check(
        &open,
        Judgement::Unstable,
        ["90.0 % of the schedule was never sent", others],
    );
    // Not where the whole load was offered: others made a queue grow, and none shorter.
    open.counters.not_sent = 0;
    for (at, second) in open.series.iter_mut().enumerate() {
        second.outstanding = 100 * at as u64;
    }
    check(
        &open,
        Judgement::EnvDrift,
        ["Other processes of the machine used 60 %"; 2],
    );
}

#[test]
fn a_point_without_an_answer_is_not_valid() {
    let mut point = calm();
    point.counters.ok = 0;
    point
        .counters
        .first
        .insert("wrong".into(), "request 1: 14 scores".into());
    check(&point, Judgement::Unstable, Bound::Unknown, "14 scores");
}

#[test]
fn seconds_without_an_answer_are_told_whoever_was_late() {
    let mut point = calm();
    point.series[4].answers = 0;
    point.lateness.us_p99 = Some(5_000.0);
    check(&point, Judgement::Unstable, Bound::Unknown, "In 1 of 10 seconds");
}

#[test]
fn a_point_that_is_too_short_has_no_bound() {
    let mut point = calm();
    point.us_total = 11_000;
    check(&point, Judgement::Valid, Bound::Unknown, "11 ms are too short");
}

#[test]
fn what_does_not_settle_is_unstable() {
    let mut point = calm();
    point
        .series
        .iter_mut()
        .skip(5)
        .for_each(|second| second.answers = 700);
    assert!(judge(&point).sentence.contains("did not settle"));
    let mut point = calm();
    point.offered.kind = LoadKind::Open;
    point.offered.rate = Some(2_000.0);
    for (at, second) in point.series.iter_mut().enumerate() {
        second.outstanding = 100 * at as u64;
    }
    check(&point, Judgement::Unstable, Bound::Unknown, "grew from 0 to 900");
}

#[test]
fn queues_and_wires_are_named() {
    let mut point = calm();
    point.counters.connections_failed = 5;
    point.resources.seconds.iter_mut().for_each(|second| {
        second.accept_queue = Some(2);
        second.listen_overflows = Some(8.0);
    });
    check(&point, Judgement::Valid, Bound::Queueing, "accept queue held 2");
    let mut point = calm();
    point
        .resources
        .seconds
        .iter_mut()
        .for_each(|second| second.send_queue_bytes = Some(50_000));
    assert_ne!(judge(&point).bound, Bound::Wire, "loopback");
    point.target.address = "10.0.0.1:1".into();
    check(&point, Judgement::Valid, Bound::Wire, "50000 bytes");
}

#[test]
fn an_offered_load_that_was_met_is_said() {
    let mut point = calm();
    point.offered.kind = LoadKind::Open;
    point.offered.rate = Some(1_000.0);
    point.sent_per_s = 1_000.0;
    point.latency.us_p50 = Some(90.0);
    check(
        &point,
        Judgement::Valid,
        Bound::Offered,
        "1000/s of 1000/s, with 30 %",
    );
}

#[test]
fn an_outage_shorter_than_a_second_is_told_and_a_long_one_judged() {
    let silent = |ms: u64| {
        let mut point = calm();
        thread(&mut point, Side::Server, "worker", 5.0, &[("sleep", 0.9)]);
        point.us_silent_max = ms * 1_000;
        point
    };
    let told = |ms| {
        judge(&silent(ms))
            .sentence
            .contains("no answer came while requests waited")
    };
    // A thousand answers a second are a millisecond apart.
    assert!(!told(0) && !told(99) && told(100));
    check(
        &silent(320),
        Judgement::Valid,
        Bound::Timer,
        "For 320 ms no answer came while requests waited, 320 times",
    );
    check(
        &silent(700),
        Judgement::Unstable,
        Bound::Timer,
        "For 700 ms no answer came",
    );
    let sentence = judge(&silent(700)).sentence;
    assert_eq!(sentence.matches("700 ms").count(), 1, "{sentence}");
    // Where answers are rare, so long a wait is chance.
    let mut rare = silent(700);
    rare.qps = 10.0;
    assert!(!judge(&rare).sentence.contains("no answer came while"));
}

#[test]
fn a_schedule_that_strays_from_its_rate_is_told() {
    let mut point = calm();
    point.offered.kind = LoadKind::Open;
    point.offered.arrivals = Some("bursts of 1000".into());
    point.offered.duration_s = Some(10.0);
    point.latency.us_p50 = Some(90.0);
    point.sent_per_s = 1_000.0;
    let said = |point: &Point| judge(point).sentence;
    point.offered.rate = Some(1_000.0);
    assert!(!said(&point).contains("schedule offered"), "{}", said(&point));
    let evidence = judge(&point).evidence.join("\n");
    assert!(
        evidence.contains("1000.0 requests a second of 1000 asked"),
        "{evidence}"
    );
    for (rate, words) in [
        (
            800.0,
            "offered 1000/s, 25 % more than the 800/s asked: with bursts of 1000, 10 s are",
        ),
        (1_250.0, "offered 1000/s, 20 % less than the 1250/s asked"),
    ] {
        point.offered.rate = Some(rate);
        assert!(said(&point).contains(words), "{}", said(&point));
    }
    point.interrupted = true;
    assert!(!said(&point).contains("schedule offered"));
}

#[test]
fn failures_come_before_everything_and_are_told_by_kind() {
    use millpond_press_recorder::ErrorKind;
    let mut point = calm();
    point.counters.ok = 9_000;
    point.counters.wrong = 200;
    point.counters.errors.insert(ErrorKind::Timeout, 800);
    point
        .counters
        .first
        .insert("timeout".into(), "request 7: no answer within 10 ms".into());
    point.lateness.us_p99 = Some(5_000.0);
    check(
        &point,
        Judgement::Failing,
        Bound::Unknown,
        "1000 of 10000 requests failed (10.0 %): 800 timeout (the first: request 7: no answer within 10 ms), 200 wrong.",
    );
    // As few as users would not notice are told beside the judgement.
    point.lateness.us_p99 = Some(5.0);
    point.counters.wrong = 0;
    point.counters.errors.insert(ErrorKind::Timeout, 3);
    point.counters.ok = 9_997;
    thread(&mut point, Side::Server, "worker", 5.0, &[("sleep", 0.9)]);
    check(
        &point,
        Judgement::Valid,
        Bound::Timer,
        " 3 of 10000 requests failed (under 0.1 %).",
    );
}

#[test]
fn a_rare_operation_that_always_fails_is_told() {
    use crate::OperationResult;
    let mut point = calm();
    point.counters.wrong = 40;
    point.operations = [("read", 10_000, 0), ("write", 0, 40)]
        .map(|(name, answers, failed)| OperationResult {
            name: name.into(),
            answers,
            failed,
            ..OperationResult::default()
        })
        .into();
    check(
        &point,
        Judgement::Valid,
        Bound::Unknown,
        "40 of 10040 requests failed (0.4 %). Of the operation `write` 40 of 40 requests failed.",
    );
}

#[test]
fn refusals_are_told_and_decide_nothing() {
    let mut point = calm();
    point.counters.refused.insert(30_101, 30_000);
    check(
        &point,
        Judgement::Valid,
        Bound::Unknown,
        "30000 of 40000 requests were refused (75.0 %).",
    );
}

#[test]
fn a_closed_loop_of_fewer_connections_is_another_load() {
    let mut point = calm();
    point.offered.connections = 8;
    point.counters.connections_down = 3;
    point
        .counters
        .first
        .insert("not_connected".into(), "Connection refused".into());
    check(
        &point,
        Judgement::Unstable,
        Bound::Unknown,
        "3 of 8 connections were down when the load ended (Connection refused)",
    );
    let sentence = judge(&point).sentence;
    assert_eq!(sentence.matches("3 of 8").count(), 1, "{sentence}");
    // A schedule is played on the others.
    point.offered.kind = LoadKind::Open;
    assert_eq!(judge(&point).judgement, Judgement::Valid);
    point.counters.not_sent = 500;
    assert!(
        judge(&point)
            .sentence
            .contains("connections were lost and could not be made again")
    );
}
