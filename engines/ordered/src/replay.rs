//! Records of the log make their changes again.
//!
//! Invariant: a change that the index has already, or that something newer has replaced, changes nothing; so what began from a copy of the
//! index, and goes on with records that the copy has in part, comes to what all records come to.

use crate::index::Index;
use crate::list::{Kind, List, split_items};
use crate::record::{Entry, Logged, What};
use crate::tree::{Change, Content};

impl Logged<'_> {
    /// Makes its changes that are newer than what their keys have. Nobody else may write meanwhile.
    pub fn replay(&self, index: &Index) {
        for (entry, version) in self.entries().zip(self.first_version..) {
            replay(index, &entry, version);
        }
    }
}

/// Makes a change, if it is newer than what its key has.
fn replay(index: &Index, entry: &Entry<'_>, version: u64) {
    if index.version_of(entry.key) >= version {
        return;
    }
    let made;
    let (value, is_list) = match entry.what {
        What::Removed => return index.apply(std::iter::once(Change::Remove(entry.key))),
        What::Bytes(value) => (value, false),
        What::List(value) => (value, true),
        edit => {
            let Some(held) = edited(index, entry.key, edit) else {
                return;
            };
            made = held;
            (made.0.as_slice(), made.1)
        }
    };
    index.apply(std::iter::once(Change::Set(Content {
        key: entry.key,
        value,
        version,
        expires_ms: entry.expires_ms,
        is_list,
    })));
}

/// What an edit makes of what its key holds, and whether that is a list. Nothing where the key is not there: a later record removes it,
/// which the index began with.
fn edited(index: &Index, key: &[u8], edit: What<'_>) -> Option<(Vec<u8>, bool)> {
    let (mut value, looked) = index.held(key)?;
    let is_list = looked.kind == Some(Kind::List);
    match (edit, is_list) {
        (What::Expire, _) => {}
        (What::Concatenate(added), false) => value.extend_from_slice(added),
        (What::Append { keep, items }, true) => {
            let mut list = List::of(value)?;
            list.append(split_items(items)?, keep);
            value = list.into_value();
        }
        (What::Trim { older, kept }, true) => {
            let mut list = List::of(value)?;
            list.trim(older as usize, kept as usize);
            value = list.into_value();
        }
        _ => return None,
    }
    Some((value, is_list))
}

#[cfg(test)]
mod tests;
