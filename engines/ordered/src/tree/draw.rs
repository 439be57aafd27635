//! Draws random entries without visiting the whole tree.
//!
//! Leaves are drawn by their numbers, which have nothing to do with their keys. Invariant: what was drawn of a leaf was there at one moment.

use std::sync::atomic::Ordering;

use super::cell::Cell;
use super::node::{Node, Seen};
use super::{Again, LEAF, Tree, locked};

/// How often a number is drawn before the way to a leaf is drawn in its place: many leaves have died where many keys went.
const NUMBERS: usize = 16;

/// Numbers that look random (SplitMix64; Steele, Lea and Flood, 2014), the same ones from the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub fn of(seed: u64) -> Random {
        Random(seed)
    }

    /// One below a number, 0 where that is 0.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(end)) >> 64) as u64
    }
}

/// An entry that was drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drawn<R> {
    /// What was made of it.
    pub rank: R,
    pub key: Vec<u8>,
    /// What [`super::Content::bytes`] gave.
    pub bytes: usize,
}

impl Tree {
    /// Draws a leaf, and has `rank` look at up to so many of its entries, one behind the other; those that it makes nothing of are left out.
    pub fn draw<R>(
        &self,
        random: &mut Random,
        entries_max: usize,
        mut rank: impl FnMut(&Cell<'_>) -> Option<R>,
        drawn: &mut Vec<Drawn<R>>,
    ) {
        let Ok(seen) = self.draw_leaf(random) else {
            return;
        };
        let (leaf, before) = (seen.node.leaf(), drawn.len());
        let count = leaf.count();
        let first = match count > entries_max {
            true => random.below(count as u64) as usize,
            false => 0,
        };
        for at in first..first + count.min(entries_max) {
            let Some(cell) = leaf.cell(&self.heap, at % count) else {
                continue;
            };
            if let Some(rank) = rank(&cell) {
                let mut key = Vec::new();
                cell.copy_key(&mut key);
                drawn.push(Drawn {
                    rank,
                    key,
                    bytes: cell.before().bytes,
                });
            }
        }
        if !seen.is_still() {
            drawn.truncate(before);
        }
    }

    fn draw_leaf(&self, random: &mut Random) -> Result<Seen<'_>, Again> {
        let numbers = locked(&self.spare_leaves).next;
        for _ in 0..NUMBERS {
            let leaf = self.node(random.below(numbers) | LEAF);
            if let Some(seen) = leaf.and_then(Node::seen_now).filter(|seen| !seen.is_dead()) {
                return Ok(seen);
            }
        }
        let root = self.node(self.root.load(Ordering::Acquire)).ok_or(Again)?;
        let mut seen = root.seen();
        while seen.node.level() > 0 {
            let inner = seen.node.inner();
            let child = inner.child(random.below(inner.count() as u64 + 1) as usize);
            seen = self.step(seen, Some(child))?;
        }
        Ok(seen)
    }
}
