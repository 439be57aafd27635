//! Splits: a full node becomes two, and the nodes above get to know the new one.
//!
//! Readers need no separator to find a key: they go to the right. Invariant: the two nodes are unlocked before the one above is locked.

use std::sync::atomic::Ordering;

use super::cell::{Content, Encoded};
use super::inner::{FULL, Inner};
use super::leaf::Leaf;
use super::{Tree, locked};

/// A leaf that was split: the one right of it, which is locked, and the separator between them.
pub(super) struct Split<'t> {
    pub separator: Vec<u8>,
    pub address: u64,
    pub right: Leaf<'t>,
}

impl Tree {
    /// Writes a separator, which the nodes on both sides have as their bound and the one above as theirs.
    fn write_separator(&self, key: &[u8]) -> u64 {
        let content = Content {
            expires_ms: 0,
            is_list: false,
            key,
            value: &[],
            version: 0,
        };
        content.write(&self.heap)
    }

    /// Makes two of a full leaf that is locked, and writes an entry to one of them.
    pub(super) fn split_leaf<'t>(
        &'t self,
        leaf: Leaf<'t>,
        found: Result<usize, usize>,
        key: &[u8],
        encoded: &Encoded<'_>,
    ) -> Split<'t> {
        let count = leaf.count();
        // Keys that come in order leave full nodes behind.
        let from = if found == Err(count) { count } else { leaf.middle() };
        let (mut lower, mut separator) = (Vec::new(), Vec::new());
        if let Some(cell) = leaf.cell(&self.heap, from - 1) {
            cell.copy_key(&mut lower);
        }
        match leaf.cell(&self.heap, from).filter(|_| from < count) {
            Some(cell) => cell.copy_key(&mut separator),
            None => separator.extend(key),
        }
        let alike = lower
            .iter()
            .zip(&separator)
            .take_while(|(one, other)| one == other);
        separator.truncate(alike.count() + 1);
        let address = self.write_separator(&separator);
        let right = self.new_node(0).leaf();
        right.0.set_right(leaf.0.right());
        right.bound(&self.heap, address, leaf.0.high());
        leaf.move_to(&self.heap, from, &right);
        leaf.bound(&self.heap, leaf.0.low(), address);
        leaf.0.set_right(Some(right.0.id));
        let of = if key < separator.as_slice() { leaf } else { right };
        let is_written = match of.find_within(&self.heap, key) {
            Ok(at) => of.replace(at, encoded),
            Err(at) => {
                of.insert(at, key, encoded);
                true
            }
        };
        debug_assert!(is_written, "half a page has room");
        Split {
            separator,
            address,
            right,
        }
    }

    /// Lets the nodes above know a leaf: its separator, at that address, and its number.
    pub(super) fn post(&self, mut key: Vec<u8>, mut address: u64, mut child: u64) {
        let mut level = 1;
        loop {
            let root_level = self
                .node(self.root.load(Ordering::Acquire))
                .map_or(0, |root| root.level());
            if root_level < level {
                if self.grow(level, &key, address, child) {
                    return;
                }
                continue;
            }
            let node = self.lock(&key, level);
            let inner = node.inner();
            let (Ok(at) | Err(at)) = inner.find(&self.heap, &key);
            if inner.count() < FULL {
                inner.insert(&self.heap, at, &key, address, child);
                node.unlock();
                return;
            }
            (key, address, child) = self.split_inner(inner, at, &key, address, child);
            level += 1;
        }
    }

    /// Puts a root over the one of the level below, unless somebody else did.
    fn grow(&self, level: usize, key: &[u8], address: u64, child: u64) -> bool {
        let _growth = locked(&self.growth);
        let root = self.root.load(Ordering::Acquire);
        if self.node(root).is_some_and(|root| root.level() >= level) {
            return false;
        }
        let node = self.new_node(level);
        node.inner().set_first_child(root);
        node.inner().insert(&self.heap, 0, key, address, child);
        node.unlock();
        self.root.store(node.id, Ordering::Release);
        true
    }

    /// Makes two of a full inner node that is locked, puts a separator into one of them, and unlocks both: what is to be known above.
    fn split_inner(
        &self,
        node: Inner<'_>,
        at: usize,
        key: &[u8],
        address: u64,
        child: u64,
    ) -> (Vec<u8>, u64, u64) {
        let from = if at == FULL { FULL - 1 } else { FULL / 2 };
        let mut separator = Vec::new();
        if let Some(cell) = node.cell(&self.heap, from) {
            cell.copy_key(&mut separator);
        }
        let right = self.new_node(node.0.level()).inner();
        let above = node.address(from);
        right.0.set_right(node.0.right());
        right.set_first_child(node.child(from + 1));
        right.bound(&self.heap, above, node.0.high());
        node.move_to(&self.heap, from + 1, &right);
        // The separator itself goes up.
        node.remove(from);
        node.bound(&self.heap, node.0.low(), above);
        node.0.set_right(Some(right.0.id));
        let of = if key < separator.as_slice() { node } else { right };
        if let Err(at) = of.find(&self.heap, key) {
            of.insert(&self.heap, at, key, address, child);
        }
        right.0.unlock();
        node.0.unlock();
        (separator, above, right.0.id)
    }
}
