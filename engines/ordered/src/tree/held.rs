//! Several leaves locked at once, so that what is written to them is seen as a whole.
//!
//! They are locked from left to right, and whoever holds some waits only for one further to the right: so nobody waits in a circle.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::cell::{Content, Encoded};
use super::heap::Heap;
use super::leaf::INLINE_MAX;
use super::node::{Node, Seen, pause};
use super::{Again, LEAF, Tree};

/// Leaves that are locked, from left to right.
#[derive(Default)]
pub(super) struct Held<'t> {
    pub nodes: Vec<Node<'t>>,
    ids: HashSet<u64>,
    /// Where the last key was.
    at: usize,
}

impl<'t> Held<'t> {
    fn has(&self, id: u64) -> bool {
        self.ids.contains(&id)
    }

    fn push(&mut self, node: Node<'t>) {
        self.at = self.nodes.len();
        self.ids.insert(node.id);
        self.nodes.push(node);
    }

    /// Behind the one where the last key was.
    fn insert_right(&mut self, node: Node<'t>) {
        self.ids.insert(node.id);
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
    /// Writes entries, of keys that ascend, so that readers of several keys see all of them or none. `report` gets what [`Tree::put`]
    /// returns of each.
    pub fn put_all<'c>(
        &self,
        contents: impl Iterator<Item = Content<'c>>,
        mut report: impl FnMut(Option<usize>),
    ) {
        let (mut held, mut all) = (Held::default(), Vec::new());
        for content in contents {
            let mut buffer = [0; INLINE_MAX];
            let encoded = Encoded::of(&content, &self.heap, &mut buffer);
            let leaf = self.hold(&mut held, content.key).leaf();
            let written = self.write(leaf, content.key, &encoded);
            if let Some(split) = &written.split {
                held.insert_right(split.right.0);
            }
            report(written.bytes_before);
            all.push(written);
        }
        held.nodes.iter().for_each(|node| node.unlock());
        for mut written in all {
            self.wrote(&mut written);
        }
    }

    /// The leaf of a key that is not below those before, locked with the others.
    pub(super) fn hold<'t>(&'t self, held: &mut Held<'t>, key: &[u8]) -> Node<'t> {
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

    /// Locks the leaf of a key, which is right of those that are held. It never looks at one of these as a reader: that would wait for ever.
    fn next_held<'t>(&'t self, held: &Held<'t>, key: &[u8]) -> Result<Node<'t>, Again> {
        let root = self.root.load(Ordering::Acquire);
        let mut at = if root & LEAF == 0 {
            let above = self.reach(key, 1)?;
            let inner = above.node.inner();
            let child = inner.child(inner.separators_up_to(&self.heap, key));
            if !above.is_still() {
                return Err(Again);
            }
            if held.has(child) {
                // Its separators are not above yet.
                self.right_of_last(held)?
            } else {
                let child = self.node(child).ok_or(Again)?.seen();
                if !above.is_still() || child.is_dead() {
                    return Err(Again);
                }
                child
            }
        } else if held.has(root) {
            self.right_of_last(held)?
        } else {
            self.node(root).ok_or(Again)?.seen()
        };
        while at.node.is_left_of(&self.heap, key) {
            let right = at.node.right().ok_or(Again)?;
            if !at.is_still() {
                return Err(Again);
            }
            at = match held.has(right) {
                true => self.right_of_last(held)?,
                false => self.step(at, Some(right))?,
            };
        }
        if at.try_lock() { Ok(at.node) } else { Err(Again) }
    }

    fn right_of_last<'t>(&'t self, held: &Held<'t>) -> Result<Seen<'t>, Again> {
        let right = held.nodes.last().and_then(Node::right).ok_or(Again)?;
        Ok(self.node(right).ok_or(Again)?.seen())
    }
}
