//! A disk for tests that counts what it is asked, and fails where it is told to.
//!
//! Works on real files, so that what it leaves behind can be recovered. Invariant: what it does not
//! fail, it does in full, as the real disk does.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use crate::disk::{Disk, LogFile, RealDisk};

/// Shared by the disk, its files and the test that holds on to it.
#[derive(Clone, Default)]
pub struct FailingDisk {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Clone)]
struct State {
    plan: Plan,
    counts: Counts,
    gate_shut: bool,
    waiting_at_gate: usize,
    /// Syncs that may pass the shut gate.
    passes: usize,
}

/// What fails from now on.
#[derive(Default, Clone)]
pub struct Plan {
    /// Bytes that can still be written before the disk is full.
    pub bytes_left: Option<usize>,
    /// The most bytes one write takes.
    pub write_bytes_max: Option<usize>,
    /// A write panics.
    pub panic_on_write: bool,
    pub fail_create: bool,
    pub fail_sync: bool,
    pub fail_sync_dir: bool,
    pub fail_truncate: bool,
    pub fail_remove: bool,
    pub fail_rename: bool,
    /// What the plan says happens to files whose names have this alone.
    pub only: Option<&'static str>,
}

#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub writes: usize,
    pub syncs: usize,
    pub truncates: usize,
    pub dir_syncs: usize,
    pub creates: usize,
}

impl FailingDisk {
    pub fn new() -> (FailingDisk, Arc<dyn Disk>) {
        let disk = FailingDisk::default();
        (disk.clone(), Arc::new(disk))
    }

    pub fn plan(&self, plan: Plan) {
        self.shared.state.lock().unwrap().plan = plan;
    }

    pub fn counts(&self) -> Counts {
        self.shared.state.lock().unwrap().counts
    }

    /// Holds every sync from here on, until the gate opens.
    pub fn shut_gate(&self) {
        self.shared.state.lock().unwrap().gate_shut = true;
    }

    /// Lets the sync that stands at the gate through, and holds the next.
    pub fn open_gate_once(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.waiting_at_gate -= 1;
        state.passes += 1;
        self.shared.changed.notify_all();
    }

    pub fn open_gate(&self) {
        self.shared.state.lock().unwrap().gate_shut = false;
        self.shared.changed.notify_all();
    }

    /// Waits until a sync stands at the shut gate.
    pub fn wait_for_sync(&self) {
        let state = self.shared.state.lock().unwrap();
        drop(
            self.shared
                .changed
                .wait_while(state, |state| state.waiting_at_gate == 0)
                .unwrap(),
        );
    }

    /// Counts one operation and returns the plan to follow.
    fn count(&self, path: &Path, count: impl FnOnce(&mut Counts)) -> Plan {
        let mut state = self.shared.state.lock().unwrap();
        count(&mut state.counts);
        let is_meant = |only: &str| path.to_string_lossy().contains(only);
        match state.plan.only {
            Some(only) if !is_meant(only) => Plan::default(),
            _ => state.plan.clone(),
        }
    }

    fn pass_gate(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.waiting_at_gate += 1;
        self.shared.changed.notify_all();
        let mut state = self
            .shared
            .changed
            .wait_while(state, |state| state.gate_shut && state.passes == 0)
            .unwrap();
        if state.passes > 0 {
            // The test that gave the pass has counted this sync already.
            state.passes -= 1;
        } else {
            state.waiting_at_gate -= 1;
        }
    }
}

fn fail_if(fails: bool) -> io::Result<()> {
    if fails {
        Err(io::Error::other("injected"))
    } else {
        Ok(())
    }
}

impl Disk for FailingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        fail_if(self.count(path, |counts| counts.creates += 1).fail_create)?;
        Ok(Box::new(FailingFile {
            disk: self.clone(),
            path: path.to_owned(),
            file: RealDisk.create(path)?,
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(FailingFile {
            disk: self.clone(),
            path: path.to_owned(),
            file: RealDisk.open(path)?,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fail_if(self.count(from, |_| ()).fail_rename)?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fail_if(self.count(path, |_| ()).fail_remove)?;
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fail_if(self.count(dir, |counts| counts.dir_syncs += 1).fail_sync_dir)?;
        RealDisk.sync_dir(dir)
    }
}

struct FailingFile {
    disk: FailingDisk,
    path: PathBuf,
    file: Box<dyn LogFile>,
}

impl LogFile for FailingFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let plan = self.disk.count(&self.path, |counts| counts.writes += 1);
        assert!(!plan.panic_on_write, "injected panic");
        let left = plan.bytes_left.unwrap_or(usize::MAX);
        if left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes
            .len()
            .min(left)
            .min(plan.write_bytes_max.unwrap_or(usize::MAX));
        let written = self.file.write_at(&bytes[..taken], offset)?;
        if plan.bytes_left.is_some()
            && let Some(left) = &mut self.disk.shared.state.lock().unwrap().plan.bytes_left
        {
            *left -= written;
        }
        Ok(written)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.pass_gate();
        fail_if(self.disk.count(&self.path, |counts| counts.syncs += 1).fail_sync)?;
        self.file.sync()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        fail_if(
            self.disk
                .count(&self.path, |counts| counts.truncates += 1)
                .fail_truncate,
        )?;
        self.file.truncate(length)
    }
}
