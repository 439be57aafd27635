//! The overlay as lookups in one version see it: without what that version has folded, and without what is too old.
//!
//! It writes nothing. Invariant: a version and its view together show each key as it was written last.

use std::cell::Cell;
use std::sync::Arc;

use super::folded::Folded;
use super::index::{Entry, Pinned};
use super::slots::Sought;
use super::stored::row_bytes_of;
use super::{Overlay, is_old};
use crate::layer::LayerEntry;
use crate::scan::{SLOTS_A_KEY, SLOTS_BESIDE};
use crate::table::Table;

/// In a position of a scan, whose 48 bits a cursor has room for: the keys of the versions are through, and the rest goes on in the
/// overlay.
const IN_OVERLAY: u64 = 1 << 47;
/// Below that the mark of the process whose order it is, and the upper bits of a hash.
const MARK_BITS: u32 = 19;
const CUT_BITS: u32 = 28;
const _: () = assert!(IN_OVERLAY == 1 << (MARK_BITS + CUT_BITS));
/// Bits of a hash that a position has no place for.
const CUT: u32 = u64::BITS - CUT_BITS;

/// An overlay over a version.
pub(crate) struct View {
    pub overlay: Arc<Overlay>,
    /// What the version has of it.
    folded: Folded,
}

/// A view for one lookup.
pub(crate) struct Now<'a> {
    view: &'a View,
    pub(super) slots: Pinned,
    /// Read once it is asked for: most lookups find nothing that could be too old.
    now_ms: Cell<Option<u64>>,
}

impl View {
    pub(crate) fn new(overlay: &Arc<Overlay>, table: &Table) -> View {
        View {
            overlay: Arc::clone(overlay),
            folded: overlay.folded_in(table),
        }
    }

    /// For one lookup, unless there is nothing to see.
    #[inline]
    pub(crate) fn now(&self) -> Option<Now<'_>> {
        let state = &self.overlay.state;
        if state.index.len() == 0 {
            return None;
        }
        Some(Now {
            view: self,
            slots: state.index.pin(),
            now_ms: Cell::new(None),
        })
    }
}

impl Now<'_> {
    #[inline]
    fn shows<R>(&self, entry: &Entry<R>) -> bool {
        let state = &self.view.overlay.state;
        !self.view.folded.has(entry.sequence, entry.stamp)
            && (state.ttl_ms.is_none() || !is_old(entry.written_ms, state.ttl_ms, self.now_ms()))
    }

    fn now_ms(&self) -> u64 {
        let now_ms = self.now_ms.get();
        let now_ms = now_ms.unwrap_or_else(|| self.view.overlay.state.clock.now_ms());
        self.now_ms.set(Some(now_ms));
        now_ms
    }

    /// What it says of a key that was sought; its row comes behind what is in `rows`, and has no bytes without `ROWS`.
    #[inline]
    pub(super) fn said_by<'r, const ROWS: bool>(
        &self,
        key: u64,
        sought: Sought,
        rows: &'r mut Vec<u8>,
    ) -> LayerEntry<'r> {
        let begin = rows.len();
        self.said(self.slots.find::<ROWS>(key, sought, rows), begin, rows)
    }

    /// The same of any key.
    pub(crate) fn said_of<'r, const ROWS: bool>(&self, key: u64, rows: &'r mut Vec<u8>) -> LayerEntry<'r> {
        let begin = rows.len();
        self.said(self.slots.find_first::<ROWS>(key, rows), begin, rows)
    }

    #[inline]
    fn said<'r>(&self, found: Option<Entry<()>>, begin: usize, rows: &'r mut Vec<u8>) -> LayerEntry<'r> {
        match found {
            None => LayerEntry::Nothing,
            Some(entry) if !self.shows(&entry) => {
                rows.truncate(begin);
                LayerEntry::Nothing
            }
            Some(Entry { row: None, .. }) => LayerEntry::Removed,
            Some(_) => LayerEntry::Row(rows.get(begin..).unwrap_or_default()),
        }
    }

    /// A position of a scan in the overlay.
    fn position(&self, cut: u64) -> u64 {
        IN_OVERLAY | self.slots.seed.mark(MARK_BITS) << CUT_BITS | cut
    }

    /// Where such a position lies. The order of another process is not the one here: then the overlay's keys begin again, and none
    /// is missed.
    fn cut_at(&self, position: u64) -> u64 {
        let cut = position & ((1 << CUT_BITS) - 1);
        if self.position(cut) == position { cut } else { 0 }
    }
}

impl Table {
    /// Lets lookups see an overlay.
    ///
    /// # Errors
    /// [`Error::Overlay`](crate::Error::Overlay) where its rows are none of this version's.
    pub fn see(&mut self, overlay: &Arc<Overlay>) -> Result<(), crate::Error> {
        overlay.check_fits(self)?;
        self.view = Some(View::new(overlay, self));
        Ok(())
    }

    /// The overlay that lookups see.
    pub fn overlay(&self) -> Option<&Arc<Overlay>> {
        self.view.as_ref().map(|view| &view.overlay)
    }

    /// The sequence up to which a lookup from here on sees all upserts; nothing without an overlay.
    #[inline]
    pub fn overlay_sequence(&self) -> Option<u64> {
        self.view.as_ref().map(|view| view.overlay.sequence())
    }

    /// The row of a key as lookups see it.
    pub(crate) fn fresh_row(&self, key: u64) -> Option<Vec<u8>> {
        let of_version = || self.row(key).map(<[u8]>::to_vec);
        let Some(now) = self.view.as_ref().and_then(View::now) else {
            return of_version();
        };
        match now.said_of::<true>(key, &mut Vec::new()) {
            LayerEntry::Nothing => of_version(),
            LayerEntry::Row(row) => Some(row.to_vec()),
            LayerEntry::Removed => None,
        }
    }

    /// What a lookup answers for a key that is not there, as a row is stored.
    pub(crate) fn row_of_absent(&self) -> Vec<u8> {
        let default_row = self.default_row().map(<[u8]>::to_vec);
        // Where rows vary in length a row without bytes.
        default_row.unwrap_or_else(|| vec![0; row_bytes_of(self.schema())])
    }

    /// [`Table::scan`] where an overlay has something to say: keys of the version that it does not remove, then its own.
    pub(crate) fn scan_fresh(
        &self,
        now: &Now<'_>,
        position: u64,
        keys_max: usize,
        keys: &mut Vec<u64>,
    ) -> Option<u64> {
        let first = keys.len();
        if position & IN_OVERLAY == 0 {
            let next = self.scan_version(position, keys_max, keys);
            let mut kept = keys.split_off(first);
            kept.retain(|key| !matches!(now.said_of::<false>(*key, &mut Vec::new()), LayerEntry::Removed));
            keys.append(&mut kept);
            return Some(next.unwrap_or(now.position(0)));
        }
        let is_own = |entry: &Entry<()>| now.shows(entry) && entry.row.is_some() && !self.contains(entry.key);
        // As in the versions' files: most of an overlay may be keys that the version has.
        let places_max = keys_max.saturating_mul(SLOTS_A_KEY as usize);
        let most = (keys_max, places_max.saturating_add(SLOTS_BESIDE as usize));
        let (found, more) = now.slots.keys_from(now.cut_at(position), most, CUT, is_own);
        let more = more.map(|next| now.position(next));
        let Some(last) = found.get(keys_max.max(1) - 1) else {
            keys.extend(found.iter().map(|(_, key)| key));
            return more;
        };
        // Keys that look alike in a position come together.
        let page = found.iter().take_while(|(cut, _)| cut <= &last.0);
        keys.extend(page.map(|(_, key)| key));
        let next = last.0 + 1;
        let is_left = found.last().is_some_and(|(cut, _)| *cut >= next);
        if is_left { Some(now.position(next)) } else { more }
    }

    /// Whether a position is one of an overlay, of which there is none any more.
    pub(crate) fn is_beyond(position: u64) -> bool {
        position & IN_OVERLAY != 0
    }
}
