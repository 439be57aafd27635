//! What bounds a point without a network, whose calling threads do the engine's work themselves.
//!
//! Its invariant: a point with an address is never judged here.

use super::BUSY_PERCENT;
use super::observed::Observed;
use crate::{LoadKind, Point};

/// A wait of so much of the mean latency is most of what can be done about it.
const WAITED_SHARE: f64 = 0.4;

/// Without a network the caller does the engine's work itself.
pub(super) fn in_process(point: &Point, seen: &Observed) -> Option<String> {
    let is_busy =
        point.target.address.is_empty() && point.offered.kind == LoadKind::Closed && seen.client_busy >= 50.0;
    let answers = point.counters.answers();
    let cpu = point.client_cpu.filter(|_| is_busy && answers > 0)?;
    let each = cpu.seconds * 1e6 / answers as f64;
    let busy = seen.client_busy;
    Some(match point.target.protocol.as_str() {
        "program" => format!(
            "Server CPU: the program does the work itself, {busy:.0} % of a core in all, {each:.2} us a call with its callers."
        ),
        _ => format!(
            "Server CPU: the engine ran on the calling threads, {busy:.0} % of a core each, {each:.2} us a call with the recording \
             of it."
        ),
    })
}

/// The same in an open loop, whose callers wait for the next request too.
pub(super) fn full_caller(point: &Point, seen: &Observed) -> Option<String> {
    let (waited, worked) = split_in_process(point).filter(|_| seen.client_busy >= BUSY_PERCENT)?;
    Some(format!(
        "Server CPU: the engine ran on the calling threads, {:.0} % of a core each; a request took {worked:.0} us there, and waited \
         {waited:.0} us for that on average.",
        seen.client_busy
    ))
}

/// Requests that wait for the one before them although the engine has time to spare.
pub(super) fn waiting_callers(point: &Point, seen: &Observed) -> Option<String> {
    let (waited, worked) = split_in_process(point)?;
    (waited >= WAITED_SHARE * (waited + worked)).then(|| {
        format!(
            "Queueing: requests waited {waited:.0} us on average for those before them, and took {worked:.0} us in the engine, which ran \
             {:.0} % of a core.",
            seen.client_busy
        )
    })
}

/// What a request of an open loop waited and took in this process, on average, in microseconds.
fn split_in_process(point: &Point) -> Option<(f64, f64)> {
    let split = point.split().filter(|_| point.target.address.is_empty())?;
    Some((split.queue?, split.service))
}

#[cfg(test)]
mod tests {
    use crate::{Bound, Cpu, LoadKind, Point, judge};

    /// A second of an open loop in this process: the mean latency, the part of it in the engine, and how late its thread was, in us.
    fn point(whole: f64, worked: f64, late: f64, percent: f64) -> Point {
        let mut point = Point::default();
        point.target.protocol = "ordered".into();
        (point.offered.kind, point.offered.rate) = (LoadKind::Open, Some(100.0));
        (point.us_total, point.client_threads) = (1_000_000, 1);
        (point.qps, point.sent_per_s, point.counters.ok) = (100.0, 100.0, 100);
        point.latency.us_mean = Some(whole);
        point.latency.us_p50 = Some(whole);
        point.service.us_mean = Some(worked);
        point.lateness.us_mean = Some(late);
        let seconds = percent / 100.0;
        point.client_cpu = Some(Cpu { seconds, percent });
        point
    }

    fn bound(point: &Point) -> (Bound, String) {
        let verdict = judge(point);
        (verdict.bound, verdict.sentence)
    }

    #[test]
    fn requests_that_wait_for_others_are_bound_by_the_queue() {
        let (found, why) = bound(&point(500.0, 300.0, 0.0, 30.0));
        assert_eq!(found, Bound::Queueing);
        assert!(
            why.contains("waited 200 us on average") && why.contains("took 300 us in the engine"),
            "{why}"
        );
        // A thread that woke up late is no queue, and a short wait bounds nothing.
        assert_eq!(bound(&point(500.0, 300.0, 200.0, 30.0)).0, Bound::Offered);
        let (found, why) = bound(&point(320.0, 300.0, 0.0, 30.0));
        assert_eq!(found, Bound::Offered);
        assert!(
            why.contains("the call took 300 us, 20 us were spent waiting"),
            "{why}"
        );
    }

    #[test]
    fn a_caller_that_always_runs_is_bound_by_the_engine() {
        let (found, why) = bound(&point(900.0, 300.0, 0.0, 96.0));
        assert_eq!(found, Bound::ServerCpu);
        assert!(
            why.contains("96 % of a core each; a request took 300 us there, and waited 600 us"),
            "{why}"
        );
        let mut over_network = point(900.0, 300.0, 0.0, 96.0);
        over_network.target.address = "127.0.0.1:1".into();
        assert_ne!(bound(&over_network).0, Bound::ServerCpu);
    }

    #[test]
    fn antagonists_are_told_and_no_drift() {
        let mut beside = point(320.0, 300.0, 0.0, 30.0);
        beside.resources.seconds = vec![millpond_press_recorder::ResourceSecond {
            foreign_percent: Some(99.0),
            ..Default::default()
        }];
        assert_eq!(judge(&beside).judgement, crate::Judgement::EnvDrift);
        beside.antagonists_cpu = Some(Cpu {
            seconds: 0.98,
            percent: 98.0,
        });
        beside.offered.antagonists = Some(crate::Antagonists {
            command: "stress-ng --cache 1".into(),
            cores: vec![1],
            beside: vec![0],
            interference: millpond_press_recorder::Interference::CacheL3,
        });
        let verdict = judge(&beside);
        assert_eq!(verdict.judgement, crate::Judgement::Valid);
        let expected = "Beside it `stress-ng`, which used 98 % of a core, ran on core 1, and it on core 0: cache interference (shared L3).";
        assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
        let idle = Cpu {
            seconds: 0.4,
            percent: 40.0,
        };
        beside.antagonists_cpu = Some(idle);
        let sentence = judge(&beside).sentence;
        assert!(
            sentence.contains("it used less than half of each of its cores"),
            "{sentence}"
        );
    }

    #[test]
    fn the_servers_part_of_the_latency_is_told_where_it_counts() {
        let mut counted = point(500.0, 480.0, 0.0, 5.0);
        counted.target.address = "127.0.0.1:1".into();
        counted.held = Some(crate::Held {
            server_call_us_mean: Some(300.0),
            ..Default::default()
        });
        let sentence = judge(&counted).sentence;
        assert!(
            sentence.contains("Of 500 us on average the server took 300 us"),
            "{sentence}"
        );
        assert!(
            sentence.contains("200 us went on the way and in queues"),
            "{sentence}"
        );
    }
}
