//! The life of a store: a folder, its disk, and what callers know of it, over several rounds.
//!
//! Its invariant: a folder with a finding stays; any other goes with its life.

use crate::certificates::Authority;
use crate::configuration;
use crate::fault::Disk;
use crate::fresh::Fresh;
use crate::invariant::memory::documented_bytes;
use crate::ledger::Ledger;
use crate::load::Unbroken;
use crate::mixed::{Book, LOGGED, SYNCED};
use crate::settings::Settings;
use crate::table::{self, Served};
use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// Processes of a server without a store.
pub const FLEET: u32 = 3;

/// What a life serves from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// No store.
    Nowhere,
    /// A store on the disk that is there, whose syncs take their time.
    Here,
    /// A store on a disk of its own, which can be filled, where that is possible.
    OwnDisk,
}

/// A store's life.
pub struct Life {
    folder: PathBuf,
    authority: Authority,
    ledger: Ledger,
    books: [Book; 2],
    served: Served,
    fresh: Fresh,
    durability: &'static str,
    unbroken: Unbroken,
    disk: Disk,
    documented_bytes: u64,
    is_kept: bool,
}

impl Life {
    /// A new folder.
    ///
    /// # Errors
    /// A file or a mount that cannot be made.
    pub fn begin(settings: &Settings, round: u64, place: Place) -> anyhow::Result<Life> {
        let folder = settings
            .keep
            .join(format!("seed-{:#x}-round-{round}", settings.seed));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let authority = Authority::new()?;
        // Syncs that fail are made on disks of their own; a kill is to be survived without any.
        let durability = match place {
            Place::OwnDisk => "synced",
            Place::Here | Place::Nowhere => "logged",
        };
        let with_store = place != Place::Nowhere;
        configuration::write(&folder, &authority, with_store.then_some(durability))?;
        let processes = if place == Place::Nowhere { FLEET } else { 1 };
        let is_own = settings.can_mount && place == Place::OwnDisk;
        let disk = Disk::new(&folder.join("store"), is_own)?;
        table::prepare(&settings.millpond, &folder)?;
        if with_store {
            table::prepare_fresh(&settings.millpond, &folder)?;
        }
        let unbroken = Unbroken::build(&settings.millpond, &folder)?;
        let documented_bytes = documented_bytes(&settings.millpond, &folder, processes)?;
        Ok(Life {
            folder,
            authority,
            ledger: Ledger::default(),
            books: [Book::new(SYNCED, "synced"), Book::new(LOGGED, durability)],
            served: Served::default(),
            fresh: Fresh::default(),
            durability,
            unbroken,
            disk,
            documented_bytes,
            is_kept: false,
        })
    }

    /// Keeps the folder.
    ///
    /// # Errors
    /// The store cannot be copied from its disk.
    pub fn keep(&mut self) -> anyhow::Result<()> {
        self.is_kept = true;
        self.disk.keep(&self.folder.join("store-kept"))
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Signs its certificates.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// What callers can make a server of this folder hold.
    pub fn documented_bytes(&self) -> u64 {
        self.documented_bytes
    }

    /// What is known of its store.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is known of its stores under mixed load.
    pub fn books(&self) -> &[Book; 2] {
        &self.books
    }

    /// What is known of the version of its feature table.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// What is known of the rows that were upserted to its other one.
    pub fn fresh(&self) -> &Fresh {
        &self.fresh
    }

    /// What an upsert of it survives.
    pub fn durability(&self) -> &'static str {
        self.durability
    }

    /// What its builds that are killed have to come to.
    pub fn unbroken(&self) -> &Unbroken {
        &self.unbroken
    }

    /// What its store is on.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.disk.leave();
        if !self.is_kept {
            // What cannot be removed stays below the build's folder.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
