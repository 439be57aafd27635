//! Records that are read behind a copy of the tree which was made while they were written.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use millpond_wal::{Body as _, Record};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

use super::*;
use crate::batch::{Batch, Operation};
use crate::change::{Changed, Edit};
use crate::eviction::Room;
use crate::judge::Judge;
use crate::record::Accepted;
use crate::write::Write;

/// Of several threads: the beginnings of the last three say whose they are.
const KEYS: [&str; 4] = ["a", "b-1", "cc-1", "d-1"];
const FAR_MS: u64 = 3_600_000;

/// All that an entry is; the value as the tree has it.
type State = BTreeMap<Vec<u8>, (Vec<u8>, u64, u64, bool)>;

fn state(index: &Index) -> State {
    let held = |key: &&str| {
        let (value, looked) = index.held(key.as_bytes())?;
        let is_list = looked.kind == Some(Kind::List);
        Some((
            key.as_bytes().to_vec(),
            (value, looked.version, looked.expires_ms, is_list),
        ))
    };
    KEYS.iter().filter_map(held).collect()
}

fn operation(rng: &mut StdRng) -> Operation {
    let key = KEYS[rng.random_range(0..KEYS.len())].into();
    let value: Vec<u8> = vec![rng.random(); rng.random_range(0..4)];
    let ttl_ms = rng.random_ratio(1, 4).then_some(FAR_MS);
    match rng.random_range(0..12) {
        0 => Operation::Put {
            key,
            value,
            if_version: None,
            if_absent: false,
            if_present: false,
            ttl_ms,
            keep_ttl: rng.random(),
        },
        1 | 2 => Operation::Remove {
            key,
            if_version: None,
        },
        3 => Operation::Expire { key, ttl_ms },
        4 => Operation::Concatenate { key, value },
        5 | 6 => Operation::Trim {
            key,
            start: rng.random_range(-3..3),
            stop: rng.random_range(-3..3),
        },
        _ => Operation::Append {
            key,
            items: vec![value; rng.random_range(1..3)],
            keep: rng.random_ratio(1, 2).then(|| rng.random_range(1..6)),
            ttl_ms,
        },
    }
}

/// A log of batches, each as its record has it, and the states behind them, the empty one before.
fn history(rng: &mut StdRng) -> (Vec<(u8, Vec<u8>)>, Vec<State>) {
    let (index, mut next_version) = (Index::default(), 1);
    let (mut records, mut states) = (vec![], vec![state(&index)]);
    while records.len() < 40 {
        let operations = (0..rng.random_range(1..4)).map(|_| operation(rng)).collect();
        let write = Write::Batch(Batch::of(operations));
        let room = Room::default();
        let mut judge = Judge::new(&index, &room, next_version, std::iter::once(&write));
        judge.judge(write);
        let (mut verdicts, next) = judge.finish();
        // Operations on a key of the other kind are refused.
        let Some(Ok(accepted)) = verdicts.pop() else {
            continue;
        };
        if accepted.changes.is_empty() {
            continue;
        }
        next_version = next;
        index.apply(accepted.changes());
        records.push(encoded(&accepted));
        states.push(state(&index));
    }
    (records, states)
}

fn encoded(accepted: &Accepted) -> (u8, Vec<u8>) {
    let mut body = vec![];
    accepted.encode(&mut body);
    (accepted.kind(), body)
}

fn replayed(index: &Index, records: &[(u8, Vec<u8>)], may_be_covered: bool) -> State {
    for (kind, body) in records {
        let record = crate::record::decode(*kind, body).unwrap();
        record.replay(index, may_be_covered, |_| true).unwrap();
    }
    state(index)
}

#[test]
fn what_begins_from_a_copy_that_was_made_meanwhile_comes_to_the_same() {
    for seed in 0..300 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (records, states) = history(&mut rng);
        let end = states.last().unwrap();
        assert_eq!(
            &replayed(&Index::default(), &records, false),
            end,
            "seed {seed}, all of it"
        );
        let from = rng.random_range(0..records.len());
        // Each key as it was at a moment of its own, behind the one from which on records are read.
        let index = Index::default();
        for key in KEYS {
            let at = rng.random_range(from..states.len());
            if let Some((value, version, expires_ms, is_list)) = states[at].get(key.as_bytes()) {
                index.apply(std::iter::once(Change::Set(Content {
                    key: key.as_bytes(),
                    value,
                    version: *version,
                    expires_ms: *expires_ms,
                    is_list: *is_list,
                })));
            }
        }
        let memory = Index::default();
        replayed(&memory, &records, false);
        assert_eq!(
            &replayed(&index, &records[from..], true),
            end,
            "seed {seed}, from {from}"
        );
        assert_eq!(
            &replayed(&index, &records[from..], true),
            end,
            "seed {seed}, twice"
        );
        assert_eq!(index.bytes(), memory.bytes(), "seed {seed}");
        assert_eq!(index.expiring(), memory.expiring(), "seed {seed}");
    }
}

/// Makes records again by so many threads, in parts that end by chance; reading fails in the end, if it is to.
fn by_threads(
    index: &Index,
    threads: usize,
    rng: &mut StdRng,
    records: &[(u8, Vec<u8>)],
    (may_be_covered, fails): (bool, bool),
) -> Result<(), crate::Error> {
    several::by_threads(threads, Path::new("folder"), index, |several| {
        several.start();
        for (at, (kind, body)) in (1..).zip(records) {
            let record = Record {
                sequence: at,
                group_index: 0,
                segment: 1,
                offset: 1000 * at,
                kind: *kind,
                length: body.len(),
                body,
            };
            let taken = several.take(&record, may_be_covered);
            if taken.is_err() || rng.random_ratio(1, 3) && several.hand_over().is_err() {
                return Err(crate::Error::LogThreadDied);
            }
        }
        match fails {
            true => Err(crate::Error::LogThreadDied),
            false => Ok(()),
        }
    })
}

#[test]
fn several_threads_come_to_what_one_comes_to() {
    for seed in 0..200 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (records, states) = history(&mut rng);
        let one = Index::default();
        replayed(&one, &records, false);
        for threads in [1, 2, 3, 8] {
            let index = Index::default();
            by_threads(&index, threads, &mut rng, &records, (false, false)).unwrap();
            // And once more beside what is there.
            let from = rng.random_range(0..records.len());
            by_threads(&index, threads, &mut rng, &records[from..], (true, false)).unwrap();
            assert_eq!(
                &state(&index),
                states.last().unwrap(),
                "seed {seed}, {threads} threads"
            );
            let counts = |index: &Index| (index.len(), index.bytes(), index.expiring());
            assert_eq!(counts(&index), counts(&one), "seed {seed}, {threads} threads");
        }
    }
}

#[test]
fn the_first_record_that_cannot_be_made_is_named_however_many_threads_there_are() {
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut records, _) = history(&mut rng);
        // What is added to holds nothing.
        let broken = |key: &[u8], version| {
            let mut changed = Changed::removed(key.to_vec());
            changed.edit = Some(Edit::Trim { older: 1, kept: 1 });
            encoded(&Accepted::new(vec![changed], (version, 0), Vec::new()))
        };
        let places = [rng.random_range(0..20), rng.random_range(20..40)];
        for (at, key) in places.into_iter().zip(["none", "nothing"]) {
            records.insert(at, broken(key.as_bytes(), 100 + at as u64));
        }
        let expected = format!("offset {}", 1000 * (places[0] + 1));
        for (threads, fails) in [1, 2, 3, 8].into_iter().zip([false, true].into_iter().cycle()) {
            let index = Index::default();
            let made = by_threads(&index, threads, &mut rng, &records, (false, fails));
            let error = made.unwrap_err().to_string();
            let words = [expected.as_str(), "log-00000000000000000001.mpl", "key \"none\""];
            assert!(
                words.iter().all(|word| error.contains(word)),
                "seed {seed}, {threads} threads: {error}"
            );
        }
    }
}
