//! A bucket map as it is written: TOML in a configuration, JSON in etcd, of the same keys. Reading checks the form alone;
//! [`BucketMap::new`] checks what it says. Its invariant: a map written by [`BucketMap::to_json`] reads as an equal map.

use crate::{BucketMap, Error, MAP_BYTES_MAX, ranges};
use serde::{Deserialize, Serialize};

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<String>,
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
