//! The table that takes upserts, and what callers know of its fresh rows: which upsert each key may show.
//!
//! A row says by which upsert of its key's writer it was written, in every number but the last, which is the key. Writers have keys of
//! their own and upsert one after the other, so a later upsert is later in the log. Its invariant: a state is only ever made
//! firmer; what a restart has shown of a key is all that it may show until the next upsert of it.

use crate::finding::{Broken, Findings};
use crate::ledger::State;
use crate::tally::Tally;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Its name.
pub const NAME: &str = "fresh";
/// The folder of its overlay's log, below that of a life: on the store's disk.
pub const LOG: &str = "store/fresh";
/// Threads that upsert, and the probe of a disk that is well again.
pub const WRITERS: u64 = 3;
/// The writer of the probe.
pub const PROBE: u64 = WRITERS - 1;
const KEYS_EACH: u64 = 24;
/// Numbers of a row: the upsert five times, and the key.
pub const DIM: usize = 6;

/// What a lookup shows of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The row of that upsert; 0 is the version that was there first.
    Row(u64),
    /// No row.
    Nothing,
}

/// One call that writes and removes.
#[derive(Debug, Clone)]
struct Upsert {
    number: u64,
    rows: Vec<u64>,
    removed: Vec<u64>,
    state: State,
    /// Keys at which a lookup has shown it: the others follow, since it is shown key by key.
    seen: Vec<u64>,
}

#[derive(Debug, Default)]
struct Writer {
    /// How many upserts it has made.
    made: u64,
    /// Those since the last check after a restart, ascending.
    upserts: Vec<Upsert>,
    /// What that check has seen, of keys that were not as the first version has them.
    settled: BTreeMap<u64, Shown>,
}

/// What is known of all rows, over the rounds of a life.
#[derive(Debug, Default)]
pub struct Fresh(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    writers: BTreeMap<u64, Writer>,
    /// The highest that an upsert was answered.
    sequence: u64,
    /// How many folds may have been made active, each on the one before.
    stacked: u64,
}

/// What was known when a lookup was sent.
#[derive(Debug)]
pub struct Before {
    /// Of each key the newest upsert that is known to be there, or 0.
    newest: Vec<u64>,
    sequence: u64,
}

/// The keys of a writer.
pub fn keys_of(writer: u64) -> Range<u64> {
    writer * KEYS_EACH..(writer + 1) * KEYS_EACH
}

fn row(number: u64, key: u64) -> [u64; DIM] {
    let mut row = [number; DIM];
    row[DIM - 1] = key;
    row
}

/// What the first version has: every second key.
fn first(key: u64) -> Shown {
    match key.is_multiple_of(2) {
        true => Shown::Row(0),
        false => Shown::Nothing,
    }
}

/// The rows of the first version, as CSV.
pub fn first_rows() -> String {
    let mut rows = String::from("key,a,b,c,d,e,same\n");
    for key in (0..WRITERS * KEYS_EACH).filter(|key| first(*key) == Shown::Row(0)) {
        let numbers = row(0, key).map(|number| number.to_string());
        let _ = writeln!(rows, "{key},{}", numbers.join(","));
    }
    rows
}

/// The payload of an upsert.
pub fn payload(number: u64, rows: &[u64], removed: &[u64]) -> Value {
    let mut payload = json!({"table": NAME});
    if !rows.is_empty() {
        payload["keys"] = json!(rows);
        let values: Vec<u64> = rows.iter().flat_map(|key| row(number, *key)).collect();
        payload["values"] = json!(values);
    }
    if !removed.is_empty() {
        payload["remove"] = json!(removed);
    }
    payload
}

/// What a row shows; the words of a finding where it is nobody's.
pub fn shown(key: u64, is_found: bool, row: &[f32]) -> Result<Shown, String> {
    let wrong = || Err(format!("key {key} shows {row:?}, found: {is_found}"));
    if !is_found {
        return match row.iter().all(|number| *number == 0.0) {
            true => Ok(Shown::Nothing),
            false => wrong(),
        };
    }
    let Some((same, numbers)) = row.split_last() else {
        return wrong();
    };
    let number = numbers.first().copied().unwrap_or(-1.0);
    let is_whole = numbers.iter().all(|other| *other == number);
    match is_whole && *same == key as f32 && number >= 0.0 && number.fract() == 0.0 {
        true => Ok(Shown::Row(number as u64)),
        false => wrong(),
    }
}

impl Upsert {
    fn has(&self, key: u64) -> bool {
        self.rows.contains(&key) || self.removed.contains(&key)
    }

    /// Whether it leaves a key as it is shown.
    fn gives(&self, key: u64, shown: Shown) -> bool {
        match shown {
            Shown::Row(number) => number == self.number && self.rows.contains(&key),
            Shown::Nothing => self.removed.contains(&key),
        }
    }
}

impl Writer {
    /// The newest upsert of a key that is known to be there, or 0.
    fn newest(&self, key: u64) -> u64 {
        let there = |upsert: &&Upsert| {
            upsert.seen.contains(&key) || (upsert.state == State::There && upsert.has(key))
        };
        let newest = self.upserts.iter().rev().find(there);
        newest.map_or(0, |upsert| upsert.number)
    }

    fn settled(&self, key: u64) -> Shown {
        self.settled.get(&key).copied().unwrap_or_else(|| first(key))
    }

    /// The latest upsert that can have left a key as it is shown, of those from `since` on; 0 is the last restart.
    fn by(&self, key: u64, since: u64, shown: Shown) -> Option<u64> {
        let may = |upsert: &&Upsert| {
            upsert.number >= since && upsert.state != State::Absent && upsert.gives(key, shown)
        };
        let by = self.upserts.iter().rev().find(may).map(|upsert| upsert.number);
        by.or_else(|| (since == 0 && self.settled(key) == shown).then_some(0))
    }

    /// What is broken where nothing can have left a key so.
    fn wrong(&self, key: u64, since: u64, shown: Shown) -> (Broken, String) {
        let broken = match shown {
            Shown::Row(number) if number >= since.max(1) => Broken::UpsertWrong,
            _ => Broken::UpsertLost,
        };
        let after = match since {
            0 => format!("{:?} was found by the last restart", self.settled(key)),
            since => format!("upsert {since} was acknowledged or seen"),
        };
        (broken, format!("key {key} shows {shown:?} after {after}"))
    }
}

impl Fresh {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a writer's next upsert, of which nobody knows anything.
    pub fn begin(&self, writer: u64, rows: &[u64], removed: &[u64]) -> u64 {
        let mut known = self.known();
        let writer = known.writers.entry(writer).or_default();
        writer.made += 1;
        writer.upserts.push(Upsert {
            number: writer.made,
            rows: rows.to_vec(),
            removed: removed.to_vec(),
            state: State::Unknown,
            seen: Vec::new(),
        });
        writer.made
    }

    /// What became of an upsert. Two who know different things have found a fault.
    pub fn learn(&self, writer: u64, number: u64, state: State) -> Result<(), String> {
        let mut known = self.known();
        let upserts = known.writers.get_mut(&writer).map(|writer| &mut writer.upserts);
        let found =
            upserts.and_then(|upserts| upserts.iter_mut().rev().find(|upsert| upsert.number == number));
        match found {
            Some(upsert) if state == State::Absent && !upsert.seen.is_empty() => Err(format!(
                "upsert {number} of writer {writer} was shown and is {state:?}"
            )),
            Some(upsert) if upsert.state == State::Unknown || upsert.state == state => {
                upsert.state = state;
                Ok(())
            }
            Some(upsert) => {
                let was = upsert.state;
                Err(format!(
                    "upsert {number} of writer {writer} was {was:?} and is {state:?}"
                ))
            }
            None => Err(format!("upsert {number} of writer {writer} was never made")),
        }
    }

    /// An upsert was answered with that sequence.
    pub fn answered(&self, sequence: u64) {
        let mut known = self.known();
        known.sequence = known.sequence.max(sequence);
    }

    /// One more fold is about to be made active, or all of them are one version.
    pub fn stack(&self, is_one: bool) {
        let mut known = self.known();
        known.stacked = if is_one { 0 } else { known.stacked + 1 };
    }

    /// How many folds may stand on each other.
    pub fn stacked(&self) -> u64 {
        self.known().stacked
    }

    /// A lookup of a writer's keys is about to be sent.
    pub fn before(&self, writer: u64, keys: &[u64]) -> Before {
        let known = self.known();
        let newest = |key: &u64| known.writers.get(&writer).map_or(0, |writer| writer.newest(*key));
        Before {
            newest: keys.iter().map(newest).collect(),
            sequence: known.sequence,
        }
    }

    /// Holds the answer to a lookup of a writer's keys against what was known when it was sent. What it shows is there from then on.
    pub fn judge(
        &self,
        writer: u64,
        keys: &[u64],
        before: &Before,
        (shown, sequence): (&[Shown], u64),
    ) -> Result<(), (Broken, String)> {
        if sequence < before.sequence {
            let seen = format!(
                "overlay_sequence {sequence} after upsert {} was acknowledged",
                before.sequence
            );
            return Err((Broken::UpsertLost, seen));
        }
        let mut known = self.known();
        let state = known.writers.entry(writer).or_default();
        for ((&key, &since), &shown) in keys.iter().zip(&before.newest).zip(shown) {
            if state.by(key, since, shown).is_none() {
                return Err(state.wrong(key, since, shown));
            }
            let upserts = state.upserts.iter_mut();
            for upsert in upserts.filter(|upsert| shown == Shown::Row(upsert.number)) {
                upsert.seen.push(key);
            }
        }
        Ok(())
    }

    /// Holds what a writer's keys show after a restart, while nobody upserts, against what is known; what was not known is known from
    /// then on.
    pub fn check(&self, writer: u64, shown: &[Shown], findings: &Findings, tally: &Tally) {
        let mut known = self.known();
        let state = known.writers.entry(writer).or_default();
        // What was shown was written, and is there with all its keys.
        for upsert in state.upserts.iter_mut().filter(|upsert| !upsert.seen.is_empty()) {
            upsert.state = State::There;
        }
        let all: BTreeMap<u64, Shown> = keys_of(writer).zip(shown.iter().copied()).collect();
        Tally::add(&tally.upserts_checked, state.upserts.len() as u64);
        let mut by = BTreeMap::new();
        for (&key, &shown) in &all {
            let since = state.newest(key);
            match state.by(key, since, shown) {
                Some(upsert) => drop(by.insert(key, upsert)),
                None => {
                    let (broken, seen) = state.wrong(key, since, shown);
                    findings.tell(broken, format!("after a restart {seen}"));
                }
            }
        }
        // Where one row of an upsert is there all of it is, but for what a later one has overwritten.
        let rows = |upsert: &&Upsert| {
            upsert
                .rows
                .iter()
                .any(|key| all.get(key) == Some(&Shown::Row(upsert.number)))
        };
        for upsert in state.upserts.iter().filter(rows) {
            let keys = upsert.rows.iter().chain(&upsert.removed);
            for key in keys.filter(|key| by.get(key).is_some_and(|by| *by < upsert.number)) {
                let seen = format!(
                    "after a restart upsert {} of writer {writer} is there in part: not at key {key}",
                    upsert.number
                );
                findings.tell(Broken::UpsertWrong, seen);
            }
        }
        state.settled = all;
        state.upserts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writer 0 has written keys 0 and 1, then removed 0 and written 2, and the second is in this state: what a restart finds.
    fn check(second: State, shown: [Shown; 3], expected: &[Broken]) {
        let (fresh, findings) = (Fresh::default(), Findings::new(0));
        for (rows, removed, state) in [(&[0, 1][..], &[][..], State::There), (&[2], &[0], second)] {
            let number = fresh.begin(0, rows, removed);
            fresh.learn(0, number, state).unwrap();
        }
        let mut all: Vec<Shown> = keys_of(0).map(first).collect();
        all[..3].copy_from_slice(&shown);
        fresh.check(0, &all, &findings, &Tally::default());
        let found = findings.into_inner();
        let broken: Vec<Broken> = found.iter().map(|finding| finding.broken).collect();
        assert_eq!(broken, expected, "{second:?} {shown:?}: {found:?}");
        assert!(
            fresh
                .judge(0, &[2], &fresh.before(0, &[2]), (&[shown[2]], 0))
                .is_ok(),
            "a restart settles it"
        );
    }

    #[test]
    fn what_is_shown_is_held_against_what_is_known() {
        let (one, two) = (Shown::Row(1), Shown::Row(2));
        let (with, without) = ([Shown::Nothing, one, two], [one, one, Shown::Row(0)]);
        check(State::Unknown, with, &[]);
        check(State::Unknown, without, &[]);
        check(State::There, with, &[]);
        check(State::Absent, without, &[]);
        check(State::There, without, &[Broken::UpsertLost; 2]);
        check(State::Absent, with, &[Broken::UpsertLost, Broken::UpsertWrong]);
        check(State::Unknown, [one, one, two], &[Broken::UpsertWrong]);
        check(
            State::Unknown,
            [one, Shown::Nothing, Shown::Row(0)],
            &[Broken::UpsertLost],
        );
        check(
            State::Unknown,
            [one, Shown::Row(7), Shown::Row(0)],
            &[Broken::UpsertWrong],
        );
    }

    #[test]
    fn a_reader_sees_what_was_acknowledged_or_later_and_what_it_has_seen_stays() {
        let fresh = Fresh::default();
        let judge = |before: &Before, shown| fresh.judge(0, &[0], before, (&[shown], 4)).is_ok();
        let number = fresh.begin(0, &[0], &[]);
        let earlier = fresh.before(0, &[0]);
        fresh.learn(0, number, State::There).unwrap();
        assert!(judge(&earlier, Shown::Row(0)), "it was sent before the answer");
        assert!(!judge(&fresh.before(0, &[0]), Shown::Row(0)));
        let next = fresh.begin(0, &[0], &[]);
        let before = fresh.before(0, &[0]);
        assert!(judge(&before, Shown::Row(number)) && judge(&before, Shown::Row(next)));
        assert!(
            !judge(&fresh.before(0, &[0]), Shown::Row(number)),
            "the next was seen"
        );
        assert!(fresh.learn(0, next, State::Absent).is_err());
        fresh.answered(5);
        assert!(
            !judge(&fresh.before(0, &[0]), Shown::Row(next)),
            "its sequence is behind"
        );
    }

    #[test]
    fn a_row_of_two_upserts_is_nobodys() {
        let row = |numbers: [f32; DIM]| shown(7, true, &numbers);
        assert_eq!(row([3.0, 3.0, 3.0, 3.0, 3.0, 7.0]), Ok(Shown::Row(3)));
        assert!(row([3.0, 3.0, 3.0, 4.0, 4.0, 7.0]).is_err());
        assert!(row([3.0, 3.0, 3.0, 3.0, 3.0, 8.0]).is_err());
        assert_eq!(shown(7, false, &[0.0; DIM]), Ok(Shown::Nothing));
        assert!(shown(7, false, &[3.0, 3.0, 3.0, 3.0, 3.0, 7.0]).is_err());
    }
}
