//! Another filter from time to time, without the bits of keys that went.
//!
//! It is made a few places at a time, as keys come: nobody waits for a whole one. Invariant: once it is in force it has every key that
//! is there, those of places that were looked at and those that came since.

use super::filter::Filter;
use super::slots::Slots;
use crate::hash::hash;

/// Places that are looked at for each key that comes.
const PLACES: usize = 8;

/// How far the next filter is.
#[derive(Default)]
pub(super) struct Renewal {
    /// Keys that came since the one in force was begun, or since the index has its places.
    added: usize,
    next: Option<Next>,
}

struct Next {
    filter: Filter,
    /// Places up to here were looked at.
    place: usize,
    added: usize,
}

impl Renewal {
    /// A key has come to the places.
    pub(super) fn added(&mut self, slots: &Slots, key: u64) {
        self.added += 1;
        let capacity = slots.capacity();
        if self.next.is_none() && self.added >= capacity {
            self.next = Some(Next {
                filter: Filter::new(capacity),
                place: 0,
                added: 0,
            });
        }
        let Some(next) = &mut self.next else { return };
        next.filter.add(hash(key));
        next.added += 1;
        let end = (next.place + PLACES).min(slots.places());
        let entries = (next.place..end).filter_map(|place| slots.head_at(place));
        entries.for_each(|entry| next.filter.add(hash(entry.key)));
        next.place = end;
        if end == slots.places()
            && let Some(next) = self.next.take()
        {
            slots.replace_filter(next.filter);
            self.added = next.added;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::index::{Entry, Index};
    use super::super::stamp::Stamp;
    use super::*;

    fn passing(index: &Index) -> usize {
        let (slots, absent) = (index.pin(), 1 << 40);
        let filter = slots.filter();
        (absent..absent + 10_000)
            .filter(|key| filter.may_have(hash(*key)))
            .count()
    }

    #[test]
    fn keys_that_come_and_go_leave_a_filter_that_turns_keys_away() {
        let (index, mut writer) = Index::new(8);
        let put = |key, writer: &mut super::super::index::Writer| {
            writer.put(&Entry {
                key,
                sequence: key,
                written_ms: 0,
                stamp: Stamp::default(),
                row: Some([0; 8]),
            });
        };
        // Room for many more than there are from here on: nothing moves to other places.
        (0..800).for_each(|key| put(key, &mut writer));
        writer.take_away(0, usize::MAX, |entry| entry.key >= 50);
        for turn in 0..1000_u64 {
            let keys = || 1000 + turn * 50..1050 + turn * 50;
            keys().for_each(|key| put(key, &mut writer));
            let filter = index.pin().filter();
            assert!((0..50).chain(keys()).all(|key| filter.may_have(hash(key))));
            writer.take_away(0, usize::MAX, |entry| entry.key >= 50);
        }
        assert_eq!(index.len(), 50);
        let passed = passing(&index);
        assert!(passed < 2_000, "{passed} of 10,000");
    }
}
