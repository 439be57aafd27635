//! Switches of feature tables under several processes: all switch or none, and a process that starts later follows.

use super::processes::{own_address, pids, sample, signal, wait};
use crate::harness::{Http, Millpond};
use crate::serving::versions::write_version;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Connections made until every process had one; with two processes 64 of them miss one with a chance of 2^-63.
const CONNECTIONS: usize = 64;

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
"#;

fn start(host: u8, versions: &[u64]) -> (tempfile::TempDir, Millpond) {
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("LISTEN", &own_address(host));
    fs::write(folder.path().join("millpond.toml"), config).unwrap();
    for version in versions {
        write_version(&table(folder.path()), *version);
    }
    let server = Millpond::start(folder.path(), &[]);
    (folder, server)
}

pub(super) fn table(folder: &Path) -> PathBuf {
    folder.join("tables/films")
}

pub(super) fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("millpond.log")).unwrap()
}

/// The versions that all processes serve, one when they agree.
pub(super) fn served(server: &Millpond) -> BTreeSet<u64> {
    let lookup = json!({"table": "films", "keys": [0, 1]});
    let one = |_| {
        let (status, answer) = Http::connect(&server.addr).call("features.lookup", &lookup);
        assert_eq!(status, 200, "{answer}");
        answer["version"].as_u64().unwrap()
    };
    (0..CONNECTIONS).map(one).collect()
}

fn activate(version: u64) -> Value {
    json!({"table": "films", "version": version, "_token": "t"})
}

/// A connection to each of the two processes, with the process's number of its log lines.
fn connection_to(server: &Millpond, process: u64) -> Http {
    let mut connections = (0..CONNECTIONS).map(|_| Http::connect(&server.addr));
    let found = connections.find_map(|mut http| {
        let (_, infos) = http.call("*infos", &json!({}));
        (infos["millpond"]["process"] == json!(process)).then_some(http)
    });
    found.unwrap()
}

#[test]
fn all_processes_switch_and_those_that_start_later_follow() {
    let (folder, server) = start(31, &[1, 2]);
    assert_eq!(served(&server), BTreeSet::from([2]));
    for round in 0..6 {
        let next = 1 + round % 2;
        let (status, answer) = server.call("features.activate", &activate(next));
        assert_eq!(
            (status, &answer["active"], &answer["persistent"]),
            (200, &json!(next), &json!(true)),
            "{answer}"
        );
        assert_eq!(
            served(&server),
            BTreeSet::from([next]),
            "when it is answered, all have switched"
        );
    }
    let (_, answer) = server.call("features.rollback", &json!({"table": "films", "_token": "t"}));
    assert_eq!(answer["active"], json!(1), "{answer}");
    // Nothing can be written there, so the parent alone knows what is served.
    fs::remove_file(table(folder.path()).join("ACTIVE")).unwrap();
    fs::create_dir_all(table(folder.path()).join("ACTIVE/x")).unwrap();
    let (_, answer) = server.call("features.activate", &activate(2));
    assert_eq!(
        (&answer["active"], &answer["persistent"]),
        (&json!(2), &json!(false)),
        "{answer}"
    );
    fs::remove_dir_all(table(folder.path()).join("ACTIVE")).unwrap();
    write_version(&table(folder.path()), 3);
    for pid in pids(&server) {
        signal(pid, "-KILL");
    }
    wait("both are noticed", || {
        sample(&server, "millpond_process_restarts_total") == 2.0
    });
    wait("both are ready", || server.admin_get("/readyz").0 == 200);
    assert_eq!(served(&server), BTreeSet::from([2]), "not the highest");
    assert!(server.terminate().success());
}

/// Nothing was switched by a call: what the others serve decides, not what the folder has by now.
#[test]
fn a_process_that_is_started_again_serves_what_the_others_serve() {
    let (folder, server) = start(34, &[1]);
    let table = table(folder.path());
    write_version(&table, 2);
    // A start by the folder would fail.
    write_version(&table, 3);
    let shard = table.join("00000003/shard-00001.mpf");
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes[..bytes.len() / 2]).unwrap();
    let kill_one = |restarts: f64| {
        signal(*pids(&server).iter().next().unwrap(), "-KILL");
        wait("it is noticed", || {
            sample(&server, "millpond_process_restarts_total") >= restarts
        });
        wait("all are ready", || server.admin_get("/readyz").0 == 200);
    };
    kill_one(1.0);
    assert_eq!(served(&server), BTreeSet::from([1]), "not the highest");
    assert_eq!(sample(&server, "millpond_process_restarts_total"), 1.0);
    let (status, answer) = server.call("features.activate", &activate(2));
    assert_eq!((status, &answer["before"]), (200, &json!(1)), "{answer}");
    kill_one(2.0);
    for process in 0..2 {
        let list = json!({"table": "films"});
        let (_, listed) = connection_to(&server, process).call("features.versions", &list);
        assert_eq!(
            (&listed["active"], &listed["before"]),
            (&json!(2), &json!(1)),
            "a way back leads to the same version on every process: {listed}"
        );
    }
    // The first process still holds it, and one that starts later could not open it.
    let (status, answer) = server.call("features.activate", &activate(1));
    assert_eq!(status, 200, "{answer}");
    fs::remove_file(table.join("00000002/shard-00000.mpf")).unwrap();
    let (_, answer) = server.call("features.rollback", &json!({"table": "films", "_token": "t"}));
    assert_eq!(answer["code"], json!(30111), "{answer}");
    assert!(
        answer["ex"].as_str().unwrap().contains("shard-00000.mpf"),
        "{answer}"
    );
    assert!(
        !fs::read_to_string(table.join("ACTIVE"))
            .unwrap()
            .contains("version 2\n")
    );
    fs::remove_dir_all(table.join("00000002")).unwrap();
    let (_, answer) = server.call("features.rollback", &json!({"table": "films", "_token": "t"}));
    assert_eq!(answer["code"], json!(30112), "{answer}");
    let ex = answer["ex"].as_str().unwrap();
    assert!(ex.contains("the folder of version 2 is gone"), "{ex}");
    assert_eq!(served(&server), BTreeSet::from([1]));
    assert!(server.terminate().success());
}

#[test]
fn where_one_process_cannot_open_a_version_none_switches() {
    let (folder, server) = start(32, &[1, 2]);
    let table = table(folder.path());
    write_version(&table, 3);
    let mut asking = connection_to(&server, 0);
    let (_, infos) = connection_to(&server, 1).call("*infos", &json!({}));
    let other = infos["millpond"]["pid"].as_u64().unwrap() as u32;
    signal(other, "-STOP");
    let body = activate(3).to_string();
    let request = format!(
        "POST /service/features.activate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    asking.stream.write_all(request.as_bytes()).unwrap();
    let is_opened = |line: &str| {
        line.contains("table opened") && line.contains("version=3") && line.ends_with("process=0")
    };
    wait("the first has opened it", || {
        log(folder.path()).lines().any(is_opened)
    });
    let shard = table.join("00000003/shard-00001.mpf");
    let bytes = fs::read(&shard).unwrap();
    let whole_bytes = bytes.len();
    fs::write(&shard, &bytes[..whole_bytes / 2]).unwrap();
    signal(other, "-CONT");
    let (status, text) = asking.answer().unwrap();
    assert!(status >= 500 && text.contains("process "), "{status} {text}");
    wait("all are ready", || server.admin_get("/readyz").0 == 200);
    assert_eq!(served(&server), BTreeSet::from([2]));
    // What was opened is dropped again, so another switch finds nothing in its way.
    let (status, answer) = server.call("features.activate", &activate(1));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(served(&server), BTreeSet::from([1]));
    // A version that is held anywhere stays.
    let (_, answer) = server.call("features.delete", &activate(2));
    assert_eq!(answer["code"], json!(30112), "{answer}");
    let (status, answer) = server.call("features.delete", &activate(3));
    assert_eq!(status, 200, "{answer}");
    assert!(server.terminate().success());
}

#[test]
fn a_process_that_is_killed_while_versions_switch_serves_what_the_others_serve() {
    let (_folder, server) = start(33, &[1, 2]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // Its process may be the one that is killed, and a switch may be refused while one starts.
                let Ok(stream) = TcpStream::connect(&server.addr) else {
                    continue;
                };
                let body = activate(1 + round % 2).to_string();
                let mut http = Http { stream };
                let request = format!(
                    "POST /service/features.activate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                if http.stream.write_all(request.as_bytes()).is_ok() {
                    http.answer();
                }
            }
        });
        for round in 1..=4 {
            let victim = *pids(&server).iter().nth(round % 2).unwrap();
            signal(victim, "-KILL");
            wait("it is noticed", || {
                sample(&server, "millpond_process_restarts_total") >= round as f64
            });
            wait("all are ready", || server.admin_get("/readyz").0 == 200);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (status, answer) = server.call("features.activate", &activate(2));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(served(&server), BTreeSet::from([2]));
    let (_, answer) = server.call("features.rollback", &json!({"table": "films", "_token": "t"}));
    let active = answer["active"].as_u64();
    assert_eq!(served(&server), active.into_iter().collect());
    assert!(server.terminate().success());
}
