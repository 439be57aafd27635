//! A disk for tests that records all that is done to it in one order with what callers are told, and fails by a seed.
//!
//! Works on real files, so that what it leaves behind can be recovered, but syncs none: what a sync is worth, `survival`
//! knows. Invariant: what it records has happened, in that order.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rand::RngExt;
use rand::rngs::StdRng;

use super::survival::{Change, Survival};
use crate::disk::{Disk, LogFile};

/// What happened, in one order.
#[derive(Debug, Clone)]
pub enum Event<N> {
    Disk(Change),
    /// Of the store's callers.
    Note(N),
}

/// Shared by the disk, its files and the test that holds on to it.
pub struct Recording<N> {
    shared: Arc<Shared<N>>,
}

impl<N> Clone for Recording<N> {
    fn clone(&self) -> Self {
        let shared = Arc::clone(&self.shared);
        Recording { shared }
    }
}

struct Shared<N> {
    dir: PathBuf,
    state: Mutex<State<N>>,
    changed: Condvar,
}

struct State<N> {
    events: Vec<Event<N>>,
    survival: Survival,
    rng: StdRng,
    /// Of a hundred operations so many fail.
    failing_percent: u32,
    gate_shut: bool,
    is_at_gate: bool,
    /// Called before each operation, with what readers see then.
    probe: Option<Probe<N>>,
}

type Probe<N> = Arc<dyn Fn() -> Option<N> + Send + Sync>;

impl<N: Send + 'static> Recording<N> {
    /// Of the folder `dir`, in which `survival` is what there is.
    pub fn new(dir: &Path, survival: Survival, rng: StdRng) -> Recording<N> {
        let state = State {
            events: Vec::new(),
            survival,
            rng,
            failing_percent: 0,
            gate_shut: false,
            is_at_gate: false,
            probe: None,
        };
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        Recording { shared }
    }

    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    pub fn fail(&self, percent: u32) {
        self.state().failing_percent = percent;
    }

    pub fn probe(&self, probe: Option<Probe<N>>) {
        self.state().probe = probe;
    }

    pub fn note(&self, note: N) {
        self.state().events.push(Event::Note(note));
        self.shared.changed.notify_all();
    }

    pub fn survival(&self) -> Survival {
        self.state().survival.clone()
    }

    pub fn take_events(&self) -> Vec<Event<N>> {
        std::mem::take(&mut self.state().events)
    }

    /// Holds the next operation, until the gate opens.
    pub fn shut_gate(&self) {
        self.state().gate_shut = true;
    }

    pub fn open_gate(&self) {
        self.state().gate_shut = false;
        self.shared.changed.notify_all();
    }

    /// Waits until an operation stands at the shut gate, or `is_done` by what was recorded.
    pub fn wait_at_gate_or(&self, is_done: impl Fn(&[Event<N>]) -> bool) {
        let waits = |state: &mut State<N>| !(is_done(&state.events) || state.gate_shut && state.is_at_gate);
        drop(self.shared.changed.wait_while(self.state(), waits).unwrap());
    }

    /// Whether an operation stands at the shut gate.
    pub fn is_at_gate(&self) -> bool {
        let state = self.state();
        state.gate_shut && state.is_at_gate
    }

    fn state(&self) -> MutexGuard<'_, State<N>> {
        self.shared.state.lock().unwrap()
    }

    /// Passes the gate, asks what readers see, and draws whether the operation fails.
    fn begin(&self) -> bool {
        let mut state = self.state();
        state.is_at_gate = true;
        self.shared.changed.notify_all();
        let mut state = self
            .shared
            .changed
            .wait_while(state, |state| state.gate_shut)
            .unwrap();
        state.is_at_gate = false;
        if let Some(probe) = state.probe.clone() {
            drop(state);
            let note = probe();
            state = self.state();
            state.events.extend(note.map(Event::Note));
        }
        let percent = state.failing_percent;
        state.rng.random_ratio(percent, 100)
    }

    fn done(&self, change: Change) {
        let mut state = self.state();
        state.survival.apply(&change);
        state.events.push(Event::Disk(change));
    }

    fn draw(&self, below: usize) -> usize {
        self.state().rng.random_range(0..below)
    }
}

fn injected<T>() -> io::Result<T> {
    Err(io::Error::other("injected"))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

impl<N: Send + 'static> Disk for Recording<N> {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        if self.begin() {
            return injected();
        }
        let real = OpenOptions::new().write(true).create_new(true).open(path)?;
        self.done(Change::Create { name: name(path) });
        let file = self.state().survival.file(&name(path));
        let disk = self.clone();
        Ok(Box::new(RecordedFile { disk, file, real }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        if self.begin() {
            return injected();
        }
        let real = OpenOptions::new().write(true).open(path)?;
        let file = self.state().survival.file(&name(path));
        let disk = self.clone();
        Ok(Box::new(RecordedFile { disk, file, real }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.begin() {
            return injected();
        }
        std::fs::rename(from, to)?;
        self.done(Change::Rename {
            from: name(from),
            to: name(to),
        });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.begin() {
            return injected();
        }
        std::fs::remove_file(path)?;
        self.done(Change::Remove { name: name(path) });
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.begin() {
            return injected();
        }
        let [synced, own] = [dir, &self.shared.dir].map(|dir| std::fs::canonicalize(dir).unwrap());
        if synced == own {
            self.done(Change::SyncFolder);
        } else {
            assert_eq!(Some(&*synced), own.parent(), "a folder that is not the store's");
            self.done(Change::SyncParent);
        }
        Ok(())
    }
}

struct RecordedFile<N> {
    disk: Recording<N>,
    /// The number that `survival` knows it by.
    file: usize,
    real: File,
}

impl<N: Send + 'static> LogFile for RecordedFile<N> {
    /// One that fails has written a part; one in eight that do not falls short.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let fails = self.disk.begin();
        let is_part = fails || self.disk.draw(8) == 0;
        let taken = if is_part {
            self.disk.draw(bytes.len())
        } else {
            bytes.len()
        };
        self.real.write_all_at(&bytes[..taken], offset)?;
        self.disk.done(Change::Write {
            file: self.file,
            at: offset as usize,
            bytes: bytes[..taken].to_vec(),
        });
        match taken {
            _ if fails => injected(),
            0 => Err(io::ErrorKind::Interrupted.into()),
            taken => Ok(taken),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let file = self.file;
        self.disk.done(Change::SyncBegins { file });
        if self.disk.begin() {
            self.disk.done(Change::SyncFailed { file });
            return injected();
        }
        self.disk.done(Change::Sync { file });
        Ok(())
    }

    /// Half of those that fail have cut and could not sync.
    fn truncate(&self, length: u64) -> io::Result<()> {
        let fails = self.disk.begin();
        if fails && self.disk.draw(2) == 0 {
            return injected();
        }
        self.real.set_len(length)?;
        let (file, length) = (self.file, length as usize);
        if fails {
            self.disk.done(Change::TruncateUnsynced { file, length });
            return injected();
        }
        self.disk.done(Change::Truncate { file, length });
        Ok(())
    }
}
