//! `features.upsert`: writes fresh rows over a table's versions, and removes keys.
//! Its invariant: an upsert is whole or not at all; the answer names what it survives.

use crate::declare::schema;
use crate::field::{Block, Bytes, Field as _, List, Optional, OrDefault, Text, UInt};
use crate::payload::{PayloadError, Read};
use std::borrow::Cow;

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
        /// Keys of the rows: these, or `texts`.
        keys: Optional<Block<u64>>,
        /// Keys of a table whose keys are texts.
        texts: Optional<List<Bytes>>,
        /// The columns that `values` or `rows` has, in this order; all of the table when absent. The others stay as the row has them, or as the default row.
        columns: OrDefault<List<Text>>,
        /// The rows' numbers, in the order of the keys: n × dim of those columns.
        values: OrDefault<Block<f32>>,
        /// In place of `values`, and all that columns of bytes take: the rows' bytes as they are stored, in the order of the keys, as a lookup of type "u8" answers them.
        rows: Optional<Bytes>,
        /// Of rows that vary in length, n + 1: row i is rows[offsets[i]..offsets[i + 1]].
        offsets: Optional<Block<u32>>,
        /// Keys to remove, after the rows are written.
        remove: Optional<Block<u64>>,
        /// The same of a table whose keys are texts.
        remove_texts: Optional<List<Bytes>>,
        /// Of a call that a server sends on to a node with keys of it: it is written there, and sent nowhere.
        copy: Optional<Copy<'static>>,
        /// Of a call without keys that a server sends to a node: other nodes did not take an upsert that this one has.
        missed: Optional<Missed<'static>>,
        /// Of a call with `copy` or `missed`: `nodes.token` of the server that sends it, which the node asks for where it has one.
        node_token: Optional<Text>,
    }
    check fits
}

impl<'a> Call<'a> {
    /// A call without keys, to be filled.
    pub fn new(table: Cow<'a, str>) -> Call<'a> {
        Call {
            table,
            keys: None,
            texts: None,
            columns: Vec::new(),
            values: Vec::new(),
            rows: None,
            offsets: None,
            remove: None,
            remove_texts: None,
            copy: None,
            missed: None,
            node_token: None,
        }
    }
}

schema! {
    /// What goes with a copy of an upsert.
    call Copy {
        /// The version of the map that its keys were split by.
        map: UInt,
        /// When the upsert was made: milliseconds of Unix time × 65536, and a count.
        time: UInt,
        /// By which server.
        origin: UInt,
    }
}

schema! {
    /// Who has not taken an upsert.
    call Missed {
        /// The nodes' names.
        nodes: List<Text>,
        /// The sequence of the upsert at the node that is told.
        sequence: UInt,
        /// When it was made, as `time` of a copy.
        time: UInt,
        /// How long a node answers lookups without asking again.
        lease_ms: UInt,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// The number of its record in the log, which ascends and counts records of the log's own too: lookups whose overlay_sequence is at least
        /// this see it. Over several nodes: when it was made, as `time` of a copy.
        sequence: UInt,
        /// What the upsert survives: "memory", "logged" or "synced".
        durability: Text,
        /// Over several nodes: on how many of them the key is that is on the fewest.
        replicas: Optional<UInt>,
        /// Of a copy: the time of a row that is newer than the upsert's, and stays.
        newer: Optional<UInt>,
        /// Of `missed`: how long one of the nodes may still answer lookups without it.
        wait_ms: Optional<UInt>,
    }
}

fn fits(call: &Call<'_>) -> Read<()> {
    for (keys, texts, key, beside) in [
        (&call.keys, &call.texts, "texts", "keys"),
        (&call.remove, &call.remove_texts, "remove_texts", "remove"),
    ] {
        if keys.is_some() && texts.is_some() {
            return Err(PayloadError::invalid("given", format!("no `{key}` beside `{beside}`")).under(key));
        }
    }
    let has_keys = [&call.keys, &call.remove].iter().any(|keys| keys.is_some())
        || [&call.texts, &call.remove_texts]
            .iter()
            .any(|texts| texts.is_some());
    if call.rows.is_some() && !call.values.is_empty() {
        return Err(PayloadError::invalid("given", "no `rows` beside `values`".to_owned()).under("rows"));
    }
    if call.offsets.is_some() && call.rows.is_none() {
        return Err(PayloadError::missing("rows", Bytes::expected()));
    }
    match (&call.missed, has_keys || call.copy.is_some()) {
        (None, _) if !has_keys => Err(PayloadError::missing("keys", Block::<u64>::expected())),
        (Some(_), true) => {
            Err(PayloadError::invalid("given", "no keys and no `copy` beside it").under("missed"))
        }
        _ => Ok(()),
    }
}
