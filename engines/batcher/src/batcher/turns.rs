//! What waits, by the source it came from: sources are served in turn, and within a source
//! first come first served. It knows no model, no clock and no limit. Its one invariant: the
//! ring holds exactly the sources that have something waiting, each once.
//!
//! Push, pop, peek and evict cost the same however much waits: items lie in one list of places
//! that are linked by their numbers, a source that has nothing waiting is nowhere, and sources
//! are kept in lists by how many they have waiting, so that those with most are found at once.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// How many of the last turns tell whether they are filled again.
const TURNS_TOLD: f64 = 128.0;

/// Stands for "no place".
const NONE: usize = usize::MAX;

/// The waiting requests of one source, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Backlog {
    pub requests: usize,
    pub rows: usize,
    pub bytes: usize,
}

impl Backlog {
    fn add(&mut self, rows: usize, bytes: usize) {
        self.requests += 1;
        self.rows = self.rows.saturating_add(rows);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn remove(&mut self, rows: usize, bytes: usize) {
        self.requests -= 1;
        self.rows = self.rows.saturating_sub(rows);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Both together.
    pub(super) fn with(self, other: Backlog) -> Backlog {
        Backlog {
            requests: self.requests + other.requests,
            rows: self.rows.saturating_add(other.rows),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// The rest without `part`.
    pub(super) fn without(self, part: Backlog) -> Backlog {
        Backlog {
            requests: self.requests.saturating_sub(part.requests),
            rows: self.rows.saturating_sub(part.rows),
            bytes: self.bytes.saturating_sub(part.bytes),
        }
    }
}

/// A waiting item, linked to its source's items before and after it.
struct Place<T> {
    /// `None`: free, and `after` is the next free one.
    item: Option<T>,
    rows: usize,
    bytes: usize,
    before: usize,
    after: usize,
}

/// A source that has something waiting.
struct Source {
    number: u64,
    backlog: Backlog,
    oldest: usize,
    newest: usize,
    /// Neighbours among the sources that have as many waiting.
    before: usize,
    after: usize,
}

pub(super) struct Turns<T> {
    places: Vec<Place<T>>,
    place_free: usize,
    sources: Vec<Source>,
    sources_free: Vec<usize>,
    by_number: HashMap<u64, usize, BuildHasherDefault<NumberHasher>>,
    /// Whose turn is next, and after it.
    ring: VecDeque<usize>,
    /// The first of the sources that have so many waiting.
    by_length: Vec<usize>,
    longest: usize,
    backlog: Backlog,
    /// Turns that were had, as far as they are remembered, and for each of them the items that came behind others.
    turns: f64,
    refilled: f64,
    /// Items that came behind others, and then the turns that were had with nothing coming in between.
    came: u32,
    had: u32,
}

impl<T> Turns<T> {
    pub(super) fn new() -> Turns<T> {
        Turns {
            places: Vec::new(),
            place_free: NONE,
            sources: Vec::new(),
            sources_free: Vec::new(),
            by_number: HashMap::default(),
            ring: VecDeque::new(),
            by_length: vec![NONE],
            longest: 0,
            backlog: Backlog::default(),
            // As if some had been had, and none filled again.
            turns: TURNS_TOLD / 4.0,
            refilled: 0.0,
            came: 0,
            had: 0,
        }
    }

    /// The share of the turns had lately that were filled again by what came meanwhile: 1 where as much waits as before, as when all
    /// ask for more than they get. What waits already fills its turns by itself: a burst that drains is not counted twice.
    pub(super) fn refilled(&self) -> f64 {
        self.with_last_turns().1.min(1.0)
    }

    /// Turns, and what filled them, with those that were had last. When these emptied the queue, nothing filled them.
    fn with_last_turns(&self) -> (f64, f64) {
        if self.had == 0 {
            return (self.turns, self.refilled);
        }
        let had = f64::from(self.had);
        let filled = match self.backlog.requests {
            0 => 0.0,
            // As many come to so many turns by chance where one comes to each. Of a crowd that comes once no more count.
            _ => f64::from(self.came).min(had + had.sqrt() + 1.0) / had,
        };
        let turns = (self.turns + had).min(TURNS_TOLD);
        let weight = (had / turns).min(1.0);
        (turns, self.refilled + weight * (filled - self.refilled))
    }

    /// One more item comes. Where nothing waits it fills no turn again.
    fn count_came(&mut self) {
        if self.had > 0 {
            (self.turns, self.refilled) = self.with_last_turns();
            (self.came, self.had) = (0, 0);
        }
        self.came = self.came.saturating_add(u32::from(self.backlog.requests > 0));
    }

    /// All waiting items.
    pub(super) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// The waiting items of one source.
    pub(super) fn backlog_of(&self, source: u64) -> Backlog {
        let at = self.by_number.get(&source);
        at.map_or_else(Backlog::default, |&at| self.sources[at].backlog)
    }

    /// How many sources have something waiting.
    pub(super) fn sources(&self) -> usize {
        self.ring.len()
    }

    /// Puts `item` behind all that waits of `source`; a source that had nothing waiting gets the last turn.
    pub(super) fn push(&mut self, source: u64, rows: usize, bytes: usize, item: T) {
        let at = match self.by_number.get(&source) {
            Some(&at) => at,
            None => self.enter(source),
        };
        let newest = self.sources[at].newest;
        let place = self.take_place(Place {
            item: Some(item),
            rows,
            bytes,
            before: newest,
            after: NONE,
        });
        match self.places.get_mut(newest) {
            Some(before) => before.after = place,
            None => self.sources[at].oldest = place,
        }
        self.sources[at].newest = place;
        self.count_came();
        self.backlog.add(rows, bytes);
        self.unlist(at);
        self.sources[at].backlog.add(rows, bytes);
        self.list(at);
        self.longest = self.longest.max(self.sources[at].backlog.requests);
    }

    /// The item whose turn it is.
    pub(super) fn front(&self) -> Option<&T> {
        let at = *self.ring.front()?;
        self.places[self.sources[at].oldest].item.as_ref()
    }

    /// All that waits, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let oldest = self.ring.iter().map(|at| self.sources[*at].oldest);
        let item = |place: usize| self.places.get(place);
        oldest.flat_map(move |first| {
            let places = std::iter::successors(item(first), move |found| item(found.after));
            places.filter_map(|found| found.item.as_ref())
        })
    }

    /// What waits of one source, the newest first.
    pub(super) fn newest_first(&self, source: u64) -> impl Iterator<Item = &T> {
        let at = self.by_number.get(&source);
        let item = |place: usize| self.places.get(place);
        let newest = at.and_then(|&at| item(self.sources[at].newest));
        std::iter::successors(newest, move |found| item(found.before)).filter_map(|found| found.item.as_ref())
    }

    /// Takes the one whose turn it is. `turn_used` says whether that was its source's turn; one that
    /// is taken only to be dropped leaves it to the next of its source.
    pub(super) fn pop(&mut self, turn_used: bool) -> Option<T> {
        let at = *self.ring.front()?;
        let item = self.take(at, self.sources[at].oldest);
        if turn_used {
            self.had = self.had.saturating_add(1);
        }
        if self.sources[at].backlog.requests == 0 {
            self.ring.pop_front();
            self.leave(at);
        } else if turn_used {
            self.ring.rotate_left(1);
        }
        item
    }

    /// The source that gives way: the one that has most waiting, or whose turn is last where each has one item.
    fn loser(&self) -> Option<usize> {
        match self.longest {
            0 | 1 => self.ring.back().copied(),
            longest => Some(self.by_length[longest]),
        }
    }

    /// The newest item of the source that has most waiting; the one whose turn is last where each has one.
    pub(super) fn last(&self) -> Option<&T> {
        self.places[self.sources[self.loser()?].newest].item.as_ref()
    }

    /// Takes what [`Turns::last`] gives.
    pub(super) fn evict_last(&mut self) -> Option<T> {
        let at = self.loser()?;
        let item = self.take(at, self.sources[at].newest);
        if self.sources[at].backlog.requests == 0 {
            self.ring.pop_back();
            self.leave(at);
        }
        item
    }

    /// Makes room for one more of `source` by taking what [`Turns::last`] gives, when that one's source has still more waiting than
    /// `source` will have. `None`: nobody has to give way.
    pub(super) fn evict_for(&mut self, source: u64) -> Option<T> {
        if !self.gives_way(source) {
            return None;
        }
        self.evict_last()
    }

    /// Whether the item that [`Turns::last`] gives makes room for one more of `source`: when its source has still more waiting than
    /// `source` will have.
    pub(super) fn gives_way(&self, source: u64) -> bool {
        self.longest > self.backlog_of(source).requests + 1 && self.by_length[self.longest] != NONE
    }

    fn enter(&mut self, number: u64) -> usize {
        let source = Source {
            number,
            backlog: Backlog::default(),
            oldest: NONE,
            newest: NONE,
            before: NONE,
            after: NONE,
        };
        let at = match self.sources_free.pop() {
            Some(at) => {
                self.sources[at] = source;
                at
            }
            None => {
                self.sources.push(source);
                self.sources.len() - 1
            }
        };
        self.by_number.insert(number, at);
        self.ring.push_back(at);
        at
    }

    /// Forgets a source that has nothing waiting and no turn.
    fn leave(&mut self, at: usize) {
        self.by_number.remove(&self.sources[at].number);
        self.sources_free.push(at);
    }

    fn take_place(&mut self, place: Place<T>) -> usize {
        let free = self.place_free;
        match self.places.get_mut(free) {
            Some(found) => {
                self.place_free = found.after;
                *found = place;
                free
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        }
    }

    /// Takes the item of `place` out of the source's list.
    fn take(&mut self, at: usize, place: usize) -> Option<T> {
        let found = &mut self.places[place];
        let (rows, bytes) = (found.rows, found.bytes);
        let (before, after) = (found.before, found.after);
        let item = found.item.take();
        found.after = self.place_free;
        self.place_free = place;
        match self.places.get_mut(before) {
            Some(neighbour) => neighbour.after = after,
            None => self.sources[at].oldest = after,
        }
        match self.places.get_mut(after) {
            Some(neighbour) => neighbour.before = before,
            None => self.sources[at].newest = before,
        }
        self.backlog.remove(rows, bytes);
        self.unlist(at);
        self.sources[at].backlog.remove(rows, bytes);
        self.list(at);
        if self.by_length[self.longest] == NONE {
            // The source that left this list is in the one below, or has nothing waiting any more.
            self.longest = self.longest.saturating_sub(1);
        }
        item
    }

    /// Takes a source out of the list of those that have as many waiting.
    fn unlist(&mut self, at: usize) {
        let Source {
            backlog,
            before,
            after,
            ..
        } = self.sources[at];
        if backlog.requests == 0 {
            return;
        }
        match self.sources.get_mut(before) {
            Some(neighbour) => neighbour.after = after,
            None => self.by_length[backlog.requests] = after,
        }
        if let Some(neighbour) = self.sources.get_mut(after) {
            neighbour.before = before;
        }
    }

    /// Puts it at the front of the list where it belongs now.
    fn list(&mut self, at: usize) {
        let length = self.sources[at].backlog.requests;
        if length == 0 {
            return;
        }
        if length == self.by_length.len() {
            self.by_length.push(NONE);
        }
        let first = std::mem::replace(&mut self.by_length[length], at);
        if let Some(neighbour) = self.sources.get_mut(first) {
            neighbour.before = at;
        }
        (self.sources[at].before, self.sources[at].after) = (NONE, first);
    }
}

/// Spreads numbers that this process counted itself: nobody can choose them to collide.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio; the high bits, which the map tags with, get the low ones' share.
        let spread = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
