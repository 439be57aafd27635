//! etcd's messages as its JSON gateway writes them: bytes in base64, 64-bit numbers as strings, zeros and empties left out. No
//! I/O. Its invariant: what was read is within its type; unknown fields are skipped, as newer versions of etcd add some.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes, in base64.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn of(text: &str) -> Bytes {
        Bytes(text.as_bytes().to_vec())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes).map_err(serde::de::Error::custom)
    }
}

/// A 64-bit number, as a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub(crate) struct Number(pub(crate) i64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        // protobuf's JSON may have either.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Number(i64),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(number) => Ok(Number(number)),
            Either::Text(text) => text.parse().map(Number).map_err(serde::de::Error::custom),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Header {
    pub(crate) revision: Number,
}

/// A key and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pair {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) mod_revision: Number,
    pub(crate) lease: Number,
}

#[derive(Debug, Serialize)]
pub(crate) struct RangeRequest {
    pub(crate) key: Bytes,
    pub(crate) range_end: Bytes,
    pub(crate) limit: Number,
    pub(crate) keys_only: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RangeResponse {
    pub(crate) header: Header,
    #[serde(default)]
    pub(crate) kvs: Vec<Pair>,
    #[serde(default)]
    pub(crate) more: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct PutRequest {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) lease: Number,
}

/// Puts a key where it was last changed in one revision; 0: where it is not there.
#[derive(Debug, Serialize)]
pub(crate) struct TxnRequest {
    pub(crate) compare: [Compare; 1],
    pub(crate) success: [Operation; 1],
}

#[derive(Debug, Serialize)]
pub(crate) struct Compare {
    pub(crate) key: Bytes,
    pub(crate) target: &'static str,
    pub(crate) result: &'static str,
    pub(crate) mod_revision: Number,
}

#[derive(Debug, Serialize)]
pub(crate) struct Operation {
    pub(crate) request_put: PutRequest,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TxnResponse {
    #[serde(rename = "header")]
    pub(crate) _header: Header,
    #[serde(default)]
    pub(crate) succeeded: bool,
}

/// An answer that says no more than that it was done.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {
    #[serde(rename = "header")]
    pub(crate) _header: Header,
}

#[derive(Debug, Serialize)]
pub(crate) struct GrantRequest {
    #[serde(rename = "TTL")]
    pub(crate) ttl: Number,
}

#[derive(Debug, Serialize)]
pub(crate) struct LeaseRequest {
    #[serde(rename = "ID")]
    pub(crate) id: Number,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LeaseResponse {
    #[serde(rename = "ID")]
    pub(crate) id: Number,
    /// Left out where the lease is not there.
    #[serde(rename = "TTL", default)]
    pub(crate) ttl: Number,
}

#[derive(Debug, Serialize)]
pub(crate) struct WatchRequest {
    pub(crate) create_request: WatchCreate,
}

#[derive(Debug, Serialize)]
pub(crate) struct WatchCreate {
    pub(crate) key: Bytes,
    pub(crate) range_end: Bytes,
    pub(crate) start_revision: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WatchResponse {
    pub(crate) created: bool,
    pub(crate) canceled: bool,
    pub(crate) compact_revision: Number,
    pub(crate) cancel_reason: String,
    pub(crate) events: Vec<Change>,
}

/// What happened to a key.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Change {
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    pub(crate) kv: Pair,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Kind {
    #[default]
    Put,
    Delete,
}

/// One message of a stream.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Streamed<T> {
    Result(T),
    Error(Failure),
}

/// What etcd answers where it refuses.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Failure {
    pub(crate) message: String,
    #[serde(alias = "grpc_code")]
    pub(crate) code: Option<i64>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn answers_of_etcd_are_read() {
        let text = r#"{"header":{"cluster_id":"3","revision":"2"},"kvs":[{"key":"YQ==","create_revision":"2",
            "mod_revision":"2","version":"1","value":"eA==","lease":"23"}],"count":"1"}"#;
        let range: RangeResponse = serde_json::from_str(text).unwrap();
        let pair = Pair {
            key: Bytes::of("a"),
            value: Bytes::of("x"),
            mod_revision: Number(2),
            lease: Number(23),
        };
        assert_eq!(
            (range.header.revision, range.kvs, range.more),
            (Number(2), vec![pair], false)
        );
        let text = r#"{"result":{"header":{"revision":"3"},"events":[{"type":"DELETE","kv":{"key":"YQ==","mod_revision":"3"}}, {"kv":{"key":"YQ=="}}]}}"#;
        let Streamed::Result(watch) = serde_json::from_str::<Streamed<WatchResponse>>(text).unwrap() else {
            panic!("an error was read");
        };
        let kinds: Vec<_> = watch.events.iter().map(|change| change.kind).collect();
        assert_eq!(kinds, [Kind::Delete, Kind::Put]);
        let text =
            r#"{"error":{"grpc_code":11,"http_code":400,"message":"compacted","http_status":"Bad Request"}}"#;
        let Streamed::Error(failure) = serde_json::from_str::<Streamed<WatchResponse>>(text).unwrap() else {
            panic!("a result was read");
        };
        assert_eq!((failure.code, failure.message.as_str()), (Some(11), "compacted"));
    }

    #[test]
    fn requests_are_written_as_etcd_takes_them() {
        let request = PutRequest {
            key: Bytes::of("a"),
            value: Bytes::of("x"),
            lease: Number(7),
        };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(text, r#"{"key":"YQ==","value":"eA==","lease":"7"}"#);
    }

    #[test]
    fn garbage_is_refused() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"header":{"revision":"x"}}"#,
            r#"{"header":{},"kvs":[{"key":"?"}]}"#,
        ] {
            assert!(serde_json::from_str::<RangeResponse>(text).is_err(), "{text}");
        }
    }
}
