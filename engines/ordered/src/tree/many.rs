//! Several keys read at once: their ways through the tree are gone side by side, so that their cache misses overlap, and what is found
//! was there at one moment.

use std::sync::atomic::Ordering;

use millpond_prefetch::prefetch;

use super::cell::Cell;
use super::held::Held;
use super::node::{Node, Seen};
use super::schedule::pause;
use super::{Again, TRIES, Tree};

/// Keys whose ways are gone side by side: about as many misses as a core has under way at once.
const SIDE_BY_SIDE: usize = 12;

/// Keys whose memory is brought before any of them is used: that of more would be pushed out of the processor's first cache.
pub(crate) const BROUGHT_AT_ONCE: usize = 48;

/// Has the memory brought that a search in each of some nodes reads, the first line of each at first: where their pages are is looked up side by
/// side then, which takes as long as the memory itself.
#[inline(always)]
fn bring_each<'n, 't: 'n>(nodes: impl Iterator<Item = &'n Node<'t>> + Clone) {
    let first = nodes.clone().filter_map(|node| node.words.first());
    first.for_each(prefetch);
    nodes.for_each(Tree::bring);
}

/// Who reads several entries.
pub(crate) trait ReadMany {
    /// Reading begins, or begins anew: nothing of what was read before counts.
    fn begin(&mut self);
    /// The entry of the key at a place, where there is one. Until all is read it may be one that is changed meanwhile.
    fn read(&mut self, at: usize, cell: Option<&Cell<'_>>);
}

impl Tree {
    /// Reads the entries of keys as all of them are at one moment.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K], reader: &mut impl ReadMany) {
        let mut turns = 0;
        for _ in 0..TRIES {
            if self.try_many(keys, reader).is_ok() {
                return;
            }
            pause(&mut turns);
        }
        self.lock_many(keys, reader);
    }

    fn try_many<K: AsRef<[u8]>>(&self, keys: &[K], reader: &mut impl ReadMany) -> Result<(), Again> {
        reader.begin();
        let mut all: Vec<Seen<'_>> = Vec::with_capacity(keys.len());
        for keys in keys.chunks(SIDE_BY_SIDE) {
            let first = all.len();
            self.descend_many(keys, &mut all)?;
            let leaves = all.get_mut(first..).unwrap_or_default();
            for (at, (key, seen)) in (first..).zip(keys.iter().zip(leaves)) {
                let key = key.as_ref();
                while seen.is_left_of(&self.heap, key) {
                    *seen = self.step(*seen, seen.node.right())?;
                }
                let leaf = seen.node.leaf();
                let found = leaf.find_within(&self.heap, key).ok();
                reader.read(at, found.and_then(|place| leaf.cell(&self.heap, place)).as_ref());
            }
        }
        all.iter().all(Seen::is_still).then_some(()).ok_or(Again)
    }

    /// Has the memory brought that a search for each of the keys reads, but for one that is left alone: its misses would overlap with no others. It
    /// waits for nobody, so that whoever holds leaves may ask for it; where nodes change meanwhile, other memory is brought.
    pub fn bring_many<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.each_leaf(keys, |_| {});
    }

    /// The same of what is read to write each of the keys; `leaves` gets the number of the leaf for each that was looked for, or of another
    /// where nodes change.
    pub(super) fn bring_to_write<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        leaves: &mut Vec<Option<u64>>,
    ) {
        self.each_leaf(keys, |node| {
            if let Some(node) = node {
                self.bring_bounds(node);
            }
            leaves.push(node.map(|node| node.id));
        });
    }

    fn each_leaf<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, mut visit: impl FnMut(Option<&Node<'_>>)) {
        let mut keys = keys.fuse();
        let mut some = [&[][..]; SIDE_BY_SIDE];
        loop {
            let mut count = 0;
            for (place, key) in some.iter_mut().zip(&mut keys) {
                *place = key;
                count += 1;
            }
            match some.get(..count) {
                None | Some([]) => return,
                Some([_]) => visit(None),
                Some(some) => self.bring_some(some, &mut visit),
            }
        }
    }

    fn bring_some(&self, keys: &[&[u8]], visit: &mut impl FnMut(Option<&Node<'_>>)) {
        let root = self.node(self.root.load(Ordering::Acquire));
        let mut ways = [root; SIDE_BY_SIDE];
        let ways = ways.get_mut(..keys.len()).unwrap_or_default();
        let mut places = [0; SIDE_BY_SIDE];
        for _ in 0..root.map_or(0, |root| root.level()) {
            for ((key, way), place) in keys.iter().zip(&*ways).zip(&mut places) {
                if let Some(inner) = way.map(|node| node.inner()) {
                    *place = inner.separators_up_to(&self.heap, key);
                    inner.prefetch_child(*place);
                }
            }
            for (way, place) in ways.iter_mut().zip(places) {
                *way = way.and_then(|node| self.node(node.inner().child(place)));
            }
            bring_each(ways.iter().flatten());
        }
        for (key, node) in keys.iter().zip(&*ways) {
            if let Some(node) = node {
                node.leaf().prefetch_entry(key);
            }
            visit(node.as_ref());
        }
    }

    /// Has the memory brought that a write to a leaf looks at beside its entries: where the next one goes, and the keys that bound it.
    fn bring_bounds(&self, node: &Node<'_>) {
        node.leaf().prefetch_room();
        let bounds = [node.low(), node.high()].into_iter();
        let bounds = bounds.filter_map(|bound| self.heap.at(bound)?.first());
        bounds.for_each(prefetch);
    }

    /// Adds the leaf of each key, or a leaf to the left of it.
    fn descend_many<'t, K: AsRef<[u8]>>(&'t self, keys: &[K], all: &mut Vec<Seen<'t>>) -> Result<(), Again> {
        let first = all.len();
        let root = self.node(self.root.load(Ordering::Acquire));
        let root = root.ok_or(Again)?.seen();
        all.resize(first + keys.len(), root);
        let ways = all.get_mut(first..).unwrap_or_default();
        let mut next = [(root.node, 0); SIDE_BY_SIDE];
        let next = next.get_mut(..keys.len()).unwrap_or_default();
        let mut places = [None; SIDE_BY_SIDE];
        // Leaves are equally deep: all ways are as long, but for nodes that were split a moment ago.
        while ways.iter().any(|seen| seen.node.level() > 0) {
            for ((key, seen), place) in keys.iter().zip(&*ways).zip(&mut places) {
                if seen.node.level() > 0 {
                    *place = self.place(seen, key.as_ref());
                    place.iter().for_each(|at| seen.node.inner().prefetch_child(*at));
                }
            }
            for ((seen, place), next) in ways.iter().zip(places).zip(&mut *next) {
                if seen.node.level() > 0 {
                    let (named, below) = Tree::named(seen, place).ok_or(Again)?;
                    *next = (self.node(named).ok_or(Again)?, below);
                }
            }
            bring_each(next.iter().map(|(node, _)| node));
            for (seen, (next, below)) in ways.iter_mut().zip(&*next) {
                if seen.node.level() > 0 {
                    *seen = Tree::arrive(*seen, *next)?.named_below(*below);
                }
            }
        }
        for (key, seen) in keys.iter().zip(&*ways) {
            seen.node.leaf().prefetch_entry(key.as_ref());
        }
        Ok(())
    }

    /// The same where leaves change all the time: writers wait.
    fn lock_many<K: AsRef<[u8]>>(&self, keys: &[K], reader: &mut impl ReadMany) {
        let mut sorted: Vec<(usize, &[u8])> = keys.iter().map(AsRef::as_ref).enumerate().collect();
        sorted.sort_by_key(|(_, key)| *key);
        reader.begin();
        let mut held = Held::default();
        for (at, key) in sorted {
            let leaf = self.hold(&mut held, key, None).leaf();
            let found = leaf.find_within(&self.heap, key).ok();
            reader.read(at, found.and_then(|place| leaf.cell(&self.heap, place)).as_ref());
        }
        held.nodes.iter().for_each(|node| node.unlock_unchanged());
    }
}
