//! The operations of a batch on lists.
//!
//! Invariant: a list is copied out of the index at most once, and no longer than it may be.

use super::Evaluation;
use super::own::Value;
use crate::batch::{BATCH_ITEMS_MAX, Effect};
use crate::change::{Edit, Held};
use crate::error::{WriteError, at_most};
use crate::inspect::Looked;
use crate::judge::expires_ms;
use crate::list::{Kind, LIST_BYTES_MAX, List, encode_items, places};
use crate::plan::Made;
use crate::read::{ITEM_BYTES, items};

impl<'e> Evaluation<'e> {
    pub(super) fn append(
        &mut self,
        (at, key): (usize, &'e [u8]),
        (items, keep): (&[Vec<u8>], u32),
        ttl_ms: Option<u64>,
    ) -> Result<Effect, WriteError> {
        let looked = self.look_for(key, Kind::List)?;
        let expires_ms = match ttl_ms {
            None => looked.expires_ms,
            Some(_) => expires_ms(|| self.judge.now_ms, ttl_ms),
        };
        let newest = items
            .get(items.len().saturating_sub(keep as usize)..)
            .unwrap_or(items);
        let Some(list) = self.list(key)? else {
            let mut list = List::default();
            list.append(newest, keep);
            at_most("bytes of a list", list.value_bytes(), LIST_BYTES_MAX)?;
            let edit = Edit::NewList(list.clone().into_value());
            let count = list.len();
            let made = Made::Edited(edit, Held::Later);
            let version = self.set((at, key), (made, Value::List(list)), expires_ms);
            return Ok(Effect::Listed { count, version });
        };
        list.append(newest, keep);
        at_most("bytes of a list", list.value_bytes(), LIST_BYTES_MAX)?;
        let count = list.len();
        let items = encode_items(newest);
        let version = self.edit((at, key), Edit::Append { items, keep }, expires_ms);
        Ok(Effect::Listed { count, version })
    }

    pub(super) fn items(&mut self, key: &'e [u8], span: (i64, i64)) -> Result<Vec<Vec<u8>>, WriteError> {
        let bytes_max = self.batch.read_bytes_max.saturating_sub(self.plan.read_bytes);
        let Some(list) = self.list(key)? else {
            return Ok(Vec::new());
        };
        let found = items(list, span, bytes_max);
        let bytes = match &found {
            Ok(found) => found.iter().map(|item| item.len() + ITEM_BYTES).sum(),
            Err(bytes) => *bytes,
        };
        self.count_read(bytes)?;
        let found = found.unwrap_or_default();
        self.items_read += found.len();
        at_most(
            "items of lists that the batch reads",
            self.items_read,
            BATCH_ITEMS_MAX,
        )?;
        Ok(found)
    }

    pub(super) fn trim(
        &mut self,
        (at, key): (usize, &'e [u8]),
        (start, stop): (i64, i64),
    ) -> Result<Effect, WriteError> {
        let looked = self.look_for(key, Kind::List)?;
        let left = places(looked.count, start, stop);
        if left.len() == looked.count {
            let Looked { count, version, .. } = looked;
            return Ok(Effect::Listed { count, version });
        }
        if left.is_empty() {
            self.remove(at, key);
            return Ok(Effect::Listed { count: 0, version: 0 });
        }
        let (older, kept) = (looked.count - left.end, left.len());
        if let Some(list) = self.list(key)? {
            list.trim(older, kept);
        }
        let edit = Edit::Trim {
            older: older as u32,
            kept: kept as u32,
        };
        let version = self.edit((at, key), edit, looked.expires_ms);
        Ok(Effect::Listed { count: kept, version })
    }

    /// A list that is there, to be read or changed.
    fn list(&mut self, key: &'e [u8]) -> Result<Option<&mut List>, WriteError> {
        self.look_for(key, Kind::List)?;
        Ok(self.own(key)?.and_then(|own| match &mut own.value {
            Value::List(list) => Some(list),
            _ => None,
        }))
    }
}
