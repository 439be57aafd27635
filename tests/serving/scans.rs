//! `features.scan`: the keys of a version, page by page.

use crate::harness::Millpond;
use crate::serving::resp::{ROWS, folder};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const CONFIG: &str = "[server]\nlisten = \"127.0.0.1:0\"\nthreads = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                      [log]\nfile = \"millpond.log\"\n[features.small]\npath = \"tables/small\"\n";

#[test]
fn a_scan_pages_through_the_keys_of_a_version() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let (mut call, mut keys) = (json!({"table": "small", "limit": 7}), Vec::new());
    loop {
        let (status, answer) = server.call("features.scan", &call);
        assert_eq!(status, 200, "{answer}");
        assert_eq!((&answer["version"], &answer["rows"]), (&json!(1), &json!(ROWS)));
        let page = answer["keys"].as_array().unwrap();
        assert!(page.len() <= 7);
        keys.extend(page.iter().map(|key| key.as_u64().unwrap()));
        match answer.get("cursor") {
            Some(cursor) => call["cursor"] = cursor.clone(),
            None => break,
        }
    }
    let unique: BTreeSet<u64> = keys.iter().copied().collect();
    assert_eq!((keys.len() as u64, unique), (ROWS, (1..=ROWS).collect()));
    let refused = |call: Value| {
        let (status, answer) = server.call("features.scan", &call);
        (status, answer["code"].as_u64())
    };
    let of = |cursor: Value| json!({"table": "small", "limit": 1, "cursor": cursor});
    let position =
        |version: u64, position: u64| of(json!([version.to_le_bytes(), position.to_le_bytes()].concat()));
    assert_eq!(server.call("features.scan", &position(1, 1)).0, 200);
    // Of two versions whose numbers have the same lowest bits one serves.
    assert_eq!(refused(position(65_537, 1)), (410, Some(30106)));
    assert_eq!(refused(position(1, 1 << 48)), (400, Some(30104)));
    // As numbers, the cursors of RESP.
    assert_eq!(
        server
            .call("features.scan", &of(json!([1, 0, 0, 0, 0, 0, 1, 0])))
            .0,
        200
    );
    assert_eq!(refused(of(json!([1, 0, 0, 0, 0, 0, 9, 0]))), (410, Some(30106)));
    assert_eq!(refused(of(json!([1, 2, 3]))), (400, Some(30104)));
    assert_eq!(refused(json!({"table": "none", "limit": 1})), (404, Some(30105)));
    assert_eq!(refused(json!({"table": "small", "limit": 0})), (400, Some(30104)));
    assert_eq!(
        refused(json!({"table": "small", "limit": 10_001})),
        (400, Some(30104))
    );
}
