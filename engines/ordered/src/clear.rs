//! Removal of many keys in steps, so that other writes go on between them.
//!
//! Invariant: a step is one write of bounded size: its removals are in the log, and all of them are seen or none.

use crate::batch::{Batch, Effect, Operation};
use crate::error::WriteError;
use crate::scan::Scan;
use crate::{BATCH_OPERATIONS_MAX, Store};

/// Bytes of keys that one step removes at most.
const STEP_BYTES_MAX: usize = 1 << 20;

/// The keys that are removed next.
pub struct Step {
    /// Removes them; `None` where there are none.
    pub batch: Option<Batch>,
    /// From where on there are more, if there are.
    pub more: Option<Vec<u8>>,
}

/// How many of a batch's removals and expiries found their key.
pub fn were_there(effects: &[Effect]) -> u64 {
    let found = effects.iter().filter(|effect| **effect == Effect::WasThere(true));
    found.count() as u64
}

impl Store {
    /// The first keys of a scan as a batch that removes them: as many as the scan's limit says, up to 10,000, and fewer where they are long.
    pub fn removal(&self, scan: &Scan) -> Step {
        let scan = Scan {
            limit: scan.limit.min(BATCH_OPERATIONS_MAX),
            bytes_max: STEP_BYTES_MAX,
            keys_only: true,
            ..scan.clone()
        };
        let mut operations = Vec::new();
        let more = self.scan(&scan, &mut |key, _| {
            operations.push(Operation::Remove {
                key: key.to_vec(),
                if_version: None,
            });
        });
        Step {
            batch: (!operations.is_empty()).then(|| Batch::of(operations)),
            more,
        }
    }

    /// Removes all keys up to the one that is the last at its begin, in steps; how many. What is written meanwhile may go or stay. As
    /// [`Store::write_wait`], not for a [`crate::Done`].
    ///
    /// # Errors
    /// As a write: the steps before it have taken effect.
    pub fn clear_wait(&self) -> Result<u64, WriteError> {
        let last = Scan {
            limit: 1,
            reverse: true,
            keys_only: true,
            ..Scan::default()
        };
        let mut end = None;
        let before = self.scan(&last, &mut |key, _| end = Some(Scan::end_behind(key)));
        // A page is empty where all that it passed have expired: what lasts is before these.
        let end = end.or_else(|| before.map(|key| Scan::end_behind(&key)));
        let (mut start, mut count) = (Some(Vec::new()), 0);
        while let Some(from) = start {
            let scan = Scan {
                start: Some(from),
                end: end.clone(),
                limit: BATCH_OPERATIONS_MAX,
                ..Scan::default()
            };
            let step = self.removal(&scan);
            if let Some(batch) = step.batch {
                count += were_there(&self.write_wait(batch)?.effects);
            }
            start = step.more;
        }
        Ok(count)
    }
}
