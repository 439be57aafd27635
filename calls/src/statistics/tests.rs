//! That what is printed is the exact sum of what threads counted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::access::{Access, Secret};
use crate::{Admission, Calls, MethodService, Methods, NoHost, Service as _, method};
use millpond_metrics::Page;
use std::iter::empty;

fn methods() -> Methods<()> {
    method::tests::methods()
}

fn arrival(method: MethodId, queue: Duration) -> Arrival {
    let received = Instant::now();
    Arrival {
        method,
        received,
        entered: received + queue,
        is_internal: false,
    }
}

/// Calls that nothing serves.
fn calls() -> Calls<()> {
    let methods = method::tests::methods();
    let access = Access::new(&Default::default(), Secret::default(), &methods);
    Calls::new(access, Admission::new(1, 0, Duration::ZERO), methods, 0, 0)
}

/// A net thread's service of them.
fn service() -> MethodService<()> {
    MethodService::new(Arc::new(calls()), Arc::new(NoHost))
}

fn check(calls: &Calls<()>, expected: &[&str]) {
    let mut page = Page::default();
    page.part(CallCounts::METRICS, Some(&CallCounts::read(calls, 0)));
    let text = page.text();
    for expected in expected {
        let line = format!("{expected}\n");
        assert!(text.contains(&line), "{expected} is not in\n{text}");
    }
}

#[test]
fn calls_of_a_turn_are_counted_at_once_and_have_its_time() {
    let service = service();
    let calls = &service.calls;
    let (methods, metrics) = (&calls.methods, &calls.statistics);
    let named = |name| methods.named(name).unwrap();
    let began = Instant::now() - Duration::from_secs(1);
    for name in ["features.lookup", "*ping", "features.lookup"] {
        service.answered(named(name));
    }
    check(
        calls,
        &[
            "millpond_calls_total{method=\"features.lookup\"} 2",
            "millpond_call_seconds_count{method=\"features.lookup\"} 0",
        ],
    );
    service.turned(began, [(named("infer"), began)].into_iter());
    service.turned(began, empty());
    let ping = metrics.totals(named("*ping")).times;
    assert!(ping.count() == 1 && ping.sum_ns() >= 1_000_000_000);
    assert_eq!(
        metrics.totals(named("features.lookup")).times.sum_ns(),
        2 * ping.sum_ns()
    );
    check(
        calls,
        &[
            "millpond_calls_total{method=\"features.lookup\"} 2",
            "millpond_call_seconds_count{method=\"features.lookup\"} 2",
            "millpond_call_part_seconds_count{method=\"features.lookup\",part=\"work\"} 0",
            "millpond_call_part_seconds_count{method=\"infer\",part=\"write\"} 1",
            "millpond_stage_seconds_count{stage=\"write\"} 1",
        ],
    );
    metrics.set_on(false);
    assert!(!metrics.answered_at_once(named("*ping")));
}

#[test]
fn calls_that_were_sent_before_the_batch_of_their_turn_do_not_have_its_time() {
    let service = service();
    let calls = &service.calls;
    let ping = calls.methods.named("*ping").unwrap();
    let began = Instant::now();
    service.answered(ping);
    assert!(!service.has_batch());
    *service.batch() = 3;
    assert!(service.has_batch());
    service.serve_batch(began);
    assert!(!service.has_batch());
    let before = calls.statistics.totals(ping).times;
    assert_eq!(before.count(), 1);
    std::thread::sleep(Duration::from_millis(2));
    service.turned(began, empty());
    assert_eq!(calls.statistics.totals(ping).times.sum_ns(), before.sum_ns());
}

#[test]
fn buckets_hold_what_they_say() {
    let calls = calls();
    let (methods, metrics) = (&calls.methods, &calls.statistics);
    let infer = methods.named("infer").unwrap();
    for ns in [0, 1024, 1025, 2048, 1 << 20, (1 << 20) + 1, 1 << 40] {
        let arrival = arrival(infer, Duration::ZERO);
        metrics.answered(&arrival, arrival.entered + Duration::from_nanos(ns), None);
    }
    for _ in 0..3 {
        metrics.failed(infer, &Status::new(Code::Overloaded, ""));
    }
    metrics.too_late();
    metrics.too_late();
    metrics.wrote(infer, Duration::from_nanos(2048));
    metrics.failed(infer, &Status::new(Code::Forbidden, ""));
    metrics.unknown();
    check(
        &calls,
        &[
            "millpond_call_seconds_bucket{method=\"infer\",le=\"0.000001024\"} 2",
            "millpond_call_seconds_bucket{method=\"infer\",le=\"0.000002048\"} 4",
            "millpond_call_seconds_bucket{method=\"infer\",le=\"0.001048576\"} 5",
            "millpond_call_seconds_bucket{method=\"infer\",le=\"0.002097152\"} 6",
            "millpond_call_seconds_bucket{method=\"infer\",le=\"+Inf\"} 7",
            "millpond_calls_total{method=\"infer\"} 7",
            "millpond_errors_total{method=\"infer\",code=\"30101\"} 3",
            "millpond_refused_total{reason=\"too_late\"} 2",
            "millpond_call_part_seconds_sum{method=\"infer\",part=\"write\"} 0.000002048",
            "millpond_call_part_seconds_count{method=\"infer\",part=\"write\"} 1",
            "millpond_refused_total{reason=\"overloaded\"} 1",
            "millpond_refused_total{reason=\"forbidden\"} 1",
            "millpond_refused_total{reason=\"unknown_method\"} 1",
            "millpond_refused_total{reason=\"deadline\"} 0",
        ],
    );
}

#[test]
fn stages_have_sums_and_counts_of_their_own() {
    let calls = calls();
    let (methods, metrics) = (&calls.methods, &calls.statistics);
    let arrival = arrival(methods.named("infer").unwrap(), Duration::from_nanos(700));
    for (batch_wait, compute) in [(300, 500_000), (2001, 1_500_000)] {
        let model = ModelTime {
            batch_wait: Duration::from_nanos(batch_wait),
            compute: Duration::from_nanos(compute),
        };
        metrics.answered(&arrival, arrival.entered, Some(model));
    }
    metrics.answered(&arrival, arrival.entered, None);
    check(
        &calls,
        &[
            "# TYPE millpond_stage_seconds histogram",
            "millpond_stage_seconds_bucket{stage=\"batch_wait\",le=\"0.000001024\"} 1",
            "millpond_stage_seconds_bucket{stage=\"batch_wait\",le=\"0.000002048\"} 2",
            "millpond_stage_seconds_sum{stage=\"batch_wait\"} 0.000002301",
            "millpond_stage_seconds_count{stage=\"batch_wait\"} 2",
            "millpond_stage_seconds_sum{stage=\"compute\"} 0.002",
            "millpond_stage_seconds_count{stage=\"compute\"} 2",
            "millpond_stage_seconds_sum{stage=\"queue\"} 0.0000021",
            "millpond_stage_seconds_count{stage=\"queue\"} 3",
            "millpond_stage_seconds_count{stage=\"write\"} 0",
        ],
    );
}

#[test]
fn what_threads_counted_adds_up_exactly() {
    const THREADS: u64 = 7;
    const CALLS: u64 = 5000;
    let methods = methods();
    let metrics = Statistics::new(methods.all().count());
    let (rank, ping) = (methods.named("rank").unwrap(), methods.named("*ping").unwrap());
    let one = |thread: u64, call: u64| (thread * 131 + call * 17) % 9973;
    // Twice, so that the second generation of threads takes over the cells of the first.
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let metrics = &metrics;
                scope.spawn(move || {
                    for call in 0..CALLS {
                        let arrival = arrival(rank, Duration::from_nanos(call));
                        metrics.answered(
                            &arrival,
                            arrival.entered + Duration::from_nanos(one(thread, call)),
                            None,
                        );
                        if call % 3 == 0 {
                            metrics.failed(ping, &Status::new(Code::Stopping, ""));
                        }
                    }
                });
            }
        });
    }
    let totals = metrics.totals(rank);
    let queue: u64 = 2 * THREADS * (0..CALLS).sum::<u64>();
    let calls = (0..THREADS).flat_map(|thread| (0..CALLS).map(move |call| one(thread, call)));
    let work: u64 = 2 * calls.sum::<u64>();
    assert_eq!(totals.answered, 2 * THREADS * CALLS);
    assert_eq!(
        (totals.split[0].sum_ns(), totals.split[1].sum_ns()),
        (queue, work)
    );
    assert_eq!(totals.times.sum_ns(), queue + work);
    assert_eq!(totals.split[0].count(), 2 * THREADS * CALLS);
    assert_eq!(metrics.totals(ping).failed(), 2 * THREADS * CALLS.div_ceil(3));
    let mut held = 0;
    metrics.registry.each(|_| held += 1);
    assert!(held <= THREADS, "{held} sets of cells");
}

#[test]
fn two_servers_of_one_thread_count_apart() {
    let methods = methods();
    let (one, other) = (
        Statistics::new(methods.all().count()),
        Statistics::new(methods.all().count()),
    );
    let ping = methods.named("*ping").unwrap();
    for (metrics, calls) in [(&one, 3), (&other, 5)] {
        for _ in 0..calls {
            metrics.failed(ping, &Status::new(Code::NotReady, ""));
        }
    }
    assert_eq!((one.totals(ping).failed(), other.totals(ping).failed()), (3, 5));
    other.set_on(false);
    let arrival = arrival(ping, Duration::ZERO);
    other.answered(&arrival, arrival.entered, None);
    assert_eq!(other.totals(ping).answered, 0);
}

/// `cargo test --release -p millpond-calls cost -- --ignored --nocapture` says what counting one call costs.
#[test]
#[ignore = "a measurement, which says nothing on a busy machine"]
#[allow(clippy::print_stdout)]
fn cost() {
    const CALLS: u32 = 20_000_000;
    let methods = methods();
    let metrics = Statistics::new(methods.all().count());
    let arrival = arrival(methods.named("*ping").unwrap(), Duration::from_nanos(700));
    let run = |threads: u32| {
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for call in 0..CALLS {
                        metrics.answered(
                            std::hint::black_box(&arrival),
                            arrival.entered + Duration::from_nanos(u64::from(call & 0xfff)),
                            None,
                        );
                    }
                });
            }
        });
        started.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    for threads in [1, 2] {
        println!("{threads} threads: {:.1} ns a call", run(threads));
    }
    let started = Instant::now();
    for _ in 0..CALLS {
        std::hint::black_box(Instant::now());
    }
    let ns = started.elapsed().as_nanos() as f64 / f64::from(CALLS);
    println!("Instant::now(): {ns:.1} ns");
}
