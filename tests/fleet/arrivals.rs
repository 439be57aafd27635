//! New versions in a watched folder under several processes: the first process finds them, and all serve them or none.

use super::processes::{own_address, pids, sample, signal, wait};
use super::versions::{log, served, table};
use crate::harness::Millpond;
use crate::serving::versions::write_version;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;

const CONFIG: &str = r#"
[server]
listen = "LISTEN"
threads = 1
processes = 2
[admin]
listen = "127.0.0.1:0"
token = "t"
[log]
file = "millpond.log"
[features.films]
path = "tables/films"
watch = true
watch_every_ms = 10
"#;

#[test]
fn all_processes_serve_a_new_version_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("LISTEN", &own_address(41));
    fs::write(folder.path().join("millpond.toml"), config).unwrap();
    let table = table(folder.path());
    write_version(&table, 1);
    let server = Millpond::start(folder.path(), &[]);
    let count = |what: &str| {
        sample(
            &server,
            &format!("millpond_table_{what}_total{{table=\"films\"}}"),
        )
    };
    let refused = |count_now: f64| wait("it is refused", || count("arrivals_refused") == count_now);
    write_version(&table, 2);
    wait("it is served", || count("arrivals") == 1.0);
    assert_eq!(served(&server), BTreeSet::from([2]), "by all");
    // Damaged: no process serves it.
    write_version(&table, 3);
    let shard = table.join("00000003/shard-00000.mpf");
    let mut bytes = fs::read(&shard).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    refused(1.0);
    assert_eq!(served(&server), BTreeSet::from([2]));
    bytes[at] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    wait("it is served", || count("arrivals") == 2.0);
    assert_eq!(served(&server), BTreeSet::from([3]));
    // What was rolled back stays so, also where nothing on the disk says it and the process that watches is a new one.
    let rollback = json!({"table": "films", "_token": "t"});
    assert_eq!(server.call("features.rollback", &rollback).0, 200);
    fs::remove_file(table.join("ACTIVE")).unwrap();
    for pid in pids(&server) {
        signal(pid, "-KILL");
    }
    wait("both are noticed", || {
        sample(&server, "millpond_process_restarts_total") == 2.0
    });
    wait("both are ready", || server.admin_get("/readyz").0 == 200);
    let refused_before = count("arrivals_refused");
    fs::create_dir(table.join("00000009")).unwrap();
    fs::write(table.join("00000009/manifest.json"), "").unwrap();
    refused(refused_before + 1.0);
    assert_eq!(served(&server), BTreeSet::from([2]));
    write_version(&table, 4);
    wait("it is served", || served(&server) == BTreeSet::from([4]));
    assert!(server.terminate().success());
    assert_eq!(log(folder.path()).matches("the new version serves").count(), 3);
}
