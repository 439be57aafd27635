//! A client of many nodes: lookups whose keys lie on several servers, by a bucket map.
//!
//! It chooses no node and decides no retry: `nodes` (the crate) does, as it does for servers that forward lookups. Its
//! invariants: a call keeps the map that it began with, and what it answers is all of one version of the table.

mod any;
mod cluster;
mod drive;
#[cfg(feature = "membership")]
mod followed;
mod settings;
mod texts;

pub use settings::{NodesCounts, NodesOptions, Token};

use crate::CallError;
use cluster::Cluster;
use millpond_nodes::BucketMap;
use millpond_wire_schema::features_lookup::{Lookup, Rows};
use millpond_wire_schema::{FeaturesLookup, Method as _};
use settings::Counted;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use texts::Slots;
use tokio::time::Instant;

/// A client of all nodes of a bucket map; clones share it.
///
/// Nothing is connected before a call needs it. Calls run on the tokio runtime (with I/O and time enabled) that they are made on,
/// and a copy of a call that its caller no longer waits for goes on there until its node answers or [`NodesOptions::node_timeout`]
/// passes: a node that has stopped is so known to have work, and others are asked.
#[derive(Clone)]
pub struct NodesClient {
    shared: Arc<Shared>,
}

/// What clones share.
struct Shared {
    options: NodesOptions,
    current: RwLock<Arc<Cluster>>,
    counted: Arc<Counted>,
    slots: Slots,
    /// It ends with the last clone.
    #[cfg(feature = "membership")]
    membership: std::sync::OnceLock<millpond_membership::Membership>,
}

impl NodesClient {
    /// A client of the nodes of a map, which [`NodesClient::offer`] may change.
    ///
    /// # Errors
    /// [`CallError::Connect`] and [`CallError::Tls`] where the options cannot be used with a node's addresses.
    pub fn new(map: BucketMap, options: NodesOptions) -> Result<NodesClient, CallError> {
        let cluster = Arc::new(Cluster::new(Arc::new(map), &options)?);
        Ok(NodesClient {
            shared: Arc::new(Shared {
                options,
                current: RwLock::new(cluster),
                counted: Arc::default(),
                slots: Slots::default(),
                #[cfg(feature = "membership")]
                membership: std::sync::OnceLock::new(),
            }),
        })
    }

    /// A client of the nodes of a map in TOML or, where the file is called so, JSON.
    ///
    /// # Errors
    /// [`CallError::Map`] where the file cannot be read or is no map; else as [`NodesClient::new`].
    pub fn from_file(path: impl AsRef<Path>, options: NodesOptions) -> Result<NodesClient, CallError> {
        NodesClient::new(NodesClient::read_map(path)?, options)
    }

    /// Reads a map in TOML or, where the file is called so, JSON.
    ///
    /// # Errors
    /// [`CallError::Map`] where the file cannot be read or is no map.
    pub fn read_map(path: impl AsRef<Path>) -> Result<BucketMap, CallError> {
        let path = path.as_ref();
        let bad = |why: String| CallError::Map(format!("{}: {why}", path.display()));
        let text = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
        let map = match path.extension() {
            Some(extension) if extension == "json" => BucketMap::from_json(&text),
            _ => {
                let text = String::from_utf8(text).map_err(|error| bad(error.to_string()))?;
                BucketMap::from_toml(&text)
            }
        };
        map.map_err(|error| bad(error.to_string()))
    }

    /// Changes to a map of a higher version, and says whether it did: the same map again changes nothing. Calls under way keep
    /// theirs; connections to nodes that are in both maps stay.
    ///
    /// # Errors
    /// [`CallError::Map`] where the map is older than the one in use, or differs from it under the same version; else as
    /// [`NodesClient::new`].
    pub fn offer(&self, map: BucketMap) -> Result<bool, CallError> {
        let mut current = self
            .shared
            .current
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let follows = map.follows(current.map());
        let follows = follows.map_err(|error| CallError::Map(error.to_string()))?;
        if follows {
            *current = Arc::new(current.succeeded_by(Arc::new(map), &self.shared.options)?);
        }
        Ok(follows)
    }

    /// The map for calls that begin now.
    pub fn map(&self) -> Arc<BucketMap> {
        self.cluster().map().clone()
    }

    /// `features.lookup` of one table: rows in the order of the keys, each of the same version. Nodes without keys of the call are
    /// not asked; a node that fails or is slow is made up for by replicas.
    ///
    /// Keys all of whose replicas failed, or did not answer by the deadline, are in [`Rows::missing`]; they count as not found.
    /// `texts` are hashed here, in the slot that a node says the table has. Bags are pooled here, as one server with all rows
    /// pools them.
    ///
    /// # Errors
    /// [`CallError::Unsendable`] for a call that no server takes; the error of a node where the call is wrong, or where no key has
    /// an answer; [`CallError::Timeout`] likewise.
    pub async fn lookup(
        &self,
        lookup: &Lookup<'_>,
        deadline: Option<Duration>,
    ) -> Result<Rows<'static>, CallError> {
        let started = Instant::now();
        lookup.check().map_err(|error| CallError::Unsendable {
            method: FeaturesLookup::NAME.to_owned(),
            detail: error.to_string(),
        })?;
        match &lookup.keys {
            Some(keys) => self.look_up_keys(lookup, keys.clone(), deadline, started).await,
            None => self.look_up_texts(lookup, deadline, started).await,
        }
    }

    async fn look_up_keys(
        &self,
        lookup: &Lookup<'_>,
        keys: Vec<u64>,
        deadline: Option<Duration>,
        started: Instant,
    ) -> Result<Rows<'static>, CallError> {
        let (keys, inverse) = match lookup.unique {
            false => (keys, None),
            true => {
                let (keys, inverse) = distinct(&keys);
                (keys, Some(inverse))
            }
        };
        let token = self.shared.options.token.as_ref();
        let asked = drive::Asked::new(lookup, keys, token, (deadline, started));
        let rows = drive::look_up(self.cluster(), asked, &self.shared.options, &self.shared.counted).await?;
        Ok(Rows { inverse, ..rows })
    }

    /// What was sent since the client was made.
    pub fn counts(&self) -> NodesCounts {
        self.shared.counted.read()
    }

    fn cluster(&self) -> Arc<Cluster> {
        let current = self.shared.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }
}

/// Each key once, in the order in which they come first, and which of those each one is.
fn distinct(keys: &[u64]) -> (Vec<u64>, Vec<u32>) {
    let (mut places, mut distinct) = (HashMap::with_capacity(keys.len()), Vec::new());
    let inverse = keys.iter().map(|&key| {
        *places.entry(key).or_insert_with(|| {
            distinct.push(key);
            distinct.len() as u32 - 1
        })
    });
    let inverse = inverse.collect();
    (distinct, inverse)
}

impl std::fmt::Debug for NodesClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let map = self.map();
        write!(
            f,
            "NodesClient(map {}, {} nodes)",
            map.version(),
            map.nodes().len()
        )
    }
}
