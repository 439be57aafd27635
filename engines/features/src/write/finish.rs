//! The end of a version that is written: its shards, its manifest, and its name.
//!
//! Takes no row. Invariant: the name comes last, when everything under it is synced.

use std::fs::{self, File};
use std::io::Write;
use std::sync::Mutex;
use std::thread;

use super::arrange::Identity;
use super::incoming::Shape;
use super::journal::{self, Journal};
use super::shard::{Finished, ShardWriter};
use super::unfinished::sync_dir;
use super::{Summary, Writer};
use crate::error::Error;
use crate::header::KEY_BYTES;
use crate::manifest::{self, FoldedEntry, KeyKind, Manifest};

impl Writer {
    /// Writes the shards and the manifest, syncs everything and gives the version its name.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::Io`]; [`Error::VersionExists`] when another writer was faster.
    pub fn finish(mut self) -> Result<Summary, Error> {
        self.finish_all().map_err(|error| self.broken(error))
    }

    fn finish_all(&mut self) -> Result<Summary, Error> {
        if self.failed {
            let cause = std::io::Error::other("an earlier write failed");
            return Err(Error::io("finish", &self.unfinished.path)(cause));
        }
        let shards = std::mem::take(&mut self.shards);
        let finished = self.finish_shards(shards)?;
        let rows = match &self.base {
            Some(base) => {
                base.check_whole()?;
                base.check_stands_in(&self.table_dir)?;
                let (added, removed) = finished.iter().fold((0, 0), |(added, removed), shard| {
                    (added + shard.added, removed + shard.removed)
                });
                let rows = base.rows().checked_add(added);
                let rows = rows.and_then(|rows| rows.checked_sub(removed));
                rows.ok_or_else(|| base.miscounted(removed))?
            }
            None => finished.iter().map(|shard| shard.entry.rows).sum(),
        };
        let (keys, slot) = KeyKind::fields(&self.schema.keys);
        let manifest = Manifest {
            format: self.schema.format(),
            name: self.name.clone(),
            version: self.version,
            keys,
            slot,
            columns: self.schema.columns.clone(),
            not_finite: self.schema.not_finite,
            default_row: self.schema.default_row.clone(),
            base: self.base.as_ref().map(|base| base.as_base()),
            node: self.node.clone(),
            folded: self.folded.map(FoldedEntry::from),
            oldest_base: self.oldest_base,
            rows,
            created_unix_s: self.created_unix_s,
            source: std::mem::take(&mut self.source),
            shards: finished.into_iter().map(|shard| shard.entry).collect(),
        };
        let path = self.unfinished.path.join(manifest::FILE);
        let bytes = manifest.encode()?;
        File::create_new(&path)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
            .map_err(Error::io("write", &path))?;
        // Its lock is held until it is gone: whoever waits for it finds another file there, or none.
        if let Some(_locked) = self.journal.take() {
            // It is no part of the version.
            let path = self.unfinished.path.join(journal::FILE);
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
        sync_dir(&self.unfinished.path)?;
        let path = self.unfinished.publish(&self.table_dir, self.version)?;
        if let Some(base) = &self.base {
            self.unfinished.stays_on(base, &self.table_dir, &path)?;
        }
        sync_dir(&self.table_dir)?;
        Ok(Summary {
            path,
            name: manifest.name,
            version: self.version,
            dim: self.schema.dim(),
            each: self.schema.describe_row(),
            rows: manifest.rows,
            shards: manifest.shards.len() as u32,
            bytes: manifest.shards.iter().map(|entry| entry.bytes).sum(),
            resumed: self.resumed,
        })
    }

    pub(super) fn shape(&self) -> Shape {
        let is_delta = self.base.is_some();
        Shape {
            is_delta,
            is_varying: self.schema.is_varying(),
            slot_bytes: KEY_BYTES + self.schema.row_bytes() + usize::from(is_delta),
        }
    }

    pub(super) fn identity(&self, shard: usize, shards: usize) -> Identity {
        Identity {
            format: self.schema.format(),
            shard: shard as u32,
            shards: shards as u32,
            version: self.version,
            row_bytes: self.schema.row_bytes() as u32,
            is_delta: self.base.is_some(),
        }
    }

    /// Finishes the shards, as many at a time as there are processors.
    fn finish_shards(&mut self, shards: Vec<ShardWriter>) -> Result<Vec<Finished>, Error> {
        let journal = Mutex::new(self.journal.take());
        let finished = self.write_shards(shards, &journal);
        self.journal = lock(&journal).take();
        finished
    }

    fn write_shards(
        &self,
        shards: Vec<ShardWriter>,
        journal: &Mutex<Option<Journal>>,
    ) -> Result<Vec<Finished>, Error> {
        let count = shards.len();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(count);
        let memory_bytes = self.memory_bytes.saturating_sub(self.kept_bytes.unwrap_or(0)) / threads;
        let waiting = Mutex::new(shards.into_iter().enumerate());
        let finished = Mutex::new((0..count).map(|_| None).collect::<Vec<_>>());
        let base = self.base.as_deref();
        let work = || -> Result<(), Error> {
            loop {
                let next = lock(&waiting).next();
                let Some((number, shard)) = next else {
                    return Ok(());
                };
                let what = (self.identity(number, count), self.shape());
                let noted =
                    |shard: &Finished| Writer::note_shard(lock(journal).as_mut(), number as u32, shard);
                let shard = shard.finish(what, self.duplicates, base, memory_bytes, noted)?;
                lock(&finished)[number] = Some(shard);
            }
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut results = vec![work()];
            for other in others {
                let ended = other.join();
                results.push(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            results.into_iter().collect::<Result<(), Error>>()
        })?;
        let finished = finished
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(finished.into_iter().flatten().collect())
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
