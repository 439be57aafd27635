//! The keys in memory, in order: a tree that many threads read and write at once.
//!
//! A B-link tree: nodes know their neighbours, so that a split is one step for readers and the separators above follow later (Lehman and
//! Yao, 1981). Nodes compare the first bytes behind what their keys share, and follow an address only where these are alike (Graefe,
//! 2011). Readers take no lock, unless what they read has changed each time they tried: memory keeps its kind, and who reads what was changed
//! meanwhile finds out by the node's version. Not durable, and blind to time. Invariant: a key that is there is found, as it was at a moment
//! of the call.

mod cell;
mod draw;
mod free;
mod heap;
mod held;
mod inner;
mod leaf;
mod many;
mod merge;
mod node;
mod page;
mod scan;
mod schedule;
mod split;
mod words;

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::counter::Counter;
use cell::Encoded;
pub(crate) use cell::{Before, Cell, Change, Content, content_bytes};
pub(crate) use draw::{Drawn, Random};
use heap::Heap;
use inner::{CHILD_BITS, INNER_WORDS, Sought};
use leaf::{INLINE_MAX, LEAF_WORDS, Leaf};
pub(crate) use many::{BROUGHT_AT_ONCE, Near, ReadMany};
use node::{Node, Seen};
pub(crate) use page::Copied;
pub(crate) use scan::Span;
use schedule::{Mutex, MutexGuard, pause};
use split::Split;
use words::Words;

use millpond_prefetch::prefetch;

/// 140 KiB at first, 140 MiB at most.
type Inners = Words<INNER_WORDS, 6, 16>;
/// 64 KiB at first, 64 MiB at most.
type Leaves = Words<LEAF_WORDS, 5, 15>;
/// In the number of a leaf; below it are 256 GiB of leaves.
const LEAF: u64 = 1 << (CHILD_BITS - 1);

/// The tree.
pub(crate) struct Tree {
    heap: Heap,
    inners: Inners,
    leaves: Leaves,
    root: AtomicU64,
    growth: Mutex<()>,
    spare_inners: Mutex<Spare>,
    spare_leaves: Mutex<Spare>,
    len: Counter,
}

/// Nodes of a kind that can be had.
#[derive(Default)]
struct Spare {
    next: u64,
    dead: Vec<u64>,
}

/// Times that several leaves are read anew before they are locked.
const TRIES: usize = 16;

/// The tree was changed meanwhile: begin again.
struct Again;

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}

impl Tree {
    pub fn new() -> Tree {
        let tree = Tree {
            heap: Heap::new(),
            inners: Inners::new(),
            leaves: Leaves::new(),
            root: AtomicU64::new(LEAF),
            growth: Mutex::new(()),
            spare_inners: Mutex::default(),
            spare_leaves: Mutex::default(),
            len: Counter::default(),
        };
        tree.new_node(0).unlock();
        tree
    }

    pub fn len(&self) -> u64 {
        self.len.sum()
    }

    /// Memory that it has touched: what is in use, and what is free for entries to come.
    pub fn bytes(&self) -> u64 {
        let inners = locked(&self.spare_inners).next * INNER_WORDS as u64;
        let leaves = locked(&self.spare_leaves).next * LEAF_WORDS as u64;
        (inners + leaves + self.heap.taken_words()) * 8
    }

    #[inline(always)]
    fn node(&self, id: u64) -> Option<Node<'_>> {
        let words = match id & LEAF {
            0 => self.inners.from(id)?.get(..INNER_WORDS)?,
            _ => self.leaves.from(id ^ LEAF)?.get(..LEAF_WORDS)?,
        };
        Some(Node { id, words })
    }

    /// An empty node that is locked.
    ///
    /// # Panics
    /// Where there are 2^27 leaves or inner nodes already: their numbers have no more bits.
    fn new_node(&self, level: usize) -> Node<'_> {
        let is_leaf = level == 0;
        let spare = if is_leaf {
            &self.spare_leaves
        } else {
            &self.spare_inners
        };
        let of_dead = locked(spare).dead.pop();
        let id = of_dead.unwrap_or_else(|| {
            let mut spare = locked(spare);
            let next = spare.next;
            assert!(next < LEAF, "a store of more than {LEAF} leaves or inner nodes");
            if is_leaf {
                self.leaves.make(next)
            } else {
                self.inners.make(next)
            }
            spare.next += 1;
            next | if is_leaf { LEAF } else { 0 }
        });
        let node = self.node(id).unwrap_or(Node { id, words: &[] });
        node.begin(level);
        node
    }

    fn give_cell(&self, address: u64) {
        if address != 0
            && let Some(cell) = Cell::read(&self.heap, address)
        {
            self.heap.give(address, cell.run_words());
        }
    }

    /// The node of a level that a key belongs to, or one to the left of it where that was split a moment ago.
    #[inline]
    fn descend(&self, key: &[u8], level: usize) -> Result<Seen<'_>, Again> {
        let root = self.node(self.root.load(Ordering::Acquire)).ok_or(Again)?;
        self.descend_from(root.seen(), key, level)
    }

    /// The same from a node above it.
    #[inline]
    fn descend_from<'t>(&'t self, mut seen: Seen<'t>, key: &[u8], level: usize) -> Result<Seen<'t>, Again> {
        loop {
            let node = seen.node;
            if node.level() <= level {
                return if seen.is_still() { Ok(seen) } else { Err(Again) };
            }
            seen = self.step_to(seen, self.towards(&seen, key))?;
        }
    }

    /// The node that an inner node names for a key, and the separator above the key that it has behind that.
    #[inline(always)]
    fn towards(&self, seen: &Seen<'_>, key: &[u8]) -> Option<(u64, u64)> {
        let sought = seen.node.inner().seek(key);
        Tree::named(seen, self.place(seen, key, sought))
    }

    /// Behind how many separators an inner node names the one for a key that it was begun to look for; `None` where the key is of a node to the
    /// right.
    #[inline(always)]
    fn place(&self, seen: &Seen<'_>, key: &[u8], sought: Sought) -> Option<usize> {
        let is_here = !seen.is_left_of(&self.heap, key);
        is_here.then(|| seen.node.inner().separators_sought(&self.heap, key, sought))
    }

    /// What is named there, and the separator behind it.
    #[inline(always)]
    fn named(seen: &Seen<'_>, place: Option<usize>) -> Option<(u64, u64)> {
        let Some(separators) = place else {
            return Some((seen.node.right()?, 0));
        };
        let inner = seen.node.inner();
        Some((inner.child(separators), inner.separator_behind(separators)))
    }

    /// Has the memory brought that a search in a node reads.
    #[inline(always)]
    fn bring(node: &Node<'_>) {
        match node.id & LEAF {
            0 => node.inner().lines().for_each(prefetch),
            _ => node.leaf().lines().for_each(prefetch),
        }
    }

    /// From a node to one that it names.
    #[inline(always)]
    fn step<'t>(&'t self, from: Seen<'t>, to: Option<u64>) -> Result<Seen<'t>, Again> {
        self.step_to(from, to.map(|to| (to, 0)))
    }

    /// The same where a separator names it, or 0.
    #[inline(always)]
    fn step_to<'t>(&'t self, from: Seen<'t>, to: Option<(u64, u64)>) -> Result<Seen<'t>, Again> {
        let (to, below) = to.ok_or(Again)?;
        let to = self.node(to).ok_or(Again)?;
        // What the first lines say of the others comes as late as all of it would; nodes further up are near.
        match from.node.level() > 2 {
            true => Tree::bring(&to),
            false => to.bring_whole(),
        }
        let to = Tree::arrive(&from, to, |node| Some(node.seen())).ok_or(Again)?;
        Ok(to.named_below(below))
    }

    /// The same as `see` sees it, where its memory is on its way.
    #[inline(always)]
    fn arrive<'t>(
        from: &Seen<'t>,
        to: Node<'t>,
        see: impl Fn(Node<'t>) -> Option<Seen<'t>>,
    ) -> Option<Seen<'t>> {
        if !from.is_still() {
            return None;
        }
        let to = see(to)?;
        (!to.is_dead() && from.is_still()).then_some(to)
    }

    /// The node of a level that a key belongs to.
    fn reach(&self, key: &[u8], level: usize) -> Result<Seen<'_>, Again> {
        let seen = self.descend(key, level)?;
        self.go_right(seen, key)
    }

    /// From a node to the one of its level that a key belongs to.
    #[inline]
    fn go_right<'t>(&'t self, mut seen: Seen<'t>, key: &[u8]) -> Result<Seen<'t>, Again> {
        while seen.is_left_of(&self.heap, key) {
            seen = self.step(seen, seen.node.right())?;
        }
        if seen.is_still() { Ok(seen) } else { Err(Again) }
    }

    /// The same, locked.
    fn lock(&self, key: &[u8], level: usize) -> Node<'_> {
        let mut turns = 0;
        loop {
            if let Ok(seen) = self.reach(key, level)
                && seen.try_lock()
            {
                return seen.node;
            }
            pause(&mut turns);
        }
    }

    /// What `read` makes of the entry of a key. It may be called for what is changed meanwhile, of which nothing is returned.
    pub fn get<R>(&self, key: &[u8], mut read: impl FnMut(&Cell<'_>) -> R) -> Option<R> {
        let mut turns = 0;
        for _ in 0..TRIES {
            match self.try_get(key, &mut read) {
                Ok(found) => return found,
                Err(Again) => pause(&mut turns),
            }
        }
        // Its leaf changes more often than a large value is read: writers wait.
        let leaf = self.lock(key, 0).leaf();
        let at = leaf.find_within(&self.heap, key).ok();
        let found = at
            .and_then(|at| leaf.cell(&self.heap, at))
            .map(|cell| read(&cell));
        leaf.0.unlock_unchanged();
        found
    }

    /// The same of a key that is near.
    pub fn get_near<'t, R>(
        &'t self,
        near: Near<'t>,
        key: &[u8],
        mut read: impl FnMut(&Cell<'_>) -> R,
    ) -> Option<R> {
        match near.0.map(|seen| self.get_from(seen, key, &mut read)) {
            Some(Ok(found)) => found,
            _ => self.get(key, read),
        }
    }

    #[inline]
    fn try_get<R>(&self, key: &[u8], read: &mut impl FnMut(&Cell<'_>) -> R) -> Result<Option<R>, Again> {
        self.get_from(self.descend(key, 0)?, key, read)
    }

    /// The same from its leaf, or one to the left of it.
    #[inline]
    fn get_from<'t, R>(
        &'t self,
        mut seen: Seen<'t>,
        key: &[u8],
        read: &mut impl FnMut(&Cell<'_>) -> R,
    ) -> Result<Option<R>, Again> {
        loop {
            if seen.is_left_of(&self.heap, key) {
                seen = self.step(seen, seen.node.right())?;
                continue;
            }
            let leaf = seen.node.leaf();
            let at = leaf.find_within(&self.heap, key).ok();
            let found = at
                .and_then(|at| leaf.cell(&self.heap, at))
                .map(|cell| read(&cell));
            return if seen.is_still() { Ok(found) } else { Err(Again) };
        }
    }

    /// A leaf as it was found, locked, if it is still the one of a key.
    fn lock_found<'t>(&'t self, near: Near<'t>, key: &[u8]) -> Option<Node<'t>> {
        let found = near
            .0
            .filter(|seen| !seen.is_left_of(&self.heap, key) && seen.try_lock());
        found.map(|seen| seen.node)
    }

    /// Writes an entry; what the key had before.
    pub fn put(&self, content: Content<'_>, near: Near<'_>) -> Option<Before> {
        let mut buffer = [0; INLINE_MAX];
        let encoded = Encoded::of(&content, &self.heap, &mut buffer);
        let found = self.lock_found(near, content.key);
        let leaf = found.unwrap_or_else(|| self.lock(content.key, 0)).leaf();
        leaf.prefetch_room();
        self.write_and_unlock(leaf, content.key, &encoded)
    }

    fn write_and_unlock(&self, leaf: Leaf<'_>, key: &[u8], encoded: &Encoded<'_>) -> Option<Before> {
        let mut written = self.write(leaf, key, encoded);
        if let Some(split) = &written.split {
            split.right.0.unlock();
        }
        leaf.0.unlock();
        self.wrote(&mut written);
        written.entry_before
    }

    /// Writes an entry with the version that is next once its leaf is locked; that version, and what the key had before.
    pub fn put_next(&self, mut content: Content<'_>, version: impl FnOnce() -> u64) -> (u64, Option<Before>) {
        let leaf = self.lock(content.key, 0).leaf();
        leaf.prefetch_room();
        content.version = version();
        let mut buffer = [0; INLINE_MAX];
        let encoded = Encoded::of(&content, &self.heap, &mut buffer);
        let before = self.write_and_unlock(leaf, content.key, &encoded);
        (content.version, before)
    }

    /// Takes a key away; what it had.
    pub fn remove(&self, key: &[u8]) -> Option<Before> {
        let leaf = self.lock(key, 0).leaf();
        let mut written = self.take_away(leaf, key);
        match written.entry_before {
            Some(_) => leaf.0.unlock(),
            None => leaf.0.unlock_unchanged(),
        }
        self.wrote(&mut written);
        self.merge_few(key, &written);
        written.entry_before
    }

    /// What is left to do once others may see what was written.
    fn wrote(&self, written: &mut Written<'_>) {
        self.give_cell(written.before);
        match (written.is_removal, written.entry_before) {
            (false, None) => self.len.add(1),
            (true, Some(_)) => self.len.add(-1),
            _ => {}
        }
        if let Some(split) = written.split.take() {
            self.post(split.separator, split.address, split.right.0.id);
        }
    }

    fn merge_few(&self, key: &[u8], written: &Written<'_>) {
        if written.has_few {
            self.merge(key, 0);
        }
    }

    /// Writes an entry to a leaf that is locked and stays so, as does the one that it is split into.
    fn write<'t>(&'t self, leaf: Leaf<'t>, key: &[u8], encoded: &Encoded<'_>) -> Written<'t> {
        let found = leaf.find_within(&self.heap, key);
        let before = found.map_or(0, |at| leaf.address(at));
        let entry_before = found
            .ok()
            .and_then(|at| leaf.cell(&self.heap, at))
            .map(|cell| cell.before());
        let is_written = match found {
            Ok(at) => leaf.replace(at, encoded),
            Err(at) if leaf.has_room(encoded) => {
                leaf.insert(at, key, encoded);
                true
            }
            Err(_) => false,
        };
        let split = (!is_written).then(|| self.split_leaf(leaf, found, key, encoded));
        Written {
            before,
            entry_before,
            split,
            is_removal: false,
            has_few: false,
        }
    }

    /// Takes a key out of a leaf that is locked and stays so.
    fn take_away<'t>(&'t self, leaf: Leaf<'t>, key: &[u8]) -> Written<'t> {
        let mut written = Written {
            before: 0,
            entry_before: None,
            split: None,
            is_removal: true,
            has_few: false,
        };
        if let Ok(at) = leaf.find_within(&self.heap, key) {
            written.before = leaf.address(at);
            written.entry_before = leaf.cell(&self.heap, at).map(|cell| cell.before());
            leaf.remove(at);
            written.has_few = merge::has_few(leaf);
        }
        written
    }
}

/// What became of a leaf that was written to.
struct Written<'t> {
    /// The address of the entry before, where it is in the heap.
    before: u64,
    entry_before: Option<Before>,
    split: Option<Split<'t>>,
    is_removal: bool,
    /// Whether so few entries are left that it may be merged with a neighbour.
    has_few: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
