//! What looking for victims costs, and that it gets everywhere.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::Cell as Counter;
use std::time::Duration;

use super::*;
use crate::sweep::{Due, Sweep};
use crate::tree::{Change, Content};

const HOUR: u64 = 3_600_000;

fn name(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

/// Entries of which those with `expires_ms` not 0 expire then.
fn with_entries(count: u64, expires_ms: impl Fn(u64) -> u64) -> Index {
    let index = Index::default();
    for number in 0..count {
        index.load(Content {
            key: &name(number),
            value: b"",
            version: number + 1,
            is_list: false,
            expires_ms: expires_ms(number),
        });
    }
    index
}

fn wanted(bytes: u64) -> Wanted {
    Wanted {
        bytes,
        entries_max: EVICTED_MAX,
        now_ms: 1,
    }
}

#[test]
fn what_one_write_looks_at_is_bounded_whatever_it_finds() {
    let index = with_entries(20_000, |_| 0);
    let room = Room::new(Some(1), Eviction::OldestWrite);
    let looked_at = Counter::new(0);
    // One of a hundred may go: some are found again and again.
    let may = |key: &[u8]| {
        looked_at.set(looked_at.get() + 1);
        key.ends_with(b"00")
    };
    let victims = Victims::draw(&index, &room, &wanted(u64::MAX), may);
    let found = victims.keys.len();
    assert!(found > 10, "{found}");
    let bound = 2 * (LOOKS_MIN + LOOKS_EACH * found) + LOOKED_ON_MAX + 32;
    assert!(looked_at.get() <= bound, "{} for {found}", looked_at.get());
}

#[test]
fn looks_in_order_go_on_where_the_last_ended_and_take_the_soonest_first() {
    // The seed's draws find none of four that lie side by side, of which the third is the first to expire.
    let soon = |number| if number == 15_002 { HOUR } else { 2 * HOUR };
    let index = with_entries(20_000, |number| match number {
        15_000..15_004 => soon(number),
        _ => 0,
    });
    let room = Room::new(Some(1), Eviction::SoonestExpiry);
    *room.from.lock().unwrap() = name(14_500);
    let victims = Victims::draw(&index, &room, &wanted(1), |_| true);
    assert_eq!(victims.keys.into_iter().collect::<Vec<_>>(), [name(15_002)]);
    assert_eq!(*room.from.lock().unwrap(), name(15_000), "what is left is next");
    // From the end it goes on at the begin, and comes to them within a turn.
    *room.from.lock().unwrap() = name(19_999);
    let found = (0..20).any(|_| !Victims::draw(&index, &room, &wanted(1), |_| true).keys.is_empty());
    assert!(found);
    // Where the only one may not go it ends, once around.
    let small = with_entries(3, |_| HOUR);
    let victims = Victims::draw(&small, &room, &wanted(1), |_| false);
    assert!(victims.keys.is_empty());
}

#[test]
fn no_two_draws_are_alike() {
    let index = with_entries(20_000, |_| 0);
    let room = Room::new(Some(1), Eviction::OldestWrite);
    let draw = || Victims::draw(&index, &room, &wanted(1), |_| true).keys;
    let (one, other) = (draw(), draw());
    assert!(one != other, "{one:?}");
}

#[test]
fn what_no_write_can_be_given_is_not_looked_for() {
    let index = with_entries(100, |_| 0);
    let room = Room::new(Some(1), Eviction::OldestWrite);
    let mean = index.bytes() / 100;
    assert!(room.may_find(&index, mean * EVICTED_MAX as u64));
    assert!(!room.may_find(&index, mean * EVICTED_MAX as u64 * MEANS_MAX + 1));
    assert!(!room.may_find(&Index::default(), 1));
}

#[test]
fn what_has_expired_is_removed_where_nothing_else_may_go() {
    let index = with_entries(20_000, |number| if number == 500 { 1 } else { 0 });
    let room = Room::new(Some(1000), Eviction::SoonestExpiry);
    // Looks for victims are behind it already, and draws hardly find it.
    *room.from.lock().unwrap() = name(1000);
    let mut sweep = Sweep::default();
    while sweep.wait(&index, &room) != Some(Duration::ZERO) {
        std::thread::yield_now();
    }
    let due = sweep.due(&index, &room);
    assert_eq!(
        due,
        Due {
            keys: vec![name(500)],
            evicted: 0
        }
    );
}

#[test]
fn removals_in_parts_hold_some_leaves_at_a_time() {
    let index = with_entries(1000, |_| 0);
    let keys: Vec<Vec<u8>> = (0..1000).map(name).collect();
    // Those before are gone by the time that the last is asked for.
    let mut gone_before_last = false;
    let removals = keys.iter().enumerate().map(|(at, key)| {
        if at == 999 {
            gone_before_last = index.version_of(&name(0)) == 0 && index.version_of(&name(500)) == 0;
        }
        Change::Remove(key)
    });
    index.remove_in_parts(removals);
    assert!(gone_before_last);
    assert_eq!((index.len(), index.bytes()), (0, 0));
}
