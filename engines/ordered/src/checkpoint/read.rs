//! Reads a checkpoint back, several blocks at once.
//!
//! Changes nothing on disk. Invariant: it has read the whole of a sound checkpoint, or says what is wrong with it.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use millpond_wal::Fault;

use super::bytes::{BLOCK_HEAD_BYTES, FOOT_BYTES, Foot, HEAD_BYTES, Head, Held, block_length, read_block};
use super::path;
use crate::Error;
use crate::recover::Reporter;
use crate::tree::Content;

/// More threads than this are not faster.
const THREADS_MAX: usize = 8;
/// Blocks that wait for a thread, for each of them.
const WAITING: usize = 2;

/// Sequences and versions begin with 1, and no log comes as far.
const COUNT_MAX: u64 = u64::MAX / 2;

/// A block, and where it begins in the file.
type Found = (u64, Vec<u8>);

/// Why a checkpoint cannot be used.
#[derive(Debug)]
pub(crate) enum Bad {
    Read(io::Error),
    /// At this offset.
    Fault(u64, Fault),
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::Read(source) => write!(f, "it cannot be read: {source}"),
            Bad::Fault(at, Fault::Unreadable(found) | Fault::Malformed(found)) => {
                write!(f, "damaged at offset {at}: {found}")
            }
            Bad::Fault(at, Fault::Unsupported(found)) => write!(f, "unknown {found} at offset {at}"),
        }
    }
}

impl From<io::Error> for Bad {
    fn from(source: io::Error) -> Bad {
        Bad::Read(source)
    }
}

impl Bad {
    /// What it is where no other file helps: a newer build wrote it.
    pub fn unsupported(&self, file: &Path) -> Option<Error> {
        match self {
            Bad::Fault(offset, Fault::Unsupported(found)) => Some(Error::Unsupported {
                file: file.to_owned(),
                offset: *offset,
                what: "checkpoint format",
                found: *found,
            }),
            _ => None,
        }
    }
}

/// A checkpoint whose header and footer are sound.
pub(crate) struct Opened {
    pub path: PathBuf,
    pub head: Head,
    pub foot: Foot,
    file: BufReader<File>,
}

impl Opened {
    pub fn open(dir: &Path, sequence: u64) -> Result<Opened, Bad> {
        Opened::open_at(path(dir, sequence), sequence)
    }

    /// The same of a file by another name.
    pub fn open_at(path: PathBuf, sequence: u64) -> Result<Opened, Bad> {
        let mut file = File::open(&path)?;
        let length = file.metadata()?.len();
        if length < (HEAD_BYTES + FOOT_BYTES) as u64 {
            let found = format!("{length} bytes, too few for a checkpoint");
            return Err(Bad::Fault(0, Fault::Unreadable(found)));
        }
        let (mut head, mut foot) = ([0; HEAD_BYTES], [0; FOOT_BYTES]);
        file.read_exact(&mut head)?;
        let head = Head::decode(&head).map_err(|fault| Bad::Fault(0, fault))?;
        let foot_at = length - FOOT_BYTES as u64;
        file.seek(SeekFrom::Start(foot_at))?;
        file.read_exact(&mut foot)?;
        let foot = Foot::decode(&foot).map_err(|fault| Bad::Fault(foot_at, fault))?;
        let wrong = |at, found: String| Err(Bad::Fault(at, Fault::Malformed(found)));
        // Nothing that counts from there on may come to an end.
        let counts = [head.sequence, head.first_version];
        if counts.iter().any(|count| !(1..=COUNT_MAX).contains(count)) {
            return wrong(
                8,
                format!("record {} of version {}", head.sequence, head.first_version),
            );
        }
        if head.sequence != sequence {
            return wrong(8, format!("sequence {}, its name says {sequence}", head.sequence));
        }
        if foot.length != length {
            return wrong(
                foot_at,
                format!("a file of {} bytes announced, {length} found", foot.length),
            );
        }
        let ends_far = foot.last_sequence.max(foot.next_version) > COUNT_MAX;
        if ends_far
            || foot.last_sequence.saturating_add(1) < sequence
            || foot.next_version < head.first_version
        {
            return wrong(foot_at, format!("an end at record {}", foot.last_sequence));
        }
        file.seek(SeekFrom::Start(HEAD_BYTES as u64))?;
        Ok(Opened {
            path,
            head,
            foot,
            file: BufReader::with_capacity(1 << 20, file),
        })
    }

    /// Reads all blocks, and hands their entries over on several threads.
    pub fn read(mut self, take: impl Fn(Content<'_>) + Sync, reporter: &mut Reporter<'_>) -> Result<(), Bad> {
        let threads = thread::available_parallelism()
            .map_or(1, usize::from)
            .min(THREADS_MAX);
        let (blocks, waiting) = sync_channel::<Found>(threads * WAITING);
        let (waiting, sum) = (Mutex::new(Some(waiting)), Mutex::new(Ok(Held::default())));
        let read: Result<u64, Bad> = thread::scope(|scope| {
            for number in 0..threads {
                let name = format!("ordered-load-{number}");
                let worker = thread::Builder::new().name(name);
                let started = worker.spawn_scoped(scope, || work(&waiting, &sum, &take));
                // The others do it where the system has no more threads.
                if let (Err(source), 0) = (started, number) {
                    return Err(Bad::Read(source));
                }
            }
            let mut offset = HEAD_BYTES as u64;
            for number in 0..self.foot.blocks {
                let block = self.next_block(number, offset)?;
                let at = offset;
                offset += block.len() as u64;
                // Nobody takes it any more once one of them has found damage.
                if blocks.send((at, block)).is_err() {
                    break;
                }
                reporter.tell(offset, self.foot.length);
            }
            drop(blocks);
            Ok(offset)
        });
        let held = sum.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        let (end, foot_at) = (read?, self.foot.length - FOOT_BYTES as u64);
        let is_whole = end == foot_at && held.entries == self.foot.entries && held.bytes == self.foot.bytes;
        if !is_whole {
            let found = format!(
                "{} entries up to offset {end}, {} announced",
                held.entries, self.foot.entries
            );
            return Err(Bad::Fault(foot_at, Fault::Malformed(found)));
        }
        Ok(())
    }

    /// The file, wherever it was read last.
    pub fn into_file(self) -> File {
        self.file.into_inner()
    }

    /// Reads all blocks one after the other, and hands the entries of each over together, in order.
    pub fn each_block(
        mut self,
        mut take: impl FnMut(&[Content<'_>]),
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Bad> {
        let mut offset = HEAD_BYTES as u64;
        for number in 0..self.foot.blocks {
            let block = self.next_block(number, offset)?;
            let mut entries = Vec::new();
            read_block(&block, |content| entries.push(content)).map_err(|fault| Bad::Fault(offset, fault))?;
            take(&entries);
            offset += block.len() as u64;
            reporter.tell(offset, self.foot.length);
        }
        Ok(())
    }

    fn next_block(&mut self, number: u64, offset: u64) -> Result<Vec<u8>, Bad> {
        let left = (self.foot.length - FOOT_BYTES as u64).saturating_sub(offset);
        let mut head = [0; BLOCK_HEAD_BYTES];
        if left < BLOCK_HEAD_BYTES as u64 {
            let found = format!("{left} bytes, too few for block {number}");
            return Err(Bad::Fault(offset, Fault::Unreadable(found)));
        }
        self.file.read_exact(&mut head)?;
        let length = block_length(&head, number, left).map_err(|fault| Bad::Fault(offset, fault))?;
        let mut block = vec![0; length];
        let (place, rest) = block.split_at_mut(BLOCK_HEAD_BYTES);
        place.copy_from_slice(&head);
        self.file.read_exact(rest)?;
        Ok(block)
    }
}

/// Lets nobody wait for a worker that has ended by a panic.
struct Leaves<'q>(&'q Mutex<Option<Receiver<Found>>>);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Takes blocks until there are no more, or one is damaged.
fn work(
    waiting: &Mutex<Option<Receiver<Found>>>,
    sum: &Mutex<Result<Held, Bad>>,
    take: &(impl Fn(Content<'_>) + Sync),
) {
    let _leaves = Leaves(waiting);
    loop {
        let mut queue = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Ok((at, block))) = queue.as_ref().map(Receiver::recv) else {
            return;
        };
        drop(queue);
        let held = read_block(&block, take);
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        // The first fault of the file counts, whichever thread finds one first: all blocks before this one were taken before it.
        let is_later = matches!(&*sum, Err(Bad::Fault(first, _)) if *first < at);
        match (held, &mut *sum) {
            (Ok(held), Ok(sum)) => {
                sum.entries += held.entries;
                sum.bytes += held.bytes;
            }
            (Err(fault), known) if !is_later => {
                *known = Err(Bad::Fault(at, fault));
                drop(sum);
                queue = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                *queue = None;
                return;
            }
            _ => return,
        }
    }
}
