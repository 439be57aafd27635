//! Free runs of words by their length, joined with those beside them.
//!
//! Invariant: no two runs touch, unless a chunk of memory ends between them.

use std::collections::{BTreeMap, BTreeSet};

/// The runs.
#[derive(Default)]
pub(super) struct Free {
    /// The length of each by where it begins.
    by_begin: BTreeMap<u64, u64>,
    /// Length and begin.
    by_len: BTreeSet<(u64, u64)>,
}

impl Free {
    /// Takes so many words from the begin of the least run that has them.
    pub fn take(&mut self, words: u64) -> Option<u64> {
        let (len, begin) = *self.by_len.range((words, 0)..).next()?;
        self.remove(begin, len);
        if len > words {
            self.insert(begin + words, len - words);
        }
        Some(begin)
    }

    /// Adds a run; `left` says how many words there are from one on to the end of its chunk.
    pub fn give(&mut self, mut begin: u64, mut len: u64, left: impl Fn(u64) -> u64) {
        if let Some((&before, &len_before)) = self.by_begin.range(..begin).next_back()
            && before + len_before == begin
            && left(before) > len_before
        {
            self.remove(before, len_before);
            (begin, len) = (before, len_before + len);
        }
        if left(begin) > len
            && let Some(&len_behind) = self.by_begin.get(&(begin + len))
        {
            self.remove(begin + len, len_behind);
            len += len_behind;
        }
        self.insert(begin, len);
    }

    fn insert(&mut self, begin: u64, len: u64) {
        self.by_begin.insert(begin, len);
        self.by_len.insert((len, begin));
    }

    fn remove(&mut self, begin: u64, len: u64) {
        self.by_begin.remove(&begin);
        self.by_len.remove(&(len, begin));
    }
}
