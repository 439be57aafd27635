//! A few threads on a small tree, by schedules that shuttle draws: which thread goes on is decided anew before each word that others write or
//! read. A failure prints the schedule, which `shuttle::replay` runs again. `make shuttle`.

use super::*;
use shuttle::sync::Arc;
use shuttle::thread;

const SCHEDULES: usize = 1_000;
/// Threads that are taken from the one that runs, where schedules are drawn by the probability of finding so many that matter (Burckhardt
/// and others, 2010).
const DEPTH: usize = 4;

fn check_schedules(body: fn()) {
    shuttle::check_random(body, SCHEDULES);
    shuttle::check_pct(body, SCHEDULES, DEPTH);
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

/// Every second number below one.
fn of_even(end: u64) -> Arc<Tree> {
    let tree = Tree::new();
    for number in (0..end).step_by(2) {
        tree.put(content(&key(number), &[1; 30], 1), Near::default());
    }
    Arc::new(tree)
}

fn spawn(tree: &Arc<Tree>, work: impl FnOnce(&Tree) + Send + 'static) -> thread::JoinHandle<()> {
    let tree = tree.clone();
    thread::spawn(move || work(&tree))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn keys_are_found_while_leaves_are_split() {
    check_schedules(|| {
        let tree = of_even(60);
        let writers = [1, 21].map(|from| {
            spawn(&tree, move |tree| {
                for number in (from..from + 20).step_by(2) {
                    assert!(
                        tree.put(content(&key(number), &[2; 60], 2), Near::default())
                            .is_none()
                    );
                    assert_eq!(found(tree, &key(number)).map(|(_, version)| version), Some(2));
                }
            })
        });
        let reader = spawn(&tree, |tree| {
            for number in [2, 20, 22, 58] {
                assert_eq!(found(tree, &key(number)), Some((vec![1; 30], 1)));
            }
        });
        join(writers.into_iter().chain([reader]));
        assert_eq!(tree.len(), 50);
    });
}

#[test]
fn keys_are_found_while_leaves_are_merged() {
    check_schedules(|| {
        let tree = of_even(120);
        let removers = [4, 64].map(|from| {
            spawn(&tree, move |tree| {
                for number in (from..from + 50).step_by(2) {
                    assert!(tree.remove(&key(number)).is_some());
                }
            })
        });
        let reader = spawn(&tree, |tree| {
            for number in [2, 118, 0, 60] {
                assert_eq!(found(tree, &key(number)), Some((vec![1; 30], 1)));
            }
        });
        join(removers.into_iter().chain([reader]));
        assert_eq!(tree.len(), 10);
    });
}

/// Two entries that are in the heap, so that runs are given back and given out again beside who reads them.
#[test]
fn what_is_written_together_is_seen_together_by_any_schedule() {
    check_schedules(|| {
        let tree = of_even(80);
        let (near, far) = (key(3), key(77));
        let writers = [10_u64, 20].map(|from| {
            let keys = [near.clone(), far.clone()];
            spawn(&tree, move |tree| {
                for version in from..from + 2 {
                    let value = vec![version as u8; 200 + version as usize];
                    let changes = keys
                        .each_ref()
                        .map(|key| Change::Set(content(key, &value, version)));
                    tree.change_all(&changes, |_, _| {});
                }
            })
        });
        let of_gets = spawn(&tree, {
            let keys = [near.clone(), far.clone()];
            move |tree| {
                let [near, far] = found_many(tree, &keys).try_into().unwrap();
                assert_eq!(near, far);
                if let Some((value, version)) = near {
                    assert_eq!(value, vec![version as u8; 200 + version as usize]);
                }
            }
        });
        let of_scans = spawn(&tree, move |tree| {
            let mut versions = Vec::new();
            tree.scan(all(1000), |entry| {
                if entry.key == near || entry.key == far {
                    versions.push(entry.version);
                }
                true
            });
            assert!(
                matches!(versions[..], []) || matches!(versions[..], [one, other] if one == other),
                "{versions:?}"
            );
        });
        join(writers.into_iter().chain([of_gets, of_scans]));
    });
}

/// Who holds leaves waits for nobody who may wait for it, in whatever order keys come.
#[test]
fn writes_of_many_leaves_all_end() {
    check_schedules(|| {
        let tree = of_even(80);
        let writers = [[1, 41, 79], [79, 1, 43], [43, 45, 1]].map(|numbers| {
            spawn(&tree, move |tree| {
                let mut keys = numbers.map(key);
                keys.sort();
                for version in 2..4 {
                    let value = vec![version as u8; 100];
                    let changes = keys.each_ref().map(|key| match version {
                        2 => Change::Set(content(key, &value, version)),
                        _ => Change::Remove(key),
                    });
                    tree.change_all(&changes, |_, _| {});
                }
            })
        });
        join(writers);
        assert_eq!(tree.len(), 40);
    });
}

/// Where a key was found may be split, merged, or another leaf's memory by the time that it is read or written.
#[test]
fn what_was_near_is_read_and_written_as_it_is_by_any_schedule() {
    check_schedules(|| {
        let tree = of_even(100);
        let splitter = spawn(&tree, |tree| {
            for number in [1, 3, 5, 7, 9, 61, 63, 65] {
                tree.put(content(&key(number), &[2; 60], 2), Near::default());
            }
        });
        let remover = spawn(&tree, |tree| {
            for number in (10..50).step_by(2) {
                assert!(tree.remove(&key(number)).is_some());
            }
        });
        let user = spawn(&tree, |tree| {
            let keys = [4, 50, 51, 98].map(key);
            let mut near = Vec::new();
            tree.bring_many(keys.iter().map(Vec::as_slice), &mut near);
            let version = |at: usize| tree.get_near(near[at], &keys[at], |cell| cell.version);
            assert_eq!([0, 1, 2, 3].map(version), [Some(1), Some(1), None, Some(1)]);
            for at in [1, 2] {
                tree.put(content(&keys[at], &[3; 60], 3), near[at]);
            }
            assert_eq!([0, 1, 2, 3].map(version), [Some(1), Some(3), Some(3), Some(1)]);
        });
        join([splitter, remover, user]);
        assert_eq!(tree.len(), 50 + 8 - 20 + 1);
    });
}

/// A node with several lines of heads, whose first words name the last of each.
#[test]
fn children_are_found_while_lines_of_heads_move() {
    check_schedules(|| {
        let tree = Arc::new(Tree::new());
        let add = |tree: &Tree, inner: inner::Inner<'_>, at: usize, number: u64| {
            let address = content(&key(number), b"", 1).write(&tree.heap);
            inner.insert(&tree.heap, at, &key(number), address, number);
        };
        let id = {
            let node = tree.new_node(1);
            for at in 0..17 {
                add(&tree, node.inner(), at, 10 * (at as u64 + 1));
            }
            node.unlock();
            node.id
        };
        let writer = spawn(&tree, move |tree| {
            let node = tree.node(id).unwrap();
            assert!(node.seen().try_lock());
            node.inner().remove(3);
            node.unlock();
            assert!(node.seen().try_lock());
            add(tree, node.inner(), 0, 5);
            node.unlock();
        });
        let reader = spawn(&tree, move |tree| {
            for number in [80, 85, 90, 165, 170] {
                let seen = tree.node(id).unwrap().seen();
                let inner = seen.node.inner();
                let child = inner.child(inner.separators_up_to(&tree.heap, &key(number)));
                assert!(!seen.is_still() || child == number / 10 * 10);
            }
        });
        join([writer, reader]);
    });
}
