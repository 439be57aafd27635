//! Several leaves locked at once, so that what is written to them is seen as a whole.
//!
//! They are locked from left to right, and whoever holds some waits only for one further to the right: so nobody waits in a circle.

use std::sync::atomic::Ordering;

use super::cell::{Before, Change, Encoded};
use super::heap::Heap;
use super::leaf::INLINE_MAX;
use super::many::{BROUGHT_AT_ONCE, Near};
use super::node::{Node, Seen};
use super::schedule::pause;
use super::{Again, LEAF, Tree};

/// Leaves that are locked, from left to right.
#[derive(Default)]
pub(super) struct Held<'t> {
    pub nodes: Vec<Node<'t>>,
    /// Where the last key was.
    at: usize,
}

impl<'t> Held<'t> {
    fn push(&mut self, node: Node<'t>) {
        self.at = self.nodes.len();
        self.nodes.push(node);
    }

    /// Behind the one where the last key was.
    fn insert_right(&mut self, node: Node<'t>) {
        self.nodes.insert(self.at + 1, node);
    }

    /// The one of a key, from where the last key was on.
    fn go_right(&mut self, heap: &Heap, key: &[u8]) -> Option<Node<'t>> {
        loop {
            let node = *self.nodes.get(self.at)?;
            if !node.is_left_of(heap, key) {
                return Some(node);
            }
            let next = self.nodes.get(self.at + 1)?;
            if node.right() != Some(next.id) {
                return None;
            }
            self.at += 1;
        }
    }
}

impl Tree {
    /// Makes changes, of keys that ascend, so that readers of several keys see all of them or none. `report` gets what
    /// each key had before.
    pub fn change_all<'c>(
        &self,
        changes: &[Change<'c>],
        mut report: impl FnMut(&Change<'c>, Option<Before>),
    ) {
        let (mut held, mut all) = (Held::default(), Vec::with_capacity(changes.len()));
        let mut found = Vec::with_capacity(changes.len().min(BROUGHT_AT_ONCE));
        for (at, change) in changes.iter().enumerate() {
            if at.is_multiple_of(BROUGHT_AT_ONCE) {
                let next = changes.iter().skip(at).take(BROUGHT_AT_ONCE);
                found.clear();
                self.bring_many(next.map(Change::key), &mut found);
                let rooms = found.iter().filter_map(|near| near.0);
                rooms.for_each(|seen| seen.node.leaf().prefetch_room());
            }
            let near = found.get(at % BROUGHT_AT_ONCE).copied().unwrap_or_default();
            let written = match change {
                Change::Set(content) => {
                    let mut buffer = [0; INLINE_MAX];
                    let encoded = Encoded::of(content, &self.heap, &mut buffer);
                    let leaf = self.hold(&mut held, content.key, near).leaf();
                    self.write(leaf, content.key, &encoded)
                }
                Change::Remove(key) => {
                    let leaf = self.hold(&mut held, key, near).leaf();
                    self.take_away(leaf, key)
                }
            };
            if let Some(split) = &written.split {
                held.insert_right(split.right.0);
            }
            report(change, written.entry_before);
            all.push((change.key(), written));
        }
        held.nodes.iter().for_each(|node| node.unlock());
        all.iter_mut().for_each(|(_, written)| self.wrote(written));
        // Once the nodes above know all leaves.
        for (key, written) in all {
            self.merge_few(key, &written);
        }
    }

    /// The leaf of a key that is not below those before, locked with the others.
    pub(super) fn hold<'t>(&'t self, held: &mut Held<'t>, key: &[u8], near: Near<'t>) -> Node<'t> {
        // Most often it is another than the one before, and as it was found: its key is its own then, and it is right of those that are held.
        if let Some(node) = self.lock_found(near, key) {
            held.push(node);
            return node;
        }
        let mut turns = 0;
        loop {
            if let Some(node) = held.go_right(&self.heap, key) {
                return node;
            }
            if let Ok(node) = self.next_held(held, key) {
                held.push(node);
                return node;
            }
            pause(&mut turns);
        }
    }

    /// Locks the leaf of a key, which is right of those that are held. It waits for no leaf that may have become another meanwhile: whoever
    /// holds that may wait for one that is held here.
    fn next_held<'t>(&'t self, held: &Held<'t>, key: &[u8]) -> Result<Node<'t>, Again> {
        let mut at = match held.nodes.last() {
            None => self.descend(key, 0)?,
            Some(last) => self.right_of(last, key)?,
        };
        while at.is_left_of(&self.heap, key) {
            at = self.right_now(at)?;
        }
        if at.try_lock() { Ok(at.node) } else { Err(Again) }
    }

    fn right_now<'t>(&'t self, from: Seen<'t>) -> Result<Seen<'t>, Again> {
        let right = from
            .node
            .right()
            .and_then(|right| self.node(right))
            .ok_or(Again)?;
        if !from.is_still() {
            return Err(Again);
        }
        let right = right.seen_now().ok_or(Again)?;
        if right.is_dead() || !from.is_still() {
            return Err(Again);
        }
        Ok(right)
    }

    /// The leaf that the nodes above name for a key, if it begins where the last one that is held ends or behind that; else the one right of
    /// that: separators of what was split are not above yet.
    fn right_of<'t>(&'t self, last: &Node<'t>, key: &[u8]) -> Result<Seen<'t>, Again> {
        if self.root.load(Ordering::Acquire) & LEAF != 0 {
            return self.neighbour_of(last);
        }
        let above = self.reach(key, 1)?;
        let inner = above.node.inner();
        let separators = inner.separators_up_to(&self.heap, key);
        let child = inner.child(separators);
        let low = separators.checked_sub(1);
        let low = low.map_or(above.node.low(), |at| inner.address(at));
        let is_behind = low != 0 && last.ends_by(&self.heap, low);
        let below = inner.separator_behind(separators);
        if !above.is_still() {
            return Err(Again);
        }
        if !is_behind {
            return self.neighbour_of(last);
        }
        let child = self.node(child).and_then(Node::seen_now).ok_or(Again)?;
        if !above.is_still() || child.is_dead() {
            return Err(Again);
        }
        Ok(child.named_below(below))
    }

    /// The leaf right of one that is held: it cannot die meanwhile.
    fn neighbour_of<'t>(&'t self, held: &Node<'t>) -> Result<Seen<'t>, Again> {
        let right = held.right().and_then(|right| self.node(right));
        Ok(right.ok_or(Again)?.seen())
    }
}
