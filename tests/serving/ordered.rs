//! `ordered.*` over the socket, and what a restart finds.

use crate::harness::{Http, Millpond, r1_folder};
use serde_json::json;
use std::io::Write;

#[test]
fn entries_are_put_read_scanned_and_survive_a_restart() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let entries: Vec<[String; 2]> = (0..25)
        .map(|at| [format!("k{at:02}"), format!("value {at}")])
        .collect();
    let (status, answer) = http.call("ordered.put", &json!({"entries": entries}));
    assert_eq!((status, answer["versions"].as_array().unwrap().len()), (200, 25));
    let (status, answer) = http.call(
        "ordered.put",
        &json!({"entries": [["k00", "x"]], "if_absent": true}),
    );
    assert_eq!((status, answer["code"].as_u64()), (409, Some(30112)), "{answer}");
    drop(http);
    assert!(server.terminate().success());

    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let (_, answer) = http.call("ordered.get", &json!({"keys": ["k07", "none"], "base64": false}));
    assert_eq!(answer["values"], json!([b"value 7".to_vec(), null]));
    let mut keys = Vec::new();
    let mut cursor = json!(null);
    loop {
        let (status, page) = http.call(
            "ordered.scan",
            &json!({"prefix": "k", "limit": 10, "cursor": cursor}),
        );
        assert_eq!(status, 200, "{page}");
        let key = |entry: &serde_json::Value| {
            let bytes: Vec<u8> = entry[0]
                .as_array()
                .unwrap()
                .iter()
                .map(|byte| byte.as_u64().unwrap() as u8)
                .collect();
            String::from_utf8(bytes).unwrap()
        };
        keys.extend(page["entries"].as_array().unwrap().iter().map(key));
        match page.get("cursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    let expected: Vec<String> = (0..25).map(|at| format!("k{at:02}")).collect();
    assert_eq!(keys, expected);
}

#[test]
fn scans_go_both_ways_and_may_leave_values_out() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let entries: Vec<[String; 2]> = (0..25).map(|at| [format!("k{at:02}"), format!("{at}")]).collect();
    http.call("ordered.put", &json!({"entries": entries}));
    let mut scan = |call: serde_json::Value| {
        let (mut keys, mut call) = (Vec::new(), call);
        loop {
            let (status, page) = http.call("ordered.scan", &call);
            assert_eq!(status, 200, "{page}");
            for entry in page["entries"].as_array().unwrap() {
                let text = |at: usize| {
                    let bytes: Vec<u8> = serde_json::from_value(entry[at].clone()).unwrap();
                    String::from_utf8(bytes).unwrap()
                };
                keys.push(text(0) + "=" + &text(1));
            }
            match page.get("cursor") {
                Some(cursor) => call["cursor"] = cursor.clone(),
                None => return keys,
            }
        }
    };
    let down = scan(json!({"prefix": "k", "limit": 4, "reverse": true}));
    let expected: Vec<String> = (0..25).rev().map(|at| format!("k{at:02}={at}")).collect();
    assert_eq!(down, expected);
    let some = json!({"start": "k03", "end": "k06", "limit": 1, "reverse": true, "keys_only": true});
    assert_eq!(scan(some), ["k05=", "k04=", "k03="]);
    let up = scan(json!({"start": "k23", "limit": 10, "keys_only": true}));
    assert_eq!(up, ["k23=", "k24="]);
    assert!(scan(json!({"start": "k9", "end": "k1", "limit": 10, "reverse": true})).is_empty());
}

#[test]
fn a_torn_tail_is_cut_and_said_so() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(
        server.call("ordered.put", &json!({"entries": [["a", "1"]]})).0,
        200
    );
    assert!(server.terminate().success());
    let is_segment = |entry: &std::fs::DirEntry| {
        entry
            .path()
            .extension()
            .is_some_and(|extension| extension == "mpl")
    };
    let segment = std::fs::read_dir(folder.path().join("events"))
        .unwrap()
        .flatten()
        .find(is_segment)
        .unwrap()
        .path();
    let mut file = std::fs::OpenOptions::new().append(true).open(segment).unwrap();
    file.write_all(&[77; 11]).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(
        server.call("ordered.get", &json!({"keys": ["a"]})).1["values"],
        json!([[49]])
    );
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(log.contains("torn tail") && log.contains("bytes=11"), "{log}");
}

#[test]
fn a_file_is_loaded_before_the_server_starts() {
    let folder = r1_folder();
    let load = |text: &str| {
        let file = folder.path().join("events.jsonl");
        std::fs::write(&file, text).unwrap();
        let mut command = crate::harness::millpond();
        command
            .args(["ordered", "load"])
            .arg(folder.path().join("events"))
            .arg(file)
            .output()
            .unwrap()
    };
    let done = load("{\"key\": \"a\", \"value\": \"1\"}\n\n{\"key\": \"b\", \"value\": \"é\"}\n");
    assert!(done.status.success(), "{done:?}");
    assert!(
        String::from_utf8_lossy(&done.stdout).contains("2 entries loaded"),
        "{done:?}"
    );
    let bad = load("{\"key\": \"a\", \"value\": \"1\"}\n{\"key\": \"b\"}\n");
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(
        !bad.status.success() && said.contains("line 2") && said.contains("value"),
        "{said}"
    );
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(
        server.call("ordered.get", &json!({"keys": ["b"]})).1["values"],
        json!(["é".as_bytes()])
    );
    let locked = load("{\"key\": \"c\", \"value\": \"1\"}\n");
    assert!(
        !locked.status.success(),
        "a store that a server has open is not loaded into"
    );
}

#[test]
fn a_full_store_says_so_and_takes_what_does_not_grow_it() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &["ordered.events.memory_bytes_max=1100"]);
    let put = |key: &str, value: &str| {
        let (status, answer) = server.call("ordered.put", &json!({"entries": [[key, value]]}));
        (status, answer["code"].as_u64(), answer["ex"].to_string())
    };
    let full = "x".repeat(700);
    assert_eq!(put("a", &full).0, 200);
    let (status, code, said) = put("b", &full);
    assert_eq!((status, code), (507, Some(30114)), "{said}");
    assert!(said.contains("memory_bytes_max"), "{said}");
    assert_eq!(put("a", "short").0, 200);
    assert_eq!(put("b", &full).0, 200);
    // Two entries' overhead, keys and values.
    server.wait_for_metric("millpond_store_bytes{store=\"events\"} 803");
    assert_eq!(server.admin_get("/readyz").0, 200, "it is full, and it is well");
}

#[test]
fn a_cursor_goes_on_whatever_changed_meanwhile() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let put = |keys: &[&str]| {
        let entries: Vec<[&str; 2]> = keys.iter().map(|key| [*key, "v"]).collect();
        assert_eq!(server.call("ordered.put", &json!({"entries": entries})).0, 200);
    };
    // The keys of a page of three, and its cursor.
    let page = |reverse: bool, cursor: &serde_json::Value| {
        let asked = json!({"limit": 3, "keys_only": true, "reverse": reverse, "cursor": cursor});
        let (status, page) = server.call("ordered.scan", &asked);
        assert_eq!(status, 200, "{page}");
        let key = |entry: &serde_json::Value| {
            let bytes: Vec<u8> = serde_json::from_value(entry[0].clone()).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let keys: Vec<String> = page["entries"].as_array().unwrap().iter().map(key).collect();
        (keys.join(" "), page["cursor"].clone())
    };
    put(&["b", "d", "f", "h", "j", "l"]);
    let (first, ascending) = page(false, &json!(null));
    let (last, descending) = page(true, &json!(null));
    assert_eq!((first.as_str(), last.as_str()), ("b d f", "l j h"));
    // What either goes on with is removed, and keys come around it.
    let (status, answer) = server.call("ordered.remove", &json!({"keys": ["h", "f"]}));
    assert_eq!(status, 200, "{answer}");
    put(&["a", "e", "g", "i", "m"]);
    assert_eq!(page(false, &ascending).0, "i j l");
    assert_eq!(page(true, &descending).0, "e d b");
}
