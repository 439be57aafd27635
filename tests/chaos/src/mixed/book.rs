//! The book of a store: its lanes, and what becomes of each when the store was started anew, or another took its place.
//!
//! Its invariant: behind a check every lane is what the store holds, and what was acknowledged by then is known to be there, or told.

use super::cells::{Cell, Cells, Effect, Span, Value, apply, hear};
use super::read::{Found, now_ms};
use super::write::Write;
use super::{SHARED, prefix, together_key};
use crate::finding::{Broken, Findings};
use crate::tally::Tally;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known of the number that a lane's keys hold together.
#[derive(Debug, Default)]
pub struct Together {
    /// The lane's number.
    pub lane: u64,
    /// The last that was acknowledged,
    pub acknowledged: AtomicU64,
    /// the last that was sent,
    pub begun: AtomicU64,
    /// and the highest that a reader saw.
    pub seen: AtomicU64,
}

/// A write that was sent.
#[derive(Debug, Clone)]
struct Sent {
    write: Write,
    /// When it took effect, if it did.
    at: Span,
}

/// A write that was acknowledged.
#[derive(Debug)]
struct Done {
    /// What the lane held behind it.
    after: Cells,
    /// Versions that it was answered, from the first to the last.
    versions: Option<(u64, u64)>,
}

/// Keys that one thread at a time writes.
#[derive(Debug, Default)]
pub struct Lane {
    /// Its number.
    pub number: u64,
    /// What it holds, of what was acknowledged.
    pub cells: Cells,
    /// Writes that were made, each with a number.
    pub made: u64,
    /// What readers are told.
    pub together: Arc<Together>,
    /// A write whose outcome nobody knows.
    doubt: Option<Sent>,
    /// The highest version that it was answered.
    floor: u64,
    /// What it held at the last check, and what was acknowledged since.
    base: Cells,
    since: Vec<Done>,
}

/// Additions to the counter of all.
#[derive(Debug, Default)]
struct Shared {
    acknowledged: u64,
    begun: u64,
    /// Sums that were answered since the last check.
    sums: std::collections::BTreeSet<u64>,
}

/// All that is known of a store.
#[derive(Debug)]
pub struct Book {
    /// The store.
    pub table: &'static str,
    /// What its writes have to say that they survive.
    pub durability: &'static str,
    free: Mutex<Vec<Lane>>,
    parked: Mutex<Vec<Lane>>,
    watched: Mutex<Vec<Arc<Together>>>,
    shared: Mutex<Shared>,
}

/// How what a store holds has to follow from what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// All that was acknowledged.
    All,
    /// The beginning of what was acknowledged, in the store's order: a copy that was some way behind.
    Beginning,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    /// A write is about to be sent; its effects, or `None` where a condition stands against it.
    pub fn begin(&mut self, write: Write) -> Option<Vec<Effect>> {
        let at = Span {
            from: now_ms(),
            to: now_ms(),
        };
        let effects = apply(&mut self.cells.clone(), &write, at);
        self.doubt = Some(Sent { write, at });
        effects
    }

    /// It took no effect.
    pub fn refused(&mut self) {
        self.doubt = None;
    }

    /// It was answered so.
    ///
    /// # Errors
    /// What differs from what it had to be answered.
    pub fn acknowledged(&mut self, answer: &Json) -> Result<(), String> {
        let Some(mut sent) = self.doubt.take() else {
            return Err("an answer without a write".to_owned());
        };
        sent.at.to = now_ms();
        let effects = apply(&mut self.cells, &sent.write, sent.at).ok_or_else(|| {
            format!(
                "a condition that does not hold was taken for one that does: {:?}",
                sent.write
            )
        })?;
        let floor = self.floor;
        self.floor = hear(&mut self.cells, &sent.write, &effects, answer, floor)?;
        let told = answer["versions"].as_array().into_iter().flatten();
        let told: Vec<u64> = told.filter_map(Json::as_u64).collect();
        let versions = match (told.first(), told.last(), answer["version"].as_u64()) {
            (Some(first), Some(last), _) => Some((*first, *last)),
            (_, _, Some(version)) if version > floor => Some((version, version)),
            _ => None,
        };
        let after = self.cells.clone();
        self.since.push(Done { after, versions });
        Ok(())
    }

    /// Whether a write is in doubt.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// The number that its keys hold together.
    fn number_of(&self, cells: &Cells) -> u64 {
        match cells.get(&together_key(self.number, 0)).map(|cell| &cell.value) {
            Some(Value::Bytes(text)) => text.parse().unwrap_or(0),
            _ => 0,
        }
    }

    /// The states that it may be in, ascending: behind so many of the writes since the last check.
    fn states(&self, promise: Promise, at: u64) -> Vec<(usize, Cells)> {
        let mut states = Vec::new();
        let last = self.since.len();
        if promise == Promise::Beginning {
            let before = std::iter::once(&self.base).chain(self.since.iter().map(|done| &done.after));
            states.extend(before.take(last).cloned().enumerate());
        }
        states.push((last, self.cells.clone()));
        if let Some(sent) = &self.doubt {
            let mut cells = self.cells.clone();
            // It may have waited in the server until it ended.
            let at = Span { to: at, ..sent.at };
            if apply(&mut cells, &sent.write, at).is_some() {
                states.push((last + 1, cells));
            }
        }
        states
    }

    /// Takes what a store holds of it; the first and the last count of writes that give that, of all since the last check.
    fn settle(&mut self, found: &Found, promise: Promise) -> Result<(usize, usize), (Broken, String)> {
        let states = self.states(promise, found.began_ms);
        let mut fitting = states.iter().filter(|(_, cells)| found.agrees(cells).is_ok());
        let first = fitting.next();
        let last = fitting.next_back().or(first);
        let (Some((first, _)), Some((last, cells))) = (first, last) else {
            let differs = found.agrees(&self.cells).err().unwrap_or_default();
            let is_lost = self
                .cells
                .iter()
                .any(|(key, cell)| cell.expires.is_none() && !found.cells.contains_key(key));
            let broken = if is_lost {
                Broken::PutLost
            } else {
                Broken::PutWrong
            };
            let doubt = self.doubt.as_ref().map(|sent| &sent.write);
            return Err((
                broken,
                format!("lane {}: {differs}; in doubt: {doubt:?}", self.number),
            ));
        };
        let (counts, cells) = ((*first, *last), cells.clone());
        let seen = self.together.seen.load(Ordering::SeqCst);
        let number = self.number_of(&cells);
        if promise == Promise::All && number < seen {
            let seen = format!("lane {}: a reader saw {seen}, {number} is there", self.number);
            return Err((Broken::PutLost, seen));
        }
        self.together.acknowledged.store(number, Ordering::SeqCst);
        self.together.seen.store(number, Ordering::SeqCst);
        self.cells = found.versions_of(cells);
        self.floor = self
            .cells
            .values()
            .filter_map(|cell| cell.version)
            .fold(0, u64::max);
        Ok(counts)
    }

    /// The versions of what was written up to a count, and of what was written behind it.
    fn order(&self, (first, last): (usize, usize)) -> (u64, u64) {
        let within = self.since.iter().take(first).filter_map(|done| done.versions);
        let behind = self.since.iter().skip(last).filter_map(|done| done.versions);
        (
            within.map(|(_, last)| last).fold(0, u64::max),
            behind.map(|(first, _)| first).fold(u64::MAX, u64::min),
        )
    }
}

impl Book {
    /// Of an empty store.
    pub fn new(table: &'static str, durability: &'static str) -> Book {
        Book {
            table,
            durability,
            free: Mutex::default(),
            parked: Mutex::default(),
            watched: Mutex::default(),
            shared: Mutex::default(),
        }
    }

    /// A lane for one writer.
    pub fn take(&self) -> Lane {
        if let Some(lane) = lock(&self.free).pop() {
            return lane;
        }
        let mut watched = lock(&self.watched);
        let together = Arc::new(Together {
            lane: watched.len() as u64,
            ..Together::default()
        });
        watched.push(Arc::clone(&together));
        Lane {
            number: together.lane,
            together,
            ..Lane::default()
        }
    }

    /// It is written no more for now.
    pub fn give_back(&self, lane: Lane) {
        let place = if lane.is_in_doubt() {
            &self.parked
        } else {
            &self.free
        };
        lock(place).push(lane);
    }

    /// All lanes that there are, for readers.
    pub fn watched(&self) -> Vec<Arc<Together>> {
        lock(&self.watched).clone()
    }

    /// One is about to be added to the counter: how many are known to have been.
    pub fn begin_adding(&self) -> u64 {
        let mut shared = lock(&self.shared);
        shared.begun += 1;
        shared.acknowledged
    }

    /// It was not.
    pub fn not_added(&self) {
        lock(&self.shared).begun -= 1;
    }

    /// It was, and this is the sum.
    ///
    /// # Errors
    /// The sum is none that it can be.
    pub fn added(&self, before: u64, sum: u64) -> Result<(), String> {
        let mut shared = lock(&self.shared);
        shared.acknowledged += 1;
        let is_new = shared.sums.insert(sum);
        if !is_new || sum <= before || sum > shared.begun {
            return Err(format!(
                "the counter was {before} at least, {} at most, and one more made {sum}; new: {is_new}",
                shared.begun
            ));
        }
        Ok(())
    }

    /// Holds what a store has, while nobody writes it, against what is known.
    pub fn settle(&self, all: &Found, promise: Promise, findings: &Findings, tally: &Tally) {
        let mut free = lock(&self.free);
        free.append(&mut lock(&self.parked));
        free.sort_by_key(|lane| std::cmp::Reverse(lane.number));
        let (mut within, mut behind, mut lost) = (0, u64::MAX, 0);
        let mut left: BTreeMap<String, Cell> = all.cells.clone();
        for lane in free.iter_mut() {
            let found = all.of(&prefix(lane.number));
            left.retain(|key, _| !found.cells.contains_key(key));
            Tally::add(
                &tally.mixed_checked,
                lane.since.len() as u64 + u64::from(lane.is_in_doubt()),
            );
            match lane.settle(&found, promise) {
                Ok(counts) => {
                    let (last, first) = lane.order(counts);
                    (within, behind) = (within.max(last), behind.min(first));
                    lost += lane.since.len().saturating_sub(counts.1);
                }
                Err((broken, seen)) => findings.tell(broken, format!("{}: {seen}", self.table)),
            }
            lane.doubt = None;
            lane.since.clear();
            lane.base = lane.cells.clone();
        }
        Tally::add(&tally.mixed_behind, lost as u64);
        if within >= behind {
            let seen = format!("{}: version {within} is there, and {behind} is not", self.table);
            findings.tell(Broken::PutWrong, seen);
        }
        self.settle_shared(left.remove(SHARED), promise, findings);
        for (key, cell) in left {
            findings.tell(
                Broken::PutWrong,
                format!("{}: nobody has put {key}: {cell:?}", self.table),
            );
        }
    }

    fn settle_shared(&self, found: Option<Cell>, promise: Promise, findings: &Findings) {
        let mut shared = lock(&self.shared);
        let sum = match found.map(|cell| cell.value) {
            Some(Value::Bytes(text)) => text.parse().unwrap_or(u64::MAX),
            None => 0,
            Some(Value::List(_)) => u64::MAX,
        };
        let least = if promise == Promise::All {
            shared.acknowledged
        } else {
            0
        };
        if sum < least || sum > shared.begun {
            let broken = if sum < least {
                Broken::PutLost
            } else {
                Broken::PutWrong
            };
            let seen = format!(
                "{}: the counter of {least} to {} is {sum}",
                self.table, shared.begun
            );
            findings.tell(broken, seen);
        }
        (shared.acknowledged, shared.begun) = (sum, sum);
        shared.sums.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixed::{Condition, Operation};
    use serde_json::json;

    fn put(key: &str, value: &str) -> Operation {
        Operation::Put {
            key: format!("lane/0000/{key}"),
            value: value.to_owned(),
            condition: Condition::None,
            ttl_ms: None,
        }
    }

    fn batch(operations: Vec<Operation>) -> Write {
        Write {
            operations,
            is_batch: true,
        }
    }

    /// A book with one lane, of whose writes so many are acknowledged, each of two keys and the last one in doubt.
    fn book(acknowledged: u64) -> Book {
        let book = Book::new("store", "synced");
        let mut lane = book.take();
        for number in 1..=acknowledged + 1 {
            let text = number.to_string();
            lane.begin(batch(vec![put("a", &text), put("b", &text)])).unwrap();
            if number <= acknowledged {
                let answer = json!({"results": [number * 2 - 1, number * 2]});
                lane.acknowledged(&answer).unwrap();
            }
        }
        book.give_back(lane);
        book
    }

    fn found(cells: &[(&str, u64, u64)]) -> Found {
        let cell = |(key, value, version): &(&str, u64, u64)| {
            let cell = Cell {
                value: Value::Bytes(value.to_string()),
                version: Some(*version),
                expires: None,
            };
            (format!("lane/0000/{key}"), cell)
        };
        Found {
            began_ms: now_ms(),
            ended_ms: now_ms(),
            cells: cells.iter().map(cell).collect(),
        }
    }

    fn check(promise: Promise, cells: &[(&str, u64, u64)], expected: &[Broken]) {
        let (book, findings) = (book(2), Findings::new(0));
        book.settle(&found(cells), promise, &findings, &Tally::default());
        let told: Vec<Broken> = findings
            .into_inner()
            .iter()
            .map(|finding| finding.broken)
            .collect();
        assert_eq!(told, expected, "{cells:?}");
    }

    #[test]
    fn a_lane_is_as_before_a_write_in_doubt_or_as_behind_it() {
        check(Promise::All, &[("a", 2, 3), ("b", 2, 4)], &[]);
        check(Promise::All, &[("a", 3, 5), ("b", 3, 6)], &[]);
        // Half of it, and none of what was acknowledged before.
        check(Promise::All, &[("a", 3, 5), ("b", 2, 4)], &[Broken::PutWrong]);
        check(Promise::All, &[("a", 1, 1), ("b", 1, 2)], &[Broken::PutWrong]);
        check(Promise::All, &[], &[Broken::PutLost]);
        // Another version, and another key.
        check(Promise::All, &[("a", 2, 3), ("b", 2, 9)], &[Broken::PutWrong]);
        check(
            Promise::All,
            &[("a", 2, 3), ("b", 2, 4), ("c", 1, 9)],
            &[Broken::PutWrong],
        );
    }

    #[test]
    fn a_copy_that_was_behind_has_a_beginning() {
        check(Promise::Beginning, &[], &[]);
        check(Promise::Beginning, &[("a", 1, 1), ("b", 1, 2)], &[]);
        check(Promise::Beginning, &[("a", 3, 5), ("b", 3, 6)], &[]);
        check(
            Promise::Beginning,
            &[("a", 1, 1), ("b", 2, 4)],
            &[Broken::PutWrong],
        );
    }

    #[test]
    fn the_counter_adds_up() {
        let book = Book::new("store", "synced");
        let before = [(); 3].map(|()| book.begin_adding());
        assert_eq!((before, book.added(0, 2)), ([0; 3], Ok(())));
        assert!(book.added(0, 2).is_err(), "the same sum again");
        assert!(book.added(0, 4).is_err(), "more than was added");
        assert!(book.added(1, 1).is_err(), "less than was known before");
    }

    #[test]
    fn what_was_not_answered_so_is_found() {
        let book = Book::new("store", "synced");
        let mut lane = book.take();
        let append = Operation::Append {
            key: "lane/0000/list".to_owned(),
            items: vec!["1".to_owned(), "2".to_owned()],
            keep: 1,
        };
        for (answer, is_right) in [
            (json!({"results": [7, 1]}), true),
            (json!({"results": [8, 2]}), false),
            (json!({"results": [7, 1]}), false),
            (json!({"results": [9]}), false),
        ] {
            lane.begin(batch(vec![put("a", "x"), append.clone()])).unwrap();
            assert_eq!(lane.acknowledged(&answer).is_ok(), is_right, "{answer}");
        }
    }
}
