//! An inner node alone: its searches beside a plain count, at the ends of its lines.

use super::inner::{FULL, Inner};
use super::*;

/// Separators in order, some of whose first bytes are all ones; between each two is a key that is none.
fn separators(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|at| match at {
            0..120 => format!("{:04}", 10 * at).into_bytes(),
            _ => [vec![255; 9], vec![at as u8]].concat(),
        })
        .collect()
}

fn add(tree: &Tree, inner: Inner<'_>, at: usize, key: &[u8]) {
    let address = content(key, b"", 1).write(&tree.heap);
    inner.insert(&tree.heap, at, key, address, at as u64);
}

fn check_searches(tree: &Tree, inner: Inner<'_>, separators: &[Vec<u8>]) {
    inner.check(&tree.heap);
    let sought = separators
        .iter()
        .flat_map(|key| [key.clone(), [key, &b"0"[..]].concat()]);
    for key in sought.chain([vec![], vec![255; 8], vec![255; 12]]) {
        let below = separators.iter().filter(|separator| **separator <= key).count();
        assert_eq!(inner.separators_up_to(&tree.heap, &key), below, "{key:?}");
    }
}

#[test]
fn a_search_is_a_count_however_many_separators_there_are() {
    for count in 0..=FULL {
        let (tree, mut expected) = (Tree::new(), separators(count));
        let node = tree.new_node(1);
        // Every second first, so that there are insertions at all places.
        let some: Vec<&Vec<u8>> = expected.iter().step_by(2).collect();
        for (at, key) in some.into_iter().enumerate() {
            add(&tree, node.inner(), at, key);
        }
        for at in (1..count).step_by(2) {
            add(&tree, node.inner(), at, &expected[at]);
        }
        check_searches(&tree, node.inner(), &expected);
        for at in [count.saturating_sub(1), 8, 7, 0] {
            if at < expected.len() {
                expected.remove(at);
                node.inner().remove(at);
                check_searches(&tree, node.inner(), &expected);
            }
        }
    }
}
