//! A bucket map as it is written: TOML in a configuration, JSON in etcd, of the same keys. Reading checks the form alone;
//! [`BucketMap::new`] checks what it says. Its invariant: a map written by [`BucketMap::to_json`] reads as an equal map.

use crate::{BucketMap, Error, MAP_BYTES_MAX, ranges};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A bucket map as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MapFile {
    /// Higher in every map that differs from the one before.
    pub version: u64,
    /// How many buckets keys are hashed to.
    pub buckets: u64,
    /// On how many nodes each bucket is, where the map is to spread them; 1 where neither it nor a node says anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u64>,
    /// The nodes, in any order.
    pub nodes: Vec<NodeFile>,
}

/// A node as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFile {
    /// What operators call it; the same as long as it holds the same data.
    pub name: String,
    /// Where it listens: "HOST:PORT", "unix:PATH" or "tls://HOST:PORT".
    pub addresses: Vec<String>,
    /// Its buckets, "0-511,1024"; left out where the map spreads them.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_buckets"
    )]
    pub buckets: Option<String>,
}

/// Reads a node's buckets, and says of anything but text how they are written.
fn read_buckets<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<String>, D::Error> {
    struct Ranges;

    impl Visitor<'_> for Ranges {
        type Value = Option<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text such as \"0-511,600\"")
        }

        fn visit_str<E>(self, text: &str) -> Result<Option<String>, E> {
            Ok(Some(text.to_owned()))
        }

        fn visit_unit<E>(self) -> Result<Option<String>, E> {
            Ok(None)
        }
    }

    reader.deserialize_any(Ranges)
}

impl BucketMap {
    /// Reads a map in TOML.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_toml(text: &str) -> Result<BucketMap, Error> {
        check_length(text.len())?;
        let file: MapFile = toml::from_str(text).map_err(|error| Error::Unreadable(error.to_string()))?;
        BucketMap::new(&file)
    }

    /// Reads a map in JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(json: &[u8]) -> Result<BucketMap, Error> {
        check_length(json.len())?;
        let file: MapFile =
            serde_json::from_slice(json).map_err(|error| Error::Unreadable(error.to_string()))?;
        BucketMap::new(&file)
    }

    /// Writes the map as JSON, with the buckets of every node.
    ///
    /// # Errors
    /// The map is longer than one may be.
    pub fn to_json(&self) -> Result<String, Error> {
        let mut buckets_of = vec![Vec::new(); self.nodes().len()];
        for bucket in 0..self.buckets() {
            for index in self.replicas(bucket) {
                if let Some(buckets) = buckets_of.get_mut(index.get()) {
                    buckets.push(bucket);
                }
            }
        }
        let nodes = self.nodes().iter().zip(buckets_of);
        let file = MapFile {
            version: self.version(),
            buckets: u64::from(self.buckets()),
            replicas: None,
            nodes: nodes
                .map(|(node, buckets)| NodeFile {
                    name: node.name.clone(),
                    addresses: node.addresses.clone(),
                    buckets: Some(ranges::write(buckets)),
                })
                .collect(),
        };
        let json = serde_json::to_string(&file).map_err(|error| Error::Unreadable(error.to_string()))?;
        check_length(json.len())?;
        Ok(json)
    }
}

fn check_length(bytes: usize) -> Result<(), Error> {
    match bytes {
        0..=MAP_BYTES_MAX => Ok(()),
        _ => Err(Error::TooLong { bytes }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn buckets_that_are_no_text_are_answered_with_how_they_are_written() {
        let said = |json: &str| BucketMap::from_json(json.as_bytes()).map(drop);
        let map = |buckets| {
            format!(
                r#"{{"version":1,"buckets":8,"nodes":[{{"name":"a","addresses":["h:1"],"buckets":{buckets}}}]}}"#
            )
        };
        said(&map("\"0-6,7\"")).unwrap();
        said(&map("null")).unwrap();
        for buckets in ["[\"0-7\"]", "7", "{}"] {
            let error = said(&map(buckets)).unwrap_err().to_string();
            assert!(error.contains("expected text such as \"0-511,600\""), "{error}");
        }
    }
}
