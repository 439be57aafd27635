//! Groups the keys of a call by the node that is asked for them. It sends nothing and merges nothing: positions say where the
//! answers of a group belong. The invariant: every key is in one group, at its own position, and groups are never empty.

use crate::{BucketMap, Error, NodeIndex};

/// No node yet.
const NONE: u16 = u16::MAX;

/// Scratch for splitting calls, used again for each: it allocates only where a call is larger than all before it.
#[derive(Debug, Default)]
pub struct Split {
    /// Keys of all groups, one group after the other.
    keys: Vec<u64>,
    /// The position of each of `keys` in the call.
    positions: Vec<u32>,
    /// The bucket of each key of the call, in its order.
    buckets: Vec<u32>,
    /// The node of each bucket that the call has met, else [`NONE`]: a call asks one replica of a bucket.
    chosen: Vec<u16>,
    /// Of each node, how many keys it has, then where its next one goes.
    counts: Vec<u32>,
    /// Node, start and end of each group.
    ranges: Vec<(NodeIndex, u32, u32)>,
}

/// The keys of a call that one node is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group<'a> {
    /// The node.
    pub node: NodeIndex,
    /// Its keys, in the call's order.
    pub keys: &'a [u64],
    /// Where in the call each of them stands.
    pub positions: &'a [u32],
}

impl Split {
    /// Splits a call. `choose` takes the nodes of a bucket and gives one of them; it is asked once for each bucket that the call
    /// meets. The first node stands in for an answer that is not among them.
    ///
    /// # Errors
    /// The call has more keys than can be counted; nothing is grouped then.
    pub fn split(
        &mut self,
        map: &BucketMap,
        keys: &[u64],
        mut choose: impl FnMut(&[NodeIndex]) -> NodeIndex,
    ) -> Result<(), Error> {
        self.ranges.clear();
        if u32::try_from(keys.len()).is_err() {
            return Err(Error::TooManyKeys { keys: keys.len() });
        }
        self.buckets.clear();
        self.buckets.extend(keys.iter().map(|key| map.bucket(*key)));
        self.chosen.resize(map.buckets() as usize, NONE);
        self.counts.clear();
        self.counts.resize(map.nodes().len(), 0);
        for bucket in &self.buckets {
            let Some(chosen) = self.chosen.get_mut(*bucket as usize) else {
                continue;
            };
            if *chosen == NONE {
                let replicas = map.replicas(*bucket);
                let node = choose(replicas);
                let known = replicas.contains(&node).then_some(node);
                *chosen = known.or(replicas.first().copied()).map_or(NONE, |node| node.0);
            }
            if let Some(count) = self.counts.get_mut(usize::from(*chosen)) {
                *count += 1;
            }
        }
        self.lay_out();
        self.fill(keys);
        // The next call chooses anew. What this one met is undone, not the whole map's buckets.
        for bucket in &self.buckets {
            if let Some(chosen) = self.chosen.get_mut(*bucket as usize) {
                *chosen = NONE;
            }
        }
        Ok(())
    }

    /// The groups of the last call, in the order of the map's nodes.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = Group<'_>> {
        self.ranges.iter().map(|&(node, start, end)| {
            let range = start as usize..end as usize;
            Group {
                node,
                keys: self.keys.get(range.clone()).unwrap_or(&[]),
                positions: self.positions.get(range).unwrap_or(&[]),
            }
        })
    }

    /// Turns counts into places, one group behind the other.
    fn lay_out(&mut self) {
        let mut end = 0;
        for (node, count) in (0_u16..).zip(&mut self.counts) {
            let start = end;
            end += *count;
            if end > start {
                self.ranges.push((NodeIndex(node), start, end));
            }
            *count = start;
        }
    }

    /// Puts keys and positions where their group is.
    fn fill(&mut self, keys: &[u64]) {
        self.keys.resize(keys.len(), 0);
        self.positions.resize(keys.len(), 0);
        for ((position, key), bucket) in (0_u32..).zip(keys).zip(&self.buckets) {
            let node = self.chosen.get(*bucket as usize).copied().unwrap_or(NONE);
            let Some(next) = self.counts.get_mut(usize::from(node)) else {
                continue;
            };
            let place = *next as usize;
            if let (Some(to), Some(at)) = (self.keys.get_mut(place), self.positions.get_mut(place)) {
                *to = *key;
                *at = position;
                *next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn calls_that_are_no_larger_than_one_before_allocate_nothing() {
        let text = r#"version = 1
            buckets = 64
            nodes = [{ name = "a", addresses = ["a:1"] }, { name = "b", addresses = ["b:1"] }]"#;
        let map = BucketMap::from_toml(text).unwrap();
        let mut split = Split::default();
        let places = |split: &Split| {
            (
                (
                    split.keys.as_ptr(),
                    split.positions.as_ptr(),
                    split.buckets.as_ptr(),
                ),
                (
                    split.chosen.as_ptr(),
                    split.counts.as_ptr(),
                    split.ranges.as_ptr(),
                ),
            )
        };
        let keys: Vec<u64> = (0..1000).collect();
        split.split(&map, &keys, |nodes| nodes[0]).unwrap();
        let first = places(&split);
        for count in [1000, 0, 1, 999] {
            split.split(&map, &keys[..count], |nodes| nodes[0]).unwrap();
            assert_eq!(places(&split), first, "{count} keys");
            assert!(split.chosen.iter().all(|chosen| *chosen == NONE));
        }
    }
}
