//! What an overlay has, a page at a time, for another server that may miss some of it.
//!
//! It shows what lookups do not: removals. Invariant: an entry that is there
//! when the first page is asked for, and is not written again, is in one of the pages.

use std::sync::atomic::Ordering;

use super::Overlay;
use super::index::Entry;
use super::stamp::Stamp;
use super::stored;
use crate::schema::Schema;

/// Bits of a hash that a position leaves out: one that another process said means nothing here, and who asks looks to that.
const CUT: u32 = 17;
/// Places that a page looks at, most of which may hold nothing that is asked for: a page is made on a net thread.
const PLACES_MAX: usize = 1 << 15;

/// A key as it was written last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshRow {
    /// The key.
    pub key: u64,
    /// Of the upsert that wrote it.
    pub stamp: Stamp,
    /// Its bytes; none where the key was removed.
    pub row: Option<Box<[u8]>>,
}

/// Some of what there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshPage {
    /// All upserts up to this one were there before the page was made.
    pub sequence: u64,
    /// In no order.
    pub rows: Vec<FreshRow>,
    /// Where the next page goes on; nothing at the end.
    pub next: Option<u64>,
}

impl FreshPage {
    /// The rows that are there, one behind the other, as [`Upsert::of_stored`](super::Upsert::of_stored) takes them.
    pub fn stored(&self, schema: &Schema) -> Vec<u8> {
        let (row_bytes, mut stored) = (stored::row_bytes_of(schema), Vec::new());
        let rows = self.rows.iter().filter_map(|row| row.row.as_deref());
        rows.for_each(|row| stored::push(row_bytes, row, &mut stored));
        stored
    }
}

impl Overlay {
    /// Whether it has an upsert of that stamp of a key, or a newer one, or the versions have that.
    pub fn has(&self, key: u64, stamp: Stamp) -> bool {
        if stamp.ms() < self.folded_before_ms() {
            return true;
        }
        let slots = self.state.index.pin();
        let found = slots.head(key);
        found.is_some_and(|entry| entry.stamp >= stamp)
    }

    /// The entries that were written behind the sequence `since` and whose keys `keep` wants, from a position on: of about
    /// `rows_max` keys, and rows of at most `bytes_max`, or one. Those that no stamp tells apart are this server's alone, and left out.
    pub fn fresh_page(
        &self,
        since: u64,
        position: u64,
        (rows_max, bytes_max): (usize, usize),
        keep: impl Fn(u64) -> bool,
    ) -> FreshPage {
        let state = &self.state;
        let sequence = state.sequence.load(Ordering::Acquire);
        let slots = state.index.pin();
        let is_asked = |entry: &Entry<()>| entry.sequence > since && entry.stamp.is_some() && keep(entry.key);
        let (found, next) = slots.keys_from(position, (rows_max.max(1), PLACES_MAX), CUT, is_asked);
        // More may come than were asked for: all that look alike in a position, and a run of places without a gap.
        let mut last = found.get(rows_max.max(1) - 1).map(|(cut, _)| *cut);
        let (mut row, mut rows, mut bytes, mut before) = (Vec::new(), Vec::new(), 0, None);
        for &(cut, key) in &found {
            if last.is_some_and(|last| cut > last) {
                break;
            }
            row.clear();
            let Some(entry) = slots.find_first::<true>(key, &mut row) else {
                continue;
            };
            if bytes + row.len() > bytes_max
                && let Some(whole) = before.filter(|before| *before < cut)
            {
                last = Some(whole);
                break;
            }
            bytes += row.len();
            before = Some(cut);
            rows.push(FreshRow {
                key,
                stamp: entry.stamp,
                row: entry.row.map(|()| Box::from(row.as_slice())),
            });
        }
        let is_left = |last: &u64| found.last().is_some_and(|(cut, _)| cut > last);
        let next = match last.filter(is_left) {
            Some(last) => Some(last + 1),
            None => next,
        };
        FreshPage { sequence, rows, next }
    }
}
