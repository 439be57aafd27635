//! Ordered stores whose writes wait for a follower: leaders that are killed, followers that are away, and stops in between.

use super::ordered_followers::{RECORD, at, folder, has, promote_in, put, replication, start_set};
use crate::harness::{Http, Millpond};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const FOLLOWER: &str = "ordered.events.acknowledge=\"follower\"";
const HELD: &str = "millpond_store_unacknowledged{store=\"events\"}";
/// An hour: nothing here waits for so long.
const LONG: &str = "ordered.events.acknowledge_ms=3600000";
const SHORT: &str = "ordered.events.acknowledge_ms=200";

fn start(folder: &Path, follow: Option<&str>, set: &[&str]) -> Millpond {
    let set: Vec<&str> = set.iter().copied().chain([FOLLOWER]).collect();
    start_set(folder, follow, "follow.token", &set)
}

/// Waits until the leader's log has that record, shown or not.
fn wait_for_record(leader: &Millpond, record: u64) {
    let call = json!({
        "follower": "nobody", "history": vec![0; 16], "epoch": 1, "position": 0, "bytes_max": 1, "_token": "of-the-followers"
    });
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (status, answer) = leader.call("ordered.follow", &call);
        assert_eq!(status, 200, "{answer}");
        if answer["last"].as_u64() >= Some(record) {
            return;
        }
        assert!(Instant::now() < until, "{answer}");
    }
}

/// A put on a connection of its own, whose answer comes when it comes.
fn put_apart(server: &Millpond, key: &str) -> std::thread::JoinHandle<(u16, Value)> {
    let (mut http, key) = (Http::connect(&server.addr), key.to_owned());
    let call = json!({"entries": [[key, "value"]]});
    std::thread::spawn(move || http.call("ordered.put", &call))
}

/// Puts again until it is acknowledged.
fn put_until_taken(server: &Millpond, key: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = put(server, key);
        if answer.0 == 200 {
            return;
        }
        assert!(Instant::now() < until, "{answer:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn code(answer: &(u16, Value)) -> (u16, u64) {
    (answer.0, answer.1["code"].as_u64().unwrap_or_default())
}

#[test]
fn what_was_acknowledged_is_there_when_the_leader_is_killed_and_its_follower_promoted() {
    let (a, b) = (folder(), folder());
    let leader = start(a.path(), None, &[LONG]);
    let follower = start(b.path(), Some(&leader.addr), &[LONG]);
    // Each goes on until the leader is gone.
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let addr = leader.addr.clone();
            std::thread::spawn(move || {
                let mut http = Http::connect(&addr);
                for at in 0.. {
                    let call = json!({"entries": [[format!("w{writer}k{at}"), "value"]]});
                    match http.try_call("ordered.put", &call) {
                        Some((200, _)) => {}
                        Some(other) => panic!("{other:?}"),
                        None => return at,
                    }
                }
                0
            })
        })
        .collect();
    follower.wait_for(RECORD, |record| record >= 300);
    leader.signal("KILL");
    let acknowledged: Vec<usize> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    assert!(acknowledged.iter().sum::<usize>() >= 100, "{acknowledged:?}");
    promote_in(b.path());
    for (writer, count) in acknowledged.into_iter().enumerate() {
        let keys: Vec<String> = (0..count).map(|at| format!("w{writer}k{at}")).collect();
        let (status, answer) = follower.call("ordered.get", &json!({"keys": keys}));
        assert_eq!(status, 200, "{answer}");
        let versions = answer["versions"].as_array().unwrap();
        let lost = versions.iter().position(|version| *version == json!(0));
        assert_eq!((versions.len(), lost), (count, None), "writer {writer}");
    }
    // It waits for a follower of its own: the old leader, which has what it never acknowledged, may not be one.
    let waits = put_apart(&follower, "next");
    let c = folder();
    let other = start(c.path(), Some(&at(b.path())), &[LONG]);
    assert_eq!(waits.join().unwrap().0, 200);
    assert!(has(&other, "next") && has(&follower, "next"));
}

#[test]
fn without_a_follower_writes_are_answered_in_time_and_reads_go_on() {
    let (a, b) = (folder(), folder());
    let leader = start(a.path(), None, &[SHORT]);
    let follower = start(b.path(), Some(&at(a.path())), &[SHORT]);
    // The first may come before the follower does.
    put_until_taken(&leader, "first");
    assert_eq!(replication(&leader)["acknowledging"], json!(true));
    assert_eq!(replication(&follower)["acknowledging"], json!(null));
    assert!(follower.terminate().success());
    let late = put(&leader, "late");
    assert_eq!(code(&late), (500, 30113), "{late:?}");
    assert!(
        late.1["ex"].as_str().unwrap().contains("acknowledge_ms"),
        "{late:?}"
    );
    let refused = put(&leader, "refused");
    assert_eq!(code(&refused), (503, 30116), "{refused:?}");
    assert!(
        refused.1["ex"].as_str().unwrap().contains("nothing was written"),
        "{refused:?}"
    );
    assert!(has(&leader, "first") && !has(&leader, "late"));
    leader.wait_for(HELD, |held| held == 1);
    assert_eq!(replication(&leader)["acknowledging"], json!(false));
    let (status, answer) = leader.call("ordered.batch", &json!({"operations": [["get", "first"]]}));
    assert_eq!(status, 200, "{answer}");
    let log = std::fs::read_to_string(a.path().join("millpond.log")).unwrap();
    assert!(log.contains("no follower has the last writes"), "{log}");

    let follower = start(b.path(), Some(&at(a.path())), &[SHORT]);
    leader.wait_for(HELD, |held| held == 0);
    assert!(has(&leader, "late") && has(&follower, "late"));
    put_until_taken(&leader, "next");
    assert!(has(&follower, "next") && !has(&leader, "refused"));
    let log = std::fs::read_to_string(a.path().join("millpond.log")).unwrap();
    assert!(log.contains("it acknowledges writes again"), "{log}");
}

#[test]
fn a_stop_ends_while_a_write_waits_and_says_that_its_outcome_is_unknown() {
    let folder = folder();
    let leader = start(folder.path(), None, &[LONG, "server.drain_ms_max=2000"]);
    let waits = put_apart(&leader, "waits");
    wait_for_record(&leader, 1);
    assert!(leader.terminate().success());
    let answer = waits.join().unwrap();
    assert_eq!(code(&answer), (500, 30113), "{answer:?}");
    let leader = start(folder.path(), None, &[LONG]);
    assert!(has(&leader, "waits"), "a restart shows what the log has");
}

#[test]
fn a_write_that_waits_when_the_leader_stops_is_acknowledged_by_a_follower_that_has_it_in_time() {
    let (a, b) = (folder(), folder());
    let leader = start(a.path(), None, &[LONG, "server.drain_ms_max=60000"]);
    let follower = start(b.path(), Some(&at(a.path())), &[LONG]);
    assert_eq!(put(&leader, "first").0, 200);
    follower.signal("STOP");
    let waits = put_apart(&leader, "waits");
    wait_for_record(&leader, 2);
    leader.signal("TERM");
    super::plugin::wait_for_log(&a, "draining");
    follower.signal("CONT");
    let answer = waits.join().unwrap();
    assert_eq!(answer.0, 200, "{answer:?}");
    super::plugin::wait_for_log(&a, "INFO stopped");
    assert!(has(&follower, "waits"));
}

#[test]
fn a_record_that_is_larger_than_a_followers_frames_comes_in_pieces() {
    let (a, b) = (folder(), folder());
    let leader = start(a.path(), None, &[LONG]);
    let frames = "server.frame_bytes_max=65536";
    let follower = start(b.path(), Some(&at(a.path())), &[LONG, frames]);
    let value = "large ".repeat(50_000);
    let (status, answer) = leader.call("ordered.put", &json!({"entries": [["large", value]]}));
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = follower.call("ordered.inspect", &json!({"keys": ["large"]}));
    assert_eq!(
        (status, &answer["keys"][0]["bytes"]),
        (200, &json!(300_000)),
        "{answer}"
    );
}
