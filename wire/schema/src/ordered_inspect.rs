//! `ordered.inspect`: what keys are, without their values, or what a store holds as a whole.
//! Its invariant: an answer has one of the two, as the call has keys or not.

use crate::declare::schema;
use crate::field::{Bool, Bytes, List, Optional, Text, UInt};

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// The keys; the store as a whole when absent.
        keys: Optional<List<Bytes>>,
    }
}

schema! {
    /// What a key is.
    answer Inspected {
        /// Of a key: "none" where it is absent, "bytes" or "list".
        kind: Text,
        /// Of a key: its version, 0 where it is absent.
        version: UInt,
        /// Of a key: how long it lasts from now on; absent where it lasts for good, or is not there.
        ttl_ms: Optional<UInt>,
        /// Of a key: bytes of its value; of a list those of its items.
        bytes: UInt,
        /// Of a list: its items.
        count: Optional<UInt>,
    }
}

schema! {
    /// What a store holds.
    answer Held {
        /// Of the store: its keys, those that have expired and are not removed yet among them.
        entries: UInt,
        /// Of the store: memory that its entries take, as `memory_bytes_max` counts it.
        entry_bytes: UInt,
        /// Of the store: memory that it has taken, with what is free in it for entries to come.
        memory_bytes: UInt,
        /// Of the store: what its entries may take; absent where there is no limit.
        memory_bytes_max: Optional<UInt>,
        /// Of the store: what gives way where they take as much: "none", "oldest_write" or "soonest_expiry".
        eviction: Text,
        /// Of the store: keys removed to make room since it was opened.
        evicted: UInt,
        /// Of the store: keys that expire.
        expiring: UInt,
        /// Of the store: what a write survives: "memory", "logged" or "synced".
        durability: Text,
        /// Of the store: whether its log failed, and writes are refused until a restart.
        read_only: Bool,
        /// Of the store: what other servers have of it; absent where it keeps no log.
        replication: Optional<Replication<'static>>,
    }
}

schema! {
    /// What other servers have of a store, or it of theirs.
    answer Replication {
        /// Of the store: "leader", "follower", "fenced" where it led and another server was promoted, or "unpromoted" where it has another server's records and does not follow it.
        role: Text,
        /// Of the store: the epoch of its log.
        epoch: UInt,
        /// Of the store: the last record of its log.
        record: UInt,
        /// Of a follower: the server that it follows.
        leader: Optional<Text>,
        /// Of a follower: whether the leader answered the last question.
        connected: Optional<Bool>,
        /// Of a follower: records that the leader had then, and this store has not.
        lag_records: Optional<UInt>,
        /// Of a follower: for how long it has not had all that its leader had; absent until it had once.
        lag_ms: Optional<UInt>,
        /// Of a leader whose writes wait for a follower: whether its followers have them in time; absent where they do not wait.
        acknowledging: Optional<Bool>,
        /// Of a follower that takes a copy of its leader's store: bytes of the leader's checkpoint that it has.
        copied_bytes: Optional<UInt>,
        /// Of such a follower: bytes of all of it; 0 until the leader has said.
        copied_of_bytes: Optional<UInt>,
        /// Of such a follower: whether it takes the copy in, and refuses reads.
        installing: Optional<Bool>,
        /// Of a leader: servers that asked for its records since its start.
        followers: List<Follower<'static>>,
    }
}

schema! {
    /// A server that keeps a store's records.
    answer Follower {
        /// Of a follower: its name.
        name: Text,
        /// Of a follower: the last record that it has.
        record: UInt,
        /// Of a follower: how long ago it asked.
        age_ms: UInt,
    }
}

schema! {
    /// An answer.
    #[derive(Default)]
    answer Answer {
        /// Each key of the call, in its order.
        keys: Optional<List<Inspected<'static>>>,
        /// The store, of a call without keys.
        store: Optional<Held<'static>>,
        /// At a follower, of a call with keys: records that its leader had when it answered last, and this server has not.
        lag_records: Optional<UInt>,
        /// At a follower, of a call with keys: for how long it has not had all that its leader had; absent until it had once.
        lag_ms: Optional<UInt>,
    }
}
