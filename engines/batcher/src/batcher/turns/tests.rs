//! The queue in turns against the plainest model of it: a list of lists that is searched from its beginning.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use proptest::prelude::*;

/// One that waits: its number, rows and bytes.
type Item = (u32, usize, usize);

/// Sources in turn order, each with what it has waiting.
#[derive(Default)]
struct Naive(Vec<(u64, Vec<Item>)>);

impl Naive {
    fn waiting(&mut self, source: u64) -> usize {
        let found = self.0.iter().find(|(number, _)| *number == source);
        found.map_or(0, |(_, items)| items.len())
    }

    fn bytes_of(&self, source: u64) -> usize {
        let found = self.0.iter().find(|(number, _)| *number == source);
        found.map_or(0, |(_, items)| bytes_of(items))
    }

    fn push(&mut self, source: u64, item: Item) {
        match self.0.iter_mut().find(|(number, _)| *number == source) {
            Some((_, items)) => items.push(item),
            None => self.0.push((source, vec![item])),
        }
    }

    fn pop(&mut self, turn_used: bool) -> Option<u32> {
        let (source, mut items) = (!self.0.is_empty()).then(|| self.0.remove(0))?;
        let (item, ..) = items.remove(0);
        if !items.is_empty() {
            let at = if turn_used { self.0.len() } else { 0 };
            self.0.insert(at, (source, items));
        }
        Some(item)
    }

    fn backlog(&self) -> Backlog {
        let items = self.0.iter().flat_map(|(_, items)| items);
        let mut backlog = Backlog::default();
        items.for_each(|(_, rows, bytes)| backlog.add(*rows, *bytes));
        backlog
    }
}

#[derive(Debug, Clone)]
enum Step {
    Push(u64, usize, usize),
    Pop(bool),
    Evict(u64),
    /// Of what is worse than a newcomer.
    EvictLast,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..6, 1usize..9, 0usize..99).prop_map(|(source, rows, bytes)| Step::Push(source * source, rows, bytes)),
        3 => any::<bool>().prop_map(Step::Pop),
        1 => (0u64..7).prop_map(|source| Step::Evict(source * source)),
        1 => Just(Step::EvictLast),
    ]
}

/// The evicted one must be the newest of a source with most waiting, and only where that has more than the newcomer will.
fn check_evicted(naive: &mut Naive, newcomer: u64, evicted: Option<u32>) {
    let own = naive.waiting(newcomer);
    let most = naive.0.iter().map(|(_, items)| items.len()).max().unwrap_or(0);
    assert_eq!(evicted.is_some(), most > own + 1, "most {most}, own {own}");
    let Some(item) = evicted else { return };
    let of = naive
        .0
        .iter_mut()
        .find(|(_, items)| items.last().unwrap().0 == item);
    let (_, items) = of.expect("the newest of some source");
    assert_eq!(items.len(), most);
    items.pop();
}

/// The newest of a source with most waiting; the last in turn where each has one.
fn check_last(naive: &mut Naive, evicted: Option<u32>) {
    let Some(item) = evicted else { return };
    let most = naive.0.iter().map(|(_, items)| items.len()).max().unwrap_or(0);
    let is_its = |(_, items): &(u64, Vec<Item>)| items.last().unwrap().0 == item;
    let at = naive
        .0
        .iter()
        .position(is_its)
        .expect("the newest of some source");
    assert_eq!(naive.0[at].1.len(), most);
    assert!(most > 1 || at == naive.0.len() - 1);
    naive.0[at].1.pop();
    naive.0.retain(|(_, items)| !items.is_empty());
}

fn bytes_of(items: &[Item]) -> usize {
    items.iter().map(|(_, _, bytes)| bytes).sum()
}

proptest! {
    #[test]
    fn it_does_what_the_naive_one_does(steps in prop::collection::vec(step(), 0..400)) {
        let (mut turns, mut naive) = (Turns::new(), Naive::default());
        for (item, step) in (0u32..).zip(steps) {
            match step {
                Step::Push(source, rows, bytes) => {
                    turns.push(source, rows, bytes, item);
                    naive.push(source, (item, rows, bytes));
                }
                Step::Pop(turn_used) => prop_assert_eq!(turns.pop(turn_used), naive.pop(turn_used)),
                Step::EvictLast => {
                    prop_assert_eq!(turns.last().is_some(), !naive.0.is_empty());
                    let last = turns.last().copied();
                    prop_assert_eq!(turns.evict_last(), last);
                    check_last(&mut naive, last);
                }
                Step::Evict(newcomer) => check_evicted(&mut naive, newcomer, turns.evict_for(newcomer)),
            }
            prop_assert_eq!(turns.front().copied(), naive.0.first().map(|(_, items)| items[0].0));
            prop_assert_eq!((turns.backlog(), turns.sources()), (naive.backlog(), naive.0.len()));
            for source in 0u64..7 {
                let backlog = turns.backlog_of(source * source);
                prop_assert_eq!(backlog.requests, naive.waiting(source * source));
                prop_assert_eq!(backlog.bytes, naive.bytes_of(source * source));
            }
        }
    }
}

#[test]
fn sources_take_turns_and_keep_their_own_order() {
    let mut turns = Turns::new();
    for item in 0..4 {
        turns.push(7, 1, 0, ('a', item));
    }
    turns.push(8, 1, 0, ('b', 0));
    turns.push(9, 1, 0, ('c', 0));
    turns.push(8, 1, 0, ('b', 1));
    let order: Vec<_> = std::iter::from_fn(|| turns.pop(true)).collect();
    let expected = [
        ('a', 0),
        ('b', 0),
        ('c', 0),
        ('a', 1),
        ('b', 1),
        ('a', 2),
        ('a', 3),
    ];
    assert_eq!(order, expected);
}

#[test]
fn what_is_dropped_leaves_the_turn_to_the_next_of_its_source() {
    let mut turns = Turns::new();
    for (source, item) in [(1, "a0"), (1, "a1"), (2, "b0")] {
        turns.push(source, 1, 0, item);
    }
    assert_eq!(turns.pop(false), Some("a0"));
    assert_eq!(turns.pop(true), Some("a1"));
    assert_eq!(turns.pop(true), Some("b0"));
}

/// The source that gives way had more than an even share, and keeps at least as many as the newcomer then has.
#[test]
fn the_longest_gives_way_until_shares_are_even() {
    let mut turns = Turns::new();
    for item in 0..10 {
        turns.push(1, 1, 0, item);
    }
    for (expected, item) in [9, 8, 7, 6, 5].into_iter().zip(100..) {
        assert_eq!(turns.evict_for(2), Some(expected));
        turns.push(2, 1, 0, item);
    }
    assert_eq!(turns.evict_for(2), None);
    assert_eq!(turns.evict_for(1), None);
    assert!(turns.evict_for(3).is_some());
}

#[test]
fn sources_that_have_nothing_waiting_take_no_room() {
    let mut turns = Turns::new();
    for source in 0..100_000 {
        turns.push(source, 1, 0, source);
        assert_eq!(turns.pop(true), Some(source));
    }
    assert_eq!((turns.places.len(), turns.sources.len()), (1, 1));
    assert!(turns.by_number.is_empty() && turns.ring.is_empty());
}
