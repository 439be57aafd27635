//! Scans: leaves are copied one behind the other, as all of them were at one moment, and visited then.

use std::sync::atomic::Ordering;

use millpond_prefetch::prefetch;

use super::cell::Content;
use super::heap::Heap;
use super::held::Held;
use super::many::Near;
use super::node::{Node, Seen};
use super::page::{Borrowed, Copied, Order, Pages, Wanted};
use super::schedule::pause;
use super::{Again, TRIES, Tree};

/// Which entries a scan visits, and how many it sees at one moment, unless they are a MiB before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'k> {
    /// From this key on.
    pub start: &'k [u8],
    /// Before this one.
    pub end: Option<&'k [u8]>,
    pub entries_max: usize,
    pub values: Copied,
}

impl<'k> Span<'k> {
    fn wanted(&self, order: Order, (from, before): (Option<&'k [u8]>, Option<&'k [u8]>)) -> Wanted<'k> {
        Wanted {
            order,
            from,
            before,
            entries_max: self.entries_max,
            values: self.values,
        }
    }
}

/// Entries of a leaf, about.
const LEAF_ENTRIES: usize = 40;
/// Leaves behind the first whose first lines are brought at once.
const BROUGHT_MAX: usize = 3;

impl Tree {
    /// Visits entries in the order of their keys, until `visit` says that it is enough.
    pub fn scan(&self, span: Span<'_>, mut visit: impl FnMut(Content<'_>) -> bool) {
        let (mut from, mut pages) = (Some(span.start.to_vec()), Borrowed::new());
        while let Some(start) = from {
            let rest = Span {
                start: &start,
                ..span
            };
            from = self.read_pages(&rest, &mut pages);
            if !pages.visit(&mut visit) {
                return;
            }
        }
    }

    /// The same from the last key to the first.
    pub fn scan_back(&self, span: Span<'_>, mut visit: impl FnMut(Content<'_>) -> bool) {
        let (mut end, mut pages) = (span.end.map(<[u8]>::to_vec), Borrowed::new());
        loop {
            let rest = Span {
                end: end.as_deref(),
                ..span
            };
            let next = self.read_pages_back(&rest, &mut pages);
            if !pages.visit(&mut visit) || next.is_none() {
                return;
            }
            end = next;
        }
    }

    /// Copies leaves from the span's start on, as they are at one moment; the key from which on there may be more.
    fn read_pages(&self, span: &Span<'_>, pages: &mut Pages) -> Option<Vec<u8>> {
        let mut turns = 0;
        for _ in 0..TRIES {
            if let Ok(next) = self.try_pages(span, pages) {
                return next;
            }
            pause(&mut turns);
        }
        self.lock_pages(span, pages)
    }

    fn try_pages(&self, span: &Span<'_>, pages: &mut Pages) -> Result<Option<Vec<u8>>, Again> {
        pages.clear();
        let mut wanted = span.wanted(Order::Ascending, (Some(span.start), span.end));
        let mut all = Vec::new();
        let mut seen = self.begin_pages(span)?;
        loop {
            all.push(seen);
            let leaf = seen.node.leaf();
            let right = leaf.0.right();
            // Where this one has enough, the next one would be brought for nothing.
            let goes_on = pages.entries() + leaf.count() < span.entries_max;
            let ahead = right.filter(|_| goes_on).and_then(|right| self.node(right));
            // The key that a leaf ends with lies elsewhere in memory: it is read where it matters.
            let is_enough =
                pages.copy(leaf, &self.heap, &wanted, ahead.as_ref()) || span.ends_in(&leaf.0, &self.heap);
            if is_enough || right.is_none() {
                let next = pages.key_behind(leaf, &self.heap);
                return still(&all, next.filter(|next| span.has_more_from(next)));
            }
            wanted.from = None;
            seen = self.step(seen, right)?;
        }
    }

    /// The leaf that a scan begins in. Its memory is on its way, and the first line of those behind it, as far as the node above knows them.
    fn begin_pages(&self, span: &Span<'_>) -> Result<Seen<'_>, Again> {
        let above = self.descend(span.start, 1)?;
        if above.node.level() == 0 {
            return self.go_right(above, span.start);
        }
        let inner = above.node.inner();
        let place = self.place(&above, span.start, inner.seek(span.start));
        if let Some(first) = place {
            let leaves = (span.entries_max / LEAF_ENTRIES).min(BROUGHT_MAX);
            let last = inner.count().min(first + leaves);
            let nodes = || (first..=last).filter_map(|at| self.node(inner.child(at)));
            // Where their pages are is looked up side by side.
            nodes().filter_map(|node| node.words.first()).for_each(prefetch);
            nodes().take(1).for_each(|node| node.bring_whole());
        }
        let leaf = self.step_to(above, Tree::named(&above, place))?;
        let leaf = self.descend_from(leaf, span.start, 0)?;
        self.go_right(leaf, span.start)
    }

    /// The same where leaves change all the time: writers wait.
    pub(super) fn lock_pages(&self, span: &Span<'_>, pages: &mut Pages) -> Option<Vec<u8>> {
        pages.clear();
        let mut wanted = span.wanted(Order::Ascending, (Some(span.start), span.end));
        let (mut held, mut key) = (Held::default(), Some(span.start.to_vec()));
        while let Some(from) = key {
            let leaf = self.hold(&mut held, &from, Near::default()).leaf();
            let is_enough = pages.copy(leaf, &self.heap, &wanted, None);
            wanted.from = None;
            key = pages
                .key_behind(leaf, &self.heap)
                .filter(|next| span.has_more_from(next));
            if is_enough {
                break;
            }
        }
        held.nodes.iter().for_each(|node| node.unlock_unchanged());
        key
    }

    /// Copies leaves from the span's end to the left, as they are at one moment; the key before which there may be more.
    fn read_pages_back(&self, span: &Span<'_>, pages: &mut Pages) -> Option<Vec<u8>> {
        let mut turns = 0;
        for _ in 0..TRIES {
            if let Ok(next) = self.try_pages_back(span, pages) {
                return next;
            }
            pause(&mut turns);
        }
        self.lock_pages_back(span, pages)
    }

    fn try_pages_back(&self, span: &Span<'_>, pages: &mut Pages) -> Result<Option<Vec<u8>>, Again> {
        pages.clear();
        let (mut before, mut all) = (span.end.map(<[u8]>::to_vec), Vec::new());
        loop {
            let seen = self.reach_before(before.as_deref())?;
            all.push(seen);
            let leaf = seen.node.leaf();
            let wanted = span.wanted(Order::Descending, (Some(span.start), before.as_deref()));
            let is_enough = pages.copy(leaf, &self.heap, &wanted, None);
            let next = pages
                .key_behind(leaf, &self.heap)
                .filter(|next| span.has_more_before(next));
            if is_enough || next.is_none() {
                return still(&all, next);
            }
            if !seen.is_still() {
                return Err(Again);
            }
            before = next;
        }
    }

    /// The leaf with the last keys before a key, or with the last of all.
    fn reach_before(&self, key: Option<&[u8]>) -> Result<Seen<'_>, Again> {
        let root = self.node(self.root.load(Ordering::Acquire));
        let mut seen = root.ok_or(Again)?.seen();
        loop {
            let node = seen.node;
            let goes_right = match key {
                Some(key) => node.ends_before(&self.heap, key),
                None => node.right().is_some(),
            };
            let next = match goes_right {
                true => node.right(),
                false if node.level() == 0 => {
                    return if seen.is_still() { Ok(seen) } else { Err(Again) };
                }
                false => {
                    let inner = node.inner();
                    let separators = key.map(|key| inner.find(&self.heap, key));
                    Some(inner.child(match separators {
                        Some(Ok(at) | Err(at)) => at,
                        None => inner.count(),
                    }))
                }
            };
            seen = self.step(seen, next)?;
        }
    }

    /// The same as [`Tree::try_pages_back`] where leaves change all the time: writers wait. Leaves are locked from left to right, as many as
    /// had enough entries a moment before, and one more each time that they have not.
    pub(super) fn lock_pages_back(&self, span: &Span<'_>, pages: &mut Pages) -> Option<Vec<u8>> {
        let (mut least, mut count) = (span.end.map(<[u8]>::to_vec), 0);
        loop {
            loop {
                let (entries, low) = self.leaf_before(least.as_deref());
                (count, least) = (count + entries, low.filter(|low| span.has_more_before(low)));
                if least.is_none() || count >= span.entries_max {
                    break;
                }
            }
            let first = least.as_deref().unwrap_or(span.start);
            let (next, is_enough) = self.copy_locked(first, span, pages);
            if is_enough || next.is_none() {
                return next;
            }
            // Entries went meanwhile.
            (least, count) = (next, pages.entries());
        }
    }

    /// How many entries the leaf with the last keys before a key has, and where it begins.
    fn leaf_before(&self, key: Option<&[u8]>) -> (usize, Option<Vec<u8>>) {
        let mut turns = 0;
        loop {
            if let Ok(seen) = self.reach_before(key) {
                let found = (seen.node.leaf().count(), seen.node.low_key(&self.heap));
                if seen.is_still() {
                    return found;
                }
            }
            pause(&mut turns);
        }
    }

    /// Locks the leaves from the one of a key to the span's end, and copies them from the last to the first; the key before which there may
    /// be more, and whether there is enough.
    fn copy_locked(&self, first: &[u8], span: &Span<'_>, pages: &mut Pages) -> (Option<Vec<u8>>, bool) {
        pages.clear();
        let (mut held, mut key) = (Held::default(), Some(first.to_vec()));
        while let Some(from) = key {
            let leaf = self.hold(&mut held, &from, Near::default());
            key = leaf.high_key(&self.heap).filter(|high| span.has_more_from(high));
        }
        let wanted = span.wanted(Order::Descending, (Some(span.start), span.end));
        let (mut next, mut is_enough) = (None, false);
        for leaf in held.nodes.iter().rev().map(Node::leaf) {
            is_enough = pages.copy(leaf, &self.heap, &wanted, None);
            next = pages
                .key_behind(leaf, &self.heap)
                .filter(|next| span.has_more_before(next));
            if is_enough {
                break;
            }
        }
        held.nodes.iter().for_each(|node| node.unlock_unchanged());
        (next, is_enough)
    }
}

impl Span<'_> {
    /// Whether there may be entries of it from a key on.
    fn has_more_from(&self, key: &[u8]) -> bool {
        self.end.is_none_or(|end| key < end)
    }

    /// Whether no node to the right has entries of it.
    fn ends_in(&self, node: &Node<'_>, heap: &Heap) -> bool {
        self.end.is_some_and(|end| !node.ends_before(heap, end))
    }

    /// Whether there may be entries of it before a key.
    fn has_more_before(&self, key: &[u8]) -> bool {
        key > self.start
    }
}

/// What was found, if all leaves are as they were seen.
fn still(all: &[Seen<'_>], found: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, Again> {
    match all.iter().all(Seen::is_still) {
        true => Ok(found),
        false => Err(Again),
    }
}
