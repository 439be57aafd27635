//! Writes a checkpoint while the store goes on.
//!
//! It never holds a lock of the tree while it writes, and asks the log thread for one thing: where the log ends. Invariant: what it could
//! not finish it removes, and what it was to stand for stays.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_wal::{Disk, LogFile, segment_path, segments, write_all};

use super::bytes::{Block, Foot, Head};
use super::keeper::{End, Meet};
use super::{Checkpoint, Files, look_for_room, path, unfinished_path};
use crate::Error;
use crate::index::{ENTRY_OVERHEAD_BYTES, Index};
use crate::record::FORMAT;
use crate::tree::Content;

/// So much is written, synced, and followed by a pause as long as the sync took.
const PART_BYTES: u64 = 1 << 20;
/// A part takes so long at least, with its pause: 128 MiB a second.
const PART_MIN: Duration = Duration::from_millis(8);

/// A checkpoint that is to be written.
pub(super) struct Job {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub index: Arc<Index>,
    pub head: Head,
    pub meet: Arc<Meet>,
}

/// The file that is written.
struct Out<'j> {
    job: &'j Job,
    path: &'j Path,
    file: Box<dyn LogFile>,
    foot: Foot,
    block: Block,
    part: u64,
    part_began: Instant,
}

impl Job {
    /// Writes it, gives it its name, and removes what it stands for.
    pub fn run(&self) -> Result<Checkpoint, Error> {
        let (began, unfinished) = (Instant::now(), unfinished_path(&self.dir, self.head.sequence));
        let written = self.write(&unfinished);
        if written.is_err() {
            // It is removed at the next start if it cannot be now.
            let _ = self.disk.remove(&unfinished);
        }
        let foot = written?;
        self.clear_up();
        Ok(Checkpoint {
            file: path(&self.dir, self.head.sequence),
            sequence: self.head.sequence,
            last_sequence: foot.last_sequence,
            entries: foot.entries,
            bytes: foot.length,
            took: began.elapsed(),
        })
    }

    fn write(&self, unfinished: &Path) -> Result<Foot, Error> {
        // Some that could not be removed may be in the way.
        for left in Files::list(&self.dir)?.unfinished {
            match self.disk.remove(&left) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&left, "remove the unfinished one")(source));
                }
                _ => {}
            }
        }
        self.look_for_room(unfinished)?;
        let file = self.disk.create(unfinished);
        let mut out = Out {
            job: self,
            path: unfinished,
            file: file.map_err(failed(unfinished, "create the checkpoint"))?,
            foot: Foot::default(),
            block: Block::default(),
            part: 0,
            part_began: Instant::now(),
        };
        out.put(&self.head.encode())?;
        out.scan()?;
        let foot = out.finish()?;
        let named = path(&self.dir, self.head.sequence);
        self.disk
            .rename(unfinished, &named)
            .map_err(failed(unfinished, "give the checkpoint its name"))?;
        self.disk
            .sync_dir(&self.dir)
            .map_err(failed(&named, "sync the checkpoint's folder"))?;
        Ok(foot)
    }

    /// Whether there is room for it beside the log: one that fills the disk would have the store's writes fail meanwhile.
    fn look_for_room(&self, unfinished: &Path) -> Result<(), Error> {
        // What an entry has in a file is about half of what it has in memory beside its key and value.
        let beside = self.index.len() as u64 * ENTRY_OVERHEAD_BYTES / 2;
        let needed = self.index.bytes().saturating_sub(beside);
        look_for_room(&self.dir, needed).map_err(failed(unfinished, "begin the checkpoint"))
    }

    /// Removes older checkpoints and the segments that nobody needs any more. What cannot be removed now is with the next checkpoint.
    fn clear_up(&self) {
        let holds = &self.meet.holds;
        let removed = holds.removing(self.head.sequence, |before| {
            remove_before(&*self.disk, &self.dir, before)
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "files that a checkpoint of an ordered store stands for stay until the next one");
        }
    }
}

/// Removes the files that a checkpoint of this sequence makes superfluous.
pub(crate) fn remove_before(disk: &dyn Disk, dir: &Path, sequence: u64) -> Result<(), Error> {
    let older = Files::list(dir)?.finished.into_iter();
    let older = older.filter(|of| *of < sequence).map(|of| path(dir, of));
    let covered = segments(&FORMAT, dir)?.into_iter();
    let covered = covered
        .filter(|first| *first < sequence)
        .map(|first| segment_path(dir, first));
    let files: Vec<PathBuf> = older.chain(covered).collect();
    if files.is_empty() {
        return Ok(());
    }
    for file in files {
        match disk.remove(&file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&file, "remove the file, which is not needed any more,")(
                    source,
                ));
            }
            _ => {}
        }
    }
    disk.sync_dir(dir).map_err(failed(dir, "sync the folder"))
}

fn failed<'p>(file: &'p Path, action: &'static str) -> impl Fn(io::Error) -> Error + use<'p> {
    move |source| Error::NoCheckpoint {
        file: file.to_owned(),
        action,
        source,
    }
}

impl Out<'_> {
    /// Writes all entries.
    fn scan(&mut self) -> Result<(), Error> {
        let mut ended = Ok(());
        self.job.index.each(&mut |content| {
            ended = self.push(&content);
            ended.is_ok()
        });
        ended?;
        self.put_block()
    }

    fn push(&mut self, content: &Content<'_>) -> Result<(), Error> {
        self.block.push(content);
        self.foot.entries += 1;
        self.foot.bytes += (content.key.len() + content.value.len()) as u64;
        match self.block.is_full() {
            true => self.put_block(),
            false => Ok(()),
        }
    }

    fn put_block(&mut self) -> Result<(), Error> {
        if self.block.is_empty() {
            return Ok(());
        }
        let mut block = std::mem::take(&mut self.block);
        self.put(block.finish(self.foot.blocks))?;
        block.clear();
        self.block = block;
        self.foot.blocks += 1;
        if self.part >= PART_BYTES {
            let began = Instant::now();
            self.sync()?;
            let left = PART_MIN.saturating_sub(self.part_began.elapsed());
            self.job.meet.pause(began.elapsed().max(left))?;
            (self.part, self.part_began) = (0, Instant::now());
        }
        self.job.meet.check()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = write_all(&*self.file, bytes, self.foot.length);
        written.map_err(failed(self.path, "write the checkpoint"))?;
        self.foot.length += bytes.len() as u64;
        self.part += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.file.sync().map_err(failed(self.path, "sync the checkpoint"))
    }

    /// Asks how far the log has come, which is durable up to there, and says so.
    fn finish(mut self) -> Result<Foot, Error> {
        // What is left to sync behind the question is little.
        self.sync()?;
        let End {
            last_sequence,
            next_version,
        } = self.job.meet.ask_end()?;
        self.foot = Foot {
            last_sequence,
            next_version,
            time_ms: self.job.index.clock().now_ms(),
            length: self.foot.length + super::bytes::FOOT_BYTES as u64,
            ..self.foot
        };
        let foot = self.foot;
        let at = foot.length - super::bytes::FOOT_BYTES as u64;
        let written = write_all(&*self.file, &foot.encode(), at);
        written.map_err(failed(self.path, "write the checkpoint"))?;
        self.sync()?;
        Ok(foot)
    }
}
