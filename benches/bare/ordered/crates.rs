//! The crates that the store is held against, called directly.
//!
//! Their keys are numbers of 64 bits in the order of the texts ([`Text::packed`]), made before the clock runs: ferntree keeps
//! those in its nodes, where texts would be an allocation a key, and masstree needs one layer of its trie in the place of two.
//! Of a million keys both put and find these faster than the texts themselves in every trial, ferntree (texts as `Vec<u8>`)
//! more than twice as fast. Of what each offers the fastest call is taken. Its invariant: a value is its key.

use std::hint::black_box;

use ferntree::Tree;
use masstree::{MassTree, RangeBound};

use super::keys::Text;
use super::{Map, SCAN_ENTRIES};

#[derive(Default)]
pub(super) struct Fern(Tree<u64, u64>);

impl Map for Fern {
    type Key = u64;

    fn key(text: Text) -> u64 {
        text.packed()
    }

    fn put(&self, keys: &[u64]) -> anyhow::Result<()> {
        for &key in keys {
            black_box(self.0.insert(key, key));
        }
        Ok(())
    }

    fn get(&self, keys: &[u64]) -> usize {
        let is_there = |key: &&u64| self.0.get_optimistic(black_box(*key)) == Some(**key);
        keys.iter().filter(is_there).count()
    }

    fn scan(&self, starts: &[u64]) -> usize {
        let mut read = 0;
        for start in starts {
            let mut entries = self.0.raw_iter();
            entries.seek(start);
            for _ in 0..SCAN_ENTRIES {
                let Some(entry) = entries.next() else { break };
                black_box(entry);
                read += 1;
            }
        }
        read
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Calls that share a guard: some must end it, or nothing that was replaced would ever be freed.
const GUARDED: usize = 1024;

#[derive(Default)]
pub(super) struct Mass(MassTree<u64>);

impl Map for Mass {
    type Key = u64;

    fn key(text: Text) -> u64 {
        text.packed()
    }

    fn put(&self, keys: &[u64]) -> anyhow::Result<()> {
        for some in keys.chunks(GUARDED) {
            let guard = self.0.guard();
            for &key in some {
                black_box(self.0.insert_with_guard(&key.to_be_bytes(), key, &guard));
            }
        }
        Ok(())
    }

    fn get(&self, keys: &[u64]) -> usize {
        let mut found = 0;
        for some in keys.chunks(GUARDED) {
            let guard = self.0.guard();
            let is_there = |key: &&u64| {
                let bytes = black_box(key.to_be_bytes());
                self.0.get_with_guard(&bytes, &guard) == Some(**key)
            };
            found += some.iter().filter(is_there).count();
        }
        found
    }

    fn scan(&self, starts: &[u64]) -> usize {
        let mut read = 0;
        for some in starts.chunks(GUARDED) {
            let guard = self.0.guard();
            for start in some {
                let mut left = SCAN_ENTRIES;
                let entry = |key: &[u8], value| {
                    black_box((key, value));
                    left -= 1;
                    left > 0
                };
                let start = start.to_be_bytes();
                let (from, to) = (RangeBound::Included(&start), RangeBound::Unbounded);
                self.0.scan_intra_leaf_batch(from, to, entry, &guard);
                read += SCAN_ENTRIES - left;
            }
        }
        read
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
