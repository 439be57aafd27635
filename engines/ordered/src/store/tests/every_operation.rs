//! A disk that is full, read-only, or fails once, from every single operation on: while a store is opened, written, swept, given checkpoints, and promoted.
//!
//! Invariants under test: what was acknowledged is there when the disk is well again, and whole; what was told as unwritten is not; and
//! nothing that is left behind is in the way of the next start.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::sync::Mutex;

use super::bed::{ship, wait_until};
use super::*;
use crate::{FollowError, Put, Role};
use millpond_wal::{LogFile, RealDisk};

const HOUR: u64 = 3_600_000;
/// Writes of a script, each of two keys.
const WRITES: usize = 8;

/// How the disk fails from an operation on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fails {
    /// That one alone.
    Once,
    /// Nothing can be written or made any more.
    Full,
    /// Nothing can be changed any more: the folder is read-only.
    ReadOnly,
}

const WAYS: [Fails; 3] = [Fails::Once, Fails::Full, Fails::ReadOnly];

/// What an operation does to the folder.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    /// Takes space.
    Grows,
    /// Changes it otherwise.
    Changes,
    /// Nothing that was not done before.
    Syncs,
}

#[derive(Clone)]
struct FailingFrom {
    fails: Fails,
    /// The number of the operation.
    at: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    operations: usize,
    is_well: bool,
    has_failed: bool,
}

impl FailingFrom {
    fn new(fails: Fails, at: usize) -> FailingFrom {
        let state = Arc::default();
        FailingFrom { fails, at, state }
    }

    fn heal(&self) {
        self.state.lock().unwrap().is_well = true;
    }

    fn has_failed(&self) -> bool {
        self.state.lock().unwrap().has_failed
    }

    fn pass(&self, does: Does) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let number = state.operations;
        state.operations += 1;
        let fails = match self.fails {
            Fails::Once => number == self.at,
            Fails::Full => number >= self.at && does == Does::Grows,
            Fails::ReadOnly => number >= self.at && does != Does::Syncs,
        };
        if state.is_well || !fails {
            return Ok(());
        }
        state.has_failed = true;
        Err(match self.fails {
            Fails::ReadOnly => io::ErrorKind::ReadOnlyFilesystem.into(),
            _ => io::ErrorKind::StorageFull.into(),
        })
    }

    fn wrap(&self, real: Box<dyn LogFile>) -> Box<dyn LogFile> {
        let disk = self.clone();
        Box::new(FailingFile { disk, real })
    }
}

struct FailingFile {
    disk: FailingFrom,
    real: Box<dyn LogFile>,
}

impl LogFile for FailingFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if let Err(full) = self.disk.pass(Does::Grows) {
            // Some of it fitted.
            if self.disk.fails != Fails::ReadOnly {
                self.real.write_at(&bytes[..bytes.len() / 2], offset)?;
            }
            return Err(full);
        }
        self.real.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.pass(Does::Syncs)?;
        self.real.sync()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.disk.pass(Does::Changes)?;
        self.real.truncate(length)
    }
}

impl Disk for FailingFrom {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.pass(Does::Grows)?;
        Ok(self.wrap(RealDisk.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.pass(Does::Changes)?;
        Ok(self.wrap(RealDisk.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(Does::Changes)?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.pass(Does::Changes)?;
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.pass(Does::Syncs)?;
        RealDisk.sync_dir(dir)
    }
}

fn options(follows: Option<&str>) -> Options {
    Options {
        segment_bytes_max: 200,
        follows: follows.map(str::to_owned),
        ..Options::default()
    }
}

/// Both keys hold the number of the write.
fn both(number: usize) -> Put {
    let value = number.to_string().into_bytes();
    Put {
        entries: vec![(b"one".to_vec(), value.clone()), (b"other".to_vec(), value)],
        ..Put::default()
    }
}

/// What both keys hold.
fn held(store: &Store) -> Option<usize> {
    let [one, other] = [b"one".as_slice(), b"other"].map(|key| store.get(key).map(|entry| entry.value));
    assert_eq!(one, other, "half a write");
    one.map(|value| String::from_utf8(value).unwrap().parse().unwrap())
}

/// What a script was told of its writes.
#[derive(Default)]
struct Told {
    acknowledged: Option<usize>,
    unknown: Vec<usize>,
}

impl Told {
    fn hear(&mut self, number: usize, answer: Result<Written, WriteError>) {
        match answer {
            Ok(_) => self.acknowledged = Some(number),
            Err(WriteError::OutcomeUnknown(_)) => self.unknown.push(number),
            Err(WriteError::Storage(_) | WriteError::ReadOnly(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn allows(&self, found: Option<usize>) -> bool {
        let is_later = |number: &usize| Some(*number) > self.acknowledged;
        let unknown = self.unknown.iter().copied().filter(is_later);
        found == self.acknowledged || unknown.into_iter().any(|number| found == Some(number))
    }
}

/// Writes, sweeps and checkpoints.
fn work(store: &Store) -> Told {
    let mut told = Told::default();
    for number in 0..WRITES {
        told.hear(number, store.write_wait(both(number)));
        assert_eq!(held(store), told.acknowledged, "what readers see");
        match number {
            2 => sweep(store),
            // What becomes of it tells what is found.
            3 | 6 => _ = store.checkpoint(),
            _ => {}
        }
    }
    told
}

/// Has entries expire, and waits until they are gone or cannot go.
fn sweep(store: &Store) {
    let short = Put {
        entries: vec![(b"short".to_vec(), b"v".to_vec())],
        ttl_ms: Some(HOUR),
        ..Put::default()
    };
    let _ = store.write_wait(short);
    store.handle.index.clock().skip(2 * HOUR);
    assert!(store.get(b"short").is_none());
    let counts = &store.handle.meet.as_ref().unwrap().counts;
    wait_until("what expired goes, or cannot", || {
        let is_failing = counts.is_sweep_failing.load(std::sync::atomic::Ordering::Relaxed);
        store.handle.index.expiring() == 0 || is_failing || store.read_only().is_some()
    });
}

/// One run of the script; whether the disk came to fail in it.
fn run(fails: Fails, at: usize) -> bool {
    let parent = super::traces::scratch();
    let dir = parent.path().join("store");
    let disk = FailingFrom::new(fails, at);
    let what = format!("{fails:?} at operation {at}");
    let mut told = Told::default();
    match Store::open_on(Arc::new(disk.clone()), &dir, options(None)) {
        Err(error) => assert!(error.to_string().contains("cannot "), "{what}: {error}"),
        Ok((store, _)) => {
            told = work(&store);
            disk.heal();
            // A store that was not told to write no more goes on as soon as there is space.
            let is_read_only = store.read_only().is_some();
            assert!(!is_read_only || disk.has_failed(), "{what}");
            let answer = store.write_wait(both(WRITES));
            assert_eq!(answer.is_err(), is_read_only, "{what}: {answer:?}");
            told.hear(WRITES, answer);
            assert_eq!(store.close().is_err(), is_read_only, "{what}");
        }
    }
    disk.heal();
    let (store, _) = Store::open(&dir, options(None)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = held(&store);
    assert!(
        told.allows(found),
        "{what}: found {found:?}, acknowledged {:?}",
        told.acknowledged
    );
    assert!(store.get(b"short").is_none_or(|short| short.expires_ms.is_some()));
    store.write_wait(both(99)).unwrap();
    store.checkpoint().unwrap();
    store.close().unwrap();
    let (store, recovery) = Store::open(&dir, options(None)).unwrap();
    assert_eq!((held(&store), recovery.torn_tail), (Some(99), None), "{what}");
    disk.has_failed()
}

/// Runs a script with each operation failing, until none is left. How many there were.
fn at_each(fails: Fails, run: impl Fn(Fails, usize) -> bool) -> usize {
    (0..).take_while(|at| run(fails, *at)).count()
}

#[test]
fn a_disk_that_fails_at_any_operation_takes_nothing_that_was_acknowledged() {
    let counts = WAYS.map(|fails| at_each(fails, run));
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}

fn ship_all(leader: &Store, follower: &Store) -> Result<(), FollowError> {
    while ship(leader, follower, 100)?.sequence < WRITES as u64 {}
    Ok(())
}

/// Follows, and is promoted; whether the disk came to fail in it.
fn take_over(leader: &Store, fails: Fails, at: usize) -> bool {
    let parent = super::traces::scratch();
    let dir = parent.path().join("store");
    let disk = FailingFrom::new(fails, at);
    let what = format!("{fails:?} at operation {at}");
    let (mut promoted, mut mine) = (None, false);
    if let Ok((follower, _)) = Store::open_on(Arc::new(disk.clone()), &dir, options(Some("a:1"))) {
        if ship_all(leader, &follower).is_ok() {
            let _ = follower.checkpoint();
            promoted = follower.promote().ok();
            mine = follower.write_wait(both(WRITES)).is_ok();
            assert!(promoted.is_some() || !mine, "{what}");
        }
        // What was told of each record is what is there: a follower shows no part of one.
        let sequence = follower.position().unwrap().sequence;
        let expected = sequence.checked_sub(1).map(|last| last as usize);
        assert!(
            mine || promoted.is_some() || held(&follower) == expected,
            "{what}"
        );
        let _ = follower.close();
    }
    disk.heal();
    let follows = promoted.is_none().then_some("a:1");
    let (store, _) = Store::open(&dir, options(follows)).unwrap_or_else(|error| panic!("{what}: {error}"));
    match promoted {
        Some(promoted) => {
            assert_eq!(
                (store.role(), store.epoch()),
                (Role::Leads, promoted.epoch),
                "{what}"
            );
            let found = held(&store);
            let expected = if mine { WRITES } else { WRITES - 1 };
            assert_eq!(found, Some(expected), "{what}");
        }
        // A promotion that failed is made again, with all that there was.
        None => {
            if store.position().unwrap().sequence < WRITES as u64 {
                ship_all(leader, &store).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            assert_eq!(held(&store), Some(WRITES - 1), "{what}");
            store.promote().unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
    store.write_wait(both(99)).unwrap();
    assert_eq!(held(&store), Some(99), "{what}");
    disk.has_failed()
}

#[test]
fn a_follower_whose_disk_fails_at_any_operation_takes_over_with_all_it_had() {
    let parent = super::traces::scratch();
    let (leader, _) = Store::open(&parent.path().join("leader"), options(None)).unwrap();
    for number in 0..WRITES {
        leader.write_wait(both(number)).unwrap();
    }
    wait_until("the log thread says how far it is", || {
        leader.last_sequence() == WRITES as u64
    });
    let counts = WAYS.map(|fails| at_each(fails, |fails, at| take_over(&leader, fails, at)));
    assert!(counts.iter().all(|count| *count > 30), "{counts:?}");
}
