//! What is done with a call after what happened to it, and what that costs. Time is passed in.
#![allow(clippy::unwrap_used)]
use super::*;
use Action::{Answer, Fail, SendSecond, Wait};
use Event::{Answered, Failed, Later, NotSent, Standing, Timer};
use Sent::{First, Second};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Knows 200 calls of 10 ms, so that ten hedges are saved.
fn experienced(now: Instant) -> Hedging {
    let mut hedging = Hedging::new(HedgeOptions::default());
    for _ in 0..200 {
        let mut attempt = hedging.begin(now);
        assert_eq!(
            hedging.on(&mut attempt, Answered(First), now + ms(10)),
            Answer(First)
        );
    }
    hedging
}

#[test]
fn what_happens_to_a_call_says_what_is_done() {
    let check = |events: &[(u64, Event, Action)]| {
        let now = Instant::now();
        let mut hedging = experienced(now);
        let mut attempt = hedging.begin(now);
        for (at_ms, event, expected) in events {
            let action = hedging.on(&mut attempt, *event, now + ms(*at_ms));
            assert_eq!(action, *expected, "{event:?} of {events:?}");
        }
    };
    check(&[
        (2, Answered(First), Answer(First)),
        (10, Timer, Wait),
        (11, Failed(First), Wait),
    ]);
    check(&[
        (9, Timer, Wait),
        (10, Timer, SendSecond),
        (11, Timer, Wait),
        (12, Answered(Second), Answer(Second)),
    ]);
    check(&[
        (10, Timer, SendSecond),
        (11, Answered(First), Answer(First)),
        (12, Answered(Second), Wait),
    ]);
    check(&[
        (10, Timer, SendSecond),
        (11, Failed(First), Wait),
        (12, Failed(Second), Fail),
    ]);
    check(&[
        (10, Timer, SendSecond),
        (11, Failed(Second), Wait),
        (12, Answered(First), Answer(First)),
    ]);
    check(&[
        (10, Timer, SendSecond),
        (10, NotSent, Wait),
        (12, Failed(First), Fail),
    ]);
    check(&[
        (1, Failed(First), SendSecond),
        (10, Timer, Wait),
        (11, Answered(Second), Answer(Second)),
    ]);
    check(&[
        (1, Failed(First), SendSecond),
        (1, NotSent, Fail),
        (2, Answered(Second), Wait),
    ]);
    // Nothing is outstanding that could answer.
    check(&[
        (1, Answered(Second), Wait),
        (1, Failed(Second), Wait),
        (1, NotSent, Wait),
    ]);
}

#[test]
fn a_call_that_the_budget_refuses_is_due_again_ever_more_seldom() {
    let now = Instant::now();
    let mut hedging = experienced(now);
    let (mut attempt, mut other) = (hedging.begin(now), hedging.begin(now));
    hedging.saved.slow = HEDGE_COST - 1;
    let at = |attempt: &Attempt| attempt.timer_at().map(|at| at - now);
    for (due, next_us) in [(10, 20_000), (20, 30_000), (30, 45_000), (45, 67_500)] {
        assert_eq!(hedging.on(&mut attempt, Timer, now + ms(due)), Wait);
        assert_eq!(at(&attempt), Some(Duration::from_micros(next_us)));
    }
    // Where nothing is to be sent nothing is spent; a time that is named is due sooner, but not one that is over.
    hedging.saved.slow = HEDGE_COST;
    for (due, named, next) in [
        (10, None, 20),
        (20, Some(25), 25),
        (30, Some(30), 45),
        (50, Some(49), 75),
    ] {
        let later = Later(named.map(|named| now + ms(named)));
        assert_eq!(hedging.on(&mut other, later, now + ms(due)), Wait);
        assert_eq!(at(&other), Some(ms(next)), "{due}");
    }
    assert_eq!(hedging.on(&mut other, Timer, now + ms(75)), SendSecond);
    assert_eq!(hedging.saved.slow, 0);
}

#[test]
fn calls_of_a_replica_that_stands_still_have_a_budget_of_their_own_and_then_that_of_all() {
    let now = Instant::now();
    let mut hedging = experienced(now);
    assert_eq!(hedging.standing_after(), Some(ms(40)));
    hedging.saved = Saved {
        slow: HEDGE_COST,
        standing: HEDGE_COST,
    };
    let mut calls: Vec<Attempt> = (0..4).map(|_| hedging.begin(now)).collect();
    hedging.saved = Saved {
        slow: HEDGE_COST,
        standing: HEDGE_COST,
    };
    let mut on = |call: usize, event, at| hedging.on(&mut calls[call], event, now + ms(at));
    assert_eq!(on(0, Standing, 9), Wait);
    assert_eq!(on(0, Standing, 10), SendSecond);
    assert_eq!(on(1, Standing, 10), SendSecond);
    assert_eq!(on(2, Standing, 10), Wait);
    assert_eq!(hedging.saved, Saved::default());
    // What could not be sent goes back to the budget that paid, and so is charged what went to more nodes.
    hedging.on(&mut calls[0], NotSent, now + ms(10));
    assert_eq!((hedging.saved.slow, hedging.saved.standing), (0, HEDGE_COST));
    assert!(hedging.may_pay(true) && !hedging.may_pay(false));
    hedging.spread(&calls[1], 3);
    assert_eq!(
        (hedging.saved.slow, hedging.saved.standing),
        (-2 * HEDGE_COST, HEDGE_COST)
    );
    // Another slow call takes nothing of it.
    assert_eq!(hedging.on(&mut calls[3], Timer, now + ms(10)), Wait);
    assert_eq!(hedging.on(&mut calls[3], Standing, now + ms(20)), SendSecond);
}

#[test]
fn nothing_is_hedged_before_something_is_known_or_where_it_is_off() {
    let now = Instant::now();
    let off = HedgeOptions {
        share_permille: 0,
        ..HedgeOptions::default()
    };
    for (options, delay) in [(HedgeOptions::default(), Some(ms(10))), (off, None)] {
        let mut hedging = Hedging::new(options);
        for _ in 0..100 {
            assert_eq!(hedging.delay(), None);
            let mut attempt = hedging.begin(now);
            assert_eq!(attempt.timer_at(), None);
            hedging.on(&mut attempt, Answered(First), now + ms(10));
        }
        assert_eq!(hedging.delay(), delay);
        assert_eq!(hedging.begin(now).timer_at(), delay.map(|delay| now + delay));
    }
}

#[test]
fn a_delay_that_is_fixed_needs_no_measurement() {
    let now = Instant::now();
    let mut hedging = Hedging::new(HedgeOptions {
        share_permille: 1000,
        delay_fixed: Some(ms(3)),
        ..HedgeOptions::default()
    });
    let mut attempt = hedging.begin(now);
    assert_eq!(attempt.timer_at(), Some(now + ms(3)));
    assert_eq!(hedging.on(&mut attempt, Timer, now + ms(3)), SendSecond);
}

#[test]
fn a_hedge_that_is_not_sent_costs_nothing_and_failures_do_not_either() {
    let now = Instant::now();
    let mut hedging = experienced(now);
    let saved = hedging.saved.slow;
    let mut attempt = hedging.begin(now);
    assert_eq!(hedging.on(&mut attempt, Timer, now + ms(10)), SendSecond);
    assert_eq!(hedging.saved.slow, saved - HEDGE_COST);
    hedging.on(&mut attempt, NotSent, now + ms(10));
    assert_eq!(hedging.saved.slow, saved);
    let mut attempt = hedging.begin(now);
    assert_eq!(hedging.on(&mut attempt, Failed(First), now), SendSecond);
    assert_eq!(hedging.saved.slow, saved);
}
