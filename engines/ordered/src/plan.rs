//! What a write that is accepted comes to, before its keys and values are taken out of it.
//!
//! Invariant: its steps are in the order of the operations that make them.

use crate::batch::Effect;
use crate::change::{Changed, Edit, Held};
use crate::judge::expires_ms;
use crate::write::Write;

/// What a write that is accepted changes, and what its operations found or did; of a put both follow from it.
#[derive(Default)]
pub(crate) struct Plan {
    /// Ascending.
    pub steps: Vec<Step>,
    pub effects: Vec<Effect>,
    /// Of a put: when each entry expires, where it lasts as long as what was there.
    pub lasts_ms: Vec<u64>,
    /// Of values that were found.
    pub read_bytes: usize,
    /// Of values that were copied to be changed, or that stay and are written with another time.
    pub kept_bytes: usize,
}

/// A change, by the operation at a place.
pub(crate) struct Step {
    pub at: usize,
    pub made: Made,
    pub expires_ms: u64,
}

/// What an operation makes of its key.
pub(crate) enum Made {
    /// The value of the put.
    AsPut,
    Held(Held),
    /// With what the key holds behind the batch, once that is known.
    Edited(Edit, Held),
}

impl Plan {
    /// Bytes of values that were copied.
    pub fn copied_bytes(&self) -> usize {
        self.read_bytes + self.kept_bytes
    }

    /// What changes, and what the operations found or did.
    pub fn changes(self, write: Write, now_ms: u64) -> (Vec<Changed>, Vec<Effect>) {
        let batch = match write {
            Write::Put(put) => {
                let same = expires_ms(|| now_ms, put.ttl_ms);
                let lasts_ms = self.lasts_ms.into_iter().chain(std::iter::repeat(same));
                let entries = put.entries.into_iter().zip(lasts_ms);
                let changes = entries.map(|((key, value), expires_ms)| Changed::put(key, value, expires_ms));
                return (changes.collect(), self.effects);
            }
            Write::Batch(batch) => batch,
        };
        let mut changes = Vec::with_capacity(self.steps.len());
        let mut steps = self.steps.into_iter().peekable();
        for (at, operation) in batch.operations.into_iter().enumerate() {
            let Some(Step { made, expires_ms, .. }) = steps.next_if(|step| step.at == at) else {
                continue;
            };
            debug_assert!(
                steps.peek().is_none_or(|next| next.at != at),
                "an operation makes one change"
            );
            let (key, put) = operation.into_parts();
            let (held, edit) = match made {
                Made::AsPut => (put.map_or(Held::Nothing, Held::Bytes), None),
                Made::Held(held) => (held, None),
                Made::Edited(edit, held) => (held, Some(edit)),
            };
            changes.push(Changed {
                key,
                held,
                edit,
                expires_ms,
            });
        }
        (changes, self.effects)
    }
}
