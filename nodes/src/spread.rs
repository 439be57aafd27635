//! Spreads buckets over nodes where nobody says which node has which.
//!
//! Rendezvous hashing (Thaler and Ravishankar, 1998): each bucket takes the nodes with the highest scores, so that a new node
//! takes buckets from all others. Scores alone leave nodes unevenly loaded, so no node takes more than 5 % above the average, as in
//! consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018). Most of what then moves still moves to the new node.
//! The invariant: the same names, buckets and replicas give the same spread, in whatever order the names come.

use crate::hash::hash;
use std::cmp::Reverse;
use xxhash_rust::xxh3::xxh3_64;

/// How strongly a node wants a bucket.
fn score(name_hash: u64, bucket: u32) -> u64 {
    hash(name_hash ^ hash(u64::from(bucket) + 1))
}

/// The nodes of every bucket, `replicas` for each and one bucket after the other, as indices into `names`.
///
/// `replicas` is within 1 to the number of names, and names differ.
pub(crate) fn spread(names: &[&str], buckets: u32, replicas: usize) -> Vec<u16> {
    let hashes: Vec<u64> = names.iter().map(|name| xxh3_64(name.as_bytes())).collect();
    let entries = buckets as usize * replicas;
    let most = (entries * 21).div_ceil(names.len() * 20).max(1);
    let mut loads = vec![0_usize; names.len()];
    let mut spread = Vec::with_capacity(entries);
    let mut order: Vec<u16> = (0..names.len() as u16).collect();
    for bucket in 0..buckets {
        let rank = |node: u16| {
            let node = usize::from(node);
            let full = loads[node] >= most;
            // Where every node that is left is full, the emptiest takes the bucket.
            let load = if full { loads[node] } else { 0 };
            (full, load, Reverse(score(hashes[node], bucket)), names[node])
        };
        if replicas < order.len() {
            order.select_nth_unstable_by_key(replicas - 1, |node| rank(*node));
        }
        let chosen = &mut order[..replicas];
        chosen.sort_unstable_by_key(|node| rank(*node));
        for node in chosen {
            loads[usize::from(*node)] += 1;
            spread.push(*node);
        }
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|node| format!("node-{node}")).collect()
    }

    fn spread_of(count: usize, buckets: u32, replicas: usize) -> Vec<u16> {
        let names = names(count);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        spread(&names, buckets, replicas)
    }

    #[test]
    fn the_documented_spread_holds() {
        let check = |names: &[&str], buckets, replicas, expected: &[u16]| {
            assert_eq!(spread(names, buckets, replicas), expected);
        };
        check(&["a"], 3, 1, &[0, 0, 0]);
        check(&["a", "b", "c"], 8, 1, &[1, 0, 2, 1, 0, 0, 1, 2]);
        check(&["a", "b", "c"], 4, 2, &[1, 0, 0, 2, 2, 0, 1, 2]);
    }

    #[test]
    fn the_order_of_the_names_does_not_matter() {
        let of = |names: &[&'static str]| -> Vec<&'static str> {
            let spread = spread(names, 500, 2);
            spread.iter().map(|node| names[usize::from(*node)]).collect()
        };
        assert_eq!(of(&["a", "b", "c", "d"]), of(&["d", "b", "a", "c"]));
    }

    #[test]
    fn loads_are_even_and_replicas_differ() {
        for (count, buckets, replicas) in [
            (1, 1, 1),
            (2, 1024, 2),
            (3, 7, 2),
            (10, 1024, 2),
            (13, 4096, 3),
            (64, 4096, 1),
        ] {
            let spread = spread_of(count, buckets, replicas);
            let mut loads = vec![0_usize; count];
            for nodes in spread.chunks(replicas) {
                assert_eq!(BTreeSet::from_iter(nodes).len(), replicas);
                nodes.iter().for_each(|node| loads[usize::from(*node)] += 1);
            }
            let average = spread.len() as f64 / count as f64;
            let most = *loads.iter().max().unwrap_or(&0) as f64;
            assert!(most <= (average * 1.05).ceil() + 1.0, "{count} nodes: {loads:?}");
        }
    }

    #[test]
    fn a_new_node_moves_little_more_than_its_share() {
        for count in [4, 10, 30] {
            let (before, after) = (spread_of(count, 4096, 2), spread_of(count + 1, 4096, 2));
            let pairs = before.chunks(2).zip(after.chunks(2));
            let moved: usize = pairs
                .map(|(old, new)| new.iter().filter(|node| !old.contains(node)).count())
                .sum();
            let share = 4096.0 * 2.0 / (count + 1) as f64;
            assert!(
                (moved as f64) < 1.2 * share,
                "{count} nodes: {moved} moved, {share} needed"
            );
        }
    }
}
