//! What is made of frames: which calls are counted, and which are refused.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Checker, Clock, Rules};
use millpond_press_recorder::Live;

const MS: u64 = 1_000_000;

fn plan(clock: Clock) -> Arc<Plan> {
    Arc::new(Plan {
        checker: Arc::new(Checker::new(&Rules::default(), None, None, 1).unwrap()),
        address: None,
        tls: None,
        source_addresses: Vec::new(),
        seed: 1,
        in_sequence: false,
        operation_of: Arc::default(),
        operations: 0,
        connections: 2,
        in_flight: 1,
        client_threads: 1,
        client_cpus: Vec::new(),
        connect_parallel: 1,
        timeout: Duration::from_secs(1),
        answer_bytes_max: 1,
        clock,
    })
}

/// Figures of a load whose clock is three seconds old, and that clock's 0 as the program reads it.
fn counted() -> (Counted, u64) {
    let now = Clock::start().epoch_ns().unwrap();
    let epoch_ns = now - 3_000 * MS;
    let plan = plan(Clock::of(epoch_ns).unwrap());
    let mut counted = Counted::new(&plan, &Arc::new(Live::default())).unwrap();
    counted.begin(0);
    (counted, plan.clock.epoch_ns().unwrap())
}

/// A frame of these moments, in milliseconds of the load's clock.
fn frame(kind: u32, caller: u32, epoch_ns: u64, moments: &[u64]) -> Vec<u8> {
    let times = moments.iter().map(|ms| (epoch_ns + ms * MS).to_le_bytes());
    let body: Vec<u8> = times.flatten().collect();
    let words = [kind, caller, body.len() as u32].map(u32::to_le_bytes);
    [b"mpp1", words.as_flattened(), &body].concat()
}

fn take(counted: &mut Counted, bytes: &[u8]) -> Result<bool, String> {
    let (frame, _) = super::frame::read(bytes)?.unwrap();
    counted.take(frame)
}

#[test]
fn calls_of_the_measurement_are_counted_in_their_seconds() {
    let (mut counted, epoch) = counted();
    take(&mut counted, &frame(2, 0, epoch, &[10, 40, 90])).unwrap();
    counted.measure(Some(100 * MS), Duration::from_secs(2));
    // One began before the measurement, one in each second of it, one behind it.
    take(&mut counted, &frame(2, 0, epoch, &[95, 105, 900])).unwrap();
    take(&mut counted, &frame(2, 0, epoch, &[1_200, 1_300])).unwrap();
    take(&mut counted, &frame(2, 1, epoch, &[200, 300])).unwrap();
    take(&mut counted, &frame(4, 1, epoch, &[300, 310])).unwrap();
    take(&mut counted, &frame(3, 1, epoch, &[310, 320])).unwrap();
    take(&mut counted, &frame(2, 1, epoch, &[2_101, 2_150])).unwrap();
    counted.roll(1_500 * MS);
    assert!(!counted.is_over(2_099 * MS) && counted.is_over(2_100 * MS));
    let handed = counted.hand_over();
    let counters = &handed.tally.counters;
    assert_eq!((counters.ok, counters.wrong, counters.errors_total()), (3, 1, 1));
    assert_eq!((handed.sent, handed.warm_up_answers), (5, 3));
    // Each time a clock's 0 is read, it is some nanoseconds off.
    assert_eq!(handed.last_end.map(|end| (end + MS / 2) / MS), Some(1_300));
    let seconds: Vec<(u64, u64)> = handed
        .tally
        .seconds
        .iter()
        .map(|second| (second.answers, second.failed))
        .collect();
    assert_eq!(seconds, [(2, 2), (1, 0)]);
}

#[test]
fn calls_that_cannot_be_are_refused() {
    let check = |bytes: &[u8], words: &str, counted: &mut Counted| {
        let said = take(counted, bytes).unwrap_err();
        assert!(said.contains(words), "{said}");
    };
    let (mut of, epoch) = counted();
    take(&mut of, &frame(2, 0, epoch, &[10, 40])).unwrap();
    check(&frame(2, 0, epoch, &[30, 50]), "before its last ended", &mut of);
    check(&frame(2, 1, epoch, &[50, 40]), "ended before it began", &mut of);
    check(&frame(2, 1, epoch, &[50, 60_000]), "from now", &mut of);
    check(
        &frame(2, 2, epoch, &[50, 60]),
        "caller 2, expected 0 to 1",
        &mut of,
    );
    check(&frame(1, 0, epoch, &[]), "said ready", &mut of);
    assert_eq!(take(&mut of, &frame(5, 0, epoch, &[])), Ok(true));
}
