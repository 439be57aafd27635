//! Buckets that move while nodes take fresh rows from each other: what was acknowledged before a map is on every node that has its
//! buckets by that map, before it answers by it.

use super::cluster::{Cluster, socket, write_map};
use super::folding::wait_for_line;
use super::upserts::{firsts, limit, upsert, upsert_call};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// More than a page of fresh rows has.
const KEYS: u64 = 24_000;
/// Of a call.
const SOME: u64 = 2000;

/// What stands between a node and those that call it.
#[derive(Default)]
struct Relay {
    /// From the next page on.
    holds: AtomicBool,
    has_held: AtomicBool,
}

impl Relay {
    /// Takes calls at a socket, and hands them on to another.
    fn start(at: &Path, to: PathBuf) -> Arc<Relay> {
        let (relay, listener) = (Arc::new(Relay::default()), UnixListener::bind(at).unwrap());
        let started = Arc::clone(&relay);
        std::thread::spawn(move || {
            for caller in listener.incoming() {
                let caller = caller.unwrap();
                // The node may be away.
                let Ok(node) = UnixStream::connect(&to) else {
                    continue;
                };
                let (from, to) = (caller.try_clone().unwrap(), node.try_clone().unwrap());
                std::thread::spawn(move || pass_on(from, to, None));
                let relay = Arc::clone(&relay);
                std::thread::spawn(move || pass_on(node, caller, Some(&relay)));
            }
        });
        started
    }

    /// Holds the answers of a page until that is over.
    fn hold(&self) {
        self.has_held.store(true, Ordering::SeqCst);
        while self.holds.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn pass_on(mut from: UnixStream, mut to: UnixStream, relay: Option<&Relay>) {
    let (mut bytes, mut buffer) = (0, vec![0; 1 << 16]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        bytes += count;
        // No other answer is as long.
        if let Some(relay) = relay.filter(|relay| bytes > 100_000 && relay.holds.load(Ordering::SeqCst)) {
            relay.hold();
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// A map by which a has all buckets and others call it at that socket, and b has some.
fn write_halves(folder: &Path, version: u64, at: &Path, of_b: &str) {
    let b = socket(folder, "b");
    let (at, b) = (at.display(), b.display());
    let text = format!(
        "version = {version}\nbuckets = 64\nnodes = [{{ name = \"a\", addresses = [\"unix:{at}\"], buckets = \"0-63\" }}, \
         {{ name = \"b\", addresses = [\"unix:{b}\"], buckets = \"{of_b}\" }}]\n"
    );
    std::fs::write(folder.join("map.new"), text).unwrap();
    std::fs::rename(folder.join("map.new"), folder.join("map.toml")).unwrap();
}

fn wait_for_map(cluster: &Cluster, version: u64) {
    for node in &cluster.nodes {
        node.signal("HUP");
        node.wait_for_metric(&format!("millpond_nodes_map_version {version}"));
    }
}

#[test]
fn a_map_that_comes_while_pages_are_read_has_them_read_again() {
    let mut cluster = Cluster::start_fresh(&["a", "b"], 2, "");
    let folder = cluster.folder.path().to_owned();
    let at = folder.join("relay.sock");
    let relay = Relay::start(&at, socket(&folder, "a"));
    write_halves(&folder, 2, &at, "0-31");
    wait_for_map(&cluster, 2);
    let all: Vec<u64> = (0..KEYS).collect();
    for keys in all.chunks(SOME as usize) {
        upsert(cluster.node("a"), &upsert_call(keys, 5.0));
    }
    cluster.node("a").signal("KILL");
    relay.holds.store(true, Ordering::SeqCst);
    // Another process: b looks through all that it has of the buckets that are both's.
    cluster.restart("a");
    let until = limit();
    while !relay.has_held.load(Ordering::SeqCst) {
        assert!(Instant::now() < until, "no page was read");
        std::thread::sleep(Duration::from_millis(5));
    }
    write_halves(&folder, 3, &at, "0-63");
    wait_for_map(&cluster, 3);
    // By the thread that asks other nodes, too.
    wait_for_line(&cluster, "b", "this node gets buckets");
    relay.holds.store(false, Ordering::SeqCst);
    for keys in all.chunks(SOME as usize) {
        let found = firsts(cluster.node("b"), keys, Some(3));
        let wrong = found.iter().filter(|first| **first != Some(5.0)).count();
        assert_eq!(wrong, 0, "of {} keys from {:?} on", keys.len(), keys.first());
    }
}

#[test]
fn a_node_that_read_no_map_without_it_has_what_was_upserted_by_that() {
    let cluster = Cluster::start_fresh(&["a", "b"], 2, "upsert_acks = 1\ncatch_up_ms_max = 120000\n");
    let (folder, keys) = (cluster.folder.path(), (0..30).collect::<Vec<u64>>());
    upsert(cluster.node("a"), &upsert_call(&keys, 1.0));
    cluster.node("b").signal("STOP");
    write_map(folder, 2, &["a"], 1);
    cluster.node("a").wait_for_metric("millpond_nodes_map_version 2");
    upsert(cluster.node("a"), &upsert_call(&keys, 2.0));
    write_map(folder, 3, &["a", "b"], 2);
    cluster.node("a").wait_for_metric("millpond_nodes_map_version 3");
    cluster.node("b").signal("CONT");
    for name in ["a", "b"] {
        let found = firsts(cluster.node(name), &keys, Some(3));
        assert_eq!(found, vec![Some(2.0); 30], "{name}");
    }
}

#[test]
fn a_node_asks_a_replica_that_gave_its_buckets_away_what_it_missed() {
    let more = "settle_ms = 10000\nupsert_acks = 1\ncatch_up_ms_max = 500\n";
    let cluster = Cluster::start_fresh(&["a", "b", "c"], 3, more);
    let (folder, keys) = (cluster.folder.path(), (0..30).collect::<Vec<u64>>());
    write_map(folder, 2, &["a", "b"], 2);
    wait_for_map(&cluster, 2);
    upsert(cluster.node("a"), &upsert_call(&keys, 1.0));
    let [a, b] = ["a", "b"].map(|name| cluster.node(name));
    b.signal("STOP");
    upsert(a, &upsert_call(&keys, 2.0));
    // The copy that lies in its socket is refused by then.
    std::thread::sleep(Duration::from_millis(4500));
    // It has to go on without the only one that knows what it missed, and gets another replica meanwhile.
    a.signal("STOP");
    b.signal("CONT");
    b.wait_for("millpond_nodes_unheard", |count| count > 0);
    write_map(folder, 3, &["b", "c"], 2);
    for node in [b, cluster.node("c")] {
        node.wait_for_metric("millpond_nodes_map_version 3");
    }
    a.signal("CONT");
    let until = limit();
    for name in ["b", "c"] {
        while firsts(cluster.node(name), &keys, Some(3)) != vec![Some(2.0); 30] {
            assert!(Instant::now() < until, "{name} has not what a took");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
