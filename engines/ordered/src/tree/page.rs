//! A leaf copied out, so that its entries can be visited while the tree goes on.
//!
//! It is one moment of the leaf once the leaf was found to be unchanged behind the copy.

use std::sync::atomic::Ordering;

use super::cell::{Cell, Parts, copy_bytes};
use super::heap::Heap;
use super::leaf::{LEAF_WORDS, Leaf, OUTSIDE, PLACE_MASK, SLOTS};

const WORD: usize = size_of::<u64>();
/// Bytes of entries in the heap after which no more of a leaf are copied.
const OUTSIDE_MAX: usize = 1 << 20;

struct Page {
    words: Box<[[u8; WORD]]>,
    /// Entries of the heap, and where each begins.
    outside: Vec<u8>,
    begins: Vec<usize>,
    /// Places of entries that are not visited yet.
    next: usize,
    end: usize,
    /// Up to the leaf's end.
    is_whole: bool,
}

impl Page {
    fn new() -> Page {
        Page {
            words: vec![[0; WORD]; LEAF_WORDS].into(),
            outside: Vec::new(),
            begins: Vec::new(),
            next: 0,
            end: 0,
            is_whole: false,
        }
    }

    /// Copies a leaf's entries from a place on, so many at most.
    fn copy(&mut self, leaf: Leaf<'_>, heap: &Heap, from: usize, entries_max: usize) {
        for (place, word) in self.words.iter_mut().zip(leaf.0.words) {
            *place = word.load(Ordering::Relaxed).to_le_bytes();
        }
        self.outside.clear();
        self.begins.clear();
        let count = leaf.count();
        (self.next, self.end) = (from, count.min(from.saturating_add(entries_max)));
        self.is_whole = self.end == count;
        for at in from..self.end {
            if self.slot(at) & OUTSIDE == 0 {
                continue;
            }
            if self.outside.len() >= OUTSIDE_MAX {
                (self.end, self.is_whole) = (at, false);
                return;
            }
            self.begins.push(self.outside.len());
            let cell = leaf.cell(heap, at);
            cell.into_iter().for_each(|cell| cell.copy_all(&mut self.outside));
        }
    }

    fn slot(&self, at: usize) -> u64 {
        self.words
            .get(SLOTS + at)
            .map_or(0, |slot| u64::from_le_bytes(*slot))
    }

    /// Visits the entries, until `visit` says that it is enough; whether it did not.
    pub fn visit(&self, visit: &mut impl FnMut(&[u8], &[u8], u64) -> bool) -> bool {
        let mut begins = self.begins.iter();
        let page = self.words.as_flattened();
        (self.next..self.end).all(|at| {
            let slot = self.slot(at);
            let (bytes, begin) = match slot & OUTSIDE {
                0 => (page, (slot & PLACE_MASK) as usize),
                _ => (
                    self.outside.as_slice(),
                    begins.next().copied().unwrap_or_default(),
                ),
            };
            let word_at = |at: usize| {
                let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
                word.map_or(0, |word| u64::from_le_bytes(*word))
            };
            let parts = Parts::read(begin, word_at);
            let rest = bytes.get(parts.key_begin..).unwrap_or_default();
            let (key, rest) = rest.split_at_checked(parts.key_len).unwrap_or_default();
            let value = rest.get(..parts.value_len).unwrap_or_default();
            visit(key, value, parts.version)
        })
    }

    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.next)
    }

    /// The key from which on there may be entries that were not copied, if there are any.
    pub fn key_behind(&self, leaf: Leaf<'_>, heap: &Heap) -> Option<Vec<u8>> {
        let cell = match self.is_whole {
            true => Cell::read(heap, leaf.0.high()).filter(|_| leaf.0.high() != 0)?,
            false => leaf.cell(heap, self.end)?,
        };
        let mut key = Vec::new();
        cell.copy_key(&mut key);
        Some(key)
    }
}

/// Some leaves, one behind the other. Their memory is used again.
#[derive(Default)]
pub(super) struct Pages {
    pages: Vec<Page>,
    used: usize,
    entries: usize,
}

impl Pages {
    pub fn clear(&mut self) {
        (self.used, self.entries) = (0, 0);
    }

    /// Copies a leaf's entries from a key on, or all; whether there is to be no more behind it.
    pub fn copy(&mut self, leaf: Leaf<'_>, heap: &Heap, from: Option<&[u8]>, entries_max: usize) -> bool {
        let begin = match from.map(|from| leaf.find(heap, from)) {
            Some(Ok(at) | Err(at)) => at,
            None => 0,
        };
        if self.used == self.pages.len() {
            self.pages.push(Page::new());
        }
        let Some(page) = self.pages.get_mut(self.used) else {
            return true;
        };
        page.copy(leaf, heap, begin, entries_max.saturating_sub(self.entries));
        self.used += 1;
        self.entries += page.len();
        self.entries >= entries_max || !page.is_whole
    }

    /// [`Page::key_behind`] of the last one, which is a copy of that leaf.
    pub fn key_behind(&self, leaf: Leaf<'_>, heap: &Heap) -> Option<Vec<u8>> {
        self.pages.get(self.used.checked_sub(1)?)?.key_behind(leaf, heap)
    }

    /// [`Page::visit`].
    pub fn visit(&self, visit: &mut impl FnMut(&[u8], &[u8], u64) -> bool) -> bool {
        self.pages.iter().take(self.used).all(|page| page.visit(visit))
    }
}

impl Cell<'_> {
    fn copy_all(&self, bytes: &mut Vec<u8>) {
        copy_bytes(self.words(), self.begin(), self.len_bytes(), bytes);
    }
}
