//! Lookups by any server of a cluster are answered as by one server that has all the rows.

use super::cluster::{Cluster, KEYS, some_keys};
use crate::harness::Millpond;
use serde_json::{Value, json};

/// Holds the answers of servers against that of the one that has everything.
fn check(single: &Millpond, others: &[&Millpond], payload: &Value) {
    let expected = single.call("features.lookup", payload);
    assert_eq!(expected.0, 200, "{payload}: {}", expected.1);
    for other in others {
        assert_eq!(other.call("features.lookup", payload), expected, "{payload}");
    }
}

#[test]
fn any_server_answers_what_one_with_all_rows_answers() {
    let cluster = Cluster::start(&["a", "b", "c"], 2);
    let (single, proxy) = (cluster.single(), cluster.proxy());
    let others = [&proxy, cluster.node("a"), cluster.node("c")];
    let with = |more: Value| {
        let mut payload = json!({"table": "films", "keys": some_keys(1, 100)});
        payload
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        payload
    };
    check(&single, &others, &with(json!({})));
    check(
        &single,
        &others,
        &with(json!({"columns": ["version", "key"], "type": "f64"})),
    );
    check(&single, &others, &with(json!({"type": "f16", "base64": true})));
    check(&single, &others, &with(json!({"type": "u8"})));
    check(&single, &others, &with(json!({"type": "none"})));
    check(&single, &others, &with(json!({"unique": true})));
    check(&single, &others, &with(json!({"at_version": 1})));
    for pool in ["sum", "mean", "max"] {
        let bags = json!({"pool": pool, "offsets": [0, 10, 10, 37, 38, 100], "type": "f64"});
        // A server without the table knows the row of an empty bag by a key that is not there.
        check(&single, &others, &with(bags.clone()));
        let mut columns = with(bags);
        columns["columns"] = json!(["version"]);
        check(&single, &others, &columns);
    }
    check(&single, &others, &json!({"table": "films", "keys": []}));
    check(&single, &others, &json!({"table": "films", "keys": [KEYS + 1]}));
    let many =
        json!({"lookups": [with(json!({})), with(json!({"unique": true})), {"table": "films", "keys": [3]}]});
    check(&single, &others, &many);
}

#[test]
fn a_call_goes_to_the_nodes_of_its_keys_alone_and_no_further() {
    let cluster = Cluster::start(&["a", "b", "c"], 1);
    let proxy = cluster.proxy();
    let map = cluster.map();
    let of = |name: &str| -> Vec<u64> {
        let node = map.find(name).unwrap();
        (0..KEYS)
            .filter(|key| map.replicas(map.bucket(*key)) == [node])
            .collect()
    };
    for name in ["a", "b"] {
        let (status, answer) = proxy.call("features.lookup", &json!({"table": "films", "keys": of(name)}));
        assert_eq!((status, answer["version"].as_u64()), (200, Some(1)), "{answer}");
        assert!(
            answer["found"]
                .as_array()
                .unwrap()
                .iter()
                .all(|byte| byte.as_u64() > Some(0))
        );
    }
    for name in ["a", "b"] {
        proxy.wait_for_metric(&format!("millpond_node_calls_total{{node=\"{name}\"}} 1"));
        proxy.wait_for_metric(&format!("millpond_node_outstanding{{node=\"{name}\"}} 0"));
    }
    let (_, page) = proxy.admin_get("/metrics");
    assert!(
        !page.contains("millpond_node_calls_total{node=\"c\"} 1"),
        "{page}"
    );
    // Who splits keys gets what the node itself has.
    let node = cluster.node("a");
    let look_up = |keys: [u64; 2]| {
        let payload = json!({"table": "films", "keys": keys, "map": 1, "type": "none"});
        node.call("features.lookup", &payload)
    };
    let absent = (KEYS..)
        .find(|key| map.holds(map.find("a").unwrap(), *key))
        .unwrap();
    let (status, answer) = look_up([of("a")[0], absent]);
    assert_eq!((status, &answer["found"]), (200, &json!([1])), "{answer}");
    let (status, answer) = look_up([of("a")[0], of("b")[0]]);
    assert_eq!((status, &answer["code"]), (410, &json!(30106)), "{answer}");
    assert!(answer["ex"].to_string().contains("built for node"), "{answer}");
    let (_, page) = node.admin_get("/metrics");
    assert!(
        !page.contains("millpond_node_calls_total{node=\"b\"} 1"),
        "{page}"
    );
}
