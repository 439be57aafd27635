//! What the methods that change a store have in common: a write is handed to the store, and answered when it is as durable as
//! configured.
//! Its invariant: "ok" is said only by the store's own callback; a put that a store without a log makes at once (`ordered_put`) has none.

use crate::{Served, led_store, turn_end};
use millpond_calls::Spent;
use millpond_catalog::Catalog;
use millpond_engines_ordered::{
    Batch, Deadline, Effect, NotLeader, Operation, Store, Write, WriteError, Written, WrongKind, were_there,
};
use millpond_wire_payload::{Encoder, Reserved};
use millpond_wire_schema::{Code, Field as _, Reason, Status, ordered_append};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// What an entry or an operation takes beside its bytes while it waits for the log.
pub(crate) const ENTRY_BYTES: usize = 128;
/// The same of an item of a list.
pub(crate) const ITEM_BYTES: usize = 48;

/// A call that writes, as far as it is known before its write is made.
pub(crate) struct Asked<'r> {
    /// Its method.
    pub name: &'static str,
    pub store: &'r Store,
    /// What its write takes while it waits.
    pub bytes: usize,
}

/// Takes the call in, hands its write over, and answers what `answer` writes of its end.
pub(crate) fn hand_over<A>(
    catalog: &Catalog,
    call: &mut Served<'_>,
    reserved: &Reserved<'_>,
    asked: &Asked<'_>,
    (write, answer): (impl FnOnce() -> Write, A),
) -> Result<(), Status>
where
    A: FnOnce(Written, &mut Encoder<'_>) + Send + 'static,
{
    let deadline = Deadline {
        now: call.arrival.entered,
        at: call.deadline(reserved.deadline_ms)?,
    };
    let permit = call.calls.admission.enter_holding(asked.bytes)?;
    let write = write();
    let failures = Arc::clone(&catalog.store_failures);
    call.set_base64(reserved.base64);
    let mut waiting = call.detach(Some(permit), reserved.trace)?;
    let method = asked.name;
    let done = move |result: Result<Written, WriteError>| match result {
        Ok(written) => {
            let ready = waiting.ready(Spent::default());
            tracing::debug!(
                method,
                us = ready
                    .saturating_duration_since(waiting.arrival.received)
                    .as_micros() as u64,
                "answered"
            );
            waiting.ok(|out| answer(written, out));
        }
        Err(error) => {
            failures.note(&error);
            if matches!(error, WriteError::TooLate { .. }) && !waiting.arrival.is_internal {
                waiting.calls.statistics.too_late();
            }
            waiting.refuse(&status_of(&error));
        }
    };
    match asked.store.write_later(write, Box::new(done), Some(deadline)) {
        Ok(log_thread) => turn_end::wake(call, log_thread),
        Err(busy) => (busy.done)(Err(*busy.error)),
    }
    Ok(())
}

/// The same for a call that does one thing with each of some keys: `answer` gets how many of them were there, and what it survives.
pub(crate) fn hand_over_keys<A>(
    catalog: &Catalog,
    call: &mut Served<'_>,
    reserved: &Reserved<'_>,
    (name, table): (&'static str, Option<&str>),
    (keys, operation): (Vec<Cow<'_, [u8]>>, impl Fn(Vec<u8>) -> Operation),
    answer: A,
) -> Result<(), Status>
where
    A: FnOnce(u64, &str, &mut Encoder<'_>) + Send + 'static,
{
    let asked = Asked {
        name,
        store: led_store(catalog, table, reserved)?,
        bytes: keys.iter().map(|key| key.len() + ENTRY_BYTES).sum(),
    };
    let batch = || {
        // A key that is named twice counts once, at the version that the call names.
        let mut named = HashSet::new();
        let keys = keys.into_iter().filter(|key| named.insert(key.clone()));
        Batch::of(keys.map(|key| operation(key.into_owned())).collect()).into()
    };
    let answer = |written: Written, out: &mut Encoder<'_>| {
        answer(were_there(&written.effects), written.durability.as_str(), out);
    };
    hand_over(catalog, call, reserved, &asked, (batch, answer))
}

/// The answer of a call with one operation on a list: how many items it has behind that, and its key's version.
pub(crate) fn write_listed(written: Written, out: &mut Encoder<'_>) {
    let (count, version) = match written.effects.as_slice() {
        [Effect::Listed { count, version }] => (*count as u64, *version),
        _ => (0, 0),
    };
    let answer = ordered_append::Answer {
        count,
        version,
        durability: written.durability.as_str().into(),
    };
    ordered_append::Answer::write(&answer, out);
}

pub(crate) fn status_of(error: &WriteError) -> Status {
    let code = match error {
        WriteError::NotLeader(known) => return not_leader(known),
        WriteError::Conflict { .. } | WriteError::Absent { .. } => Code::Conflict,
        WriteError::TooLarge { .. } => Code::TooLarge,
        WriteError::Empty
        | WriteError::NoTime
        | WriteError::NoItems
        | WriteError::WrongKind(_)
        | WriteError::NotANumber { .. }
        | WriteError::NotADecimal { .. }
        | WriteError::DecimalOverflow { .. }
        | WriteError::Overflow { .. } => Code::BadArgument,
        WriteError::Full { .. } => Code::Full,
        WriteError::QueueFull { .. } | WriteError::QueueStands { .. } | WriteError::TooLate { .. } => {
            Code::Overloaded
        }
        // The store's bound is the server's (`Config::resources`).
        WriteError::QueueBytesFull { waiting, bytes, max } => {
            let ex = format!(
                "writes that wait for the store hold {waiting} bytes already, this one has {bytes}, and {max} are allowed; try again \
                 later, write less at once, or raise server.in_flight_bytes_max"
            );
            return Status::new(Code::Overloaded, ex);
        }
        WriteError::Closed => Code::Stopping,
        WriteError::Unacknowledged(_) => Code::OutcomeUnknown,
        WriteError::NoFollower => Code::NodeUnavailable,
        // The client's answer names no file of this machine.
        WriteError::ReadOnly(_) | WriteError::Storage(_) => {
            return Status::new(
                Code::StorageFailed,
                "the store cannot write its log, so nothing was written; see the server's log",
            );
        }
        WriteError::OutcomeUnknown(_) => {
            return Status::new(
                Code::OutcomeUnknown,
                "the store's log failed, and whether it was written is unknown: it is not visible, and may be after a \
                 restart; repeat it only with if_version or if_absent, or where twice does no harm; see the server's log",
            );
        }
    };
    let reason = match error {
        WriteError::WrongKind(_) => Some(Reason::WrongKind),
        WriteError::NotANumber { .. } => Some(Reason::NotANumber),
        WriteError::Overflow { .. } => Some(Reason::Overflow),
        WriteError::NotADecimal { .. } => Some(Reason::NotADecimal),
        WriteError::DecimalOverflow { .. } => Some(Reason::DecimalOverflow),
        _ => None,
    };
    Status::new(code, error.to_string()).because(reason)
}

/// What a store answers that another server leads.
pub(crate) fn not_leader(known: &NotLeader) -> Status {
    let leader = known.leader().map(str::to_owned);
    Status::new(Code::NotLeader, known.to_string()).led_by(leader)
}

/// What a read of a key is refused with that holds something else.
pub(crate) fn wrong_kind(error: &WrongKind) -> Status {
    Status::new(Code::BadArgument, error.to_string()).because(Some(Reason::WrongKind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_names_what_bounds_it() {
        let check = |error: WriteError, words: &[&str]| {
            let status = status_of(&error);
            assert_eq!(status.code, Code::Overloaded);
            assert!(words.iter().all(|word| status.ex.contains(word)), "{}", status.ex);
        };
        check(
            WriteError::QueueFull { max: 7 },
            &["7 writes wait", "raise queue_max"],
        );
        let bytes = WriteError::QueueBytesFull {
            waiting: 90,
            bytes: 20,
            max: 100,
        };
        check(bytes, &["90 bytes", "server.in_flight_bytes_max"]);
        let stands = WriteError::QueueStands {
            waiting: 90,
            bytes: 20,
            max: 100,
        };
        check(stands, &["90 bytes", "100 are allowed until it has drained"]);
        let late = WriteError::TooLate {
            wait_us: 300,
            left_us: 200,
        };
        check(late, &["300 us", "the deadline is in 200 us", "_deadline_ms"]);
    }
}
