//! Ordered stores that follow another server's: two servers over sockets, restarted, promoted and fenced.

use super::plugin::wait_for_log;
use super::resp::Redis;
use crate::harness::{Millpond, millpond};
use serde_json::{Value, json};
use std::path::Path;

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
[admin]
listen = "127.0.0.1:0"
token = "of-the-admin"
[log]
file = "millpond.log"
[ordered.events]
path = "events"
[access.tokens.followers]
token = "of-the-followers"
methods = ["ordered.follow"]
"#;
pub(super) const RECORD: &str = "millpond_store_record{store=\"events\"}";

pub(super) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("millpond.toml", CONFIG);
    write("follow.token", "of-the-followers\n");
    write("wrong.token", "of-nobody\n");
    write("admin.token", "of-the-admin\n");
    folder
}

/// A server that is reached at a socket of its folder too.
fn start(folder: &Path, follow: Option<&str>) -> Millpond {
    start_with(folder, follow, "follow.token")
}

fn start_with(folder: &Path, follow: Option<&str>, token_file: &str) -> Millpond {
    start_set(folder, follow, token_file, &[])
}

/// The same with more of its configuration.
pub(super) fn start_set(folder: &Path, follow: Option<&str>, token_file: &str, set: &[&str]) -> Millpond {
    let listen = format!("server.listen_also=[{:?}]", at(folder));
    let follow = follow.map(|leader| {
        [
            format!("ordered.events.follow={leader:?}"),
            format!("ordered.events.follow_token_file={token_file:?}"),
        ]
    });
    let follow = follow.iter().flatten().map(String::as_str);
    let set: Vec<&str> = std::iter::once(listen.as_str())
        .chain(follow)
        .chain(set.iter().copied())
        .collect();
    Millpond::start(folder, &set)
}

pub(super) fn at(folder: &Path) -> String {
    format!("unix:{}", folder.join("server.sock").display())
}

pub(super) fn put(server: &Millpond, key: &str) -> (u16, Value) {
    server.call("ordered.put", &json!({"entries": [[key, "value"]]}))
}

fn puts(server: &Millpond, from: u64, to: u64) {
    for at in from..to {
        let (status, answer) = put(server, &format!("k{at}"));
        assert_eq!(status, 200, "{answer}");
    }
}

pub(super) fn has(server: &Millpond, key: &str) -> bool {
    let (status, answer) = server.call("ordered.get", &json!({"keys": [key]}));
    assert_eq!(status, 200, "{answer}");
    answer["versions"][0] != json!(0)
}

pub(super) fn replication(server: &Millpond) -> Value {
    let (status, answer) = server.call("ordered.inspect", &json!({}));
    assert_eq!(status, 200, "{answer}");
    answer["store"]["replication"].clone()
}

/// One call of each method that reads.
fn reads() -> [(&'static str, Value); 5] {
    [
        ("ordered.get", json!({"keys": ["k0"]})),
        ("ordered.scan", json!({"limit": 3})),
        ("ordered.items", json!({"key": "none", "start": 0, "stop": -1})),
        ("ordered.inspect", json!({"keys": ["k0"]})),
        ("ordered.batch", json!({"operations": [["get", "k0"]]})),
    ]
}

/// Promotes the store of the server at that address; what the command says.
pub(crate) fn promote(server: &str, token_file: &Path) -> String {
    let mut command = millpond();
    command.args(["ordered", "promote", "events", "--server", server, "--token-file"]);
    let output = command.arg(token_file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same of a server that is reached at a socket of its folder.
pub(super) fn promote_in(folder: &Path) -> String {
    promote(&at(folder), &folder.join("admin.token"))
}

#[test]
fn a_store_follows_another_through_restarts_and_takes_over() {
    let (a, b) = (folder(), folder());
    let leader = start(a.path(), None);
    puts(&leader, 0, 20);
    let follower = start(b.path(), Some(&leader.addr));
    follower.wait_for(RECORD, |record| record == 20);
    assert!(has(&follower, "k0") && has(&follower, "k19"));
    let (status, refused) = put(&follower, "mine");
    assert_eq!((status, &refused["code"]), (421, &json!(30115)), "{refused}");
    assert_eq!(refused["leader"], json!(leader.addr), "{refused}");
    follower.wait_for(
        "millpond_store_follower_connected{store=\"events\"}",
        |connected| connected == 1,
    );
    let said = replication(&follower);
    assert_eq!(
        (&said["role"], &said["lag_records"]),
        (&json!("follower"), &json!(0)),
        "{said}"
    );
    assert_eq!(said["leader"], json!(leader.addr));
    for (method, call) in reads() {
        let (status, read) = follower.call(method, &call);
        assert_eq!(
            (status, &read["lag_records"]),
            (200, &json!(0)),
            "{method}: {read}"
        );
        assert!(read["lag_ms"].is_u64(), "{method}: {read}");
        let (status, read) = leader.call(method, &call);
        let map = read.as_object().unwrap();
        let says_lag = ["lag_records", "lag_ms"].iter().any(|key| map.contains_key(*key));
        assert!(status == 200 && !says_lag, "{method}: {read}");
    }
    let said = replication(&leader);
    assert_eq!(
        (&said["role"], &said["record"]),
        (&json!("leader"), &json!(20)),
        "{said}"
    );
    let name = said["followers"][0]["name"].as_str().unwrap();
    let port = follower.addr.rsplit(':').next().unwrap();
    assert!(name.ends_with(port), "{said}");

    // Either is started again; the follower goes on from its own log.
    assert!(leader.terminate().success());
    let c = folder();
    copy(&a.path().join("events"), &c.path().join("events"));
    assert!(follower.terminate().success());
    let follower = start(b.path(), Some(&at(a.path())));
    let (_, read) = follower.call("ordered.get", &json!({"keys": ["k19"]}));
    assert_ne!(
        read["versions"][0],
        json!(0),
        "it serves what it has without its leader"
    );
    // It knows nothing of its leader since its own start.
    assert!(
        read["lag_records"] == json!(0) && read["lag_ms"].is_null(),
        "{read}"
    );
    let leader = start(a.path(), None);
    puts(&leader, 20, 25);
    follower.wait_for(RECORD, |record| record == 25);
    assert!(has(&follower, "k24"));

    let said = promote_in(b.path());
    assert!(said.contains("behind record 25"), "{said}");
    puts(&follower, 25, 27);
    assert_eq!(replication(&follower)["role"], json!("leader"));
    // The old leader is told; one that nobody tells goes on.
    leader.wait_for("millpond_store_leads{store=\"events\"}", |leads| leads == 0);
    wait_for_log(&b, "was told of the promotion");
    let untold = start(c.path(), None);
    refuses_who_knows_of_the_promotion(&untold, &follower);
    assert!(untold.terminate().success());
    // Started again as it was configured it follows.
    assert!(follower.terminate().success());
    let follower = start(b.path(), Some(&at(a.path())));
    let (status, refused) = put(&leader, "late");
    assert_eq!((status, &refused["code"]), (421, &json!(30115)), "{refused}");
    assert_eq!(replication(&leader)["role"], json!("fenced"));
    assert!(leader.terminate().success());
    let leader = start(a.path(), None);
    let (status, refused) = put(&leader, "late");
    assert_eq!((status, &refused["code"]), (421, &json!(30115)), "{refused}");
    assert!(leader.terminate().success());
    promote_in(b.path());
    puts(&follower, 27, 30);
    // The old leader has nothing that the new one has not: it follows.
    let old = start(a.path(), Some(&at(b.path())));
    old.wait_for(RECORD, |record| record == 30);
    assert!(has(&old, "k29") && !has(&old, "late"));
    assert!(old.terminate().success());
    assert!(follower.terminate().success());
}

/// Copies the files of a store that is closed.
fn copy(store: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(store).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// A caller that knows the promoted store's epoch gets nothing of the old leader, which has not heard of it; others do, and it is not fenced.
fn refuses_who_knows_of_the_promotion(old: &Millpond, promoted: &Millpond) {
    let epoch = replication(promoted)["epoch"].clone();
    let write = json!({"entries": [["late", "value"]], "_epoch": epoch});
    let (get, scan) = (
        json!({"keys": ["k0"], "_epoch": epoch}),
        json!({"limit": 1, "_epoch": epoch}),
    );
    for (method, asked) in [
        ("ordered.get", &get),
        ("ordered.scan", &scan),
        ("ordered.put", &write),
    ] {
        let (status, refused) = old.call(method, asked);
        assert_eq!(
            (status, &refused["code"]),
            (421, &json!(30115)),
            "{method}: {refused}"
        );
    }
    let answered = [("ordered.get", &get), ("ordered.scan", &scan)]
        .map(|(method, asked)| promoted.call(method, asked).0);
    assert_eq!(answered, [200, 200]);
    assert!(has(old, "k0") && !has(old, "late"));
    assert_eq!(replication(old)["role"], json!("leader"));
}

#[test]
fn infos_and_redis_say_who_leads() {
    let (a, b) = (folder(), folder());
    let resp = [
        "server.resp.listen=\"127.0.0.1:0\"",
        "ordered.events.resp_database=0",
    ];
    let leader = start_set(a.path(), None, "follow.token", &resp);
    puts(&leader, 0, 3);
    let follower = start_set(b.path(), Some(&leader.addr), "follow.token", &resp);
    follower.wait_for(RECORD, |record| record == 3);
    let check = |server: &Millpond, leads: u64, followers: u64, role: &str| {
        let (_, infos) = server.call("*infos", &json!({}));
        let store = &infos["millpond"]["ordered"]["events"];
        assert_eq!(
            (&store["leads"], &store["followers"]),
            (&json!(leads), &json!(followers)),
            "{infos}"
        );
        let expected = format!("# Replication\r\nrole:{role}\r\nconnected_slaves:{followers}\r\n\r\n");
        assert_eq!(Redis::connect(server).bulk("INFO replication"), expected);
    };
    check(&leader, 1, 1, "master");
    check(&follower, 0, 0, "slave");
    assert!(follower.terminate().success());
    assert!(leader.terminate().success());
}

#[test]
fn records_are_given_to_followers_with_a_token_alone() {
    let (a, b) = (folder(), folder());
    let leader = start(a.path(), None);
    puts(&leader, 0, 3);
    let call = json!({"follower": "f", "history": vec![0; 16], "epoch": 1, "position": 0});
    let (status, refused) = leader.call("ordered.follow", &call);
    assert_eq!((status, &refused["code"]), (401, &json!(30109)), "{refused}");
    let (status, refused) = leader.call("ordered.promote", &json!({}));
    assert_eq!((status, &refused["code"]), (401, &json!(30109)), "{refused}");
    let with = |more: Value| {
        let mut call = call.clone();
        call["_token"] = json!("of-the-followers");
        for (key, value) in more.as_object().unwrap() {
            call[key] = value.clone();
        }
        leader.call("ordered.follow", &call)
    };
    let (status, answer) = with(json!({}));
    assert_eq!(
        (status, &answer["first"], &answer["last"]),
        (200, &json!(1), &json!(3)),
        "{answer}"
    );
    let (status, refused) = with(json!({"history": [1, 2]}));
    assert_eq!((status, &refused["code"]), (400, &json!(30104)), "{refused}");
    let (status, refused) = with(json!({"position": 2}));
    assert_eq!((status, &refused["code"]), (409, &json!(30112)), "{refused}");
    assert!(
        refused["ex"]
            .as_str()
            .unwrap()
            .contains("start it again: it takes a copy"),
        "{refused}"
    );
    let token = json!({"_token": "of-the-admin"});
    let (status, refused) = leader.call("ordered.promote", &token);
    assert_eq!((status, &refused["code"]), (409, &json!(30112)), "{refused}");

    // A follower without the right token has nothing, says so, and is not promoted.
    let follower = start_with(b.path(), Some(&leader.addr), "wrong.token");
    wait_for_log(&b, "answered Unauthenticated (30109)");
    let said = replication(&follower);
    assert_eq!(
        (&said["connected"], &said["record"]),
        (&json!(false), &json!(0)),
        "{said}"
    );
    let (status, refused) = follower.call("ordered.promote", &token);
    assert_eq!((status, &refused["code"]), (409, &json!(30112)), "{refused}");
    assert!(follower.terminate().success());
    assert!(leader.terminate().success());
}

#[test]
fn what_cannot_follow_is_refused_at_the_start() {
    let folder = folder();
    let check = |set: &[&str], expected: &str| {
        let (_, said) = Millpond::try_start(folder.path(), set).err().unwrap();
        assert!(said.contains(expected), "{said}");
    };
    let follow = "ordered.events.follow=\"leader:8090\"";
    let file = "ordered.events.follow_token_file=\"follow.token\"";
    check(&[follow], "ordered.events.follow_token_file is missing");
    check(&[file], "ordered.events.follow_token_file goes with follow");
    check(
        &[follow, "ordered.events.follow_token_file=\"none.token\""],
        "none.token cannot be read",
    );
    check(
        &["ordered.events.follow=\"nowhere\"", file],
        "ordered.events.follow is \"nowhere\"",
    );
    let ca = "ordered.events.follow_ca=\"none.pem\"";
    check(&[follow, file, ca], "ordered.events.follow_ca goes with a leader");
    check(
        &["ordered.events.follow=\"tls://leader:8090\"", file, ca],
        "none.pem",
    );
    let acknowledge = "ordered.events.acknowledge=\"follower\"";
    let memory = "ordered.sessions={durability=\"memory\", acknowledge=\"follower\"}";
    check(&[memory], "ordered.sessions.acknowledge: a store with durability");
    check(
        &["ordered.events.acknowledge_ms=5"],
        "ordered.events.acknowledge_ms goes with acknowledge",
    );
    check(
        &[acknowledge, "ordered.events.acknowledge_ms=0"],
        "ordered.events.acknowledge_ms is 0; expected 1 to 3600000",
    );
    check(&["ordered.events.acknowledge=\"all\""], "unknown variant `all`");
}
