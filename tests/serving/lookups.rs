//! What a lookup answers with: chosen columns, in a type of the caller's, each key once, and the default row for keys that are not there.

use crate::harness::Millpond;
use millpond_engines_features::{Column, Keys, Numbers, Schema, text_key, write::Writer};
use serde_json::{Value, json};

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
[admin]
listen = "127.0.0.1:0"
[features.films]
path = "films"
"#;

/// Films 1 to 9: two halves of the id, its square, and ten of its id.
fn start(more: &str) -> (tempfile::TempDir, Millpond) {
    let folder = tempfile::tempdir().unwrap();
    let column = |name: &str, numbers, dim| Column {
        name: name.to_owned(),
        numbers,
        dim,
    };
    let schema = Schema {
        columns: vec![
            column("half", Numbers::F32, 2),
            column("square", Numbers::F16, 1),
            column("tens", Numbers::I8Scaled, 1),
        ],
        default_row: Some(vec![-1.0, -2.0, -3.0, -4.0]),
        ..Schema::floats(1)
    };
    let mut writer = Writer::create(&folder.path().join("films"), "films", 1, schema, 2).unwrap();
    for id in 1..10_u64 {
        let number = id as f32;
        let row = [number / 2.0, number / 2.0, number * number, number * 10.0];
        writer.push(id, &row).unwrap();
    }
    writer.finish().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), format!("{CONFIG}{more}")).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    (folder, server)
}

/// What the films' table answers to those keys of a call.
fn check(server: &Millpond, call: Value, expected: Value) {
    let mut payload = json!({"table": "films", "keys": [3]});
    payload
        .as_object_mut()
        .unwrap()
        .extend(call.as_object().unwrap().clone());
    let (status, answer) = server.call("features.lookup", &payload);
    let expected = match status {
        200 => {
            let mut whole = json!({"version": 1, "type": "f32", "found": [1]});
            whole
                .as_object_mut()
                .unwrap()
                .extend(expected.as_object().unwrap().clone());
            whole
        }
        _ => expected,
    };
    // A text is expected of an error, anything else of an answer.
    let is_met = match expected.as_str() {
        Some(words) => status == 400 && answer["ex"].as_str().unwrap().contains(words),
        None => status == 200 && answer == expected,
    };
    assert!(is_met, "{payload}: {status} {answer}, not {expected}");
}

#[test]
fn answers_have_the_columns_types_and_rows_that_were_asked_for() {
    for memory in ["resident", "mapped"] {
        let (_folder, server) = start(&format!("memory = \"{memory}\""));
        let all = json!({"dim": 4, "values": [1.5, 1.5, 9.0, 30.0]});
        check(&server, json!({}), all);
        let two = json!({"dim": 3, "values": [9.0, 1.5, 1.5]});
        check(&server, json!({"columns": ["square", "half"]}), two);
        for name in ["f64", "f16", "bf16"] {
            let expected = json!({"dim": 2, "type": name, "values": [1.5, 1.5]});
            check(&server, json!({"columns": ["half"], "type": name}), expected);
        }
        let stored = json!({"dim": 2, "type": "u8", "values": [0x80, 0x48]});
        check(&server, json!({"columns": ["square"], "type": "u8"}), stored);
        let absent = json!({"dim": 4, "found": [2], "values": [-1.0, -2.0, -3.0, -4.0, 1.5, 1.5, 9.0, 30.0]});
        check(&server, json!({"keys": [0, 3]}), absent);
        let once = json!({"dim": 1, "found": [5], "values": [9.0, -3.0, 1.0], "inverse": [0, 1, 0, 2, 2]});
        let call = json!({"keys": [3, 0, 3, 1, 1], "columns": ["square"], "unique": true});
        check(&server, call, once);
        let pooled =
            json!({"dim": 3, "type": "f16", "found": [3], "values": [5.0, 1.0, 1.0, -3.0, -1.0, -2.0]});
        let call = json!({"keys": [3, 1, 0], "columns": ["square", "half"], "type": "f16", "pool": "mean", "offsets": [0, 2, 3]});
        check(&server, call, pooled);
    }
}

#[test]
fn keys_may_be_asked_for_without_their_rows() {
    for memory in ["resident", "mapped"] {
        let (_folder, server) = start(&format!("memory = \"{memory}\""));
        let found = json!({"dim": 0, "type": "none", "found": [5], "values": []});
        check(&server, json!({"keys": [3, 0, 9], "type": "none"}), found);
    }
}

/// Of a row that is pooled all columns are worked on, whatever the answer has of them.
#[test]
fn what_a_call_works_on_is_bounded_before_it_is_allocated() {
    let folder = tempfile::tempdir().unwrap();
    let column = |name: &str, dim| Column {
        name: name.to_owned(),
        numbers: Numbers::F32,
        dim,
    };
    let schema = Schema {
        columns: vec![column("short", 1), column("long", 5000)],
        ..Schema::floats(1)
    };
    let mut writer = Writer::create(&folder.path().join("films"), "films", 1, schema, 1).unwrap();
    writer.push(3, &[1.0; 5001]).unwrap();
    writer.finish().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), CONFIG).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let bags = |count: usize| json!({"keys": [], "columns": ["short"], "pool": "sum", "offsets": vec![0; count + 1]});
    check(
        &server,
        bags(2),
        json!({"dim": 1, "found": [], "values": [0.0, 0.0]}),
    );
    let mut payload = bags(500);
    payload["table"] = json!("films");
    let (status, answer) = server.call("features.lookup", &payload);
    assert_eq!(status, 413, "{answer}");
    let many = json!({"lookups": vec![json!({"table": "films", "keys": []}); 257]});
    let (status, answer) = server.call("features.lookup", &many);
    assert_eq!(status, 400, "{answer}");
    assert!(answer["ex"].as_str().unwrap().contains("at most 256"), "{answer}");
}

#[test]
fn texts_are_keys_of_tables_whose_keys_are_texts() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema {
        keys: Keys::Text {
            slot: "genre".to_owned(),
        },
        ..Schema::floats(1)
    };
    let mut writer = Writer::create(&folder.path().join("genres"), "genres", 1, schema, 1).unwrap();
    for (text, number) in [("drama", 1.0), ("comédie", 2.0)] {
        writer.push_text(text, &[number]).unwrap();
    }
    writer.finish().unwrap();
    let config = CONFIG.replace("films", "genres");
    std::fs::write(folder.path().join("millpond.toml"), config).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let genres = |call| {
        check(
            &server,
            call,
            json!({"dim": 1, "found": [5], "values": [2.0, 0.0, 1.0]}),
        )
    };
    genres(json!({"table": "genres", "keys": null, "texts": ["comédie", "war", "drama"]}));
    let hashes = ["comédie", "war", "drama"].map(|text| text_key("genre", text));
    genres(json!({"table": "genres", "keys": hashes}));

    let (_folder, films) = start("");
    let numbers = json!("table \"films\" has keys that are numbers; send `keys`");
    check(&films, json!({"keys": null, "texts": ["drama"]}), numbers);
    check(
        &films,
        json!({"texts": ["drama"]}),
        json!("no `texts` beside `keys`"),
    );
}

#[test]
fn what_does_not_fit_together_is_named() {
    let (_folder, server) = start("");
    let known = "columns: expected some of [\"half\", \"square\", \"tens\"], found \"third\"";
    check(&server, json!({"columns": ["half", "third"]}), json!(known));
    check(
        &server,
        json!({"columns": ["half", "half"]}),
        json!("found \"half\" twice"),
    );
    check(&server, json!({"type": "i8"}), json!("\"type\" is \"i8\""));
    let offsets = json!([0, 1]);
    let call = json!({"type": "u8", "pool": "sum", "offsets": offsets});
    check(&server, call, json!("a type of floats with a pool"));
    let call = json!({"unique": true, "pool": "sum", "offsets": offsets});
    check(&server, call, json!("no `unique` with a pool"));
}
