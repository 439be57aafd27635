//! Several keys read at once: their ways through the tree are gone side by side, so that their cache misses overlap, and what is found
//! was there at one moment.

use std::sync::atomic::Ordering;

use millpond_prefetch::prefetch;

use super::cell::Cell;
use super::held::Held;
use super::inner::Sought;
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

/// Where a key's leaf was found a moment ago, if it was.
#[derive(Clone, Copy, Default)]
pub(crate) struct Near<'t>(pub(super) Option<Seen<'t>>);

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
            let mut ways = [None; SIDE_BY_SIDE];
            let ways = ways.get_mut(..keys.len()).unwrap_or_default();
            self.descend_many(keys, ways, |node| Some(node.seen()));
            for (at, (key, way)) in (first..).zip(keys.iter().zip(&*ways)) {
                let (mut seen, key) = (way.ok_or(Again)?, key.as_ref());
                while seen.is_left_of(&self.heap, key) {
                    seen = self.step(seen, seen.node.right())?;
                }
                let leaf = seen.node.leaf();
                let found = leaf.find_within(&self.heap, key).ok();
                reader.read(at, found.and_then(|place| leaf.cell(&self.heap, place)).as_ref());
                all.push(seen);
            }
        }
        all.iter().all(Seen::is_still).then_some(()).ok_or(Again)
    }

    /// Has the memory brought that a search for each of the keys reads, and adds where each was found, but for a last one that is left alone: its
    /// misses would overlap with no others. It waits for nobody, so that whoever holds leaves may ask for it.
    pub fn bring_many<'t, 'k>(&'t self, keys: impl Iterator<Item = &'k [u8]>, found: &mut Vec<Near<'t>>) {
        let mut keys = keys.fuse();
        let mut some = [&[][..]; SIDE_BY_SIDE];
        loop {
            let mut count = 0;
            for (place, key) in some.iter_mut().zip(&mut keys) {
                *place = key;
                count += 1;
            }
            let Some(some @ [_, _, ..]) = some.get(..count) else {
                return;
            };
            let mut ways = [None; SIDE_BY_SIDE];
            let ways = ways.get_mut(..count).unwrap_or_default();
            self.descend_many(some, ways, Node::seen_now);
            found.extend(ways.iter().copied().map(Near));
        }
    }

    /// The leaf of each key, or a leaf to the left of it, as `see` sees it; `None` where nodes change meanwhile, or `see` does not see one.
    #[inline(always)]
    fn descend_many<'t, K: AsRef<[u8]>>(
        &'t self,
        keys: &[K],
        ways: &mut [Option<Seen<'t>>],
        see: impl Fn(Node<'t>) -> Option<Seen<'t>>,
    ) {
        let root = self.node(self.root.load(Ordering::Acquire));
        ways.fill(root.and_then(&see));
        let mut next = [None; SIDE_BY_SIDE];
        let next = next.get_mut(..keys.len()).unwrap_or_default();
        let mut sought = [Sought::default(); SIDE_BY_SIDE];
        let is_above = |seen: &&Seen<'t>| seen.node.level() > 0;
        // Leaves are equally deep: all ways are as long, but for nodes that were split a moment ago.
        while ways.iter().flatten().any(|seen| is_above(&seen)) {
            for ((key, way), sought) in keys.iter().zip(&*ways).zip(&mut sought) {
                if let Some(seen) = way.as_ref().filter(is_above) {
                    *sought = seen.node.inner().seek(key.as_ref());
                }
            }
            for (((key, way), sought), next) in keys.iter().zip(&*ways).zip(sought).zip(&mut *next) {
                *next = None;
                if let Some(seen) = way.as_ref().filter(is_above)
                    && let Some((id, below)) = Tree::named(seen, self.place(seen, key.as_ref(), sought))
                {
                    *next = self.node(id).map(|node| (node, below));
                }
            }
            bring_each(next.iter().flatten().map(|(node, _)| node));
            for (way, next) in ways.iter_mut().zip(&*next) {
                if let Some(seen) = way.as_ref().filter(is_above) {
                    let arrived = next
                        .as_ref()
                        .and_then(|(to, below)| Some(Tree::arrive(seen, *to, &see)?.named_below(*below)));
                    *way = arrived;
                }
            }
        }
        for (key, seen) in keys.iter().zip(&*ways) {
            if let Some(seen) = seen {
                seen.node.leaf().prefetch_entry(key.as_ref());
            }
        }
    }

    /// The same where leaves change all the time: writers wait.
    fn lock_many<K: AsRef<[u8]>>(&self, keys: &[K], reader: &mut impl ReadMany) {
        let mut sorted: Vec<(usize, &[u8])> = keys.iter().map(AsRef::as_ref).enumerate().collect();
        sorted.sort_by_key(|(_, key)| *key);
        reader.begin();
        let mut held = Held::default();
        for (at, key) in sorted {
            let leaf = self.hold(&mut held, key, Near::default()).leaf();
            let found = leaf.find_within(&self.heap, key).ok();
            reader.read(at, found.and_then(|place| leaf.cell(&self.heap, place)).as_ref());
        }
        held.nodes.iter().for_each(|node| node.unlock_unchanged());
    }
}
