//! What the log says of stores that cannot write.
//! Its invariant: a failure that ended the writing of a store is logged once, however many writes it fails.

use millpond_engines_features::UpsertError;
use millpond_engines_ordered::{Error, WriteError};
use millpond_threads::{LeftOut, LineLimit};
use std::sync::{Arc, Mutex, PoisonError};

/// What the log is told of stores that fail. All writes after a failure that ended writing fail for the same one, which is logged
/// once a store; a disk that fails every write fails them often, so of others the log has a line a second.
#[derive(Default)]
pub struct StoreFailures {
    /// What ended the writing of a store: no more than there are stores.
    ends: Mutex<Vec<Arc<Error>>>,
    others: LineLimit,
    /// Of stores at their `memory_bytes_max` it has a line a second too.
    full: LineLimit,
}

impl StoreFailures {
    /// Logs why a write failed, where that is not the write's own fault and was not logged before.
    pub fn note(&self, error: &WriteError) {
        if let WriteError::Full { .. } = error
            && let Some(LeftOut(left_out)) = self.full.admits()
        {
            tracing::warn!(%error, left_out, "an ordered store is full");
        }
        let (WriteError::Storage(cause) | WriteError::OutcomeUnknown(cause) | WriteError::ReadOnly(cause)) =
            error
        else {
            return;
        };
        if let Some(LeftOut(left_out)) = self.admits(cause) {
            tracing::error!(%error, left_out, "an ordered store cannot write its log");
        }
    }

    /// Logs why an upsert failed, as [`StoreFailures::note`] does of puts.
    pub fn note_upsert(&self, table: &str, error: &UpsertError) {
        match error {
            UpsertError::Full { .. } => {
                if let Some(LeftOut(left_out)) = self.full.admits() {
                    tracing::warn!(table, %error, left_out, "the overlay of a feature table is full");
                }
            }
            UpsertError::Storage(cause)
            | UpsertError::OutcomeUnknown(cause)
            | UpsertError::ReadOnly(cause) => {
                if let Some(LeftOut(left_out)) = self.admits(cause) {
                    tracing::error!(table, %error, left_out, "the overlay of a feature table cannot write its log");
                }
            }
            _ => {}
        }
    }

    fn admits(&self, cause: &Arc<Error>) -> Option<LeftOut> {
        if !matches!(**cause, Error::ReadOnly { .. }) {
            return self.others.admits();
        }
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.iter().any(|end| Arc::ptr_eq(end, cause)) {
            return None;
        }
        ends.push(Arc::clone(cause));
        Some(LeftOut(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_failed_are_told_once_each() {
        let end = || {
            Arc::new(Error::ReadOnly {
                file: "log".into(),
                reason: "it failed".into(),
            })
        };
        let told = StoreFailures::default();
        let (a, b) = (end(), end());
        let found = [&a, &b, &a, &b].map(|cause| told.admits(cause).is_some());
        assert_eq!(found, [true, true, false, false]);
        let other = Arc::new(Error::LogThreadDied);
        assert_eq!(told.admits(&other), Some(LeftOut(None)));
    }
}
