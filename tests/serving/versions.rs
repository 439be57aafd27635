//! Versions of feature tables on a running server: switched, rolled back and listed by call, and what a restart serves.

use crate::harness::{Http, Millpond};
use millpond_engines_features::{Schema, write::Writer};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub(crate) const DIM: usize = 4;
pub(crate) const ROWS: u64 = 300;
pub(super) const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 2
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[features.films]
path = "tables/films"
[access.tokens.deploy]
token = "s3cret"
methods = ["features.activate", "features.rollback", "features.delete"]
"#;

/// Every value of a version is its number; a version has one row more than the one before.
pub(crate) fn write_version(table: &Path, version: u64) {
    let mut writer = Writer::create(table, "films", version, Schema::floats(DIM), 2).unwrap();
    for key in 0..ROWS + version {
        writer.push(key, &[version as f32; DIM]).unwrap();
    }
    writer.finish().unwrap();
}

/// A folder with a table of these versions.
pub(crate) fn folder(versions: &[u64]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("millpond.toml"), CONFIG).unwrap();
    for version in versions {
        write_version(&folder.path().join("tables/films"), *version);
    }
    folder
}

fn call(server: &Millpond, method: &str, more: &Value) -> (u16, Value) {
    let mut payload = json!({"table": "films", "_token": "s3cret"});
    let payload_map = payload.as_object_mut().unwrap();
    payload_map.extend(more.as_object().unwrap().clone());
    server.call(method, &payload)
}

pub(crate) fn switched(server: &Millpond, method: &str, more: &Value) -> Value {
    let (status, answer) = call(server, method, more);
    assert_eq!(status, 200, "{answer}");
    answer
}

pub(super) fn refused(server: &Millpond, method: &str, more: &Value, code: u64, words: &[&str]) {
    let (_, answer) = call(server, method, more);
    assert_eq!(answer["code"], json!(code), "{answer}");
    for word in words {
        assert!(
            answer["ex"].as_str().unwrap().contains(word),
            "{word:?} is not in {answer}"
        );
    }
}

/// The version that a lookup is answered from; its rows are that version's.
pub(crate) fn served(server: &Millpond) -> u64 {
    let (status, answer) = server.call(
        "features.lookup",
        &json!({"table": "films", "keys": [0, 7, ROWS - 1]}),
    );
    assert_eq!(status, 200, "{answer}");
    let version = answer["version"].as_u64().unwrap();
    let values = answer["values"].as_array().unwrap();
    assert!(
        values.iter().all(|value| value.as_f64() == Some(version as f64)),
        "{answer}"
    );
    version
}

/// Numbers of the versions that are listed and for which that holds.
pub(super) fn those(answer: &Value, holds: impl Fn(&Value) -> bool) -> Vec<u64> {
    let versions = answer["versions"].as_array().unwrap().iter();
    versions
        .filter(|version| holds(version))
        .map(|version| version["version"].as_u64().unwrap())
        .collect()
}

pub(super) fn held(answer: &Value) -> Vec<u64> {
    those(answer, |version| version["held"] == json!(true))
}

#[test]
fn a_version_is_activated_and_rolled_back_and_a_restart_serves_it() {
    let folder = folder(&[1, 2]);
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(served(&server), 2, "the highest");
    write_version(&folder.path().join("tables/films"), 3);
    let answer = switched(&server, "features.activate", &json!({}));
    assert_eq!(
        (&answer["active"], &answer["before"], &answer["persistent"]),
        (&json!(3), &json!(2), &json!(true)),
        "{answer}"
    );
    assert_eq!(
        (those(&answer, |_| true), held(&answer)),
        (vec![1, 2, 3], vec![2, 3])
    );
    assert_eq!(answer["versions"][2]["rows"], json!(ROWS + 3), "{answer}");
    assert_eq!(served(&server), 3);

    let answer = switched(&server, "features.rollback", &json!({}));
    assert_eq!(
        (&answer["active"], &answer["before"]),
        (&json!(2), &json!(3)),
        "{answer}"
    );
    assert_eq!(served(&server), 2);
    let (_, listed) = server.call("features.versions", &json!({"table": "films"}));
    assert_eq!(listed, answer, "anybody may list");
    assert!(server.terminate().success());
    let log = fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert_eq!(log.matches("table switched").count(), 2, "{log}");

    // Not the highest any more, and the way back is known too.
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(served(&server), 2);
    let answer = switched(&server, "features.rollback", &json!({}));
    assert_eq!(answer["active"], json!(3), "{answer}");
    drop(server);
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(served(&server), 3, "after a kill, too");
}

#[test]
fn pipelines_follow() {
    let folder = folder(&[1, 2]);
    let pipeline = "[models.sum]\nbackend = \"practice\"\nbehaviour = \"wait\"\nus = 1\nwidth = 4\n[pipelines.p]\nrequest = \"samples\"\n\
        stages = [ { name = \"k\", hash = { slot = \"s\", from = \"samples.0\" } }, \
        { name = \"x\", lookup = { table = \"films\", keys = \"k\" } }, { name = \"y\", model = { model = \"sum\", input = \"x\" } } ]\n";
    fs::write(folder.path().join("millpond.toml"), format!("{CONFIG}{pipeline}")).unwrap();
    let table = folder.path().join("tables/films");
    let key = millpond_pipelines::key_hash("s", "v");
    for version in [3, 4] {
        let mut writer = Writer::create(&table, "films", version, Schema::floats(DIM), 1).unwrap();
        writer.push(key, &[version as f32; DIM]).unwrap();
        writer.finish().unwrap();
    }
    let server = Millpond::start(folder.path(), &[]);
    let score = || {
        server.call("infer", &json!({"samples": [["v"]]})).1["scores"][0]
            .as_f64()
            .unwrap()
    };
    let four = score();
    switched(&server, "features.activate", &json!({"version": 3}));
    let three = score();
    assert!(three != four, "{three}");
    switched(&server, "features.rollback", &json!({}));
    assert_eq!(score(), four);
}

/// Versions 3, of which a file was cut, 4, of which a bit was flipped, and 5, whose rows are wider.
fn break_versions(table: &Path) {
    write_version(table, 3);
    let shard = table.join("00000003/shard-00001.mpf");
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes[..bytes.len() / 2]).unwrap();
    write_version(table, 4);
    let shard = table.join("00000004/shard-00000.mpf");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[300] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let mut writer = Writer::create(table, "films", 5, Schema::floats(DIM + 1), 1).unwrap();
    writer.push(0, &[5.0; DIM + 1]).unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_bad_version_is_refused_and_the_old_one_serves_on() {
    let folder = folder(&[1, 2]);
    let table = folder.path().join("tables/films");
    let server = Millpond::start(folder.path(), &[]);
    break_versions(&table);
    let check = |more: Value, code, words: &[&str]| refused(&server, "features.activate", &more, code, words);
    check(json!({"version": 77}), 30105, &["version 77 is not in"]);
    let active = table.join("ACTIVE");
    assert!(!active.exists(), "a version that is not there decides nothing");
    check(json!({"version": 3}), 30111, &["shard-00001.mpf is damaged"]);
    check(
        json!({"version": 4}),
        30111,
        &["shard-00000.mpf is damaged", "checksum"],
    );
    check(
        json!({}),
        30112,
        &["version 5 has the columns vector (5)", "vector (4)"],
    );
    check(json!({"table": "actors"}), 30105, &["actors", "films"]);
    refused(
        &server,
        "features.rollback",
        &json!({}),
        30112,
        &["nothing to roll back"],
    );
    assert_eq!(served(&server), 2);
    server.wait_for_metric("millpond_table_switches_failed_total{table=\"films\"} 5");
    let (_, listed) = server.call("features.versions", &json!({"table": "films"}));
    assert_eq!((&listed["active"], held(&listed)), (&json!(2), vec![2]));
    // A version whose manifest nobody can read hides no other, and who may list sees no path.
    fs::write(table.join("00000001/manifest.json"), b"{}").unwrap();
    let (status, listed) = server.call("features.versions", &json!({"table": "films"}));
    assert_eq!(
        (status, those(&listed, |version| version["problem"].is_string())),
        (200, vec![1, 3]),
        "{listed}"
    );
    assert!(
        !listed.to_string().contains(folder.path().to_str().unwrap()),
        "{listed}"
    );
    // The next start does not stumble over the highest, which was refused.
    drop(server);
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(served(&server), 2);
    assert!(server.terminate().success());
    let log = fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert_eq!(
        log.matches("shard-00001.mpf is damaged").count(),
        1,
        "said once: {log}"
    );
}

#[test]
fn nobody_switches_without_a_token_that_names_the_method() {
    let folder = folder(&[1, 2]);
    let server = Millpond::start(folder.path(), &[]);
    let methods = ["features.activate", "features.rollback", "features.delete"];
    for method in methods {
        for (token, words) in [
            (None, "needs a token"),
            (Some(""), "does not open"),
            (Some("s3cre"), "does not open"),
        ] {
            let mut payload = json!({"table": "films", "version": 1});
            if let Some(token) = token {
                payload["_token"] = json!(token);
            }
            let (status, answer) = server.call(method, &payload);
            assert_eq!((status, &answer["code"]), (401, &json!(30109)), "{answer}");
            assert!(answer["ex"].as_str().unwrap().contains(words), "{answer}");
        }
        // Any page can have a browser send a GET.
        let get = format!(
            "GET /service/{method} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n"
        );
        assert_eq!(Http::connect(&server.addr).send(&get).0, 405);
    }
    assert_eq!(served(&server), 2);
    drop(server);
    for off in [
        "",
        "[access.tokens.reader]\ntoken = \"s3cret\"\nmethods = [\"features.*\"]\n",
    ] {
        let config = format!("{}{off}", CONFIG.split("[access").next().unwrap());
        fs::write(folder.path().join("millpond.toml"), config).unwrap();
        let server = Millpond::start(folder.path(), &[]);
        for method in methods {
            refused(
                &server,
                method,
                &json!({"version": 1}),
                30109,
                &["is off", "access.tokens.GROUP.methods"],
            );
        }
    }
}

#[test]
fn a_table_says_what_it_is() {
    let folder = folder(&[1, 2]);
    let server = Millpond::start(folder.path(), &[]);
    switched(&server, "features.activate", &json!({"version": 1}));
    let (status, answer) = server.call("features.inspect", &json!({}));
    assert_eq!(status, 200, "{answer}");
    let films = &answer["tables"][0];
    let columns = json!([{"name": "vector", "type": "f32", "dim": DIM}]);
    assert_eq!(
        (&films["table"], &films["columns"], &films["dim"]),
        (&json!("films"), &columns, &json!(DIM))
    );
    assert_eq!(
        (&films["version"], &films["held"], &films["rows"]),
        (&json!(1), &json!([2]), &json!(ROWS + 1))
    );
    assert_eq!(
        (&films["cut"], &films["bytes"]),
        (&json!(false), &films["resident_bytes"])
    );
    assert_eq!(
        server.call("features.inspect", &json!({"table": "films"})).1["tables"][0]["rows"],
        films["rows"]
    );
    let (_, absent) = server.call("features.inspect", &json!({"table": "actors"}));
    assert_eq!(absent["code"], json!(30105), "{absent}");
}

#[test]
fn an_answer_says_whether_a_restart_serves_the_version() {
    let folder = folder(&[1, 2]);
    let server = Millpond::start(folder.path(), &["features.films.version=2"]);
    let answer = switched(&server, "features.activate", &json!({"version": 1}));
    assert_eq!(
        (&answer["active"], &answer["persistent"]),
        (&json!(1), &json!(false))
    );
    assert!(
        answer["why_not"]
            .as_str()
            .unwrap()
            .contains("features.films.version"),
        "{answer}"
    );
    assert_eq!(served(&server), 1);
    drop(server);
    assert!(!folder.path().join("tables/films/ACTIVE").exists());
    // A folder stands where the file would be written, whoever runs this.
    let server = Millpond::start(folder.path(), &[]);
    fs::create_dir_all(folder.path().join("tables/films/ACTIVE/x")).unwrap();
    let answer = switched(&server, "features.activate", &json!({"version": 1}));
    assert_eq!(
        (&answer["active"], &answer["persistent"]),
        (&json!(1), &json!(false)),
        "{answer}"
    );
    assert!(answer["why_not"].as_str().unwrap().contains("ACTIVE"), "{answer}");
    assert_eq!(served(&server), 1);
    // A lone process serves what it holds, folder or not.
    fs::remove_dir_all(folder.path().join("tables/films/ACTIVE")).unwrap();
    fs::remove_dir_all(folder.path().join("tables/films/00000002")).unwrap();
    let answer = switched(&server, "features.rollback", &json!({}));
    assert_eq!(
        (&answer["active"], &answer["persistent"]),
        (&json!(2), &json!(false)),
        "{answer}"
    );
    assert_eq!(served(&server), 2);
}
