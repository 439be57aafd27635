//! Texts over nodes that answer from another version than the one by which a server hashes them.

use super::cluster::{TOKEN, socket, write_map};
use crate::harness::Millpond;
use millpond_engines_features::{Keys, Schema, write::Writer};
use serde_json::{Value, json};
use std::path::Path;

/// More than a few, so that both nodes have some.
const TEXTS: u8 = 40;

fn payload() -> Value {
    let texts: Vec<String> = (0..TEXTS).map(|at| format!("text {at}")).collect();
    json!({"table": "words", "texts": texts})
}

/// All texts, each with its place and the version.
fn make(folder: &Path, version: u64, slot: &str) {
    let schema = Schema {
        keys: Keys::Text {
            slot: slot.to_owned(),
        },
        ..Schema::floats(2)
    };
    let mut writer = Writer::create(&folder.join("words"), "words", version, schema, 2).unwrap();
    for at in 0..TEXTS {
        let row = [f32::from(at), version as f32];
        writer.push_text(&format!("text {at}"), &row).unwrap();
    }
    writer.finish().unwrap();
}

/// A server with a version of the table; it is one of the nodes where `node` says its name.
fn start(folder: &Path, name: &str, node: &str, (version, slot): (u64, &str)) -> Millpond {
    let of_this = folder.join(name);
    std::fs::create_dir_all(&of_this).unwrap();
    make(&of_this, version, slot);
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nlisten_also = [\"unix:{}\"]\ndeadline_ms_default = 50000\n\
         [admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\"\n\
         [features.words]\npath = \"words\"\nspread = true\n\
         [nodes]\n{node}\nmap = \"../map.toml\"\nconnect_timeout_ms = 50000\nanswer_timeout_ms = 50000\n",
        socket(folder, name).display()
    );
    std::fs::write(of_this.join("millpond.toml"), text).unwrap();
    Millpond::start(&of_this, &[])
}

#[test]
fn texts_are_not_looked_up_by_the_hashes_of_another_version() {
    let folder = tempfile::tempdir().unwrap();
    write_map(folder.path(), 1, &["a", "b"], 1);
    let old = (1, "old");
    let nodes = ["a", "b"].map(|name| start(folder.path(), name, &format!("name = \"{name}\""), old));
    let has_rows = |server: &Millpond| {
        let (status, answer) = server.call("features.lookup", &payload());
        let expected: Vec<f64> = (0..TEXTS).flat_map(|at| [f64::from(at), 1.0]).collect();
        assert_eq!((status, &answer["values"]), (200, &json!(expected)), "{answer}");
    };
    nodes.iter().for_each(has_rows);
    // By its own version each text would be another key, and none of them found.
    let ahead = start(folder.path(), "ahead", "", (2, "new"));
    for _ in 0..2 {
        let (status, answer) = ahead.call("features.lookup", &payload());
        assert_eq!((status, &answer["code"]), (503, &json!(30116)), "{answer}");
        let ex = answer["ex"].as_str().unwrap();
        assert!(
            ex.contains("as version 2 ") && ex.contains("from version 1,"),
            "{ex}"
        );
    }
    // Where the version that answers is held, it is known how it hashes.
    let holds = start(folder.path(), "holds", "", old);
    make(&folder.path().join("holds"), 2, "old");
    let activate = json!({"table": "words", "version": 2, "_token": TOKEN});
    let (status, answer) = holds.call("features.activate", &activate);
    assert_eq!(status, 200, "{answer}");
    (0..2).for_each(|_| has_rows(&holds));
}
