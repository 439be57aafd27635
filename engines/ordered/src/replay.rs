//! Records of the log make their changes again.
//!
//! Invariant: a change that the index has already, or that something newer has replaced, changes nothing; so what began from a copy of the
//! index, and goes on with records that the copy has in part, comes to what all records come to.

use std::collections::HashMap;

use crate::index::Index;
use crate::list::{Kind, List, split_items};
use crate::record::{Entry, Logged, What};
use crate::tree::{Change, Content};

/// What a key holds that a record changes in part: it is copied once a record, however often it is changed.
struct Edited {
    value: Value,
    version: u64,
    expires_ms: u64,
}

enum Value {
    Bytes(Vec<u8>),
    List(List),
}

impl Logged<'_> {
    /// Makes its changes that are newer than what their keys have. Nobody else may write meanwhile.
    pub fn replay(&self, index: &Index) {
        let mut edited = HashMap::new();
        for (entry, version) in self.entries().zip(self.first_version..) {
            let set = match entry.what {
                What::Removed => None,
                What::Bytes(value) => Some((value, false)),
                What::List(value) => Some((value, true)),
                _ => {
                    edit(index, &mut edited, &entry, version);
                    continue;
                }
            };
            edited.remove(entry.key);
            if index.version_of(entry.key) < version {
                apply(index, entry.key, set, (version, entry.expires_ms));
            }
        }
        for (key, edited) in edited {
            let (value, is_list) = match edited.value {
                Value::Bytes(value) => (value, false),
                Value::List(list) => (list.into_value(), true),
            };
            apply(
                index,
                key,
                Some((&value, is_list)),
                (edited.version, edited.expires_ms),
            );
        }
    }
}

fn apply(index: &Index, key: &[u8], set: Option<(&[u8], bool)>, (version, expires_ms): (u64, u64)) {
    let change = match set {
        None => Change::Remove(key),
        Some((value, is_list)) => Change::Set(Content {
            key,
            value,
            version,
            expires_ms,
            is_list,
        }),
    };
    index.apply(std::iter::once(change));
}

/// Makes an edit of what its key holds, if it is newer. Nothing where the key is not there: a later record removes it, which the index
/// began with.
fn edit<'r>(index: &Index, edited: &mut HashMap<&'r [u8], Edited>, entry: &Entry<'r>, version: u64) {
    if !edited.contains_key(entry.key) {
        let held = index.held(entry.key).filter(|(_, held)| held.version < version);
        let Some((value, looked)) = held else { return };
        let value = match looked.kind {
            Some(Kind::List) => Value::List(List::of(value).unwrap_or_default()),
            _ => Value::Bytes(value),
        };
        let copied = Edited {
            value,
            version,
            expires_ms: looked.expires_ms,
        };
        edited.insert(entry.key, copied);
    }
    let Some(edited) = edited.get_mut(entry.key) else {
        return;
    };
    match (entry.what, &mut edited.value) {
        (What::Concatenate(added), Value::Bytes(value)) => value.extend_from_slice(added),
        (What::Append { keep, items }, Value::List(list)) => {
            list.append(split_items(items).unwrap_or_default(), keep);
        }
        (What::Trim { older, kept }, Value::List(list)) => list.trim(older as usize, kept as usize),
        _ => {}
    }
    (edited.version, edited.expires_ms) = (version, entry.expires_ms);
}

#[cfg(test)]
mod tests;
