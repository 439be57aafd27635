//! Nodes with few keys that become one.
//!
//! Merging is never waited for: where somebody is at one of the nodes it is left to the next removal.

use std::sync::atomic::Ordering;

use super::cell::Cell;
use super::inner::{FULL, Inner};
use super::leaf::{Leaf, ROOM};
use super::{LEAF, Tree, locked};

/// An inner node with fewer separators, or a leaf with fewer bytes, is merged with a neighbour, if both fit in three quarters of one,
/// or in one where it has none.
const FEW: usize = FULL / 8;
const FEW_BYTES: usize = ROOM / 3;

impl Tree {
    fn give_node(&self, id: u64) {
        let spare = if id & LEAF == 0 {
            &self.spare_inners
        } else {
            &self.spare_leaves
        };
        locked(spare).dead.push(id);
    }

    /// Merges the node of a level that a key belongs to with a neighbour, if both have few keys and nobody is at them.
    pub(super) fn merge(&self, key: &[u8], level: usize) {
        let root_level = self
            .node(self.root.load(Ordering::Acquire))
            .map_or(0, |root| root.level());
        if root_level <= level {
            return;
        }
        let Ok(above) = self.reach(key, level + 1) else {
            return;
        };
        let parent = above.node.inner();
        let separators = parent.count();
        let at = parent.separators_up_to(&self.heap, key);
        let first = at.min(separators.saturating_sub(1));
        let (one, other) = (parent.child(first), parent.child(first + 1));
        if !above.is_still() {
            return;
        }
        if separators == 0 {
            return self.merge(key, level + 1);
        }
        let (Some(one), Some(other)) = (self.node(one), self.node(other)) else {
            return;
        };
        if !one.seen().try_lock() {
            return;
        }
        // Then it lives, and is right of this one.
        if one.right() != Some(other.id) || !other.seen().try_lock() {
            return one.unlock_unchanged();
        }
        let fit = match level {
            0 => leaves_fit(one.leaf(), other.leaf()),
            _ => inners_fit(one.inner(), other.inner()),
        };
        if !fit || !above.try_lock() {
            other.unlock_unchanged();
            return one.unlock_unchanged();
        }
        let separator = parent.remove(first);
        debug_assert_eq!((one.high(), other.low()), (separator, separator), "it is one");
        if level == 0 {
            one.leaf().bound(&self.heap, one.low(), other.high());
            other.leaf().move_to(&self.heap, 0, &one.leaf());
        } else {
            let (one, other) = (one.inner(), other.inner());
            let mut key = Vec::new();
            if let Some(cell) = Cell::read(&self.heap, separator) {
                cell.copy_key(&mut key);
            }
            one.bound(&self.heap, one.0.low(), other.0.high());
            one.insert(&self.heap, one.count(), &key, separator, other.child(0));
            other.move_to(&self.heap, 0, &one);
        }
        one.set_right(other.right());
        let has_few = parent.count() < FEW;
        one.unlock();
        other.unlock_dead();
        parent.0.unlock();
        self.give_node(other.id);
        // Of inner nodes it came down.
        if level == 0 {
            self.give_cell(separator);
        }
        if has_few {
            self.merge(key, level + 1);
        }
    }
}

/// Whether a leaf may be merged with a neighbour.
pub(super) fn has_few(leaf: Leaf<'_>) -> bool {
    leaf.used() < FEW_BYTES
}

fn leaves_fit(one: Leaf<'_>, other: Leaf<'_>) -> bool {
    let is_empty = one.count().min(other.count()) == 0;
    let most = if is_empty { ROOM } else { ROOM / 4 * 3 };
    one.used() + other.used() <= most
}

fn inners_fit(one: Inner<'_>, other: Inner<'_>) -> bool {
    let is_empty = one.count().min(other.count()) == 0;
    let most = if is_empty { FULL } else { FULL / 4 * 3 };
    one.count() + other.count() < most
}
