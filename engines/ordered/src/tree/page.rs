//! A leaf copied out, so that its entries can be visited while the tree goes on, in either order.
//!
//! It is one moment of the leaf once the leaf was found to be unchanged behind the copy.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use super::cell::{Content, PLAIN_BYTES_MAX, Parts, copy_bytes, plain};
use super::heap::Heap;
use super::leaf::{LEAF_WORDS, Leaf, OUTSIDE, PLACE_MASK, SLOTS};
use super::node::{LINE_WORDS, Node};
use super::schedule::point;

use millpond_prefetch::prefetch;

const WORD: usize = size_of::<u64>();
const LEAF_BYTES: usize = LEAF_WORDS * WORD;
/// A leaf's words, and as many behind them as a plain entry can name at most: the compiler sees that its parts are there, and checks no bounds.
const WORDS: usize = LEAF_WORDS + PLAIN_BYTES_MAX.div_ceil(WORD);
/// Bytes of entries in the heap after which no more are copied at once.
const OUTSIDE_MAX: usize = 1 << 20;

struct Page {
    words: Box<[[u8; WORD]; WORDS]>,
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
    values: Copied,
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
    pub values: Copied,
}

/// Which values are copied, if they are not in the page, and visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    No,
    /// All but lists.
    Bytes,
    All,
}

impl Copied {
    fn has(self, is_list: bool) -> bool {
        match self {
            Copied::No => false,
            Copied::Bytes => !is_list,
            Copied::All => true,
        }
    }
}

impl Page {
    fn new() -> Page {
        Page {
            words: Box::new([[0; WORD]; WORDS]),
            outside: Vec::new(),
            begins: Vec::new(),
            begin: 0,
            end: 0,
            order: Order::Ascending,
            is_whole: false,
            is_last: false,
            values: Copied::All,
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
        ahead: &[AtomicU64],
    ) {
        // Its head, its slots and its entries; what is between them is not in use.
        let (slots_end, entries_begin) = leaf.used_words();
        for words in [0..slots_end, entries_begin..LEAF_WORDS] {
            let places = self.words.get_mut(words.clone()).unwrap_or_default();
            let ahead = ahead.get(words.clone()).unwrap_or_default();
            copy_words(leaf.page().get(words).unwrap_or_default(), places, ahead);
        }
        self.outside.clear();
        self.begins.clear();
        (self.order, self.values) = (wanted.order, wanted.values);
        (self.begin, self.end) = match wanted.order {
            Order::Ascending => (from, to.min(from.saturating_add(wanted.entries_max))),
            Order::Descending => (from.max(to.saturating_sub(wanted.entries_max)), to),
        };
        let slots = self.words.get(SLOTS + self.begin..SLOTS + self.end);
        let slots = slots.unwrap_or_default().iter();
        if slots.fold(0, |all, slot| all | u64::from_le_bytes(*slot)) & OUTSIDE != 0 {
            self.copy_outside(leaf, heap, outside_max);
        }
        (self.is_whole, self.is_last) = match wanted.order {
            Order::Ascending => (self.end == leaf.count(), self.end == to && to < leaf.count()),
            Order::Descending => (self.begin == 0, self.begin == from && from > 0),
        };
    }

    /// Copies the entries that are in the heap, so many bytes of them at most.
    fn copy_outside(&mut self, leaf: Leaf<'_>, heap: &Heap, bytes_max: usize) {
        for number in 0..self.len() {
            let at = self.place(number);
            if self.slot(at) & OUTSIDE == 0 {
                continue;
            }
            if self.outside.len() >= bytes_max {
                self.cut(at);
                break;
            }
            self.begins.push(self.outside.len());
            if let Some(cell) = leaf.cell(heap, at).filter(|cell| !cell.is_none()) {
                let is_copied = self.values.has(cell.is_list);
                let left_out = if is_copied { 0 } else { cell.value_len };
                let len = cell.len_bytes().saturating_sub(left_out);
                copy_bytes(cell.words(), cell.begin(), len, &mut self.outside);
            }
        }
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
        // By place in either order: `visit` stands here once, so that it is inlined.
        (0..self.len()).all(|number| {
            let slot = self.slot(self.place(number));
            let place = (slot & PLACE_MASK) as usize;
            visit(match slot & OUTSIDE {
                0 => self
                    .plain(place)
                    .unwrap_or_else(|| self.content(self.words.as_flattened(), place)),
                _ => self.content(&self.outside, begins.next().copied().unwrap_or_default()),
            })
        })
    }

    /// The entry that begins at a byte of the page, if it is plain.
    #[inline(always)]
    fn plain(&self, begin: usize) -> Option<Content<'_>> {
        let (_, page) = self.words.as_flattened().split_at(begin % LEAF_BYTES);
        let (word, page) = page.split_first_chunk()?;
        let (key_len, value_len, version) = plain(u64::from_le_bytes(*word))?;
        let (key, rest) = page.split_at_checked(key_len)?;
        let value_len = if self.values.has(false) { value_len } else { 0 };
        Some(Content {
            key,
            value: rest.get(..value_len)?,
            version,
            expires_ms: 0,
            is_list: false,
        })
    }

    /// The entry that begins at a byte.
    #[inline(always)]
    fn content<'b>(&self, bytes: &'b [u8], begin: usize) -> Content<'b> {
        let word_at = |at: usize| {
            let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
            word.map_or(0, |word| u64::from_le_bytes(*word))
        };
        let parts = Parts::read(begin, word_at);
        let rest = bytes.get(parts.key_begin..).unwrap_or_default();
        let (key, rest) = rest.split_at_checked(parts.key_len).unwrap_or_default();
        let is_copied = self.values.has(parts.is_list);
        let value_len = if is_copied { parts.value_len } else { 0 };
        Content {
            key,
            value: rest.get(..value_len).unwrap_or_default(),
            version: parts.version,
            expires_ms: parts.expires_ms,
            is_list: parts.is_list,
        }
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

/// Copies words; lines of eight take half of what single ones do. With each line it brings one of `ahead`, which is copied next: all lines asked
/// for at once are more than a core has under way, and some do not come.
fn copy_words(words: &[AtomicU64], places: &mut [[u8; WORD]], ahead: &[AtomicU64]) {
    let copy = |(place, word): (&mut [u8; WORD], &AtomicU64)| {
        point();
        *place = word.load(Ordering::Relaxed).to_le_bytes();
    };
    let (lines, rest) = words.as_chunks::<LINE_WORDS>();
    let (to_lines, to_rest) = places.as_chunks_mut::<LINE_WORDS>();
    let (ahead, _) = ahead.as_chunks::<LINE_WORDS>();
    let mut ahead = ahead.iter();
    for (to_line, line) in to_lines.iter_mut().zip(lines) {
        ahead.next().into_iter().for_each(prefetch);
        to_line.iter_mut().zip(line).for_each(copy);
    }
    to_rest.iter_mut().zip(rest).for_each(copy);
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

    /// Copies of a leaf what is wanted; whether there is to be no more behind it. Meanwhile the memory of `ahead` is brought, which is copied next.
    pub fn copy(
        &mut self,
        leaf: Leaf<'_>,
        heap: &Heap,
        wanted: &Wanted<'_>,
        ahead: Option<&Node<'_>>,
    ) -> bool {
        let to = wanted.before.map(|key| leaf.entries_below(heap, key));
        let to = to.unwrap_or(leaf.count());
        let from = wanted.from.map_or(0, |key| match wanted.order {
            // It is a key of this leaf: a scan begins there.
            Order::Ascending => match leaf.find_within(heap, key) {
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
            ahead.map(|node| node.words).unwrap_or_default(),
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

/// Pages that a thread keeps for its next scan, and bytes of entries from the heap that each of them keeps room for.
const KEPT_PAGES: usize = 32;
const KEPT_OUTSIDE: usize = 2 << 10;

/// The pages of a thread, while it scans.
pub(super) struct Borrowed(Pages);

thread_local! {
    static KEPT: RefCell<Pages> = RefCell::default();
}

impl Borrowed {
    /// Those of the last scan, or new ones where that has not ended.
    pub fn new() -> Borrowed {
        Borrowed(KEPT.try_with(RefCell::take).unwrap_or_default())
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let mut pages = std::mem::take(&mut self.0);
        pages.pages.truncate(KEPT_PAGES);
        for page in &mut pages.pages {
            page.outside.clear();
            page.outside.shrink_to(KEPT_OUTSIDE);
        }
        // A thread that ends has none.
        let _ = KEPT.try_with(|kept| kept.replace(pages));
    }
}

impl Deref for Borrowed {
    type Target = Pages;

    fn deref(&self) -> &Pages {
        &self.0
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Pages {
        &mut self.0
    }
}
