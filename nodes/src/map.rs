//! Which nodes hold a bucket. A map knows nothing of who is up. Its invariant: it never changes, and every bucket has 1 to
//! [`REPLICAS_MAX`] nodes that differ and are in the map.

use crate::error::excerpt;
use crate::{
    ADDRESSES_MAX, BUCKETS_MAX, Error, MapFile, NAME_BYTES_MAX, NODES_MAX, NodeFile, REPLICAS_MAX,
    VERSION_MAX, bucket_of, check_address, ranges, spread,
};
use std::collections::{BTreeMap, BTreeSet};

/// A node by its place in one map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub(crate) u16);

impl NodeIndex {
    /// Its place in [`BucketMap::nodes`].
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// A server that holds buckets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// What operators call it.
    pub name: String,
    /// Where it listens.
    pub addresses: Vec<String>,
}

/// Keys to buckets, buckets to nodes: one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketMap {
    version: u64,
    buckets: u32,
    nodes: Vec<Node>,
    /// The nodes of all buckets, one bucket after the other.
    replicas: Vec<NodeIndex>,
    /// Where the nodes of a bucket begin; one more than there are buckets.
    starts: Vec<u32>,
}

impl BucketMap {
    /// Makes a map of what is written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(file: &MapFile) -> Result<BucketMap, Error> {
        if !(1..=VERSION_MAX).contains(&file.version) {
            return Err(Error::Version {
                version: file.version,
            });
        }
        let buckets = u32::try_from(file.buckets)
            .ok()
            .filter(|buckets| (1..=BUCKETS_MAX).contains(buckets))
            .ok_or(Error::Buckets {
                buckets: file.buckets,
            })?;
        check_nodes(&file.nodes)?;
        let (replicas, starts) = match listed(file)? {
            true => by_lists(&file.nodes, buckets)?,
            false => by_spread(file, buckets)?,
        };
        let nodes = file.nodes.iter().map(|node| Node {
            name: node.name.clone(),
            addresses: node.addresses.clone(),
        });
        Ok(BucketMap {
            version: file.version,
            buckets,
            nodes: nodes.collect(),
            replicas,
            starts,
        })
    }

    /// Its version, from 1.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many buckets it has.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Its nodes; a [`NodeIndex`] of this map is a place in here.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node of this map; `None` where the index is of another one.
    pub fn node(&self, index: NodeIndex) -> Option<&Node> {
        self.nodes.get(index.get())
    }

    /// The node of a name.
    pub fn find(&self, name: &str) -> Option<NodeIndex> {
        let place = self.nodes.iter().position(|node| node.name == name)?;
        u16::try_from(place).ok().map(NodeIndex)
    }

    /// The bucket of a key.
    #[inline]
    pub fn bucket(&self, key: u64) -> u32 {
        bucket_of(key, self.buckets)
    }

    /// The nodes of a bucket; none where the map does not have the bucket.
    #[inline]
    pub fn replicas(&self, bucket: u32) -> &[NodeIndex] {
        let bucket = bucket as usize;
        match self.starts.get(bucket..bucket + 2) {
            Some(&[start, end]) => self.replicas.get(start as usize..end as usize).unwrap_or(&[]),
            _ => &[],
        }
    }
}

impl BucketMap {
    /// Whether a node holds a key.
    pub fn holds(&self, node: NodeIndex, key: u64) -> bool {
        self.replicas(self.bucket(key)).contains(&node)
    }

    /// The buckets of a node, as a map lists them: "0-511,1024".
    pub fn buckets_of(&self, node: NodeIndex) -> String {
        let held = (0..self.buckets).filter(|bucket| self.replicas(*bucket).contains(&node));
        ranges::write(held)
    }
}

/// Whether nodes list their buckets, all of them or none.
fn listed(file: &MapFile) -> Result<bool, Error> {
    let Some(lists) = file.nodes.iter().find(|node| node.buckets.is_some()) else {
        return Ok(false);
    };
    if file.replicas.is_some() {
        return Err(Error::TwoForms {
            node: lists.name.clone(),
        });
    }
    match file.nodes.iter().find(|node| node.buckets.is_none()) {
        Some(silent) => Err(Error::NoBuckets {
            node: silent.name.clone(),
        }),
        None => Ok(true),
    }
}

fn by_spread(file: &MapFile, buckets: u32) -> Result<(Vec<NodeIndex>, Vec<u32>), Error> {
    let nodes = file.nodes.len();
    let asked = file.replicas.unwrap_or(1);
    let replicas = usize::try_from(asked)
        .ok()
        .filter(|replicas| (1..=nodes.min(REPLICAS_MAX)).contains(replicas))
        .ok_or(Error::Replicas {
            replicas: asked,
            nodes,
        })?;
    let names: Vec<&str> = file.nodes.iter().map(|node| node.name.as_str()).collect();
    let spread = spread::spread(&names, buckets, replicas);
    // At most 8 × 65,536.
    let starts = (0..=buckets).map(|bucket| bucket * replicas as u32).collect();
    Ok((spread.into_iter().map(NodeIndex).collect(), starts))
}

fn by_lists(nodes: &[NodeFile], buckets: u32) -> Result<(Vec<NodeIndex>, Vec<u32>), Error> {
    let mut of_buckets: Vec<Vec<NodeIndex>> = vec![Vec::new(); buckets as usize];
    for (index, node) in (0_u16..).zip(nodes) {
        for range in ranges::read(node.buckets.as_deref().unwrap_or_default()) {
            let (first, last) = range.map_err(|bad| Error::Ranges {
                node: node.name.clone(),
                text: bad.text,
                why: bad.why,
            })?;
            let last = u32::try_from(last).ok().filter(|last| *last < buckets);
            let (Ok(first), Some(last)) = (u32::try_from(first), last) else {
                return Err(Error::NoSuchBucket {
                    node: node.name.clone(),
                    bucket: range_end(first, u64::from(buckets)),
                    buckets,
                });
            };
            let range = of_buckets
                .get_mut(first as usize..=last as usize)
                .unwrap_or_default();
            for (bucket, replicas) in (first..).zip(range) {
                if replicas.last() == Some(&NodeIndex(index)) {
                    let node = node.name.clone();
                    return Err(Error::SameReplica { node, bucket });
                }
                if replicas.len() == REPLICAS_MAX {
                    return Err(Error::TooManyReplicas { bucket });
                }
                replicas.push(NodeIndex(index));
            }
        }
    }
    check_holes(&of_buckets, buckets)?;
    let mut starts = vec![0];
    let mut end = 0;
    for replicas in &of_buckets {
        end += replicas.len() as u32;
        starts.push(end);
    }
    Ok((of_buckets.concat(), starts))
}

/// The first bucket of a range from `first` that a map of so many does not have.
fn range_end(first: u64, buckets: u64) -> u64 {
    first.max(buckets)
}

fn check_holes(of_buckets: &[Vec<NodeIndex>], buckets: u32) -> Result<(), Error> {
    let is_hole = |replicas: &&Vec<NodeIndex>| replicas.is_empty();
    let missing = of_buckets.iter().filter(is_hole).count() as u32;
    let Some(first) = of_buckets.iter().position(Vec::is_empty) else {
        return Ok(());
    };
    let run = of_buckets.iter().skip(first).take_while(is_hole).count();
    Err(Error::Hole {
        first: first as u32,
        last: (first + run - 1) as u32,
        missing,
        buckets,
    })
}

fn check_nodes(nodes: &[NodeFile]) -> Result<(), Error> {
    match nodes.len() {
        0 => return Err(Error::NoNodes),
        1..=NODES_MAX => {}
        nodes => return Err(Error::TooManyNodes { nodes }),
    }
    let mut names = BTreeSet::new();
    let mut addresses: BTreeMap<&str, &str> = BTreeMap::new();
    for node in nodes {
        check_name(&node.name)?;
        if !names.insert(node.name.as_str()) {
            return Err(Error::SameName {
                name: node.name.clone(),
            });
        }
        check_addresses(&node.name, &node.addresses)?;
        for address in &node.addresses {
            if let Some(first) = addresses.insert(address, &node.name) {
                return Err(Error::SameAddress {
                    address: address.clone(),
                    first: first.to_owned(),
                    node: node.name.clone(),
                });
            }
        }
    }
    Ok(())
}

/// Whether a node may be called so.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let why = match name.len() {
        0 => "it has no name",
        1..=NAME_BYTES_MAX if name.chars().all(is_allowed) => return Ok(()),
        1..=NAME_BYTES_MAX => "its name has another character",
        _ => "its name is too long",
    };
    Err(Error::Name {
        name: excerpt(name),
        why,
    })
}

/// Whether a node may have these addresses.
pub(crate) fn check_addresses(node: &str, addresses: &[String]) -> Result<(), Error> {
    if !(1..=ADDRESSES_MAX).contains(&addresses.len()) {
        return Err(Error::Addresses {
            node: node.to_owned(),
            addresses: addresses.len(),
        });
    }
    for address in addresses {
        check_address(address).map_err(|why| Error::Address {
            node: node.to_owned(),
            address: excerpt(address),
            why,
        })?;
    }
    Ok(())
}

impl Node {
    /// Whether a node may be called so and have these addresses.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Error> {
        check_name(&self.name)?;
        check_addresses(&self.name, &self.addresses)
    }
}
