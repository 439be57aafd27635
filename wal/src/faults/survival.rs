//! What is left of a store's folder when the process is killed, or the power fails, at any moment.
//!
//! A pessimist's file system: no byte, name or length is on the disk before a sync of just that succeeded, and what a sync
//! failed for is taken for clean by every later one, until it is written again. Not the disk itself (`recording`).
//! Invariant: what it calls durable, no loss of power takes away.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::path::Path;

use rand::RngExt;
use rand::rngs::StdRng;

/// Disks write sectors whole.
const SECTOR_BYTES: usize = 512;

/// One thing that was done to the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Create {
        name: String,
    },
    Remove {
        name: String,
    },
    /// In place of what had the other name.
    Rename {
        from: String,
        to: String,
    },
    Write {
        file: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    /// What the next sync of the file brings to the disk, but for what is written meanwhile.
    SyncBegins {
        file: usize,
    },
    Sync {
        file: usize,
    },
    SyncFailed {
        file: usize,
    },
    /// Cut, and the cut synced.
    Truncate {
        file: usize,
        length: usize,
    },
    /// Cut, and the sync of it failed.
    TruncateUnsynced {
        file: usize,
        length: usize,
    },
    SyncFolder,
    SyncParent,
}

#[derive(Debug, Clone, Default)]
struct Content {
    /// What a reader of the running machine sees.
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Bytes of `seen` that the next sync brings to the disk.
    dirty: Vec<bool>,
    /// The same of a sync that goes on.
    syncing: Option<Vec<bool>>,
}

/// The folder: what is seen of it, and what the disk has.
#[derive(Debug, Clone, Default)]
pub struct Survival {
    contents: Vec<Content>,
    seen: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    folder_is_durable: bool,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// kill -9: everything that is seen stays.
    Killed,
    /// The power fails, and nothing is left but what is durable.
    PowerCut,
    /// The power fails, and of what is not durable any part is left.
    Torn,
}

/// The files that are left; none where the folder itself is not.
pub type Left = Option<BTreeMap<String, Vec<u8>>>;

impl Survival {
    /// The file that the name stands for.
    pub fn file(&self, name: &str) -> usize {
        self.seen[name]
    }

    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { name } => {
                self.seen.insert(name.clone(), self.contents.len());
                self.contents.push(Content::default());
            }
            Change::Remove { name } => drop(self.seen.remove(name)),
            Change::Rename { from, to } => {
                if let Some(file) = self.seen.remove(from) {
                    self.seen.insert(to.clone(), file);
                }
            }
            Change::Write { file, at, bytes } => self.contents[*file].write(*at, bytes),
            Change::SyncBegins { file } => {
                let content = &mut self.contents[*file];
                content.syncing = Some(content.dirty.clone());
            }
            Change::Sync { file } => self.contents[*file].sync(),
            Change::SyncFailed { file } => {
                let content = &mut self.contents[*file];
                content.dirty.fill(false);
                content.syncing = None;
            }
            Change::Truncate { file, length } => {
                let content = &mut self.contents[*file];
                content.cut(*length);
                content.syncing = None;
                content.sync();
            }
            Change::TruncateUnsynced { file, length } => {
                let content = &mut self.contents[*file];
                content.cut(*length);
                content.dirty.fill(false);
            }
            Change::SyncFolder => self.durable = self.seen.clone(),
            Change::SyncParent => self.folder_is_durable = true,
        }
    }

    /// What is left after such an end.
    pub fn left(&self, end: End, rng: &mut StdRng) -> Left {
        let names = match end {
            End::Killed => &self.seen,
            End::PowerCut => &self.durable,
            End::Torn if rng.random() => &self.seen,
            End::Torn => &self.durable,
        };
        let folder_is_left = match end {
            End::Killed => true,
            End::PowerCut => self.folder_is_durable,
            End::Torn => self.folder_is_durable || rng.random(),
        };
        let left = |(name, file): (&String, &usize)| {
            let content = &self.contents[*file];
            let bytes = match end {
                End::Killed => content.seen.clone(),
                End::PowerCut => content.durable.clone(),
                End::Torn => content.torn(rng),
            };
            (name.clone(), bytes)
        };
        folder_is_left.then(|| names.iter().map(left).collect())
    }

    /// The folder as the next process finds it, when `left` is what is left.
    pub fn after(&self, end: End, left: &Left) -> Survival {
        if end == End::Killed {
            return self.clone();
        }
        let mut after = Survival::default();
        let Some(files) = left else { return after };
        after.folder_is_durable = true;
        for (name, bytes) in files {
            after.seen.insert(name.clone(), after.contents.len());
            after.contents.push(Content {
                seen: bytes.clone(),
                durable: bytes.clone(),
                dirty: vec![false; bytes.len()],
                syncing: None,
            });
        }
        after.durable = after.seen.clone();
        after
    }
}

/// Makes the folder at `dir` of what is left.
pub fn lay_out(left: &Left, dir: &Path) {
    let Some(files) = left else { return };
    std::fs::create_dir(dir).unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
}

impl Content {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = self.seen.len().max(at + bytes.len());
        self.seen.resize(end, 0);
        self.dirty.resize(end, true);
        self.seen[at..at + bytes.len()].copy_from_slice(bytes);
        self.dirty[at..at + bytes.len()].fill(true);
        if let Some(syncing) = &mut self.syncing {
            let end = (at + bytes.len()).min(syncing.len());
            syncing[at.min(end)..end].fill(false);
        }
    }

    fn cut(&mut self, length: usize) {
        self.seen.truncate(length);
        self.dirty.truncate(length);
    }

    fn sync(&mut self) {
        let begun = self.syncing.take().unwrap_or_else(|| self.dirty.clone());
        let length = begun.len().min(self.seen.len());
        self.durable
            .resize(length.max(self.durable.len().min(self.seen.len())), 0);
        for (at, is_synced) in begun.into_iter().enumerate().take(length) {
            if is_synced {
                self.dirty[at] = false;
                self.durable[at] = self.seen[at];
            }
        }
    }

    /// Either the first bytes of what was not synced, or some of its sectors.
    fn torn(&self, rng: &mut StdRng) -> Vec<u8> {
        let lengths = [self.seen.len(), self.durable.len()];
        let (shorter, longer) = (lengths[0].min(lengths[1]), lengths[0].max(lengths[1]));
        let length = rng.random_range(shorter..=longer);
        let cut = rng.random::<bool>().then(|| rng.random_range(0..=longer));
        let sectors: Vec<bool> = (0..=longer / SECTOR_BYTES).map(|_| rng.random()).collect();
        let byte = |at: usize| {
            let is_seen = cut.map_or(sectors[at / SECTOR_BYTES], |cut| at < cut);
            match (self.seen.get(at), self.durable.get(at)) {
                (Some(seen), _) if is_seen => *seen,
                // Not cut off on the disk, or never changed there.
                (_, Some(durable)) => *durable,
                // The file grew, and its bytes have not come.
                (_, None) => 0,
            }
        };
        (0..length).map(byte).collect()
    }
}
