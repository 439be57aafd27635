//! Millpond's store, with durability `memory` where nothing else is said, called as a server calls it: texts as keys, values copied out, puts made at
//! once where there is no log, else several of each caller on their way.
//!
//! Its invariant: a caller has at most [`IN_FLIGHT`] puts on their way, and leaves only when all of its own have ended.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

use anyhow::{anyhow, ensure};
use millpond_engines_ordered::{Options, Put, Scan, Store};
use millpond_metrics::Page;

use super::keys::Text;
use super::{Map, SCAN_ENTRIES, TOGETHER};

/// Puts of one caller on their way, as many as a busy server would have waiting. Two callers fill the queue's usual length.
const IN_FLIGHT: usize = 512;

pub(super) struct Ordered(Store);

impl Default for Ordered {
    fn default() -> Ordered {
        Ordered(Store::in_memory(Options::default()))
    }
}

impl Ordered {
    pub(super) fn of(store: Store) -> Ordered {
        Ordered(store)
    }

    pub(super) fn into_store(self) -> Store {
        self.0
    }
}

impl Map for Ordered {
    type Key = Text;

    fn key(text: Text) -> Text {
        text
    }

    fn put(&self, keys: &[Text]) -> anyhow::Result<()> {
        let flight = Arc::new(Flight::new());
        for (sent, key) in keys.iter().enumerate() {
            if self.0.put_at_once(key.bytes(), key.value(), None).is_some() {
                flight.end(true);
                continue;
            }
            if sent >= flight.ended() + IN_FLIGHT {
                // Until half of them have ended, so that a caller wakes once for many.
                flight.wait_for(sent - IN_FLIGHT / 2);
            }
            let put = Put {
                entries: vec![(key.bytes().to_vec(), key.value().to_vec())],
                ..Put::default()
            };
            let one = flight.clone();
            let done = Box::new(move |result: Result<_, _>| one.end(result.is_ok()));
            let offered = self.0.write(put, done);
            offered.map_err(|busy| anyhow!("a put was refused: {}", busy.error))?;
        }
        flight.wait_for(keys.len());
        let failed = flight.failed.load(Ordering::SeqCst);
        ensure!(failed == 0, "{failed} puts failed");
        Ok(())
    }

    fn get(&self, keys: &[Text]) -> usize {
        let is_there = |key: &&Text| {
            let found = self.0.get(black_box(key.bytes()));
            found.is_some_and(|found| found.value == key.value())
        };
        keys.iter().filter(is_there).count()
    }

    fn get_together(&self, keys: &[Text]) -> Option<usize> {
        let found_of = |keys: &[Text]| {
            let texts: Vec<&[u8]> = keys.iter().map(Text::bytes).collect();
            let found = self.0.get_many(black_box(&texts), usize::MAX).unwrap_or_default();
            let pairs = keys.iter().zip(&found);
            let are_there =
                pairs.filter(|(key, found)| found.as_ref().is_some_and(|found| found.value == key.value()));
            are_there.count()
        };
        Some(keys.chunks(TOGETHER).map(found_of).sum())
    }

    fn scan(&self, starts: &[Text]) -> usize {
        let mut read = 0;
        for start in starts {
            let scan = Scan {
                start: Some(start.bytes().to_vec()),
                limit: SCAN_ENTRIES,
                ..Scan::default()
            };
            let cursor = self.0.scan(&scan, &mut |key, value| {
                black_box((key, value));
                read += 1;
            });
            black_box(cursor);
        }
        read
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn counted_bytes(&self) -> Option<f64> {
        let mut page = Page::default();
        page.part(Store::METRICS, Some(&self.0));
        page.value("millpond_store_memory_bytes")
    }
}

/// The puts of one caller, and whom their ends wake.
struct Flight {
    caller: Thread,
    ended: AtomicUsize,
    failed: AtomicUsize,
    /// The end at which the caller is woken; none when it does not wait.
    wanted: AtomicUsize,
}

impl Flight {
    fn new() -> Flight {
        Flight {
            caller: thread::current(),
            ended: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
        }
    }

    fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    fn end(&self, is_ok: bool) {
        if !is_ok {
            self.failed.fetch_add(1, Ordering::SeqCst);
        }
        let ended = self.ended.fetch_add(1, Ordering::SeqCst) + 1;
        if ended == self.wanted.load(Ordering::SeqCst) {
            self.caller.unpark();
        }
    }

    fn wait_for(&self, ended: usize) {
        self.wanted.store(ended, Ordering::SeqCst);
        while self.ended() < ended {
            thread::park();
        }
    }
}
