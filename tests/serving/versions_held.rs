//! Versions that do not serve: held ones answer lookups that name them, over a restart too, and what nothing needs is deleted.

use super::versions::{DIM, folder, held, refused, served, switched, those};
use crate::harness::{Millpond, millpond};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[test]
fn a_lookup_may_name_a_version_as_long_as_it_is_held() {
    let folder = folder(&[1, 2, 3, 4]);
    let server = Millpond::start(folder.path(), &["features.films.versions_held=1"]);
    let at = |version: u64| {
        server.call(
            "features.lookup",
            &json!({"table": "films", "keys": [0], "at_version": version}),
        )
    };
    let (_, gone) = at(3);
    assert_eq!(gone["code"], json!(30106), "{gone}");
    switched(&server, "features.activate", &json!({"version": 3}));
    for version in [3, 4] {
        let (status, answer) = at(version);
        assert_eq!((status, &answer["version"]), (200, &json!(version)));
        assert_eq!(answer["values"], json!(vec![version as f64; DIM]));
        // The version that serves is said where another one answers.
        let active = if version == 3 { json!(null) } else { json!(3) };
        assert_eq!(answer["active"], active, "{answer}");
    }
    // A held version needs no files.
    let shard = folder.path().join("tables/films/00000004/shard-00000.mpf");
    fs::write(shard, b"damaged").unwrap();
    assert_eq!(at(4).0, 200);
    switched(&server, "features.activate", &json!({"version": 1}));
    let (status, gone) = at(4);
    assert_eq!((status, &gone["code"]), (410, &json!(30106)));
    let ex = gone["ex"].as_str().unwrap();
    assert!(ex.contains("version 1 serves, and [3] are kept open"), "{ex}");
    assert!(ex.contains("features.films.versions_held"), "{ex}");
    // What each version was asked for is told as long as it is open.
    let of =
        |name: &str, version: u64| format!("millpond_table_{name}{{table=\"films\",version=\"{version}\"}}");
    server.call("features.lookup", &json!({"table": "films", "keys": [1, 2, 999]}));
    server.wait_for_metric(&format!("{} 3", of("keys_total", 1)));
    server.wait_for_metric(&format!("{} 1", of("misses_total", 1)));
    server.wait_for_metric(&format!("{} 1", of("hits_total", 3)));
    server.wait_for_metric("millpond_table_switches_total{table=\"films\"} 2");
    let (_, page) = server.admin_get("/metrics");
    assert!(!page.contains("version=\"4\""), "{page}");
    assert!(page.contains(&of("resident_bytes", 3)), "{page}");
}

#[test]
fn versions_that_were_held_answer_after_a_restart() {
    let folder = folder(&[1, 2, 3, 4]);
    let server = Millpond::start(folder.path(), &[]);
    for version in [1, 3, 2] {
        switched(&server, "features.activate", &json!({"version": version}));
    }
    let check = |server: &Millpond, answering: &[u64]| {
        for version in 1..=4_u64 {
            let asked = json!({"table": "films", "keys": [0], "at_version": version});
            let (_, answer) = server.call("features.lookup", &asked);
            match answering.contains(&version) {
                true => assert_eq!(answer["values"], json!(vec![version as f64; DIM]), "{answer}"),
                false => assert_eq!(answer["code"], json!(30106), "{answer}"),
            }
        }
        let (_, listed) = server.call("features.versions", &json!({"table": "films"}));
        assert_eq!(
            (&listed["active"], held(&listed)),
            (&json!(2), answering.to_vec())
        );
    };
    check(&server, &[1, 2, 3]);
    drop(server);
    let server = Millpond::start(folder.path(), &[]);
    check(&server, &[1, 2, 3]);
    drop(server);
    // One that cannot be opened any more is passed over, and fewer are held where fewer are to be.
    let damaged = folder.path().join("tables/films/00000003/shard-00000.mpf");
    fs::write(damaged, b"damaged").unwrap();
    let server = Millpond::start(folder.path(), &[]);
    check(&server, &[1, 2]);
    drop(server);
    let server = Millpond::start(folder.path(), &["features.films.versions_held=0"]);
    check(&server, &[2]);
}

#[test]
fn only_a_version_that_nothing_needs_is_deleted() {
    let folder = folder(&[1, 2, 3, 4]);
    let table = folder.path().join("tables/films");
    let server = Millpond::start(folder.path(), &[]);
    switched(&server, "features.activate", &json!({"version": 3}));
    let delete = "features.delete";
    refused(
        &server,
        delete,
        &json!({"version": 3}),
        30112,
        &["version 3", "serves"],
    );
    refused(
        &server,
        delete,
        &json!({"version": 4}),
        30112,
        &["version 4", "is kept open"],
    );
    refused(
        &server,
        delete,
        &json!({"version": 9}),
        30105,
        &["version 9 is not in"],
    );
    refused(&server, delete, &json!({}), 10009, &["version"]);
    let answer = switched(&server, delete, &json!({"version": 1}));
    assert_eq!(
        (those(&answer, |_| true), &answer["active"]),
        (vec![2, 3, 4], &json!(3))
    );
    assert!(!table.join("00000001").exists() && table.join("00000003").exists());
    drop(server);
    let server = Millpond::start(folder.path(), &["features.films.version=2"]);
    refused(
        &server,
        delete,
        &json!({"version": 2}),
        30112,
        &["features.films.version of the configuration"],
    );
    refused(
        &server,
        delete,
        &json!({"version": 3}),
        30112,
        &["is the active one"],
    );
}

/// Cuts a file of version 2.
fn cut(folder: &Path) {
    let shard = folder.join("tables/films/00000002/shard-00000.mpf");
    let bytes = fs::read(&shard).unwrap();
    fs::write(shard, &bytes[..bytes.len() - 64]).unwrap();
}

#[test]
fn a_held_version_whose_files_are_damaged_serves_until_a_restart() {
    let folder = folder(&[1, 2]);
    let server = Millpond::start(folder.path(), &[]);
    switched(&server, "features.activate", &json!({"version": 1}));
    cut(folder.path());
    let answer = switched(&server, "features.rollback", &json!({}));
    assert_eq!(
        (&answer["active"], &answer["persistent"]),
        (&json!(2), &json!(false)),
        "{answer}"
    );
    let why_not = answer["why_not"].as_str().unwrap();
    assert!(
        why_not.starts_with("a restart serves version 1: version 2 does not open: ")
            && why_not.contains("shard-00000.mpf is damaged"),
        "{why_not}"
    );
    assert_eq!(served(&server), 2);
    // Who may list sees no path.
    let (_, listed) = server.call("features.versions", &json!({"table": "films"}));
    assert_eq!(listed["why_not"], json!("a restart serves version 1"), "{listed}");
    assert!(!listed.to_string().contains(folder.path().to_str().unwrap()));
    let problem = listed["versions"][1]["problem"].as_str().unwrap();
    assert!(
        problem.starts_with("00000002/shard-00000.mpf is damaged: length in bytes: expected "),
        "{problem}"
    );
    assert_eq!(listed["versions"][0].get("problem"), None, "{listed}");
    let told = millpond()
        .args(["features", "versions", "films", "--server", &server.addr])
        .output()
        .unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.contains("2: 302 rows, ")
            && told.contains(" bytes, serves, does not open: 00000002/shard-00000.mpf is damaged"),
        "{told}"
    );
    drop(server);
    assert_eq!(served(&Millpond::start(folder.path(), &[])), 1);
}

#[test]
fn the_version_that_serves_is_not_persistent_once_its_files_are_damaged() {
    let folder = folder(&[1, 2]);
    let server = Millpond::start(folder.path(), &[]);
    cut(folder.path());
    let why_not = |answer: &Value| {
        assert_eq!(answer["persistent"], json!(false), "{answer}");
        answer["why_not"].as_str().unwrap().to_owned()
    };
    let (_, listed) = server.call("features.versions", &json!({"table": "films"}));
    let listed = why_not(&listed);
    assert!(
        listed.starts_with("a restart fails: version 2 does not open: 00000002/shard-00000.mpf is damaged: "),
        "{listed}"
    );
    let answer = switched(&server, "features.activate", &json!({"version": 2}));
    let activated = why_not(&answer);
    assert!(
        activated.starts_with("a restart fails: version 2 does not open: ")
            && activated.contains("is damaged"),
        "{activated}"
    );
    drop(server);
    let started = Millpond::try_start(folder.path(), &[]).err();
    assert!(started.unwrap().1.contains("shard-00000.mpf is damaged"));
}
