//! A node whose system clock is set ahead while it runs, and back again: upserts that no order fits are refused by name, lookups go
//! on, and a restart makes up for it.

use super::cluster::Cluster;
use super::upserts::{firsts, upsert, upsert_call};
use crate::harness::Millpond;
use crate::serving::failing_disk::compiled;
use serde_json::json;

#[test]
fn a_node_whose_clock_is_set_says_so_and_takes_upserts_after_a_restart() {
    let mut cluster = Cluster::start_fresh(&["a", "b"], 2, "");
    let library = compiled(cluster.folder.path(), "stepped_clock");
    let clock = cluster.folder.path().join("clock");
    let start = |cluster: &Cluster| {
        let environment = [("LD_PRELOAD", library.as_path()), ("MILLPOND_TEST_CLOCK", &clock)];
        Millpond::start_in(&cluster.path("a"), &[], &environment)
    };
    cluster.node("a").signal("KILL");
    cluster.nodes[0] = start(&cluster);
    upsert(cluster.node("a"), &upsert_call(&[1, 2, 3, 4], 1.0));

    let check_refused = |name: &str, key: u64, words: &[&str]| {
        let (status, answer) = cluster
            .node(name)
            .call("features.upsert", &upsert_call(&[key], 2.0));
        assert_eq!((status, &answer["code"]), (503, &json!(30116)), "{answer}");
        for word in words {
            assert!(
                answer["ex"].as_str().unwrap().contains(word),
                "{word:?} is not in {answer}"
            );
        }
        // Of a key that nobody wrote since all answer the same.
        for name in ["a", "b"] {
            assert_eq!(firsts(cluster.node(name), &[4], None), [Some(1.0)]);
        }
    };
    // Three minutes.
    std::fs::write(&clock, "180").unwrap();
    check_refused("a", 1, &["ahead of the clock of node \"b\"", "set both"]);
    check_refused("b", 2, &["behind the clock of node \"a\"", "set both"]);
    std::fs::write(&clock, "0").unwrap();
    check_refused("a", 3, &["clock was set back", "restart it"]);

    cluster.node("a").signal("KILL");
    cluster.nodes[0] = start(&cluster);
    for (name, value) in [("a", 5.0), ("b", 6.0)] {
        upsert(cluster.node(name), &upsert_call(&[4], value));
        for name in ["a", "b"] {
            assert_eq!(firsts(cluster.node(name), &[4], None), [Some(value)], "{name}");
        }
    }
}
