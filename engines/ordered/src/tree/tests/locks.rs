//! Threads that hold leaves, and nodes that die.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::tree::held::Held;
use crate::tree::page::Pages;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Much more than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

fn number(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn of(count: u64) -> Tree {
    let tree = Tree::new();
    for at in 0..count {
        tree.put(content(&number(at), &[1; 40], at + 1), Near::default());
    }
    tree
}

/// Puts keys behind one until its leaf has been split twice, as between the unlock and the posts of a write of many keys; the separators.
fn split_twice(tree: &Tree, key: &[u8]) -> [Vec<u8>; 2] {
    let mut separators = Vec::new();
    for version in 10_000.. {
        let key = [key, format!("/{version}").as_bytes()].concat();
        let mut buffer = [0; INLINE_MAX];
        let content = content(&key, &[2; 40], version);
        let encoded = Encoded::of(&content, &tree.heap, &mut buffer);
        let leaf = tree.lock(&key, 0).leaf();
        let written = tree.write(leaf, &key, &encoded);
        if let Some(split) = &written.split {
            split.right.0.unlock();
        }
        leaf.0.unlock();
        separators.extend(written.split.map(|split| split.separator));
        if separators.len() == 2 {
            break;
        }
    }
    separators.sort();
    separators.try_into().unwrap()
}

#[test]
fn two_who_hold_leaves_never_wait_for_each_other() {
    // A thread that waits for ever has it for ever.
    let tree = Arc::new(of(2000));
    let first = {
        let leaf = tree.lock(&number(500), 0).leaf();
        let mut key = Vec::new();
        leaf.cell(&tree.heap, 0).unwrap().copy_key(&mut key);
        leaf.0.unlock_unchanged();
        key
    };
    let [second, third] = split_twice(&tree, &number(500));
    let barrier = Arc::new(Barrier::new(2));
    let (done, is_done) = sync_channel(2);
    let (holds, does_hold) = sync_channel(2);
    // The nodes above name the leaf of the first key for all of them, so that who comes later waits there, holding nothing: the second thread begins
    // when the first one holds a leaf.
    for keys in [[second.clone(), third], [first, second]] {
        let (tree, barrier) = (tree.clone(), barrier.clone());
        let (holds, done) = (holds.clone(), done.clone());
        std::thread::spawn(move || {
            let mut held = Held::default();
            let [here, there] = keys;
            tree.hold(&mut held, &here, Near::default());
            holds.send(()).unwrap();
            barrier.wait();
            tree.hold(&mut held, &there, Near::default());
            held.nodes.iter().for_each(|node| node.unlock_unchanged());
            done.send(()).unwrap();
        });
        does_hold.recv_timeout(LIMIT).expect("a thread holds no leaf");
    }
    for _ in 0..2 {
        is_done
            .recv_timeout(LIMIT)
            .expect("two threads wait for each other");
    }
}

#[test]
fn a_dead_node_cannot_be_locked() {
    let tree = Tree::new();
    let node = tree.new_node(0);
    node.unlock_dead();
    locked(&tree.spare_leaves).dead.push(node.id);
    let late = tree.node(node.id).unwrap();
    assert!(!late.seen().try_lock());
    let again = tree.new_node(0);
    assert_eq!(again.id, node.id);
    again.unlock();
    assert!(again.seen().try_lock());
}

/// How many entries a locked page from the end has, of a span that sees so many at one moment.
fn locked_back(tree: &Tree, end: Option<&[u8]>, entries_max: usize) -> (usize, Option<Vec<u8>>) {
    let mut pages = Pages::default();
    let span = Span {
        end,
        ..all(entries_max)
    };
    let next = tree.lock_pages_back(&span, &mut pages);
    (pages.entries(), next)
}

#[test]
fn pages_that_are_locked_from_the_end_go_on() {
    let tree = of(20_000);
    // Another thread holds the first leaf, far to the left: nobody needs it.
    let first = tree.lock(&number(0), 0);
    let (mut end, mut pages) = (None, 0);
    while pages < 10 {
        let (entries, next) = locked_back(&tree, end.as_deref(), 100);
        assert_eq!(entries, 100);
        assert!(end.is_none() || next < end);
        (end, pages) = (next, pages + 1);
    }
    first.unlock_unchanged();
    let expected = number(20_000 - 1000);
    assert_eq!(end, Some(expected));
    // The keys before the last page's are all that are left.
    let (entries, next) = locked_back(&tree, Some(&number(60)), 1000);
    assert_eq!((entries, next), (60, None));
    let (entries, next) = locked_back(&tree, Some(&number(0)), 1000);
    assert_eq!((entries, next), (0, None));
}

#[test]
fn pages_that_are_locked_have_what_is_read_without_locks() {
    let tree = of(5000);
    let end = number(4500);
    for (start, end) in [
        (number(0), None),
        (number(777), Some(end.as_slice())),
        (b"0".to_vec(), None),
    ] {
        let span = Span {
            start: &start,
            end,
            ..all(1000)
        };
        let mut pages = Pages::default();
        let next = tree.lock_pages(&span, &mut pages);
        let mut keys = Vec::new();
        pages.visit(&mut |entry: Content<'_>| {
            keys.push(entry.key.to_vec());
            true
        });
        let first = if start.len() < 6 { number(0) } else { start };
        let expected: Vec<_> = (0..5000)
            .map(number)
            .filter(|key| *key >= first)
            .take(1000)
            .collect();
        assert_eq!(keys, expected);
        assert!(next.is_some_and(|next| Some(&next) > expected.last()));
    }
}
