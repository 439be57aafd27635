//! A leaf copied out, so that its entries can be visited while the tree goes on, in either order.
//!
//! It is one moment of the leaf once the leaf was found to be unchanged behind the copy.

use std::sync::atomic::Ordering;

use super::cell::{Content, Parts, copy_bytes};
use super::heap::Heap;
use super::leaf::{LEAF_WORDS, Leaf, OUTSIDE, PLACE_MASK, SLOTS};

const WORD: usize = size_of::<u64>();
/// Bytes of entries in the heap after which no more are copied at once.
const OUTSIDE_MAX: usize = 1 << 20;

struct Page {
    words: Box<[[u8; WORD]]>,
    /// Entries of the heap, and where each begins.
    outside: Vec<u8>,
    begins: Vec<usize>,
    /// Places of the entries that were copied.
    begin: usize,
    end: usize,
    order: Order,
    /// Up to the leaf's last entry in that order.
    is_whole: bool,
    /// Behind the last one there is none that is wanted.
    is_last: bool,
    keys_only: bool,
}

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

/// What of a leaf is copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'k> {
    pub order: Order,
    /// From this key on.
    pub from: Option<&'k [u8]>,
    /// Before this one.
    pub before: Option<&'k [u8]>,
    pub entries_max: usize,
    /// Whether values are left out that are not in the page.
    pub keys_only: bool,
}

impl Page {
    fn new() -> Page {
        Page {
            words: vec![[0; WORD]; LEAF_WORDS].into(),
            outside: Vec::new(),
            begins: Vec::new(),
            begin: 0,
            end: 0,
            order: Order::Ascending,
            is_whole: false,
            is_last: false,
            keys_only: false,
        }
    }

    /// Copies a leaf's entries between two places, so many and so many bytes of the heap at most.
    fn copy(
        &mut self,
        leaf: Leaf<'_>,
        heap: &Heap,
        (from, to): (usize, usize),
        wanted: &Wanted<'_>,
        outside_max: usize,
    ) {
        for (place, word) in self.words.iter_mut().zip(leaf.0.words) {
            *place = word.load(Ordering::Relaxed).to_le_bytes();
        }
        self.outside.clear();
        self.begins.clear();
        (self.order, self.keys_only) = (wanted.order, wanted.keys_only);
        (self.begin, self.end) = match wanted.order {
            Order::Ascending => (from, to.min(from.saturating_add(wanted.entries_max))),
            Order::Descending => (from.max(to.saturating_sub(wanted.entries_max)), to),
        };
        for number in 0..self.len() {
            let at = self.place(number);
            if self.slot(at) & OUTSIDE == 0 {
                continue;
            }
            if self.outside.len() >= outside_max {
                self.cut(at);
                break;
            }
            self.begins.push(self.outside.len());
            if let Some(cell) = leaf.cell(heap, at) {
                let left_out = if wanted.keys_only { cell.value_len } else { 0 };
                let len = cell.len_bytes().saturating_sub(left_out);
                copy_bytes(cell.words(), cell.begin(), len, &mut self.outside);
            }
        }
        (self.is_whole, self.is_last) = match wanted.order {
            Order::Ascending => (self.end == leaf.count(), self.end == to && to < leaf.count()),
            Order::Descending => (self.begin == 0, self.begin == from && from > 0),
        };
    }

    /// The place of the entry that is visited behind so many.
    fn place(&self, number: usize) -> usize {
        match self.order {
            Order::Ascending => self.begin + number,
            Order::Descending => self.end - 1 - number,
        }
    }

    /// Leaves out the entry of a place and all behind it.
    fn cut(&mut self, at: usize) {
        match self.order {
            Order::Ascending => self.end = at,
            Order::Descending => self.begin = at + 1,
        }
    }

    fn slot(&self, at: usize) -> u64 {
        self.words
            .get(SLOTS + at)
            .map_or(0, |slot| u64::from_le_bytes(*slot))
    }

    /// Visits the entries, until `visit` says that it is enough; whether it did not.
    pub fn visit(&self, visit: &mut impl FnMut(Content<'_>) -> bool) -> bool {
        let mut begins = self.begins.iter();
        let page = self.words.as_flattened();
        (0..self.len()).all(|number| {
            let slot = self.slot(self.place(number));
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
            let value = match self.keys_only {
                true => &[],
                false => rest.get(..parts.value_len).unwrap_or_default(),
            };
            visit(Content {
                key,
                value,
                version: parts.version,
                expires_ms: parts.expires_ms,
                is_list: parts.is_list,
            })
        })
    }

    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.begin)
    }

    /// The key from which on, or before which, there may be entries that were not copied, if there are any.
    pub fn key_behind(&self, leaf: Leaf<'_>, heap: &Heap) -> Option<Vec<u8>> {
        if self.is_last {
            return None;
        }
        let at = match (self.is_whole, self.order) {
            (true, Order::Ascending) => return leaf.0.high_key(heap),
            (true, Order::Descending) => return leaf.0.low_key(heap),
            (false, Order::Ascending) => self.end,
            (false, Order::Descending) => self.begin,
        };
        let mut key = Vec::new();
        leaf.cell(heap, at)?.copy_key(&mut key);
        Some(key)
    }
}

/// Some leaves, one behind the other. Their memory is used again.
#[derive(Default)]
pub(super) struct Pages {
    pages: Vec<Page>,
    used: usize,
    entries: usize,
    outside: usize,
}

impl Pages {
    pub fn clear(&mut self) {
        (self.used, self.entries, self.outside) = (0, 0, 0);
    }

    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Copies of a leaf what is wanted; whether there is to be no more behind it.
    pub fn copy(&mut self, leaf: Leaf<'_>, heap: &Heap, wanted: &Wanted<'_>) -> bool {
        let to = wanted.before.map(|key| leaf.entries_below(heap, key));
        let to = to.unwrap_or(leaf.count());
        let from = wanted.from.map_or(0, |key| match wanted.order {
            // It is a key of this leaf: a scan begins there.
            Order::Ascending => match leaf.find(heap, key) {
                Ok(at) | Err(at) => at,
            },
            Order::Descending => leaf.entries_below(heap, key),
        });
        let from = from.min(to);
        if self.used == self.pages.len() {
            self.pages.push(Page::new());
        }
        let Some(page) = self.pages.get_mut(self.used) else {
            return true;
        };
        let wanted = &Wanted {
            entries_max: wanted.entries_max.saturating_sub(self.entries),
            ..*wanted
        };
        page.copy(
            leaf,
            heap,
            (from, to),
            wanted,
            OUTSIDE_MAX.saturating_sub(self.outside),
        );
        self.used += 1;
        self.entries += page.len();
        self.outside += page.outside.len();
        let is_full = page.len() >= wanted.entries_max || self.outside >= OUTSIDE_MAX;
        is_full || !page.is_whole
    }

    /// [`Page::key_behind`] of the last one, which is a copy of that leaf.
    pub fn key_behind(&self, leaf: Leaf<'_>, heap: &Heap) -> Option<Vec<u8>> {
        self.pages.get(self.used.checked_sub(1)?)?.key_behind(leaf, heap)
    }

    /// [`Page::visit`].
    pub fn visit(&self, visit: &mut impl FnMut(Content<'_>) -> bool) -> bool {
        self.pages.iter().take(self.used).all(|page| page.visit(visit))
    }
}
