//! Ordered stores of a server that is several processes, under load: the process that has them is killed, comes back, and stops last.

use super::processes::{sample, signal, wait};
use super::stores::{by_process, folder, start};
use crate::harness::{Http, Millpond};
use crate::serving::resp::{Redis, command};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn owner(server: &Millpond) -> u32 {
    sample(server, "millpond_process_pid{process=\"0\"}") as u32
}

/// Puts keys of its own until it is told to stop; what was acknowledged, and how calls were refused.
struct Writer {
    acknowledged: Vec<String>,
    refused: BTreeMap<u64, u64>,
    /// The connection was lost with a call on it.
    lost: bool,
}

fn write(mut http: Http, name: &str, stop: &AtomicBool, written: &AtomicU64) -> Writer {
    let mut writer = Writer {
        acknowledged: Vec::new(),
        refused: BTreeMap::new(),
        lost: false,
    };
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{name}-{number}");
        let Some((status, answer)) = http.try_call("ordered.put", &json!({"entries": [[key, "v"]]})) else {
            writer.lost = true;
            break;
        };
        if status == 200 {
            writer.acknowledged.push(key);
            written.fetch_add(1, Ordering::Relaxed);
        } else {
            *writer
                .refused
                .entry(answer["code"].as_u64().unwrap())
                .or_default() += 1;
        }
    }
    writer
}

/// Whether the store has all these keys.
fn has_all(server: &Millpond, keys: &[String]) {
    for some in keys.chunks(500) {
        let (status, answer) = server.call("ordered.get", &json!({"keys": some}));
        assert_eq!(status, 200, "{answer}");
        let versions = answer["versions"].as_array().unwrap();
        let missing = versions
            .iter()
            .zip(some)
            .find(|(version, _)| **version == json!(0));
        assert!(missing.is_none(), "{missing:?} was acknowledged");
    }
}

#[test]
fn the_others_go_on_when_the_process_with_the_stores_is_killed() {
    let folder = folder(107);
    let server = start(folder.path());
    let connections = by_process(&server);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let writers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (number, of_process) in connections {
            for (at, http) in of_process.into_iter().take(3).enumerate() {
                let (stop, written, writers) = (&stop, &written, &writers);
                scope.spawn(move || {
                    let writer = write(http, &format!("{number}-{at}"), stop, written);
                    writers.lock().unwrap().push((number, writer));
                });
            }
        }
        let more = |by: u64| {
            let before = written.load(Ordering::Relaxed);
            wait("writes are acknowledged", || {
                written.load(Ordering::Relaxed) >= before + by
            });
        };
        for _ in 0..3 {
            more(100);
            let victim = owner(&server);
            signal(victim, "-KILL");
            wait("it is started again", || ![0, victim].contains(&owner(&server)));
            wait("all are ready", || server.admin_get("/readyz").0 == 200);
            // By the connections that there were, to the processes that went on.
            more(100);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let writers = writers.into_inner().unwrap();
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    for (number, writer) in &writers {
        assert_eq!(writer.lost, *number == 0, "process {number}");
        let known = |code: &u64| [30103, 30113].contains(code);
        assert!(writer.refused.keys().all(known), "{:?}", writer.refused);
        refused += writer.refused.values().sum::<u64>();
        acknowledged.extend_from_slice(&writer.acknowledged);
    }
    assert!(refused > 0, "calls came while it was away");
    assert_eq!(sample(&server, "millpond_process_restarts_total"), 3.0);
    has_all(&server, &acknowledged);
    assert!(server.terminate().success());
}

#[test]
fn a_stop_under_load_finishes_what_any_process_has_accepted() {
    let folder = folder(109);
    let server = start(folder.path());
    let connections = by_process(&server);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let writers = Mutex::new(Vec::new());
    let ended = std::thread::scope(|scope| {
        for (number, of_process) in connections {
            for (at, http) in of_process.into_iter().take(3).enumerate() {
                let (stop, written, writers) = (&stop, &written, &writers);
                scope.spawn(move || {
                    let writer = write(http, &format!("{number}-{at}"), stop, written);
                    writers.lock().unwrap().push(writer);
                });
            }
        }
        wait("writes are acknowledged", || {
            written.load(Ordering::Relaxed) >= 200
        });
        let ended = server.terminate();
        stop.store(true, Ordering::Relaxed);
        ended
    });
    assert!(ended.success(), "{ended}");
    let mut acknowledged = Vec::new();
    for writer in writers.into_inner().unwrap() {
        // A call that was accepted is answered; those behind the stop are refused.
        assert!(
            writer.refused.keys().all(|code| *code == 20014),
            "{:?}",
            writer.refused
        );
        acknowledged.extend(writer.acknowledged);
    }
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(!log.contains("unfinished") && !log.contains("ERROR"), "{log}");
    let again = start(folder.path());
    has_all(&again, &acknowledged);
    assert!(again.terminate().success());
}

#[test]
fn what_is_larger_on_its_way_than_it_came_leaves_the_connection_between_processes_whole() {
    let folder = folder(117);
    let server = start(folder.path());
    let mut connections = by_process(&server);
    // A byte here is six in JSON.
    let value = "\u{1}".repeat(30_000);
    for tens in 0..11 {
        let entries: Vec<[String; 2]> = (0..10)
            .map(|at| [format!("large{tens:02}{at}"), value.clone()])
            .collect();
        let (status, answer) = server.call("ordered.put", &json!({"entries": entries}));
        assert_eq!(status, 200, "{answer}");
    }
    for (number, of_process) in &mut connections {
        let asked = json!({"prefix": "large", "limit": 110});
        let (status, page) = of_process[0].call("ordered.scan", &asked);
        let entries = page["entries"].as_array().map_or(0, Vec::len);
        assert_eq!((status, entries), (200, 110), "process {number}");
    }
    // A key of this command has more bytes in the call that it becomes.
    let keys: Vec<String> = (0..10_000).map(|at| format!("{at:0>829}")).collect();
    let words: Vec<&[u8]> = std::iter::once("DEL")
        .chain(keys.iter().map(String::as_str))
        .map(str::as_bytes)
        .collect();
    for _ in 0..8 {
        Redis::connect(&server).check(&command(&words), b":0\r\n");
    }
    let lost = sample(&server, "millpond_stores_failures_total");
    assert_eq!(lost, 0.0, "no call was lost with its connection");
    assert!(server.terminate().success());
}
