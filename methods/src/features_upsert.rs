//! `features.upsert`: handed to the log of the table's overlay and answered when it is as durable as configured. Upserts of tables
//! that are spread go to their nodes (`spread`), and come to each of them as a copy.
//! Its invariant: "ok" is said only by the log's own callback, and nothing of a call waits that was not checked.

use crate::features_lookup::keys_of;
use crate::features_missed::check_token;
use crate::{Served, find, spread, turn_end};
use millpond_calls::{CopyUnderWay, Nodes, NodesOptions, Spent};
use millpond_catalog::Catalog;
use millpond_engines_features::{Error, Overlay, Stamp, Table, Upsert, UpsertError, Upserted};
use millpond_wire_payload::{Payload, Reserved};
use millpond_wire_schema::{
    Code, FeaturesUpsert, Field as _, Method as _, Status, features_upsert as schema,
};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What a key takes beside its row while it waits for the log.
const KEY_BYTES: usize = 24;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (mut decoded, reserved) = schema::Call::decode(payload)?;
    let deadline = call.deadline(reserved.deadline_ms)?;
    let nodes = call.calls.nodes().filter(|nodes| nodes.spreads(&decoded.table));
    let Some(nodes) = nodes.map(Arc::clone) else {
        if decoded.copy.is_some() || decoded.missed.is_some() {
            let ex = format!(
                "table {:?} is not spread here: keys \"copy\" and \"missed\" are for calls between its servers; leave them out",
                decoded.table
            );
            return Err(Status::new(Code::BadArgument, ex));
        }
        return write(catalog, call, decoded, &reserved, (Stamp::default(), None));
    };
    if decoded.copy.is_some() || decoded.missed.is_some() {
        check_token(&nodes, decoded.node_token.as_deref(), "node_token")?;
    }
    if let Some(missed) = decoded.missed.take() {
        return note(catalog, call, &nodes, (&decoded.table, &missed), &reserved);
    }
    match decoded.copy.take() {
        Some(copy) => {
            let under_way = nodes.copies.enter(copy.map);
            let stamp = stamp_of(&nodes, &copy)?;
            write(catalog, call, decoded, &reserved, (stamp, Some(under_way)))
        }
        None => spread::upsert(catalog, call, &nodes, (decoded, &reserved), deadline),
    }
}

/// Writes an upsert to this server's own overlay; a copy is under way until its rows are there.
fn write(
    catalog: &Catalog,
    call: &mut Served<'_>,
    decoded: schema::Call<'_>,
    reserved: &Reserved<'_>,
    (stamp, under_way): (Stamp, Option<CopyUnderWay>),
) -> Result<(), Status> {
    let (table, overlay) = overlay(catalog, &decoded.table)?;
    let permit = call.calls.admission.enter_holding(waiting_bytes(&decoded))?;
    let name = decoded.table.clone().into_owned();
    let upsert = upsert_of(table, decoded)?.stamped(stamp);
    let failures = Arc::clone(&catalog.store_failures);
    let mut waiting = call.detach(Some(permit), reserved.trace)?;
    let log_thread = overlay.upsert_later(upsert, move |result: Result<Upserted, UpsertError>| {
        drop(under_way);
        match result {
            Ok(upserted) => {
                let ready = waiting.ready(Spent::default());
                tracing::debug!(
                    method = FeaturesUpsert::NAME,
                    us = ready
                        .saturating_duration_since(waiting.arrival.received)
                        .as_micros() as u64,
                    sequence = upserted.sequence,
                    "answered"
                );
                let answer = answer(upserted);
                waiting.ok(|out| schema::Answer::write(&answer, out));
            }
            Err(error) => {
                failures.note_upsert(&name, &error);
                waiting.refuse(&status_of(&name, &error));
            }
        }
    });
    turn_end::wake(call, log_thread);
    Ok(())
}

/// A table that takes upserts, and its overlay.
pub(crate) fn overlay<'c>(
    catalog: &'c Catalog,
    name: &str,
) -> Result<(&'c Arc<Table>, &'c Arc<Overlay>), Status> {
    let table = find("feature table", &catalog.tables, name)?;
    let overlay = table.overlay().ok_or_else(|| {
        let ex = format!(
            "table {name:?} takes no upserts; give it a section [features.{name}.overlay] and restart the server"
        );
        Status::new(Code::ReadOnly, ex)
    })?;
    Ok((table, overlay))
}

/// What an upsert holds while it waits.
pub(crate) fn waiting_bytes(call: &schema::Call<'_>) -> usize {
    let keys = [&call.keys, &call.remove].into_iter().flatten().map(Vec::len);
    let texts = [&call.texts, &call.remove_texts]
        .into_iter()
        .flatten()
        .map(Vec::len);
    let keys = keys.chain(texts).fold(0, usize::saturating_add);
    let rows = call.rows.as_deref().map_or(0, <[u8]>::len);
    let offsets = call.offsets.as_deref().map_or(0, size_of_val);
    size_of_val(call.values.as_slice())
        .saturating_add(rows)
        .saturating_add(offsets)
        .saturating_add(keys.saturating_mul(KEY_BYTES))
}

/// What a call has to be written here.
pub(crate) fn upsert_of(table: &Arc<Table>, call: schema::Call<'_>) -> Result<Upsert, Status> {
    let written = keys_of(table, call.keys, call.texts)?;
    let removed = keys_of(table, call.remove, call.remove_texts)?;
    let upsert = match call.rows.as_deref() {
        None => Upsert::new(table, written, &call.columns, &call.values, removed),
        Some(rows) => {
            let rows = (rows, call.offsets.as_deref());
            Upsert::of_bytes(table, written, &call.columns, rows, removed)
        }
    };
    upsert.map_err(|error| refused(&error))
}

fn answer(upserted: Upserted) -> schema::Answer<'static> {
    schema::Answer {
        sequence: upserted.sequence,
        durability: upserted.durability.as_str().into(),
        replicas: None,
        newer: upserted.newer.is_some().then_some(upserted.newer.time),
        wait_ms: None,
    }
}

/// The stamp of a copy, whose keys were split by the map that this server goes by: by another one they may be other nodes'.
fn stamp_of(nodes: &Nodes, copy: &schema::Copy<'_>) -> Result<Stamp, Status> {
    if let Err(status) = check_map(nodes, copy.map) {
        // The caller's may be newer, and be here too already: it is read now, and not a moment later.
        nodes.look_at_map();
        return Err(status);
    }
    let stamp = Stamp {
        time: copy.time,
        origin: copy.origin,
    };
    if !stamp.is_some() {
        let ex = "key \"copy\": a copy has a time and an origin above 0";
        return Err(Status::new(Code::BadArgument, ex));
    }
    let now = SystemTime::now();
    check_clock(nodes, stamp, now)?;
    nodes.stamps.observe(stamp.time, Stamp::ms_max(now));
    Ok(stamp)
}

/// Whether an upsert was made about now: one that is ahead would beat all others until then, and all replicas are said to have those that are
/// older.
///
/// # Errors
/// [`Code::ClockAhead`], [`Code::NodeUnavailable`] of an old one, with both clocks.
fn check_clock(nodes: &Nodes, stamp: Stamp, now: SystemTime) -> Result<(), Status> {
    let age_max = nodes.options.upsert_age_max();
    let (code, problem, most) = match (stamp.is_ahead(now), stamp.is_older_than(age_max, now)) {
        (true, _) => (Code::ClockAhead, "ahead of", Stamp::AHEAD_MAX),
        (_, true) => (Code::NodeUnavailable, "behind", age_max),
        (false, false) => return Ok(()),
    };
    let name = nodes.options.name.as_deref().unwrap_or("without a name");
    let own = Stamp::ms_max(now).saturating_sub(Stamp::AHEAD_MAX.as_millis() as u64);
    let ex = format!(
        "the clock of the server that sends the copy ({} ms of Unix time) is more than {} s {problem} the clock of node {name:?} \
         ({own} ms); set both",
        stamp.ms(),
        most.as_secs(),
    );
    Err(Status::new(code, ex))
}

/// Whether this server goes by that version of the map.
///
/// # Errors
/// [`Code::NodeUnavailable`]: a moment later both may.
pub(crate) fn check_map(nodes: &Nodes, version: u64) -> Result<(), Status> {
    let own = nodes.map().map_or(0, |map| map.version());
    if own == version {
        return Ok(());
    }
    let name = nodes.options.name.as_deref().unwrap_or("without a name");
    let ex = format!(
        "node {name:?} goes by version {own} of the bucket map, and this call by version {version}; try again"
    );
    Err(Status::new(Code::NodeUnavailable, ex))
}

/// Notes that other nodes did not take an upsert that this one has.
fn note(
    catalog: &Catalog,
    call: &mut Served<'_>,
    nodes: &Nodes,
    (table, missed): (&str, &schema::Missed<'_>),
    reserved: &Reserved<'_>,
) -> Result<(), Status> {
    let (_, overlay) = overlay(catalog, table)?;
    // A fold may have been told that nobody missed what is older.
    let stamp = Stamp {
        time: missed.time,
        origin: 0,
    };
    check_clock(nodes, stamp, SystemTime::now())?;
    let lease = Duration::from_millis(missed.lease_ms).min(NodesOptions::READ_LEASE_MAX);
    let names = missed.nodes.iter().map(|node| &**node);
    let wait = note_missed(
        nodes,
        (table, overlay),
        names,
        missed.sequence,
        (lease, call.asked.clock.read()),
    );
    let answer = schema::Answer {
        sequence: overlay.sequence(),
        durability: overlay.durability().as_str().into(),
        replicas: None,
        newer: None,
        wait_ms: Some(u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)),
    };
    call.answer(reserved.trace, |out| schema::Answer::write(&answer, out));
    Ok(())
}

/// The same for a call of this server's own. Says how long one of them may answer lookups without knowing it.
pub(crate) fn note_missed<'n>(
    nodes: &Nodes,
    (table, overlay): (&str, &Overlay),
    names: impl Iterator<Item = &'n str>,
    sequence: u64,
    (lease, now): (Duration, Instant),
) -> Duration {
    let map = nodes.map();
    let is_other = |name: &&str| {
        let is_node = map.as_ref().is_some_and(|map| map.find(name).is_some());
        is_node && nodes.options.name.as_deref() != Some(*name)
    };
    // Of a sequence that is not there yet nothing could ever be caught up with.
    let sequence = sequence.min(overlay.sequence());
    nodes
        .fresh
        .note_missed(table, names.filter(is_other), sequence, (lease, now))
}

fn refused(error: &Error) -> Status {
    let code = match error {
        Error::TooLarge { .. } => Code::TooLarge,
        _ => Code::BadArgument,
    };
    Status::new(code, error.to_string())
}

pub(crate) fn status_of(table: &str, error: &UpsertError) -> Status {
    use millpond_engines_features::QueueError;
    let code = match error {
        UpsertError::Full { .. } => Code::Full,
        UpsertError::Queue(QueueError::Closed) => Code::Stopping,
        // The bound on bytes is the server's (`Config::resources`).
        UpsertError::Queue(QueueError::BytesFull { waiting, bytes, max }) => {
            let ex = format!(
                "table {table:?}: upserts that wait hold {waiting} bytes already, this one has {bytes}, and {max} are allowed; try \
                 again later, send less at once, or raise server.in_flight_bytes_max"
            );
            return Status::new(Code::Overloaded, ex);
        }
        UpsertError::Queue(QueueError::Full { .. } | QueueError::Stands { .. }) => Code::Overloaded,
        UpsertError::OutcomeUnknown(_) | UpsertError::Queue(QueueError::OutcomeUnknown(_)) => {
            let ex = format!(
                "the log of table {table:?}'s overlay failed, and whether the upsert was written is unknown: it is not visible, and may \
                 be after a restart; see the server's log"
            );
            return Status::new(Code::OutcomeUnknown, ex);
        }
        UpsertError::Base(_) => {
            let ex = format!(
                "a file of table {table:?} was cut while it was served, so nothing was written; see the server's log, or send all columns"
            );
            return Status::new(Code::StorageFailed, ex);
        }
        // The client's answer names no file of this machine.
        _ => {
            let ex = format!(
                "the overlay of table {table:?} cannot write its log, so nothing was written; see the server's log"
            );
            return Status::new(Code::StorageFailed, ex);
        }
    };
    Status::new(code, format!("table {table:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_engines_features::QueueError;

    #[test]
    fn what_fails_names_the_table_and_what_bounds_it() {
        let check = |error: UpsertError, code, words: &[&str]| {
            let status = status_of("films", &error);
            assert_eq!(status.code, code);
            assert!(
                words
                    .iter()
                    .chain(&["films"])
                    .all(|word| status.ex.contains(word)),
                "{}",
                status.ex
            );
        };
        let full = UpsertError::Full {
            bytes: 90,
            more: 20,
            max: 100,
            can_be_folded: true,
        };
        check(
            full,
            Code::Full,
            &[
                "90 bytes",
                "20 more",
                "100 are allowed",
                "features fold",
                "bytes_max",
            ],
        );
        let queue = UpsertError::Queue;
        check(
            queue(QueueError::Full { max: 7 }),
            Code::Overloaded,
            &["7 writes", "queue_max"],
        );
        let bytes = QueueError::BytesFull {
            waiting: 90,
            bytes: 20,
            max: 100,
        };
        check(
            queue(bytes),
            Code::Overloaded,
            &["90 bytes", "server.in_flight_bytes_max"],
        );
        check(queue(QueueError::Closed), Code::Stopping, &[]);
    }
}
