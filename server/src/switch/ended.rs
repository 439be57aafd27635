//! What is counted and logged of a switch that has ended.
//!
//! Its invariant: what is the caller's mistake is no error of the server's, and what is wrong with files is.

use super::{Plan, Refusal, Step};
use millpond_calls::{VersionChange, VersionsCall};
use millpond_catalog::Handle;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Counts and logs how a switch has ended.
pub(super) fn note(
    handle: &Handle,
    call: &VersionsCall,
    outcome: &Result<(&Plan, Option<String>), Refusal>,
    began: Instant,
) {
    let table = call.table.as_str();
    let catalog = handle.pin();
    let counts = catalog.past.get(table).map(|past| &past.counts);
    let counts = counts.filter(|_| !matches!(call.change, VersionChange::Delete { .. }));
    match outcome {
        Ok((plan, why_not)) => {
            if let Some(counts) = counts {
                counts.done.fetch_add(1, Ordering::Relaxed);
            }
            note_made(plan, why_not.as_deref(), began);
        }
        Err(refusal) => {
            if let Some(counts) = counts {
                counts.failed.fetch_add(1, Ordering::Relaxed);
            }
            let serves = catalog.tables.get(table).map_or(0, |table| table.version());
            let (wanted, problem) = (wanted(call.change), &refusal.ex);
            match refusal.is_mistake() {
                // The caller is told, and nothing of the server is wrong.
                true => tracing::info!(table, serves, wanted, problem, "a change of versions was refused"),
                false => tracing::error!(
                    table,
                    serves,
                    wanted,
                    problem,
                    "versions of the table stay as they are"
                ),
            }
        }
    }
}

fn note_made(plan: &Plan, why_not: Option<&str>, began: Instant) {
    let (table, version) = (&plan.table, plan.version);
    let ms = began.elapsed().as_millis() as u64;
    match (&plan.step, why_not) {
        (Step::Delete { lost: None, .. }, _) => tracing::info!(table, version, "version deleted"),
        (Step::Delete { lost: Some(lost), .. }, _) => {
            tracing::warn!(
                table,
                version,
                lost,
                "version deleted, and folded upserts with it"
            );
        }
        (Step::Activate { .. }, None) => tracing::info!(table, version, ms, "table switched"),
        (Step::Activate { .. }, Some(why_not)) => tracing::warn!(
            table,
            version,
            ms,
            why_not,
            "table switched, and a restart will not serve this version"
        ),
    }
}

/// What was asked for, in words.
fn wanted(change: VersionChange) -> String {
    match change {
        VersionChange::None => "a list of versions".to_owned(),
        VersionChange::Activate(Some(version)) => format!("activate version {version}"),
        VersionChange::Activate(None) => "activate the highest version".to_owned(),
        VersionChange::RollBack => "roll back".to_owned(),
        VersionChange::Delete { version, .. } => format!("delete version {version}"),
    }
}
