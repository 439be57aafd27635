//! A bucket that moves to another node while an upsert by the map before waits for the log of the node that had it.

use crate::rig::{NodeA, map};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const FRESH: &str = r#"{"table": "films", "node": "b", "map": 2}"#;

#[test]
fn a_node_gives_no_rows_by_a_map_as_long_as_upserts_by_one_before_wait_for_its_log() {
    let first = map(1, ["0", "1"]);
    let node = NodeA::start("moved", Arc::clone(&first), None);
    let key = (1..).find(|key| first.bucket(*key) == 0).unwrap();
    let log = node.hold_the_log();
    // An older copy would be refused for its age.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let time = u64::try_from(now.as_millis()).unwrap() << 16;
    let copy = format!(
        r#"{{"table": "films", "keys": [{key}], "values": [7], "copy": {{"map": 1, "time": {time}, "origin": 5}}}}"#
    );
    let copied = node.call("features.upsert", &copy);
    node.nodes.offer(map(2, ["1", "0"])).unwrap();
    let answer = node.call("features.fresh", FRESH).recv().unwrap();
    assert!(
        answer.contains("30116") && answer.contains("by an older map"),
        "{answer}"
    );
    // By the new map nothing more is taken that was split by the one before.
    let refused = node.call("features.upsert", &copy).recv().unwrap();
    assert!(
        refused.contains("30116") && refused.contains("version 1"),
        "{refused}"
    );
    drop(log);
    let answer = copied.recv().unwrap();
    assert!(answer.contains("\"sequence\":2"), "{answer}");
    let page = node.call("features.fresh", FRESH).recv().unwrap();
    assert!(page.contains(&format!("\"times\":[{time}]")), "{page}");
}
