//! A write of the mixed load, as it is sent.

use serde_json::{Value as Json, json};

/// What must be so for a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    None,
    /// The key is not there.
    Absent,
    /// It is.
    Present,
    /// It has this version; 0 where it is not there.
    Version(u64),
}

/// What is done with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Writes bytes.
    Put {
        /// The key.
        key: String,
        /// The bytes.
        value: String,
        /// What must be so.
        condition: Condition,
        /// How long the key lasts, if not for good.
        ttl_ms: Option<u64>,
    },
    /// Takes the key away.
    Remove {
        /// The key.
        key: String,
    },
    /// Adds to a number.
    Increment {
        /// The key.
        key: String,
        /// What is added.
        by: i64,
    },
    /// Adds items to a list.
    Append {
        /// The key.
        key: String,
        /// The last is the newest.
        items: Vec<String>,
        /// How many of the newest are left.
        keep: u32,
    },
    /// Leaves the newest items of a list.
    Trim {
        /// The key.
        key: String,
        /// The last index that is left.
        stop: u32,
    },
    /// Adds bytes.
    Concatenate {
        /// The key.
        key: String,
        /// The bytes.
        value: String,
    },
    /// Says how long the key lasts.
    Expire {
        /// The key.
        key: String,
        /// For good where it is `None`.
        ttl_ms: Option<u64>,
    },
}

/// One atomic write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// In their order; of a call that is no batch, one, or puts under one condition.
    pub operations: Vec<Operation>,
    /// Whether it is sent as a batch, or by the method of its operation.
    pub is_batch: bool,
}

impl Operation {
    /// The key.
    pub fn key(&self) -> &str {
        match self {
            Operation::Put { key, .. }
            | Operation::Remove { key }
            | Operation::Increment { key, .. }
            | Operation::Append { key, .. }
            | Operation::Trim { key, .. }
            | Operation::Concatenate { key, .. }
            | Operation::Expire { key, .. } => key,
        }
    }

    fn in_batch(&self) -> Json {
        match self {
            Operation::Put {
                key,
                value,
                condition,
                ttl_ms,
            } => {
                let mut options = json!({});
                condition.add_to(&mut options);
                if let Some(ttl_ms) = ttl_ms {
                    options["ttl_ms"] = json!(ttl_ms);
                }
                json!(["put", key, value, options])
            }
            Operation::Remove { key } => json!(["remove", key]),
            Operation::Increment { key, by } => json!(["increment", key, by]),
            Operation::Append { key, items, keep } => json!(["append", key, items, {"keep": keep}]),
            Operation::Trim { key, stop } => json!(["trim", key, 0, stop]),
            Operation::Concatenate { key, value } => json!(["concatenate", key, value]),
            Operation::Expire { key, ttl_ms } => match ttl_ms {
                Some(ttl_ms) => json!(["expire", key, {"ttl_ms": ttl_ms}]),
                None => json!(["expire", key, {"persist": true}]),
            },
        }
    }

    fn alone(&self) -> (&'static str, Json) {
        match self {
            Operation::Put { key, value, .. } => ("ordered.put", json!({"entries": [[key, value]]})),
            Operation::Remove { key } => ("ordered.remove", json!({"keys": [key]})),
            Operation::Increment { key, by } => ("ordered.increment", json!({"key": key, "by": by})),
            Operation::Append { key, items, keep } => (
                "ordered.append",
                json!({"key": key, "items": items, "keep": keep}),
            ),
            Operation::Trim { key, stop } => ("ordered.trim", json!({"key": key, "start": 0, "stop": stop})),
            Operation::Concatenate { key, value } => {
                ("ordered.concatenate", json!({"key": key, "value": value}))
            }
            Operation::Expire { key, ttl_ms } => {
                let lasts = match ttl_ms {
                    Some(ttl_ms) => json!({"keys": [key], "ttl_ms": ttl_ms}),
                    None => json!({"keys": [key], "persist": true}),
                };
                ("ordered.expire", lasts)
            }
        }
    }
}

impl Condition {
    fn add_to(self, options: &mut Json) {
        match self {
            Condition::None => {}
            Condition::Absent => options["if_absent"] = json!(true),
            Condition::Present => options["if_present"] = json!(true),
            Condition::Version(version) => options["if_version"] = json!(version),
        }
    }
}

impl Write {
    /// The method and the payload.
    pub fn call(&self, table: &str) -> (&'static str, Json) {
        let (method, mut payload) = match (self.operations.as_slice(), self.is_batch) {
            (
                [
                    Operation::Put {
                        condition, ttl_ms, ..
                    },
                    ..,
                ],
                false,
            ) => {
                let entry = |operation: &Operation| match operation {
                    Operation::Put { key, value, .. } => Some(json!([key, value])),
                    _ => None,
                };
                let entries: Vec<Json> = self.operations.iter().filter_map(entry).collect();
                let mut payload = json!({"entries": entries});
                condition.add_to(&mut payload);
                if let Some(ttl_ms) = ttl_ms {
                    payload["ttl_ms"] = json!(ttl_ms);
                }
                ("ordered.put", payload)
            }
            ([one], false) => one.alone(),
            (operations, _) => {
                let operations: Vec<Json> = operations.iter().map(Operation::in_batch).collect();
                ("ordered.batch", json!({"operations": operations}))
            }
        };
        payload["table"] = json!(table);
        (method, payload)
    }
}
