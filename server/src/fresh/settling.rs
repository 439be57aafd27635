//! Up to which time upserts have settled: all of this node's replicas have them, so that they can be folded.
//!
//! It folds nothing. The invariant: what a table's log says of a time was true of every acknowledged upsert that was made before it, when the log
//! says so, as long as clocks differ by no more than they may.
//!
//! An upsert is acknowledged by all replicas, or one that took it has noted who did not. Copies and notes are taken for a part of
//! `settle` alone. So a replica that is asked has noted by then whatever was made longer ago than that. What this node misses it takes
//! before it counts as clean; what others miss of this node's they take before they ask and have missed nothing.

use super::peer::TakeError;
use super::{By, Following, lock};
use millpond_calls::Heard;
use millpond_engines_features::{Overlay, Settled, Table};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Times are said in steps of such a part of `settle`: so often at most, and alike on all nodes.
const STEPS: u64 = 5;

/// Milliseconds of Unix time.
pub(super) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// What is known at a moment.
#[derive(Debug, Clone, Copy)]
struct Known {
    now_ms: u64,
    settle_ms: u64,
    /// Since when no replica has had anything that this node missed.
    clean_ms: u64,
    /// What they said of the table.
    heard: Heard,
    /// When this node's newest upsert was made.
    newest_ms: u64,
}

/// What a log is to say, behind what it says.
fn settled(said: Settled, known: Known) -> Settled {
    let Known {
        now_ms, settle_ms, ..
    } = known;
    let asked_ms = now_ms.min(known.clean_ms).min(known.heard.at_ms);
    let step_ms = (settle_ms / STEPS).max(1);
    let whole_ms = asked_ms.saturating_sub(settle_ms) / step_ms * step_ms;
    let newest_ms = known.newest_ms.max(known.heard.newest_ms);
    // Of a table that nobody upserts to there is nothing more to say.
    let whole_ms = match newest_ms == 0 || said.whole_ms > newest_ms {
        true => said.whole_ms,
        false => whole_ms.max(said.whole_ms),
    };
    let foldable_ms = whole_ms.min(known.heard.whole_ms);
    Settled {
        whole_ms,
        foldable_ms: foldable_ms.max(said.foldable_ms),
    }
}

impl Following {
    pub(super) fn with_overlay<R>(&self, name: &str, read: impl FnOnce(&Table, &Overlay) -> R) -> Option<R> {
        let catalog = self.shared.calls.state().map(|state| Arc::clone(&state))?;
        let table = catalog.tables.get(name)?;
        Some(read(table, table.overlay()?))
    }

    /// Of a table: before which time all acknowledged upserts are in this node's log, and when the newest was made.
    pub(super) fn in_log(&self, table: &str) -> Option<(u64, u64)> {
        self.with_overlay(table, |_, overlay| {
            (overlay.settled().whole_ms, newest_ms(overlay))
        })
    }

    /// Whether this node has all that another one has in its versions alone.
    pub(super) fn check_whole(&self, table: &str, folded_ms: u64) -> Result<(), TakeError> {
        let whole_ms = self.with_overlay(table, |table, overlay| overlay.whole_before_ms(table));
        match whole_ms {
            Some(whole_ms) if whole_ms < folded_ms => Err(TakeError::Lacks(format!(
                "table {table:?}: that node has upserts from before {folded_ms} ms of Unix time in its versions alone, and this node is known \
                 to have those from before {whole_ms} ms; it answers no lookups of fresh rows until its version was built from the others' (`millpond \
                 features fold --rebuilt`)"
            ))),
            _ => Ok(()),
        }
    }

    /// Has the logs say up to when upserts have settled; `told` is what they were given last.
    ///
    /// Nodes that were replicas by the map before this one are asked too, as they may have noted what this node missed, and ask it no
    /// more. They matter until the upserts by that map have settled; and one that is none of the map, and may be gone, no longer.
    pub(super) fn settle(&self, by: &By, told: &mut BTreeMap<String, Settled>) {
        let (now_ms, settle_ms) = (unix_ms(), millis(self.nodes.options.settle));
        let settled_ms = by.since_ms.saturating_add(settle_ms);
        let is_over = |name: &str, clean_ms: Option<u64>| {
            let is_former = by.replicas.iter().all(|replica| replica != name);
            let is_gone = by.map.find(name).is_none() && now_ms >= settled_ms;
            is_former && (is_gone || clean_ms >= Some(settled_ms))
        };
        let clean_ms = {
            let mut standings = lock(&self.standings);
            standings.forget(is_over);
            standings.clean_since_ms()
        };
        let Some(clean_ms) = clean_ms else { return };
        for table in &self.tables {
            let names = by.replicas.iter().map(String::as_str);
            let Some(heard) = self.nodes.fresh.heard_of(table, names) else {
                continue;
            };
            self.with_overlay(table, |_, overlay| {
                let said = overlay.settled();
                let next = settled(
                    said,
                    Known {
                        now_ms,
                        settle_ms,
                        clean_ms,
                        heard,
                        newest_ms: newest_ms(overlay),
                    },
                );
                // The log may have it still to write.
                if next != said && told.get(table) != Some(&next) {
                    overlay.settle(next);
                    told.insert(table.clone(), next);
                }
            });
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn newest_ms(overlay: &Overlay) -> u64 {
    overlay.newest() >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(now_ms: u64, clean_ms: u64, heard: (u64, u64, u64), newest_ms: u64) -> Known {
        let (at_ms, whole_ms, heard_newest_ms) = heard;
        Known {
            now_ms,
            settle_ms: 300,
            clean_ms,
            heard: Heard {
                at_ms,
                whole_ms,
                newest_ms: heard_newest_ms,
            },
            newest_ms,
        }
    }

    fn of(whole_ms: u64, foldable_ms: u64) -> Settled {
        Settled {
            whole_ms,
            foldable_ms,
        }
    }

    #[test]
    fn a_log_says_what_all_replicas_have_said() {
        let check = |said, known, expected| assert_eq!(settled(said, known), expected, "{known:?}");
        let none = of(0, 0);
        // Nobody has upserted anything.
        check(none, known(1000, 1000, (1000, 0, 0), 0), none);
        // What was made settles a while after all were asked, in steps; the others say so of themselves first.
        check(none, known(1000, 999, (998, 0, 0), 500), of(660, 0));
        check(none, known(1000, 999, (998, 0, 500), 0), of(660, 0));
        check(of(660, 0), known(1000, 999, (998, 630, 0), 700), of(660, 630));
        // One of them was not asked, or has not asked, for long.
        check(of(660, 630), known(2000, 980, (1900, 1500, 0), 700), of(660, 660));
        check(of(660, 660), known(2000, 1990, (900, 1500, 0), 700), of(660, 660));
        // All that there is has settled.
        check(of(720, 660), known(2000, 1990, (1990, 690, 0), 700), of(720, 690));
        check(
            of(720, 720),
            known(2000, 1990, (1990, 1500, 0), 700),
            of(720, 720),
        );
        // There is no other replica; and a clock that was set back takes nothing back.
        check(
            none,
            known(1000, u64::MAX, (u64::MAX, u64::MAX, 0), 900),
            of(660, 660),
        );
        check(
            of(660, 660),
            known(500, u64::MAX, (u64::MAX, u64::MAX, 0), 900),
            of(660, 660),
        );
    }
}
