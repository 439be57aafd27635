//! Records of the log make their changes again.
//!
//! Invariant: a change that the index has already, or that something newer has replaced, changes nothing; so what began from a copy of the
//! index, and goes on with records that the copy has in part, comes to what all records come to.

mod several;

use std::borrow::Cow;
use std::collections::HashMap;

use millpond_wal::BrokenRun;

use crate::index::Index;
use crate::list::{Kind, List, items_of};
use crate::record::{Entry, Logged, What};
use crate::tree::{Change, Content};

pub(crate) use several::by_several;

impl Logged<'_> {
    /// Makes its changes of some keys. Where the index began with a copy that may have some of them, each is made if it is newer than what its key
    /// has. Nobody else may write these keys meanwhile.
    ///
    /// # Errors
    /// A change cannot be made of what its key holds, which no sound log has.
    pub fn replay(
        &self,
        index: &Index,
        may_be_covered: bool,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<(), BrokenRun> {
        let entries = self.entries().zip(self.first_version..);
        let entries = entries.filter(|(entry, _)| is_wanted(entry.key));
        if !self.has_edits() && !may_be_covered {
            let changes: Vec<Change<'_>> = entries.map(|(entry, version)| plain(&entry, version)).collect();
            index.apply(changes.into_iter());
            return Ok(());
        }
        let mut keys: HashMap<&[u8], Key<'_>> = HashMap::new();
        for (entry, version) in entries {
            let key = keys.entry(entry.key).or_insert_with(|| Key {
                // What a copy has of a write is the write's last change of the key.
                is_newer: !may_be_covered || version > index.version_of(entry.key),
                ..Key::default()
            });
            if key.is_newer {
                key.change(index, &entry, version, may_be_covered)?;
            }
        }
        let changes: Vec<(&[u8], Key<'_>)> = keys.into_iter().filter(|(_, key)| key.is_newer).collect();
        let changes: Vec<_> = changes.into_iter().map(|(key, made)| made.finish(key)).collect();
        index.apply(changes.iter().map(Finished::change));
        Ok(())
    }
}

/// The change of an entry that is made of nothing.
fn plain<'a>(entry: &Entry<'a>, version: u64) -> Change<'a> {
    match entry.what {
        What::Bytes(value) => Change::Set(Content {
            key: entry.key,
            value,
            version,
            expires_ms: entry.expires_ms,
            is_list: false,
        }),
        _ => Change::Remove(entry.key),
    }
}

/// What a key holds while the changes of a record are made.
#[derive(Default)]
struct Key<'a> {
    is_newer: bool,
    holds: Holds<'a>,
    version: u64,
    expires_ms: u64,
}

#[derive(Default)]
enum Holds<'a> {
    /// What the index has.
    #[default]
    Unread,
    Nothing,
    Bytes(Cow<'a, [u8]>),
    List(List),
}

impl Holds<'_> {
    fn read(index: &Index, key: &[u8]) -> Self {
        match index.held(key) {
            None => Holds::Nothing,
            Some((value, looked)) if looked.kind == Some(Kind::List) => {
                Holds::List(List::of(value).unwrap_or_default())
            }
            Some((value, _)) => Holds::Bytes(value.into()),
        }
    }
}

impl<'a> Key<'a> {
    fn change(
        &mut self,
        index: &Index,
        entry: &Entry<'a>,
        version: u64,
        may_be_covered: bool,
    ) -> Result<(), BrokenRun> {
        let is_edit = match entry.what {
            What::Append { .. } | What::Trim { .. } | What::Concatenate(_) | What::Expire => true,
            What::Removed | What::Bytes(_) | What::List(_) => false,
        };
        if is_edit && matches!(self.holds, Holds::Unread) {
            self.holds = Holds::read(index, entry.key);
        }
        match (entry.what, &mut self.holds) {
            (What::Removed, holds) => *holds = Holds::Nothing,
            (What::Bytes(value), holds) => *holds = Holds::Bytes(value.into()),
            (What::List(value), holds) => {
                *holds = Holds::List(List::of(value.to_vec()).unwrap_or_default());
            }
            // A later record that the copy has removes the key.
            (_, Holds::Nothing) if may_be_covered => return Ok(()),
            (What::Expire, Holds::Bytes(_) | Holds::List(_)) => {}
            (What::Concatenate(added), Holds::Bytes(value)) => value.to_mut().extend_from_slice(added),
            (What::Append { keep, items }, Holds::List(list)) => list.append(items_of(items), keep),
            (What::Trim { older, kept }, Holds::List(list)) => list.trim(older as usize, kept as usize),
            _ => {
                let key = entry.key.get(..64).unwrap_or(entry.key).escape_ascii();
                let found = format!("key \"{key}\" holds nothing that version {version} can be made of");
                return Err(BrokenRun::because(found));
            }
        }
        (self.version, self.expires_ms) = (version, entry.expires_ms);
        Ok(())
    }

    fn finish(self, key: &'a [u8]) -> Finished<'a> {
        let (value, is_list) = match self.holds {
            Holds::Bytes(value) => (Some(value), false),
            Holds::List(list) => (Some(list.into_value().into()), true),
            Holds::Unread | Holds::Nothing => (None, false),
        };
        Finished {
            key,
            value,
            is_list,
            version: self.version,
            expires_ms: self.expires_ms,
        }
    }
}

/// What a key holds behind a record; `None` where it is not there.
struct Finished<'a> {
    key: &'a [u8],
    value: Option<Cow<'a, [u8]>>,
    is_list: bool,
    version: u64,
    expires_ms: u64,
}

impl Finished<'_> {
    fn change(&self) -> Change<'_> {
        match &self.value {
            None => Change::Remove(self.key),
            Some(value) => Change::Set(Content {
                key: self.key,
                value,
                version: self.version,
                expires_ms: self.expires_ms,
                is_list: self.is_list,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
