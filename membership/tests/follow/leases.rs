//! Nodes that come, stay and go.

use crate::etcd::Etcd;
use crate::heard::{Heard, steady};
use millpond_membership::{Event, Options};
use millpond_nodes::Node;
use std::time::Duration;

pub fn node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        addresses: vec![format!("{name}.example:13500")],
    }
}

pub fn as_node(url: &str, name: &str) -> Options {
    Options {
        registration: Some(node(name)),
        ..steady(url)
    }
}

#[test]
fn a_node_is_up_as_long_as_its_lease_is_kept() {
    let Some(etcd) = Etcd::start("leases::a_node_is_up_as_long_as_its_lease_is_kept") else {
        return;
    };
    let watcher = Heard::of(steady(&etcd.url()));
    watcher.connected();
    let kept = Heard::of(Options {
        lease_ttl: Duration::from_secs(4),
        ..as_node(&etcd.url(), "kept")
    });
    let up = watcher.up("kept");
    assert_eq!(up.last(), Some(&Event::NodeUp(node("kept"))));
    // Of a process that dies at once, with a lease of twice the time.
    let lease = etcd.lease(8);
    etcd.put(
        "/millpond/test/nodes/dies",
        r#"{"addresses":["dies.example:1"]}"#,
        &lease,
    );
    watcher.up("dies");
    let meanwhile = watcher.down("dies");
    assert_eq!(meanwhile.len(), 1, "{meanwhile:?}");
    // One who comes later sees who is there.
    Heard::of(steady(&etcd.url())).up("kept");
    drop(kept);
    watcher.down("kept");
}

#[test]
fn a_node_that_leaves_is_down_at_once() {
    let Some(etcd) = Etcd::start("leases::a_node_that_leaves_is_down_at_once") else {
        return;
    };
    let watcher = Heard::of(steady(&etcd.url()));
    let long = Options {
        lease_ttl: Duration::from_secs(3600),
        ..as_node(&etcd.url(), "leaves")
    };
    let mut leaves = Heard::of(long);
    watcher.up("leaves");
    assert!(leaves.membership.as_ref().unwrap().is_running());
    leaves.membership = None;
    // An hour would be longer than is waited for.
    watcher.down("leaves");
}

#[test]
fn a_lost_lease_and_a_removed_key_are_registered_anew() {
    let Some(etcd) = Etcd::start("leases::a_lost_lease_and_a_removed_key_are_registered_anew") else {
        return;
    };
    let watcher = Heard::of(steady(&etcd.url()));
    let member = Heard::of(as_node(&etcd.url(), "a"));
    let first = member.registered();
    watcher.up("a");
    etcd.post("/v3/lease/revoke", &format!(r#"{{"ID":"{first}"}}"#));
    assert_ne!(member.registered(), first);
    watcher.down("a");
    watcher.up("a");
    etcd.delete("/millpond/test/nodes/a");
    watcher.down("a");
    watcher.up("a");
}

#[test]
fn a_name_that_another_process_takes_is_left_to_it() {
    let Some(etcd) = Etcd::start("leases::a_name_that_another_process_takes_is_left_to_it") else {
        return;
    };
    let first = Heard::of(as_node(&etcd.url(), "a"));
    first.up("a");
    let other = Options {
        registration: Some(Node {
            addresses: vec!["other.example:1".to_owned()],
            ..node("a")
        }),
        ..steady(&etcd.url())
    };
    let second = Heard::of(other);
    second.registered();
    first.until(
        "that the name is taken",
        |event| matches!(event, Event::NameTaken { name } if name == "a"),
    );
    // It comes back when the other has left.
    drop(second);
    let back = first.up("a");
    assert_eq!(back.last(), Some(&Event::NodeUp(node("a"))));
}

#[test]
fn a_node_whose_value_is_garbage_is_refused_by_name() {
    let Some(etcd) = Etcd::start("leases::a_node_whose_value_is_garbage_is_refused_by_name") else {
        return;
    };
    let watcher = Heard::of(steady(&etcd.url()));
    let put = |value| etcd.put("/millpond/test/nodes/a", value, "0");
    put(r#"{"addresses":["a:1"]}"#);
    watcher.up("a");
    for (value, why) in [
        ("", "nodes/a: EOF"),
        ("[]", "invalid"),
        (r#"{"addresses":[]}"#, "0 addresses"),
        (r#"{"addresses":["a"]}"#, "no port"),
    ] {
        put(value);
        let refused = watcher.refused();
        assert!(refused.contains(why), "{refused}");
    }
    etcd.put("/millpond/test/nodes/a b", r#"{"addresses":["a:1"]}"#, "0");
    let refused = watcher.refused();
    assert!(refused.contains("another character"), "{refused}");
    etcd.delete("/millpond/test/nodes/a");
    watcher.down("a");
}
