//! Hedging under random events in virtual time: what must hold whatever happens.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_nodes::{Action, Attempt, Event, HedgeOptions, Hedging, Sent};
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn event() -> impl Strategy<Value = Event> {
    let copy = prop_oneof![Just(Sent::First), Just(Sent::Second)];
    prop_oneof![
        3 => Just(Event::Timer),
        1 => Just(Event::NotSent),
        1 => prop_oneof![Just(Event::Standing), Just(Event::Later)],
        2 => copy.clone().prop_map(Event::Answered),
        1 => copy.prop_map(Event::Failed),
    ]
}

/// A call and what was done with it.
struct Call {
    attempt: Attempt,
    sends: u32,
    ends: u32,
    /// The budget paid for the second copy.
    hedged: bool,
}

proptest! {
    #[test]
    fn a_call_is_sent_at_most_twice_and_ends_once(
        steps in proptest::collection::vec((0_usize..8, 0_u64..20, event()), 1..300),
        share_permille in 0_u32..200,
    ) {
        let options = HedgeOptions { share_permille, saved_max: 3, delay_min: Duration::from_millis(1), ..HedgeOptions::default() };
        let mut hedging = Hedging::new(options);
        let mut now = Instant::now();
        let mut calls: Vec<Option<Call>> = (0..8).map(|_| None).collect();
        let (mut begun, mut hedged) = (100_u32, 0_u32);
        for _ in 0..begun {
            let mut attempt = hedging.begin(now);
            hedging.on(&mut attempt, Event::Answered(Sent::First), now + Duration::from_millis(10));
        }
        for (place, wait_ms, event) in steps {
            now += Duration::from_millis(wait_ms);
            let call = calls[place].get_or_insert_with(|| {
                begun += 1;
                Call { attempt: hedging.begin(now), sends: 1, ends: 0, hedged: false }
            });
            let due = call.attempt.timer_at();
            let action = hedging.on(&mut call.attempt, event, now);
            match action {
                Action::SendSecond => call.sends += 1,
                Action::Answer(_) | Action::Fail => call.ends += 1,
                Action::Wait => {}
            }
            if event == Event::Timer && action == Action::SendSecond {
                prop_assert!(due.is_some_and(|at| at <= now));
                hedged += 1;
                call.hedged = true;
            }
            prop_assert!(call.sends <= 2 && call.ends <= 1);
            prop_assert_eq!(call.attempt.has_ended(), call.ends == 1);
            // A hedge that could not be sent is given back.
            if event == Event::NotSent && std::mem::take(&mut call.hedged) {
                hedged -= 1;
            }
            prop_assert!(f64::from(hedged) <= f64::from(begun * share_permille) / 1000.0);
            if call.attempt.has_ended() {
                calls[place] = None;
            }
        }
    }
}

#[test]
fn a_replica_that_stands_still_costs_its_calls_the_percentile_and_others_nothing() {
    // One call in ten goes to a replica that never answers; the others take 1 ms.
    let options = HedgeOptions {
        share_permille: 200,
        ..HedgeOptions::default()
    };
    let mut hedging = Hedging::new(options);
    let start = Instant::now();
    let ms = Duration::from_millis;
    for n in 0..1000_u64 {
        let begun = start + ms(n * 10);
        let mut attempt = hedging.begin(begun);
        if n < 200 || n % 10 != 0 {
            assert_eq!(
                hedging.on(&mut attempt, Event::Answered(Sent::First), begun + ms(1)),
                Action::Answer(Sent::First)
            );
            continue;
        }
        let timer = attempt.timer_at().unwrap();
        assert!(timer - begun <= ms(5), "hedged only after {:?}", timer - begun);
        assert_eq!(hedging.on(&mut attempt, Event::Timer, timer), Action::SendSecond);
        assert_eq!(
            hedging.on(&mut attempt, Event::Answered(Sent::Second), timer + ms(1)),
            Action::Answer(Sent::Second)
        );
    }
}
