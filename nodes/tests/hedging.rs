//! Hedging under random events in virtual time: what must hold whatever happens.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_nodes::{
    Action, Attempt, BucketMap, Event, FanOut, HedgeOptions, Hedging, Outcome, RetryOptions, Routing, Sent,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn event() -> impl Strategy<Value = Event> {
    let copy = prop_oneof![Just(Sent::First), Just(Sent::Second)];
    prop_oneof![
        3 => Just(Event::Timer),
        1 => Just(Event::NotSent),
        2 => prop_oneof![2 => Just(Event::Standing), 1 => Just(Event::Later(None))],
        2 => copy.clone().prop_map(Event::Answered),
        1 => copy.prop_map(Event::Failed),
    ]
}

/// A call and what was done with it.
struct Call {
    attempt: Attempt,
    sends: u32,
    ends: u32,
    /// What the budgets paid the second copy for.
    hedged: Option<Event>,
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
        let (mut begun, mut slow, mut standing) = (100_u32, 0_u32, 0_u32);
        for _ in 0..begun {
            let mut attempt = hedging.begin(now);
            hedging.on(&mut attempt, Event::Answered(Sent::First), now + Duration::from_millis(10));
        }
        for (place, wait_ms, event) in steps {
            now += Duration::from_millis(wait_ms);
            let call = calls[place].get_or_insert_with(|| {
                begun += 1;
                Call { attempt: hedging.begin(now), sends: 1, ends: 0, hedged: None }
            });
            let due = call.attempt.timer_at();
            let action = hedging.on(&mut call.attempt, event, now);
            match action {
                Action::SendSecond => call.sends += 1,
                Action::Answer(_) | Action::Fail => call.ends += 1,
                Action::Wait => {}
            }
            if matches!(event, Event::Timer | Event::Standing) && action == Action::SendSecond {
                prop_assert!(due.is_some_and(|at| at <= now));
                *(if event == Event::Timer { &mut slow } else { &mut standing }) += 1;
                call.hedged = Some(event);
            }
            prop_assert!(call.sends <= 2 && call.ends <= 1);
            prop_assert_eq!(call.attempt.has_ended(), call.ends == 1);
            // A hedge that could not be sent is given back.
            if event == Event::NotSent && let Some(hedged) = call.hedged.take() {
                *(if hedged == Event::Timer { &mut slow } else { &mut standing }) -= 1;
            }
            let share = f64::from(begun * share_permille) / 1000.0;
            prop_assert!(f64::from(slow) <= share && f64::from(slow + standing) <= 2.0 * share);
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

/// Calls one at a time to two nodes, of which four in a hundred take so long and the others 1 ms; says how many were hedged.
fn hedges_of_single_calls(share_permille: u32, slow_us: u64, calls: u64) -> u64 {
    let nodes = r#"version = 1
        buckets = 64
        replicas = 2
        nodes = [{ name = "a", addresses = ["a:1"] }, { name = "b", addresses = ["b:1"] }]"#;
    let map = Arc::new(BucketMap::from_toml(nodes).unwrap());
    let hedge = HedgeOptions {
        share_permille,
        ..HedgeOptions::default()
    };
    let mut routing = Routing::new(map, hedge, RetryOptions::default());
    let start = Instant::now();
    let (mut now_us, mut random, mut hedges) = (0_u64, 7_u64, 0);
    for _ in 0..calls {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let takes = if (random >> 33) % 100 < 4 { slow_us } else { 1_000 };
        let at = |us: u64| start + Duration::from_micros(us);
        let mut call = FanOut::<()>::new("t", &[1], Some(1), &mut routing, at(now_us)).unwrap();
        let mut under_way = Vec::new();
        loop {
            while let Some(send) = call.next_send() {
                hedges += u64::from(send.is_hedge);
                under_way.push((now_us + takes, send.copy));
            }
            let Some(&(answered, copy)) = under_way.first() else {
                break;
            };
            let due = call.timer_at().map(|due| (due - start).as_micros() as u64 + 1);
            if let Some(due) = due.filter(|due| *due < answered) {
                now_us = due;
                call.on_timer(&mut routing, at(now_us));
                continue;
            }
            under_way.remove(0);
            now_us = answered;
            let rows = Outcome::Rows {
                version: 1,
                active: 1,
            };
            let _ = call.on(copy, rows, &mut routing, at(now_us));
        }
        now_us += 500;
    }
    hedges
}

#[test]
fn a_caller_of_few_calls_hedges_no_more_than_the_budgets_allow() {
    let (calls, saved_max) = (20_000, 10);
    for share_permille in [1, 20] {
        // A node that takes 10 ms for a call is slow, and one that takes 100 ms for it stands still.
        for (slow_us, budgets) in [(10_000, 1), (100_000, 2)] {
            let hedges = hedges_of_single_calls(share_permille, slow_us, calls);
            let most = budgets * (calls * u64::from(share_permille) / 1_000 + saved_max);
            assert!(
                (1..=most).contains(&hedges),
                "{hedges} of {most}: {share_permille} permille, {slow_us} us"
            );
        }
    }
}
