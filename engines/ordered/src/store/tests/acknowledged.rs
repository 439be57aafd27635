//! A leader that acknowledges what its follower has, by seeds: writes, shipments in pieces, followers that are killed, lose power or are torn,
//! and their promotion.
//!
//! Invariants under test: what the leader shows its follower has; and what was acknowledged is there after the follower's end and its
//! promotion. `MILLPOND_TRACE_ROUNDS` and `MILLPOND_TRACE_SEED` as for `traces`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bed::{contents, one, ship};
use super::traces::{scratch, seeds};
use super::*;
use crate::Acknowledge;
use millpond_wal::faults::recording::Recording;
use millpond_wal::faults::survival::{End, Survival, lay_out};

const ROUNDS: u64 = 5;
const PROMOTIONS: usize = 20;
const STEPS: usize = 25;

type Answer = (String, Result<Written, WriteError>);

/// A store and what its disk keeps of it.
struct Side {
    store: Store,
    recording: Recording<()>,
}

struct Round {
    rng: StdRng,
    parent: tempfile::TempDir,
    folders: usize,
    leader: Side,
    follower: Side,
    sender: SyncSender<Answer>,
    answers: Receiver<Answer>,
    keys: usize,
    acknowledged: BTreeSet<String>,
    ends: usize,
    late: usize,
}

fn options(follows: bool) -> Options {
    Options {
        durability: Durability::Synced,
        segment_bytes_max: 700,
        follows: follows.then(|| "leader:1".to_owned()),
        acknowledge: Acknowledge::Follower,
        acknowledge_within: Duration::from_millis(30),
        ..Options::default()
    }
}

fn open(dir: PathBuf, survival: Survival, rng: &mut StdRng, follows: bool) -> Side {
    let recording = Recording::new(&dir, survival, StdRng::seed_from_u64(rng.random()));
    let (store, _) = Store::open_on(recording.disk(), &dir, options(follows)).unwrap();
    Side { store, recording }
}

impl Round {
    fn new(seed: u64) -> Round {
        let (mut rng, parent) = (StdRng::seed_from_u64(seed), scratch());
        let (sender, answers) = sync_channel(10_000);
        let [leader, follower] = [("0", false), ("1", true)].map(|(name, follows)| {
            let dir = parent.path().join(name);
            open(dir, Survival::default(), &mut rng, follows)
        });
        Round {
            rng,
            folders: 2,
            leader,
            follower,
            sender,
            answers,
            keys: 0,
            acknowledged: BTreeSet::new(),
            ends: 0,
            late: 0,
            parent,
        }
    }

    fn folder(&mut self) -> PathBuf {
        self.folders += 1;
        self.parent.path().join((self.folders - 1).to_string())
    }

    fn write(&mut self) {
        let key = format!("k{:04}", self.keys);
        self.keys += 1;
        let value = "v".repeat(self.rng.random_range(0..90));
        let (sender, of) = (self.sender.clone(), key.clone());
        let done = move |answer| sender.send((of, answer)).unwrap();
        self.leader
            .store
            .write(one(&key, &value), Box::new(done))
            .unwrap();
    }

    fn carry(&mut self, bytes_max: usize) {
        ship(&self.leader.store, &self.follower.store, bytes_max).unwrap();
    }

    fn hear(&mut self) {
        for (key, answer) in self.answers.try_iter() {
            match answer {
                Ok(_) => drop(self.acknowledged.insert(key)),
                Err(WriteError::Unacknowledged(_) | WriteError::NoFollower) => self.late += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Everything that is acknowledged, or shown by the leader, is in the follower.
    fn check(&mut self) {
        self.hear();
        let shown = contents(&self.leader.store);
        let there = contents(&self.follower.store);
        assert!(
            shown.iter().all(|entry| there.contains(entry)),
            "shown {shown:?}, and the follower has {there:?}"
        );
        let lost = |key: &&String| self.follower.store.get(key.as_bytes()).is_none();
        assert_eq!(self.acknowledged.iter().find(lost), None, "it was acknowledged");
    }

    /// The follower ends somehow, and is opened again from what its disk has.
    fn end_follower(&mut self) {
        self.ends += 1;
        let end = [End::Killed, End::PowerCut, End::Torn][self.rng.random_range(0..3)];
        let survival = self.follower.recording.survival();
        let left = survival.left(end, &mut self.rng);
        let dir = self.folder();
        lay_out(&left, &dir);
        self.follower = open(dir, survival.after(end, &left), &mut self.rng, true);
    }

    /// It leads from here on, and a new one follows; not one that has nothing. Whether it was promoted.
    fn promote(&mut self) -> bool {
        if self.follower.store.last_sequence() == 0 {
            return false;
        }
        self.follower.store.promote().unwrap();
        // The old leader does not hear of it before it is asked; what it waits for never comes.
        self.leader.store.begin_close();
        let dir = self.folder();
        let fresh = open(dir, Survival::default(), &mut self.rng, true);
        let promoted = std::mem::replace(&mut self.follower, fresh);
        let old = std::mem::replace(&mut self.leader, promoted);
        old.store.close().unwrap();
        // What its follower had before may have been answered behind that.
        self.hear();
        let lost = |key: &&String| self.leader.store.get(key.as_bytes()).is_none();
        assert_eq!(self.acknowledged.iter().find(lost), None, "the promotion lost it");
        while self.follower.store.last_sequence() < self.leader.store.last_sequence() {
            self.carry(1 << 20);
        }
        true
    }

    fn step(&mut self) {
        match self.rng.random_range(0..40) {
            0..14 => self.write(),
            14..20 => {
                let bytes_max = self.rng.random_range(15..60);
                self.carry(bytes_max);
            }
            20..34 => self.carry(1 << 20),
            34 | 35 => self.end_follower(),
            36 => std::thread::sleep(options(false).acknowledge_within * 2),
            // The log thread's turn.
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn what_is_acknowledged_or_shown_is_in_the_follower_and_no_end_of_it_loses_that() {
    let (mut promotions, mut acknowledged, mut late, mut ends) = (0, 0, 0, 0);
    for seed in seeds(ROUNDS) {
        eprintln!("seed {seed}");
        let mut round = Round::new(seed);
        for _ in 0..PROMOTIONS {
            for _ in 0..STEPS {
                round.step();
                round.check();
            }
            if round.rng.random() {
                round.end_follower();
                round.check();
            }
            promotions += usize::from(round.promote());
        }
        acknowledged += round.acknowledged.len();
        (late, ends) = (late + round.late, ends + round.ends);
    }
    assert!(promotions > 0 && acknowledged > 0 && ends > 0);
    eprintln!(
        "{promotions} promotions, {acknowledged} writes acknowledged and none lost, {late} not acknowledged, {ends} ends of followers"
    );
}
