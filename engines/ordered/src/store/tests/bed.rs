//! What the tests of this module share: a store on a disk that can fail, and short ways to put.
//!
//! Invariant: every answer collected carries the order in which it came.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::{FollowError, Kind, Position, Pull, Put};
use millpond_wal::faults::failing::{FailingDisk, Plan};

/// Of a segment's header.
pub const HEADER_BYTES: usize = 64;

pub type Answer = (usize, Result<Written, WriteError>);

pub struct Bed {
    pub parent: TempDir,
    pub disk: FailingDisk,
    pub store: Store,
    sender: SyncSender<Answer>,
    pub answers: Receiver<Answer>,
}

impl Bed {
    pub fn new(options: Options) -> Bed {
        let parent = tempfile::tempdir().unwrap();
        let (disk, shared) = FailingDisk::new();
        let (store, _) = Store::open_on(shared, &parent.path().join("store"), options).unwrap();
        let (sender, answers) = sync_channel(10_000);
        Bed {
            parent,
            disk,
            store,
            sender,
            answers,
        }
    }

    pub fn dir(&self) -> PathBuf {
        self.parent.path().join("store")
    }

    /// Hands in a write whose answer will come with this number.
    pub fn write(&self, number: usize, write: impl Into<Write>) -> Result<(), Busy> {
        let sender = self.sender.clone();
        let done = move |result| sender.send((number, result)).unwrap();
        self.store.write(write, Box::new(done))
    }

    /// Makes the log thread wait in a sync of this put, so that those handed in next form one group.
    pub fn hold_with(&self, number: usize, put: Put) {
        self.disk.shut_gate();
        self.write(number, put).unwrap();
        self.disk.wait_for_sync();
    }

    pub fn collect(&self, count: usize) -> Vec<Answer> {
        (0..count).map(|_| self.answers.recv().unwrap()).collect()
    }

    pub fn last_segment(&self) -> PathBuf {
        let files = std::fs::read_dir(self.dir())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.extension().is_some_and(|end| end == "mpl"))
            .max()
            .unwrap()
    }

    /// Closes, and opens the folder again on a sound disk. Returns how closing went, too.
    pub fn reopen(self) -> (Result<(), Error>, Store, Recovery, TempDir) {
        self.disk.plan(Plan::default());
        let dir = self.dir();
        let Bed { parent, store, .. } = self;
        let closed = store.close();
        let (store, recovery) = Store::open(&dir, Options::default()).unwrap();
        (closed, store, recovery, parent)
    }
}

pub fn one(key: &str, value: &str) -> Put {
    Put {
        entries: vec![(key.into(), value.into())],
        ..Put::default()
    }
}

pub fn if_absent(key: &str, value: &str) -> Put {
    Put {
        if_absent: true,
        ..one(key, value)
    }
}

pub fn if_version(key: &str, value: &str, version: u64) -> Put {
    Put {
        if_version: Some(version),
        ..one(key, value)
    }
}

/// Everything in the store, as `key=value@version`.
pub fn contents(store: &Store) -> Vec<String> {
    let mut found = Vec::new();
    let scan = Scan {
        limit: usize::MAX,
        ..Scan::default()
    };
    let cursor = store.scan(&scan, &mut |key, value| {
        let entry = store.get(key).unwrap();
        let value = match entry.kind {
            Kind::Bytes => value.escape_ascii().to_string(),
            Kind::List => format!("{:?}", store.items(key, 0, -1, usize::MAX).unwrap()),
        };
        found.push(format!("{}={value}@{}", key.escape_ascii(), entry.version));
    });
    assert_eq!(cursor, None);
    found
}

/// A question of the follower, and the answer into it.
pub fn ship(leader: &Store, follower: &Store, bytes_max: usize) -> Result<Position, FollowError> {
    let (sender, receiver) = sync_channel(1);
    let pull = Pull {
        follower: "b".into(),
        position: follower.position().unwrap(),
        bytes_max,
        wait: Duration::ZERO,
    };
    leader.pull(pull, Box::new(move |answer| sender.send(answer).unwrap()));
    follower.follow(receiver.recv().unwrap().unwrap())
}

/// Waits until something is so, which it is to be soon.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An answer in one word or two.
pub fn word(answer: &Result<Written, WriteError>) -> String {
    match answer {
        Ok(outcome) => format!("{:?}", outcome.versions),
        Err(WriteError::Conflict { found, .. }) => format!("conflict {found}"),
        Err(WriteError::Storage(_)) => "storage".into(),
        Err(WriteError::OutcomeUnknown(_)) => "unknown".into(),
        Err(WriteError::ReadOnly(_)) => "read-only".into(),
        Err(WriteError::Closed) => "closed".into(),
        Err(other) => other.to_string(),
    }
}

pub fn words(answers: &[Answer]) -> Vec<String> {
    answers
        .iter()
        .map(|(number, answer)| format!("{number}: {}", word(answer)))
        .collect()
}

/// Bytes that a put takes in the log.
pub fn put_record_bytes(put: &Put) -> usize {
    millpond_wal::FRAME_BYTES + 12 + put.entries_bytes()
}
