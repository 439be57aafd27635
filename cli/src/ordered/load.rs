//! `millpond ordered load`: JSON lines into a store.
//!
//! Its invariant: a line that cannot be loaded stops the load and is named; what was loaded before it stays, and the error says how much.

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use millpond_engines_ordered::{
    Batch, Durability as Survives, ITEMS_MAX, KEY_BYTES_MAX, LIST_BYTES_MAX, Operation, Options, Section,
    Store, VALUE_BYTES_MAX, WriteError,
};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::iter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Entries of one write, and bytes of keys and values: few enough to stay small, many enough that the log is synced seldom.
const ENTRIES_A_WRITE: usize = 1000;
const BYTES_A_WRITE: usize = 4 << 20;
/// What an item counts as beside its bytes, and so does the number of a list's items.
const ITEM_BYTES: usize = 4;

const EXAMPLES: &str = "\
A line is {\"key\": \"text\", \"value\": \"text\"}, or has key_base64 and value_base64 for bytes, or items_base64 for a list, as `dump` writes them. With \"expires_ms\" (milliseconds of Unix \
time) an entry expires then; one that has expired is left out. A \"version\" is passed over: entries get the versions of this store.

Entries are written a thousand or so at a time. A load that stops, at a line that it cannot load or on a full disk, keeps what \
it wrote: the error says how many entries that is, and from which line to go on. Lines that are loaded again do no harm.

Examples:
  millpond ordered load store entries.jsonl
  tail -n +3001 entries.jsonl | millpond ordered load store
  millpond ordered dump backups/monday | millpond ordered load store";

/// Loads entries into the store's folder, which is made when absent.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Load {
    /// The store's folder (ordered.NAME.path of the configuration).
    dir: PathBuf,
    /// The file; standard input when left out.
    file: Option<PathBuf>,
    /// What each written batch survives.
    #[arg(long, value_enum, default_value_t = Durability::Synced)]
    durability: Durability,
}

/// How sure a batch is before the next is written.
#[derive(Clone, Copy, ValueEnum)]
enum Durability {
    /// The end of this process.
    Logged,
    /// The end of the machine's power.
    Synced,
}

pub(crate) fn run(load: &Load) -> anyhow::Result<()> {
    let section = Section {
        path: Some(load.dir.clone()),
        durability: match load.durability {
            Durability::Logged => Survives::Logged,
            Durability::Synced => Survives::Synced,
        },
        ..Section::default()
    };
    let place = load
        .file
        .as_ref()
        .map_or("standard input".into(), |file| file.display().to_string());
    // Before a folder is made for it.
    let lines: Box<dyn BufRead> = match &load.file {
        Some(file) => Box::new(BufReader::new(open(file)?)),
        None => Box::new(io::stdin().lock()),
    };
    let began = Instant::now();
    let opened = section.open(Options::default().queue_bytes_max);
    let (store, _) = opened.context("ordered.load")?;
    let mut filling = Filling::new(&store, &place);
    if let Err(error) = filling.fill(lines) {
        bail!("{error}; {}", filling.so_far());
    }
    let (entries, expired) = (filling.entries, filling.expired);
    let keys = store.len();
    store.close().context("ordered.load")?;
    let expired = match expired {
        0 => String::new(),
        expired => format!(" ({expired} more have expired)"),
    };
    crate::print(&format!(
        "{entries} entries loaded into {}{expired} in {:.1} s; the store holds {keys} keys",
        load.dir.display(),
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn open(file: &Path) -> anyhow::Result<File> {
    File::open(file).map_err(|error| anyhow!("{}: cannot be read: {error}", file.display()))
}

/// One line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
    items_base64: Option<Vec<String>>,
    expires_ms: Option<u64>,
    #[serde(rename = "version")]
    _version: Option<u64>,
}

/// Bytes that a line gives as text or in base64, by one of two names.
fn bytes(name: &str, text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(base64)) => decode(name, &base64),
        _ => Err(format!("expected one of {name} and {name}_base64")),
    }
}

fn decode(name: &str, base64: &str) -> Result<Vec<u8>, String> {
    let decoded = STANDARD.decode(base64);
    decoded.map_err(|error| format!("{name}_base64 is not base64: {error}"))
}

/// What a key gets.
enum Held {
    Bytes(Vec<u8>),
    /// The oldest item first.
    Items(Vec<Vec<u8>>),
}

impl Held {
    fn of(line: &mut Line) -> Result<Held, String> {
        match (
            line.items_base64.take(),
            line.value.take(),
            line.value_base64.take(),
        ) {
            // Without one the key would be taken away.
            (Some(items), None, None) if items.is_empty() => {
                Err("items_base64 is empty; a list has at least one item: leave the line out".into())
            }
            (Some(items), None, None) => {
                let items = items.iter().map(|item| decode("items", item));
                Ok(Held::Items(items.collect::<Result<_, String>>()?))
            }
            (Some(_), ..) => Err("expected a value or items_base64, not both".into()),
            (None, None, None) => Err("expected one of value, value_base64 and items_base64".into()),
            (None, text, base64) => Ok(Held::Bytes(bytes("value", text, base64)?)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Held::Bytes(value) => value.len(),
            Held::Items(items) => items.iter().map(|item| item.len() + ITEM_BYTES).sum(),
        }
    }

    /// What the store would refuse as too large, and with it all lines of its write.
    fn check(&self, key: &[u8]) -> Result<(), WriteError> {
        let (what, found, max) = match self {
            _ if key.len() > KEY_BYTES_MAX => ("bytes of a key", key.len(), KEY_BYTES_MAX),
            Held::Bytes(_) => ("bytes of a value", self.bytes(), VALUE_BYTES_MAX),
            Held::Items(_) => ("bytes of a list", self.bytes() + ITEM_BYTES, LIST_BYTES_MAX),
        };
        match found > max {
            true => Err(WriteError::TooLarge { what, found, max }),
            false => Ok(()),
        }
    }
}

/// An entry that waits to be written.
struct Waiting {
    key: Vec<u8>,
    held: Held,
    expires_ms: Option<u64>,
}

impl Waiting {
    /// Whether it has not expired by then, and the operations that make it.
    fn operations(self, now_ms: u64) -> Option<Vec<Operation>> {
        let Waiting {
            key,
            held,
            expires_ms,
        } = self;
        let ttl_ms = expires_ms.map(|expires_ms| expires_ms.saturating_sub(now_ms));
        if ttl_ms == Some(0) {
            return None;
        }
        Some(match held {
            Held::Bytes(value) => vec![Operation::Put {
                key,
                value,
                if_version: None,
                if_absent: false,
                if_present: false,
                ttl_ms,
                keep_ttl: false,
            }],
            Held::Items(items) => {
                let append = |items: &[Vec<u8>]| Operation::Append {
                    key: key.clone(),
                    items: items.to_vec(),
                    keep: None,
                    ttl_ms,
                };
                let removed = Operation::Remove {
                    key: key.clone(),
                    if_version: None,
                };
                iter::once(removed)
                    .chain(items.chunks(ITEMS_MAX).map(append))
                    .collect()
            }
        })
    }
}

/// Puts entries into a store.
struct Filling<'s> {
    store: &'s Store,
    place: &'s str,
    waiting: Vec<Waiting>,
    bytes: usize,
    /// The line that was read last, counted from 1.
    line: usize,
    /// The first one whose entry is not written.
    next_line: usize,
    entries: usize,
    expired: usize,
    shown: Instant,
}

impl<'s> Filling<'s> {
    fn new(store: &'s Store, place: &'s str) -> Filling<'s> {
        Filling {
            store,
            place,
            waiting: Vec::with_capacity(ENTRIES_A_WRITE),
            bytes: 0,
            line: 0,
            next_line: 1,
            entries: 0,
            expired: 0,
            shown: Instant::now(),
        }
    }

    fn fill(&mut self, lines: Box<dyn BufRead>) -> anyhow::Result<()> {
        for (number, line) in lines.lines().enumerate() {
            self.line = number + 1;
            let at = |problem: String| anyhow!("{}, line {}: {problem}", self.place, number + 1);
            let line = line.map_err(|error| at(error.to_string()))?;
            if line.trim().is_empty() {
                continue;
            }
            let mut line: Line = serde_json::from_str(&line)
                .map_err(|error| at(format!("{error}; expected {{\"key\": \"…\", \"value\": \"…\"}}")))?;
            let held = Held::of(&mut line).map_err(&at)?;
            let key = bytes("key", line.key, line.key_base64).map_err(&at)?;
            held.check(&key).map_err(|error| at(error.to_string()))?;
            self.add(Waiting {
                key,
                held,
                expires_ms: line.expires_ms,
            })?;
        }
        self.write()
    }

    /// What the store has of a load that stopped, and how to go on.
    fn so_far(&self) -> String {
        match (self.entries, self.next_line) {
            (0, _) => "no entry was loaded: correct the line and begin again".into(),
            (entries, line) => {
                format!("{entries} entries of the lines before are loaded and stay: go on from line {line}")
            }
        }
    }

    /// Writes what waits first where that is enough.
    fn add(&mut self, entry: Waiting) -> anyhow::Result<()> {
        let bytes = entry.key.len() + entry.held.bytes();
        if self.waiting.len() == ENTRIES_A_WRITE || self.bytes + bytes > BYTES_A_WRITE {
            self.write()?;
        }
        self.bytes += bytes;
        self.waiting.push(entry);
        Ok(())
    }

    /// Writes what waits, all of it from lines before the last one or, at the end, up to it.
    fn write(&mut self) -> anyhow::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        // What has expired since it was read is left out.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| now.as_millis() as u64);
        let of = waiting.len();
        let made: Vec<Vec<Operation>> = waiting
            .into_iter()
            .filter_map(|entry| entry.operations(now_ms))
            .collect();
        let entries = made.len();
        self.expired += of - entries;
        let operations: Vec<Operation> = made.into_iter().flatten().collect();
        if operations.is_empty() {
            self.next_line = self.line;
            return Ok(());
        }
        let batch = Batch {
            operations,
            read_bytes_max: 0,
        };
        let written = self.store.write_wait(batch);
        written.map_err(|error| anyhow!("{}: {error}", self.place))?;
        (self.entries, self.next_line) = (self.entries + entries, self.line);
        if self.shown.elapsed() > Duration::from_secs(1) {
            self.shown = Instant::now();
            eprintln!("{} entries loaded", self.entries);
        }
        Ok(())
    }
}
