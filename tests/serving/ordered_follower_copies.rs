//! Followers that begin late or were away too long: they take a copy of their leader's store by themselves, over sockets.

use super::ordered_followers::{RECORD, folder as plain_folder, promote_in, start_set};
use super::plugin::wait_for_log;
use crate::harness::Millpond;
use serde_json::{Value, json};
use std::path::Path;

/// Logs and checkpoints are small, and the followers' token opens copies too, unlike that of older ones.
const SMALL: [&str; 4] = [
    "ordered.events.segment_bytes_max=2000",
    "ordered.events.checkpoint_log_bytes=6000",
    "access.tokens.followers.methods=[\"ordered.follow\", \"ordered.copy\"]",
    "access.tokens.older={token=\"of-older-followers\", methods=[\"ordered.follow\"]}",
];

fn folder() -> tempfile::TempDir {
    let folder = plain_folder();
    std::fs::write(folder.path().join("older.token"), "of-older-followers\n").unwrap();
    folder
}

fn start(folder: &Path, set: &[&str]) -> Millpond {
    let set: Vec<&str> = SMALL.iter().chain(set).copied().collect();
    start_set(folder, None, "follow.token", &set)
}

fn follow(folder: &Path, leader: &str, token_file: &str) -> Millpond {
    start_set(folder, Some(leader), token_file, &SMALL)
}

fn puts(server: &Millpond, from: u64, to: u64) {
    for at in from..to {
        let value = format!("value {at} {}", "x".repeat(60));
        let call = json!({"entries": [[format!("k{:03}", at % 150), value]]});
        let (status, answer) = server.call("ordered.put", &call);
        assert_eq!(status, 200, "{answer}");
    }
}

fn checkpoint(server: &Millpond) {
    let (status, answer) = server.call("ordered.checkpoint", &json!({"_token": "of-the-admin"}));
    assert_eq!(status, 200, "{answer}");
}

fn scan(server: &Millpond) -> Value {
    let (status, answer) = server.call("ordered.scan", &json!({"limit": 1000}));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer.get("cursor"), None);
    answer["entries"].clone()
}

#[test]
fn a_follower_that_comes_late_or_was_away_takes_a_copy_and_follows_on() {
    let (a, b) = (folder(), folder());
    let leader = start(a.path(), &[]);
    puts(&leader, 0, 300);
    checkpoint(&leader);
    // The leader's log begins behind record 0, and it is written to while it is copied.
    let follower = follow(b.path(), &leader.addr, "follow.token");
    puts(&leader, 300, 400);
    follower.wait_for(RECORD, |record| record == 400);
    assert_eq!(scan(&leader), scan(&follower));
    wait_for_log(&b, "takes a copy of the leader's");
    wait_for_log(&b, "follows on from there");
    let (_, said) = follower.call("ordered.inspect", &json!({}));
    assert_eq!(said["store"]["replication"].get("copied_bytes"), None, "{said}");

    // Away while the leader gives up what it would need next.
    assert!(follower.terminate().success());
    let (status, answer) = leader.call("ordered.remove", &json!({"keys": ["k000", "k149"]}));
    assert_eq!(status, 200, "{answer}");
    puts(&leader, 401, 520);
    checkpoint(&leader);
    let follower = follow(b.path(), &leader.addr, "follow.token");
    follower.wait_for(RECORD, |record| record == 520);
    assert_eq!(scan(&leader), scan(&follower));
    puts(&leader, 520, 530);
    follower.wait_for(RECORD, |record| record == 530);
    // Its own log and checkpoint are what it is started again from.
    assert!(follower.terminate().success());
    let copied = scan(&leader);
    assert!(leader.terminate().success());
    let follower = follow(b.path(), "127.0.0.1:1", "follow.token");
    assert_eq!(scan(&follower), copied);
    assert!(follower.terminate().success());
}

#[test]
fn a_follower_that_lagged_over_a_promotion_takes_a_copy_of_the_new_leader() {
    let (a, b, c) = (folder(), folder(), folder());
    let leader = start(a.path(), &[]);
    puts(&leader, 0, 10);
    let [promoted, lagging] = [&b, &c].map(|folder| follow(folder.path(), &leader.addr, "follow.token"));
    lagging.wait_for(RECORD, |record| record == 10);
    assert!(lagging.terminate().success());
    puts(&leader, 10, 20);
    promoted.wait_for(RECORD, |record| record == 20);
    assert!(leader.terminate().success());
    promote_in(b.path());
    puts(&promoted, 20, 40);
    checkpoint(&promoted);
    // Neither the one that lagged nor the old leader has a record alone.
    for folder in [&c, &a] {
        let follower = follow(folder.path(), &promoted.addr, "follow.token");
        follower.wait_for(RECORD, |record| record == 40);
        wait_for_log(folder, "follows on from there");
        assert_eq!(scan(&follower), scan(&promoted));
        assert!(follower.terminate().success());
    }
    assert!(promoted.terminate().success());
}

#[test]
fn copies_are_given_with_a_token_alone_and_to_no_store_of_another_history() {
    let (a, b, c) = (folder(), folder(), folder());
    let leader = start(a.path(), &[]);
    puts(&leader, 0, 20);
    checkpoint(&leader);
    let call = json!({"follower": "f", "history": vec![0; 16], "epoch": 1, "position": 0});
    let (status, refused) = leader.call("ordered.copy", &call);
    assert_eq!((status, &refused["code"]), (401, &json!(30109)), "{refused}");
    let with = |method: &str, more: Value| {
        let mut call = call.clone();
        call["_token"] = json!("of-the-followers");
        for (key, value) in more.as_object().unwrap() {
            call[key] = value.clone();
        }
        leader.call(method, &call)
    };
    let (status, refused) = with("ordered.follow", json!({}));
    assert_eq!((status, &refused["code"]), (410, &json!(30119)), "{refused}");
    let (status, answer) = with("ordered.copy", json!({}));
    assert_eq!(
        (status, &answer["checkpoint"], &answer["last"]),
        (200, &json!(21), &json!(20)),
        "{answer}"
    );
    let (status, refused) = with("ordered.copy", json!({"offset": 1}));
    assert_eq!((status, &refused["code"]), (400, &json!(30104)), "{refused}");
    let (status, refused) = with("ordered.copy", json!({"checkpoint": 21, "offset": 1_u64 << 40}));
    assert_eq!((status, &refused["code"]), (400, &json!(30104)), "{refused}");
    let (status, refused) = with("ordered.copy", json!({"checkpoint": 20, "offset": 0}));
    assert_eq!((status, &refused["code"]), (410, &json!(30119)), "{refused}");
    let (status, refused) = with("ordered.copy", json!({"position": 3}));
    assert_eq!((status, &refused["code"]), (409, &json!(30112)), "{refused}");

    // A token that opens ordered.follow alone says what it lacks.
    let follower = follow(b.path(), &leader.addr, "older.token");
    wait_for_log(&b, "has to open");
    assert!(follower.terminate().success());

    // A store of its own is not replaced by another server's.
    let other = start(c.path(), &[]);
    puts(&other, 0, 2);
    assert!(other.terminate().success());
    let other = follow(c.path(), &leader.addr, "follow.token");
    wait_for_log(&c, "histories differ");
    assert_eq!(scan(&other).as_array().unwrap().len(), 2);
    assert!(other.terminate().success());
    assert!(leader.terminate().success());
}

#[test]
fn a_follower_calls_its_leader_by_tls_and_refuses_one_that_nobody_it_trusts_has_signed() {
    let (a, b, c) = (folder(), folder(), folder());
    let certificate = |folder: &tempfile::TempDir| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("server.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("server.key"), made.signing_key.serialize_pem()).unwrap();
        folder.path().join("server.pem")
    };
    let (own, other) = (certificate(&a), certificate(&c));
    let tls = "server.tls={listen=\"127.0.0.1:0\",certificate=\"server.pem\",private_key=\"server.key\"}";
    let leader = start(a.path(), &[tls]);
    puts(&leader, 0, 100);
    checkpoint(&leader);
    let port = leader.tls.as_deref().unwrap().rsplit(':').next().unwrap();
    let address = format!("tls://localhost:{port}");
    let follow_by_tls = |folder: &Path, ca: &Path| {
        let ca = format!("ordered.events.follow_ca={ca:?}");
        let set: Vec<&str> = SMALL.iter().copied().chain([ca.as_str()]).collect();
        start_set(folder, Some(&address), "follow.token", &set)
    };
    let wrong = follow_by_tls(c.path(), &other);
    wait_for_log(&c, "does not follow its leader now");
    let follower = follow_by_tls(b.path(), &own);
    follower.wait_for(RECORD, |record| record == 100);
    puts(&leader, 100, 110);
    follower.wait_for(RECORD, |record| record == 110);
    assert_eq!(scan(&leader), scan(&follower));
    assert_eq!(scan(&wrong), json!([]));
    for server in [wrong, follower, leader] {
        assert!(server.terminate().success());
    }
}
