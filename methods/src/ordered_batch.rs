//! `ordered.batch`, answered by the store.
//! Its invariants: the answer has a result for each operation, in the call's order; a batch that reads more than an answer may hold is
//! refused before anything is written.

use crate::ordered_append::keep;
use crate::ordered_inspect::inspected;
use crate::ordered_write::{Asked, ENTRY_BYTES, ITEM_BYTES, hand_over};
use crate::{Served, lag, led_store};
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Batch, Effect, Operation, Written};
use millpond_wire_payload::{Encoder, Encoding, Payload};
use millpond_wire_schema::{
    Field as _, Method as _, OrderedBatch, Status, ordered_batch as schema, ordered_items,
};
use std::borrow::Cow;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let bytes = decoded.operations.iter().map(bytes_of);
    let asked = Asked {
        name: OrderedBatch::NAME,
        store: led_store(catalog, decoded.table.as_deref(), &reserved)?,
        bytes: bytes.map(|bytes| bytes + ENTRY_BYTES).sum(),
    };
    // In JSON a byte may be a number of three digits and a comma.
    let share = match call.asked.encoding {
        Encoding::Json if !reserved.base64 => 8,
        Encoding::Json | Encoding::Msgpack => 2,
    };
    let read_bytes_max = call.calls.answer_bytes_max / share;
    let batch = || {
        let operations = decoded.operations.into_iter().map(operation).collect();
        Batch {
            read_bytes_max,
            ..Batch::of(operations)
        }
        .into()
    };
    let (lag_records, lag_ms) = lag(asked.store);
    let answer = move |written: Written, out: &mut Encoder<'_>| {
        let answer = schema::Answer {
            results: written.effects.into_iter().map(effect).collect(),
            durability: written.durability.as_str().into(),
            lag_records,
            lag_ms,
        };
        schema::Answer::write(&answer, out);
    };
    hand_over(catalog, call, &reserved, &asked, (batch, answer))
}

fn bytes_of(operation: &schema::Operation<'_>) -> usize {
    match operation {
        schema::Operation::Get(key)
        | schema::Operation::Remove(key, _)
        | schema::Operation::Increment(key, ..)
        | schema::Operation::Expire(key, _)
        | schema::Operation::Items(key, ..)
        | schema::Operation::Trim(key, ..)
        | schema::Operation::Inspect(key) => key.len(),
        schema::Operation::Put(key, value, _)
        | schema::Operation::Concatenate(key, value)
        | schema::Operation::IncrementDecimal(key, value) => key.len() + value.len(),
        schema::Operation::Append(key, items, _) => {
            let items = items.iter().map(|item| item.len() + ITEM_BYTES);
            key.len() + items.sum::<usize>()
        }
    }
}

fn operation(operation: schema::Operation<'_>) -> Operation {
    match operation {
        schema::Operation::Get(key) => Operation::Get {
            key: key.into_owned(),
        },
        schema::Operation::Put(key, value, options) => Operation::Put {
            key: key.into_owned(),
            value: value.into_owned(),
            if_version: options.if_version,
            if_absent: options.if_absent,
            if_present: options.if_present,
            ttl_ms: options.ttl_ms,
            keep_ttl: options.keep_ttl,
        },
        schema::Operation::Remove(key, options) => Operation::Remove {
            key: key.into_owned(),
            if_version: options.if_version,
        },
        schema::Operation::Increment(key, by, options) => Operation::Increment {
            key: key.into_owned(),
            by,
            ttl_ms: options.ttl_ms,
        },
        schema::Operation::Expire(key, options) => Operation::Expire {
            key: key.into_owned(),
            ttl_ms: options.ttl_ms,
        },
        schema::Operation::Concatenate(key, value) => Operation::Concatenate {
            key: key.into_owned(),
            value: value.into_owned(),
        },
        schema::Operation::Append(key, items, options) => Operation::Append {
            key: key.into_owned(),
            items: items.into_iter().map(Cow::into_owned).collect(),
            keep: options.keep.map(keep),
            ttl_ms: options.ttl_ms,
        },
        schema::Operation::Items(key, start, stop) => Operation::Items {
            key: key.into_owned(),
            start,
            stop,
        },
        schema::Operation::Trim(key, start, stop) => Operation::Trim {
            key: key.into_owned(),
            start,
            stop,
        },
        schema::Operation::IncrementDecimal(key, by) => Operation::IncrementDecimal {
            key: key.into_owned(),
            by: by.into_owned(),
        },
        schema::Operation::Inspect(key) => Operation::Inspect {
            key: key.into_owned(),
        },
    }
}

fn effect(effect: Effect) -> schema::Effect<'static> {
    match effect {
        Effect::Found(found) => schema::Effect::Value(found.map(|found| found.value.into())),
        Effect::Put(version) => schema::Effect::Number(version.cast_signed()),
        Effect::WasThere(was_there) => schema::Effect::WasThere(was_there),
        Effect::Incremented { value, .. } => schema::Effect::Number(value),
        Effect::Listed { count, .. } => schema::Effect::Number(count as i64),
        Effect::Concatenated { bytes, .. } => schema::Effect::Number(bytes as i64),
        Effect::IncrementedDecimal { value, .. } => schema::Effect::Value(Some(value.into())),
        Effect::Items(items) => schema::Effect::Items(ordered_items::Items {
            items: items.into_iter().map(Cow::Owned).collect(),
        }),
        Effect::Inspected(found) => schema::Effect::Inspected(inspected(found)),
    }
}
