//! One entry of a record: a key and what becomes of it, as docs/formats/ordered-log.md draws it.
//!
//! Invariant: what encodes decodes to the same; what is sound can be made of what the key held, whatever that is.

use super::{KIND_CHANGES, KIND_EDITS, KIND_EXPIRING, KIND_PUT, TIME_BYTES, u32_at};
use crate::change::{Changed, Edit, Held};
use crate::list;
use crate::put::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Lengths of key and value.
const HEADER_BYTES: usize = 8;
/// In place of a value's length: the key is removed.
const REMOVED: u32 = u32::MAX;
/// Of a number before an edit's bytes.
const NUMBER_BYTES: usize = size_of::<u32>();

const FORM_REMOVED: u8 = 0;
const FORM_BYTES: u8 = 1;
const FORM_LIST: u8 = 2;
const FORM_APPEND: u8 = 3;
const FORM_TRIM: u8 = 4;
const FORM_CONCATENATE: u8 = 5;
const FORM_EXPIRE: u8 = 6;
/// Beside one of these: when it expires follows.
const EXPIRES: u8 = 0x80;

/// An entry as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub key: &'a [u8],
    pub what: What<'a>,
    /// When the key expires from then on, 0 where it does not.
    pub expires_ms: u64,
}

/// What becomes of a key. The last four are made of what it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What<'a> {
    Removed,
    Bytes(&'a [u8]),
    /// As `list` has it.
    List(&'a [u8]),
    Append {
        keep: u32,
        items: &'a [u8],
    },
    Trim {
        older: u32,
        kept: u32,
    },
    Concatenate(&'a [u8]),
    Expire,
}

impl<'a> Entry<'a> {
    pub fn of(changed: &'a Changed) -> Entry<'a> {
        let what = match (&changed.edit, &changed.held) {
            (Some(Edit::NewList(value)), _) | (None, Held::List(value)) => What::List(value),
            (Some(Edit::Append { items, keep }), _) => What::Append { keep: *keep, items },
            (Some(Edit::Trim { older, kept }), _) => What::Trim {
                older: *older,
                kept: *kept,
            },
            (Some(Edit::Concatenate(added)), _) => What::Concatenate(added),
            (Some(Edit::Expire), _) => What::Expire,
            (None, Held::Bytes(value)) => What::Bytes(value),
            // What is left to a later change is an edit.
            (None, Held::Nothing | Held::Later) => What::Removed,
        };
        Entry {
            key: &changed.key,
            what,
            expires_ms: changed.expires_ms,
        }
    }

    /// The kind of record that an entry needs.
    pub fn kind(&self) -> u8 {
        match (self.what, self.expires_ms) {
            (What::Bytes(_), 0) => KIND_PUT,
            (What::Removed, 0) => KIND_CHANGES,
            (What::Bytes(_) | What::Removed, _) => KIND_EXPIRING,
            _ => KIND_EDITS,
        }
    }

    /// Numbers before the bytes of a value or an edit, how many, and these bytes.
    fn payload(&self) -> ([u32; 2], usize, &'a [u8]) {
        match self.what {
            What::Removed | What::Expire => ([0; 2], 0, &[]),
            What::Bytes(bytes) | What::List(bytes) | What::Concatenate(bytes) => ([0; 2], 0, bytes),
            What::Append { keep, items } => ([keep, 0], 1, items),
            What::Trim { older, kept } => ([older, kept], 2, &[]),
        }
    }

    /// Bytes that it takes in a record of a kind.
    pub fn bytes(&self, kind: u8) -> usize {
        let (_, numbers, bytes) = self.payload();
        let form = match (kind, self.expires_ms) {
            (KIND_EDITS, 0) => 1,
            (KIND_EDITS, _) => 1 + TIME_BYTES,
            (KIND_EXPIRING, _) => TIME_BYTES,
            _ => 0,
        };
        HEADER_BYTES + form + self.key.len() + numbers * NUMBER_BYTES + bytes.len()
    }

    pub fn encode(&self, kind: u8, out: &mut Vec<u8>) {
        let (numbers, count, bytes) = self.payload();
        let length = match (self.what, kind) {
            (What::Removed, KIND_PUT..=KIND_EXPIRING) => REMOVED,
            _ => (count * NUMBER_BYTES + bytes.len()) as u32,
        };
        out.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        if kind == KIND_EDITS {
            let expires = if self.expires_ms == 0 { 0 } else { EXPIRES };
            out.push(self.form() | expires);
        }
        if kind == KIND_EXPIRING || kind == KIND_EDITS && self.expires_ms != 0 {
            out.extend_from_slice(&self.expires_ms.to_le_bytes());
        }
        out.extend_from_slice(self.key);
        for number in numbers.iter().take(count) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(bytes);
    }

    fn form(&self) -> u8 {
        match self.what {
            What::Removed => FORM_REMOVED,
            What::Bytes(_) => FORM_BYTES,
            What::List(_) => FORM_LIST,
            What::Append { .. } => FORM_APPEND,
            What::Trim { .. } => FORM_TRIM,
            What::Concatenate(_) => FORM_CONCATENATE,
            What::Expire => FORM_EXPIRE,
        }
    }

    /// The first entry of some bytes, and what is behind it.
    pub fn split(kind: u8, bytes: &'a [u8]) -> Option<(Entry<'a>, &'a [u8])> {
        let (header, mut rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (key_len, length) = (u32_at(header, 0) as usize, u32_at(header, 4));
        let mut form = match length {
            REMOVED if kind != KIND_EDITS => FORM_REMOVED,
            _ => FORM_BYTES,
        };
        if kind == KIND_EDITS {
            let (first, behind) = rest.split_first()?;
            (form, rest) = (*first, behind);
        }
        let mut expires_ms = 0;
        if kind == KIND_EXPIRING || kind == KIND_EDITS && form & EXPIRES != 0 {
            let (time, behind) = rest.split_first_chunk::<TIME_BYTES>()?;
            (expires_ms, rest) = (u64::from_le_bytes(*time), behind);
            // One form for each entry.
            if kind == KIND_EDITS && expires_ms == 0 {
                return None;
            }
        }
        let (key, rest) = rest.split_at_checked(key_len)?;
        let value_len = match length {
            REMOVED if kind != KIND_EDITS => 0,
            length => length as usize,
        };
        let (payload, rest) = rest.split_at_checked(value_len)?;
        let what = What::read(form & !EXPIRES, payload)?;
        let entry = Entry {
            key,
            what,
            expires_ms,
        };
        Some((entry, rest))
    }

    /// Whether a record of a kind may have it.
    pub fn is_sound(&self, kind: u8) -> bool {
        let is_sound = match self.what {
            What::Removed => kind != KIND_PUT && self.expires_ms == 0,
            What::Bytes(bytes) | What::Concatenate(bytes) => bytes.len() <= VALUE_BYTES_MAX,
            What::List(value) => {
                value.len() <= VALUE_BYTES_MAX && list::count(value).is_some_and(|count| count > 0)
            }
            What::Append { keep, items } => {
                keep > 0
                    && items.len() <= VALUE_BYTES_MAX
                    && list::split_items(items).is_some_and(|items| !items.is_empty())
            }
            What::Trim { kept, .. } => kept > 0,
            What::Expire => true,
        };
        is_sound && self.key.len() <= KEY_BYTES_MAX
    }
}

impl<'a> What<'a> {
    fn read(form: u8, payload: &'a [u8]) -> Option<What<'a>> {
        let nothing = || payload.is_empty().then_some(());
        Some(match form {
            FORM_REMOVED => nothing().map(|()| What::Removed)?,
            FORM_BYTES => What::Bytes(payload),
            FORM_LIST => What::List(payload),
            FORM_APPEND => {
                let (keep, items) = payload.split_first_chunk::<NUMBER_BYTES>()?;
                What::Append {
                    keep: u32::from_le_bytes(*keep),
                    items,
                }
            }
            FORM_TRIM => {
                let numbers: &[u8; 2 * NUMBER_BYTES] = payload.try_into().ok()?;
                What::Trim {
                    older: u32_at(numbers, 0),
                    kept: u32_at(numbers, NUMBER_BYTES),
                }
            }
            FORM_CONCATENATE => What::Concatenate(payload),
            FORM_EXPIRE => nothing().map(|()| What::Expire)?,
            _ => return None,
        })
    }
}
