//! Points beside an antagonist on the core of what it disturbs.

use super::*;
use crate::Antagonists;
use millpond_press_recorder::Interference;

/// A calm point beside an antagonist that used 60 % of a core; the server, or in process the caller, waited so much for one.
fn beside(address: &str, waited: f64, kind: Interference) -> Point {
    let mut point = calm();
    point.target.address = address.into();
    point.offered.antagonists = Some(Antagonists {
        command: "stress-ng --cache 1".into(),
        cores: vec![0],
        beside: vec![0],
        interference: kind,
    });
    point.antagonists_cpu = Some(Cpu {
        seconds: 6.0,
        percent: 60.0,
    });
    (point.service.us_mean, point.service.us_p50) = (Some(400.0), Some(400.0));
    if address.is_empty() {
        let threads = point.resources.threads.iter_mut();
        threads.for_each(|thread| thread.wait_percent = waited);
    } else {
        let seconds = point.resources.seconds.iter_mut();
        seconds
            .filter_map(|second| second.server.as_mut())
            .for_each(|server| server.wait_percent = waited);
        thread(&mut point, Side::Server, "net", 30.0, &[("poll", 0.9)]);
    }
    point
}

const SERVER: &str = "127.0.0.1:1";

#[test]
fn a_server_that_waits_for_the_antagonists_core_is_not_told_to_get_more() {
    for waited in [55.0, 20.0] {
        let point = beside(SERVER, waited, Interference::CpuContention);
        let words = format!(
            "CPU contention with the antagonist `stress-ng`, which used 60 % of a core: the server's threads were ready to run but waited for a core {waited} %"
        );
        check(&point, Judgement::Valid, Bound::ServerCpu, &words);
        assert!(!judge(&point).sentence.contains("give it more cores"));
    }
    let mut idle = beside(SERVER, 55.0, Interference::CpuContention);
    idle.antagonists_cpu = Some(Cpu::default());
    assert!(
        !judge(&idle).sentence.contains("CPU contention with"),
        "it did nothing"
    );
}

#[test]
fn a_point_that_hardly_waited_beside_one_has_no_false_cause() {
    for kind in [Interference::CpuContention, Interference::SmtContention] {
        let point = beside(SERVER, 2.0, kind);
        check(&point, Judgement::Valid, Bound::Unknown, "is not known");
        let mut polling = point;
        polling.service.us_p50 = Some(5_000.0);
        check(&polling, Judgement::Valid, Bound::Unknown, "is not known");
    }
    let elsewhere = beside(SERVER, 2.0, Interference::CacheL3);
    check(&elsewhere, Judgement::Valid, Bound::Timer, "sleeping core");
}

#[test]
fn an_engine_in_process_that_waits_for_its_core_is_no_slow_generator() {
    for kind in [LoadKind::Open, LoadKind::Closed] {
        let mut point = beside("", 30.0, Interference::CpuContention);
        (point.offered.kind, point.offered.rate) = (kind, Some(1_000.0));
        (point.sent_per_s, point.latency.us_mean) = (1_000.0, Some(900.0));
        check(
            &point,
            Judgement::Valid,
            Bound::ServerCpu,
            "the calling threads were ready to run but waited for a core 30 % of the time, 300 us a request, which took 400 us",
        );
    }
    let other = beside("", 30.0, Interference::CacheL3);
    assert_eq!(judge(&other).judgement, Judgement::GeneratorBound);
}
