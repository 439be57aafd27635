//! Scans: leaves are copied one behind the other, as all of them were at one moment, and visited then.

use millpond_prefetch::prefetch;

use super::held::Held;
use super::node::{Seen, pause};
use super::page::Pages;
use super::{Again, Tree};

/// Times that some leaves are read anew before they are locked.
const TRIES: usize = 16;

impl Tree {
    /// Visits keys from `start` on in their order, until `visit` says that it is enough. As many as `entries_max`, or a MiB
    /// of large ones, are seen at one moment, and then as many again.
    pub fn scan(&self, start: &[u8], entries_max: usize, mut visit: impl FnMut(&[u8], &[u8], u64) -> bool) {
        let (mut from, mut pages) = (Some(start.to_vec()), Pages::default());
        while let Some(start) = from {
            from = self.read_pages(&start, entries_max, &mut pages);
            if !pages.visit(&mut visit) {
                return;
            }
        }
    }

    /// Copies leaves from the one of a key on, as they are at one moment; the key from which on there may be more.
    fn read_pages(&self, from: &[u8], entries_max: usize, pages: &mut Pages) -> Option<Vec<u8>> {
        let mut turns = 0;
        for _ in 0..TRIES {
            if let Ok(next) = self.try_pages(from, entries_max, pages) {
                return next;
            }
            pause(&mut turns);
        }
        self.lock_pages(from, entries_max, pages)
    }

    fn try_pages(
        &self,
        from: &[u8],
        entries_max: usize,
        pages: &mut Pages,
    ) -> Result<Option<Vec<u8>>, Again> {
        pages.clear();
        let (mut first, mut all) = (Some(from), Vec::new());
        let mut seen = self.reach(from, 0)?;
        loop {
            all.push(seen);
            let leaf = seen.node.leaf();
            let right = leaf.0.right();
            if let Some(right) = right.and_then(|right| self.node(right)) {
                right.words.iter().step_by(8).for_each(prefetch);
            }
            let is_enough = pages.copy(leaf, &self.heap, first.take(), entries_max);
            if is_enough || right.is_none() {
                let next = pages.key_behind(leaf, &self.heap);
                return if all.iter().all(Seen::is_still) {
                    Ok(next)
                } else {
                    Err(Again)
                };
            }
            seen = self.step(seen, right)?;
        }
    }

    /// The same where leaves change all the time: writers wait.
    fn lock_pages(&self, from: &[u8], entries_max: usize, pages: &mut Pages) -> Option<Vec<u8>> {
        pages.clear();
        let (mut held, mut key) = (Held::default(), Some(from.to_vec()));
        while let Some(from) = key {
            let leaf = self.hold(&mut held, &from).leaf();
            let is_enough = pages.copy(leaf, &self.heap, Some(&from), entries_max);
            key = pages.key_behind(leaf, &self.heap);
            if is_enough {
                break;
            }
        }
        held.nodes.iter().for_each(|node| node.unlock_unchanged());
        key
    }
}
