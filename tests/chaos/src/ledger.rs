//! What callers know of a store: which puts they made, and what became of each.
//!
//! A put is a writer's and has a number; its entries follow from the two, so that the ledger keeps one state a put. Three keys
//! of its own, and the writer's register, which holds the number of its newest put. Its invariant: a state is only ever
//! made firmer, by an answer or by what was found after a restart.

use crate::finding::{Broken, Findings};
use crate::tally::Tally;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Keys of a put besides the register.
const PARTS: u64 = 3;

/// What callers know of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was sent, and nobody knows.
    Unknown,
    /// Acknowledged, or seen by a reader, or found after a restart: it stays.
    There,
    /// Refused with the promise that nothing was written, or not found after a restart: it does not come.
    Absent,
}

/// The states of all puts of a store.
#[derive(Debug, Default)]
pub struct Ledger {
    writers: Mutex<BTreeMap<u64, Vec<State>>>,
}

/// A key of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Part { writer: u64, number: u64, part: u64 },
    Register { writer: u64 },
}

/// The key of a writer's register.
pub fn register(writer: u64) -> String {
    format!("register/{writer}")
}

/// The key of a part.
pub fn key(writer: u64, number: u64, part: u64) -> String {
    format!("put/{writer}/{number:08}/{part}")
}

/// The value of a part: told from all others by its beginning, of a length from a few bytes to some thousand.
fn value(writer: u64, number: u64, part: u64) -> String {
    let mixed = (writer * 31 + number * 7 + part).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let length = match mixed % 16 {
        0 => mixed % 6000,
        _ => mixed % 90,
    };
    format!("{writer} {number} {part} {}", "v".repeat(length as usize))
}

/// All entries of a put, in the order in which a reader has to see them: whoever sees one sees all behind it.
pub fn entries(writer: u64, number: u64) -> Vec<[String; 2]> {
    let parts = (0..PARTS).map(|part| [key(writer, number, part), value(writer, number, part)]);
    parts.chain([[register(writer), number.to_string()]]).collect()
}

fn parse(text: &str) -> Option<Key> {
    let mut words = text.split('/');
    let key = match (
        words.next()?,
        words.next()?.parse().ok()?,
        words.next(),
        words.next(),
    ) {
        ("register", writer, None, None) => Key::Register { writer },
        ("put", writer, Some(number), Some(part)) => Key::Part {
            writer,
            number: number.parse().ok()?,
            part: part.parse().ok()?,
        },
        _ => return None,
    };
    words.next().is_none().then_some(key)
}

impl Ledger {
    /// The number of a writer's next put, which nobody knows anything of.
    pub fn begin(&self, writer: u64) -> u64 {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let puts = writers.entry(writer).or_default();
        puts.push(State::Unknown);
        puts.len() as u64 - 1
    }

    /// What became of a put. Two who know different things have found a fault.
    pub fn learn(&self, writer: u64, number: u64, state: State) -> Result<(), String> {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = writers
            .get_mut(&writer)
            .and_then(|puts| puts.get_mut(number as usize));
        match known {
            Some(known) if *known == State::Unknown || *known == state => {
                *known = state;
                Ok(())
            }
            Some(known) => Err(format!(
                "put {number} of writer {writer} was {known:?} and is {state:?}"
            )),
            None => Err(format!("put {number} of writer {writer} was never made")),
        }
    }

    /// What is known of a put.
    pub fn state(&self, writer: u64, number: u64) -> Option<State> {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(&writer)?.get(number as usize).copied()
    }

    /// The number of the newest put of a writer that is known to be there.
    pub fn newest(&self, writer: u64) -> Option<u64> {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let there = |state: &State| *state == State::There;
        Some(writers.get(&writer)?.iter().rposition(there)? as u64)
    }

    /// The writers that have made puts.
    pub fn writers(&self) -> Vec<u64> {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.keys().copied().collect()
    }

    /// Holds everything that a store has after a restart, while nobody puts, against what is known; what was not known is
    /// known from then on.
    pub fn check(&self, found: &[(String, String)], findings: &Findings, tally: &Tally) {
        let mut stored = Stored::sort(found, findings);
        let writers = self
            .writers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (&writer, puts) in &writers {
            let mut newest = None;
            for (number, state) in (0..).zip(puts) {
                Tally::add(&tally.puts_checked, 1);
                let count = stored.parts.remove(&(writer, number)).unwrap_or(0);
                let what = format!("put {number} of writer {writer}");
                let now = match settle(*state, count, &what) {
                    Ok(now) => now,
                    Err((broken, seen)) => {
                        findings.tell(broken, seen);
                        continue;
                    }
                };
                if now == State::There {
                    newest = Some(number);
                }
                if let Err(error) = self.learn(writer, number, now) {
                    findings.tell(Broken::PutWrong, error);
                }
            }
            // One writer's puts follow each other, so its register is of the newest that is there.
            let held = stored.registers.remove(&writer).flatten();
            if held != newest {
                findings.tell(
                    Broken::PutWrong,
                    format!("the register of writer {writer} holds {held:?}; its newest put is {newest:?}"),
                );
            }
        }
        for (writer, number) in stored.parts.keys() {
            findings.tell(
                Broken::PutWrong,
                format!("put {number} of writer {writer} was never made"),
            );
        }
    }
}

/// What a store has.
struct Stored {
    /// How many keys of each put.
    parts: BTreeMap<(u64, u64), u64>,
    /// What each writer's register holds, if that is a number.
    registers: BTreeMap<u64, Option<u64>>,
}

impl Stored {
    /// Sorts keys by what they belong to; tells of those that nobody can have put so.
    fn sort(found: &[(String, String)], findings: &Findings) -> Stored {
        let mut stored = Stored {
            parts: BTreeMap::new(),
            registers: BTreeMap::new(),
        };
        for (text, found) in found {
            match parse(text) {
                Some(Key::Part { writer, number, part }) => {
                    if *found != value(writer, number, part) {
                        findings.tell(Broken::PutWrong, format!("{text} holds {found:.60?}"));
                    }
                    *stored.parts.entry((writer, number)).or_default() += 1;
                }
                Some(Key::Register { writer }) => {
                    stored.registers.insert(writer, found.parse().ok());
                }
                None => findings.tell(Broken::PutWrong, format!("nobody has put {text:?}")),
            }
        }
        stored
    }
}

/// What becomes of a put of which so many keys are there.
fn settle(state: State, count: u64, what: &str) -> Result<State, (Broken, String)> {
    match (count, state) {
        (0, State::There) => Err((
            Broken::PutLost,
            format!("{what} was acknowledged or seen, and is not there"),
        )),
        (PARTS, State::Absent) => Err((
            Broken::PutWrong,
            format!("{what} was refused or absent, and is there"),
        )),
        (0, _) => Ok(State::Absent),
        (PARTS, _) => Ok(State::There),
        (count, _) => Err((
            Broken::PutWrong,
            format!("{what} is there in part: {count} of {PARTS} keys"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(puts: &[(u64, u64)]) -> Vec<(String, String)> {
        let mut found = BTreeMap::new();
        for (writer, number) in puts {
            found.extend(
                entries(*writer, *number)
                    .into_iter()
                    .map(|[key, value]| (key, value)),
            );
        }
        found.into_iter().collect()
    }

    /// Writer 1 has made two puts, of which the first is acknowledged and the second in this state.
    fn check(second: State, found: &[(String, String)], expected: &[Broken]) {
        let (ledger, findings) = (Ledger::default(), Findings::new(0));
        for state in [State::There, second] {
            let number = ledger.begin(1);
            ledger.learn(1, number, state).unwrap();
        }
        ledger.check(found, &findings, &Tally::default());
        let found: Vec<Broken> = findings
            .into_inner()
            .iter()
            .map(|finding| finding.broken)
            .collect();
        assert_eq!(found, expected, "{second:?}");
    }

    #[test]
    fn what_is_there_is_held_against_what_is_known() {
        check(State::Unknown, &stored(&[(1, 0), (1, 1)]), &[]);
        check(State::Unknown, &stored(&[(1, 0)]), &[]);
        check(State::There, &stored(&[(1, 0), (1, 1)]), &[]);
        check(State::Absent, &stored(&[(1, 0)]), &[]);
        check(State::There, &stored(&[(1, 0)]), &[Broken::PutLost]);
        let refused = [Broken::PutWrong, Broken::PutWrong];
        check(State::Absent, &stored(&[(1, 0), (1, 1)]), &refused);
        check(State::Unknown, &stored(&[(1, 0), (2, 0)]), &[Broken::PutWrong]);
    }

    #[test]
    fn half_a_put_and_another_value_are_found() {
        let mut half = stored(&[(1, 0), (1, 1)]);
        half.retain(|(text, _)| *text != key(1, 1, 2));
        check(State::Unknown, &half, &[Broken::PutWrong, Broken::PutWrong]);
        let mut wrong = stored(&[(1, 0)]);
        wrong[1].1.push('x');
        check(State::Unknown, &wrong, &[Broken::PutWrong]);
        wrong.truncate(0);
        check(State::Unknown, &wrong, &[Broken::PutLost]);
    }
}
