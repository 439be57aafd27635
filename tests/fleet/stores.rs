//! Ordered stores of a server that is several processes: each of them answers, and one has the stores.

use super::processes::{infos, own_address, sample, wait};
use crate::harness::{Frames, Http, Millpond};
use crate::serving::ordered_followers::promote;
use crate::serving::resp::{Redis, command};
use millpond_wire_frame::Encoding;
use millpond_wire_payload::{Encoder, Value as Payload, decode_map};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Connections made until every process had one; of three processes 64 of them miss one with a chance of 3 · (2/3)^64.
const CONNECTIONS: usize = 64;
const PROCESSES: usize = 3;

const CONFIG: &str = r#"
default_store = "events"
[server]
listen = "LISTEN"
threads = 1
processes = 3
[server.resp]
listen = "RESP"
[admin]
listen = "127.0.0.1:0"
token = "of-the-admin"
[log]
file = "millpond.log"
[ordered.events]
path = "events"
resp_database = 0
[ordered.other]
path = "other"
resp_database = 1
[access.tokens.followers]
token = "of-the-followers"
methods = ["ordered.follow"]
"#;

pub(super) fn folder(host: u8) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG
        .replace("LISTEN", &own_address(host))
        .replace("RESP", &own_address(host + 1));
    std::fs::write(folder.path().join("millpond.toml"), config).unwrap();
    std::fs::write(folder.path().join("follow.token"), "of-the-followers\n").unwrap();
    folder
}

pub(super) fn start(folder: &Path) -> Millpond {
    Millpond::start(folder, &[])
}

/// The number of the process that answers a connection.
fn process(http: &mut Http) -> u64 {
    infos(http)["process"].as_u64().unwrap()
}

/// Connections to each process, by its number; none is without.
pub(super) fn by_process(server: &Millpond) -> BTreeMap<u64, Vec<Http>> {
    let mut found = BTreeMap::<u64, Vec<Http>>::new();
    for _ in 0..CONNECTIONS {
        let mut http = Http::connect(&server.addr);
        found.entry(process(&mut http)).or_default().push(http);
    }
    assert_eq!(found.len(), PROCESSES, "{:?}", found.keys());
    found
}

#[test]
fn every_process_reads_and_writes_the_stores_and_counts_its_own_calls() {
    let folder = folder(101);
    let server = start(folder.path());
    let mut connections = by_process(&server);
    for (number, http) in connections.values_mut().flatten().enumerate() {
        let (status, answer) = http.call("ordered.put", &json!({"entries": [[format!("k{number}"), "v"]]}));
        assert_eq!(status, 200, "{answer}");
    }
    let keys: Vec<String> = (0..CONNECTIONS).map(|number| format!("k{number}")).collect();
    for (number, of_process) in &mut connections {
        for http in &mut *of_process {
            let (status, answer) = http.call("ordered.get", &json!({"keys": keys}));
            let versions = answer["versions"].as_array().unwrap();
            assert!(
                status == 200 && versions.iter().all(|version| *version != json!(0)),
                "{answer}"
            );
        }
        let puts = of_process.len() as u64;
        let infos = infos(&mut of_process[0]);
        let methods = &infos["methods"];
        assert_eq!(
            methods["ordered.put"]["answered"],
            json!(puts),
            "process {number}"
        );
        assert_eq!(
            methods["ordered.get"]["answered"],
            json!(puts),
            "process {number}"
        );
        // What the process that has the stores says of them, each process says.
        let stores = &infos["ordered"];
        assert_eq!(
            stores["events"]["keys"],
            json!(CONNECTIONS),
            "process {number}: {stores}"
        );
    }
    // Added up, nothing is there twice.
    for (name, value) in [
        ("millpond_calls_total{method=\"ordered.put\"}", CONNECTIONS),
        ("millpond_calls_total{method=\"ordered.get\"}", CONNECTIONS),
        ("millpond_store_keys{store=\"events\"}", CONNECTIONS),
        ("millpond_store_record{store=\"events\"}", CONNECTIONS),
        ("millpond_in_flight", 0),
    ] {
        server.wait_for_metric(&format!("{name} {value}"));
    }
    let sent_on = 2 * (CONNECTIONS - connections[&0].len());
    assert!(sample(&server, "millpond_stores_calls_total") as usize >= sent_on);
    assert_eq!(sample(&server, "millpond_stores_failures_total"), 0.0);
    drop(connections);
    assert!(server.terminate().success());
}

/// Calls of every method, good and bad ones, that leave the store they began with.
fn calls() -> Vec<(&'static str, Value)> {
    let list = json!({"key": "list", "start": 0, "stop": -1});
    vec![
        ("ordered.put", json!({"entries": [["a", "1"], ["b", "2"]]})),
        ("ordered.put", json!({"entries": [["a", "3"]], "if_absent": true})),
        (
            "ordered.get",
            json!({"keys": ["YQ==", "bm9uZQ=="], "base64": true}),
        ),
        ("ordered.get", json!({"keys": ["a", "none"]})),
        ("ordered.get", json!({"keys": "a"})),
        ("ordered.increment", json!({"key": "a", "by": 41})),
        (
            "ordered.increment",
            json!({"key": "list", "by": 1, "_deadline_ms": 60000}),
        ),
        ("ordered.append", json!({"key": "list", "items": ["x", "y"]})),
        ("ordered.increment", json!({"key": "list", "by": 1})),
        ("ordered.items", list.clone()),
        ("ordered.items", json!({"key": "a", "start": 0, "stop": -1})),
        ("ordered.trim", json!({"key": "list", "start": 0, "stop": 0})),
        ("ordered.concatenate", json!({"key": "b", "value": "2"})),
        ("ordered.expire", json!({"keys": ["a", "b"], "ttl_ms": 3_600_000})),
        ("ordered.expire", json!({"keys": ["a", "b"], "persist": true})),
        (
            "ordered.batch",
            json!({"operations": [["put", "c", "4"], ["get", "a"], ["remove", "c"]]}),
        ),
        ("ordered.scan", json!({"limit": 2})),
        (
            "ordered.scan",
            json!({"limit": 10, "reverse": true, "keys_only": true}),
        ),
        ("ordered.scan", json!({})),
        ("ordered.inspect", json!({"keys": ["a", "list"]})),
        ("ordered.remove", json!({"keys": ["a", "none"]})),
        ("ordered.remove_prefix", json!({"prefix": "b", "limit": 5})),
        ("ordered.clear", json!({})),
        ("ordered.clear", json!({"_token": "of-the-admin"})),
        ("ordered.checkpoint", json!({})),
        ("ordered.promote", json!({"_token": "of-the-admin"})),
        (
            "ordered.follow",
            json!({"follower": "f", "history": vec![0; 16], "epoch": 1, "position": 0, "_token": "of-nobody"}),
        ),
        (
            "ordered.follow",
            json!({"follower": "f", "history": [1, 2], "epoch": 1, "position": 0, "_token": "of-the-followers"}),
        ),
        ("ordered.get", json!({"keys": ["a"], "_deadline_ms": 0})),
        ("ordered.get", json!([])),
    ]
}

fn with_table(payload: &Value, table: &str) -> Value {
    let mut payload = payload.clone();
    if let Some(map) = payload.as_object_mut() {
        map.insert("table".to_owned(), json!(table));
    }
    payload
}

#[test]
fn a_process_without_the_stores_answers_as_the_one_that_has_them() {
    let folder = folder(103);
    let server = start(folder.path());
    let mut connections = by_process(&server);
    // The same calls, of one store at the process that has it, and of another one elsewhere.
    let mut at = |number: u64| connections.get_mut(&number).unwrap().pop().unwrap();
    let (mut here, mut there) = (at(0), at(1));
    for (method, payload) in calls() {
        let call = |http: &mut Http, table: &str| {
            let (status, answer) = http.call(method, &with_table(&payload, table));
            (status, answer.to_string().replace(table, "STORE"))
        };
        let (expected, found) = (call(&mut here, "events"), call(&mut there, "other"));
        assert_eq!(found, expected, "{method} {payload}");
    }
    let checkpoint = json!({"table": "other", "_token": "of-the-admin"});
    let (status, answer) = there.call("ordered.checkpoint", &checkpoint);
    assert!(status == 200 && answer["entries"] == json!(0), "{answer}");
    let (status, answer) = there.call("ordered.get", &json!({"table": "none", "keys": ["a"]}));
    assert!(
        status == 404 && answer["ex"].as_str().unwrap().contains("\"events\""),
        "{answer}"
    );
    drop((here, there, connections));
    // In frames of both encodings, whichever process has the connection.
    for _ in 0..CONNECTIONS {
        let mut frames = Frames::connect(&server.addr);
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut call = |method: &str, write: &dyn Fn(&mut Encoder<'_>)| {
                let mut payload = Vec::new();
                Encoder::new(&mut payload, encoding, false).map(|out| write(out));
                let (status, answer) = frames.call(method, encoding, &payload);
                (status, decode_map(encoding, &answer).unwrap().into_owned())
            };
            let (status, answer) = call("ordered.increment", &|out| {
                out.key("key");
                out.text("sum");
                out.key("by");
                out.int(1);
            });
            assert!(status == 0 && answer.get("value").is_some(), "{answer:?}");
            let (status, answer) = call("ordered.items", &|out| {
                out.key("key");
                out.text("sum");
            });
            assert_eq!(
                (status, answer.get("code")),
                (1, Some(&Payload::UInt(10009))),
                "{answer:?}"
            );
            assert!(answer.get("reason").is_none(), "{answer:?}");
        }
    }
    let (_, answer) = server.call("ordered.get", &json!({"keys": ["sum"]}));
    assert_eq!(answer["values"], json!([b"128"]), "{answer}");
    assert!(server.terminate().success());
}

#[test]
fn pipelines_of_commands_keep_their_order_at_every_process() {
    let folder = folder(105);
    let server = start(folder.path());
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    let mut connections: Vec<Redis> = (0..CONNECTIONS).map(|_| Redis::connect(&server)).collect();
    // All send before any of them reads.
    let commands = |number: usize| {
        let (text, n, list) = (
            format!("text{number}"),
            format!("n{number}"),
            format!("list{number}"),
        );
        let commands: [(Vec<&[u8]>, &str); 12] = [
            (vec![b"SET", text.as_bytes(), b"x"], "+OK\r\n"),
            (vec![b"INCR", n.as_bytes()], ":1\r\n"),
            (
                vec![b"INCR", text.as_bytes()],
                "-ERR value is not an integer or out of range\r\n",
            ),
            (vec![b"INCR", n.as_bytes()], ":2\r\n"),
            (vec![b"GET", n.as_bytes()], "$1\r\n2\r\n"),
            (vec![b"LPUSH", text.as_bytes(), b"x"], wrong),
            (vec![b"LPUSH", list.as_bytes(), b"a", b"b"], ":2\r\n"),
            (
                vec![b"LRANGE", list.as_bytes(), b"0", b"-1"],
                "*2\r\n$1\r\nb\r\n$1\r\na\r\n",
            ),
            (vec![b"GET", list.as_bytes()], wrong),
            (vec![b"SET", n.as_bytes(), b"9223372036854775807"], "+OK\r\n"),
            (
                vec![b"INCR", n.as_bytes()],
                "-ERR increment or decrement would overflow\r\n",
            ),
            (
                vec![b"DEL", n.as_bytes(), text.as_bytes(), list.as_bytes()],
                ":3\r\n",
            ),
        ];
        let sent: Vec<u8> = commands.iter().flat_map(|(words, _)| command(words)).collect();
        let expected: Vec<u8> = commands.iter().flat_map(|(_, reply)| reply.bytes()).collect();
        (sent, expected)
    };
    for _ in 0..10 {
        for (number, redis) in connections.iter_mut().enumerate() {
            redis.send(&commands(number).0);
        }
        for (number, redis) in connections.iter_mut().enumerate() {
            redis.check(b"", &commands(number).1);
        }
    }
    // A transaction is whole, and what is counted of a store is the same everywhere.
    for redis in &mut connections {
        let queued = "+QUEUED\r\n";
        redis.line("MULTI", "+OK\r\n");
        redis.line("SET k v", queued);
        redis.line("DEL k", queued);
        redis.line("EXEC", "*2\r\n+OK\r\n:1\r\n");
        redis.line("DBSIZE", ":0\r\n");
    }
    let mut infos = connections.iter_mut().map(|redis| redis.bulk("INFO keyspace"));
    assert!(infos.all(|said| said.contains("db0:keys=0,")));
    assert!(server.terminate().success());
}

#[test]
fn followers_and_leaders_may_be_several_processes() {
    let (a, b) = (folder(111), folder(113));
    let leader = start(a.path());
    for number in 0..20 {
        let (status, answer) = leader.call("ordered.put", &json!({"entries": [[format!("k{number}"), "v"]]}));
        assert_eq!(status, 200, "{answer}");
    }
    let follow = format!("ordered.events.follow={:?}", leader.addr);
    let follower = Millpond::start(
        b.path(),
        &[&follow, "ordered.events.follow_token_file=\"follow.token\""],
    );
    let record = "millpond_store_record{store=\"events\"}";
    wait("it has all", || sample(&follower, record) == 20.0);
    // A long poll keeps nobody waiting, wherever it came in.
    for number in 20..40 {
        let (status, answer) = leader.call("ordered.put", &json!({"entries": [[format!("k{number}"), "v"]]}));
        assert_eq!(status, 200, "{answer}");
    }
    wait("it has all", || sample(&follower, record) == 40.0);
    leader.wait_for_metric("millpond_store_followers{store=\"events\"} 1");
    for http in by_process(&follower).values_mut().flatten() {
        let (status, answer) = http.call("ordered.get", &json!({"keys": ["k39"]}));
        assert!(status == 200 && answer["versions"][0] != json!(0), "{answer}");
        let (status, answer) = http.call("ordered.put", &json!({"entries": [["late", "v"]]}));
        assert_eq!((status, &answer["code"]), (421, &json!(30115)), "{answer}");
        assert_eq!(answer["leader"], json!(leader.addr), "{answer}");
    }
    assert!(leader.terminate().success());
    let file = b.path().join("admin.token");
    std::fs::write(&file, "of-the-admin\n").unwrap();
    promote(&follower.addr, &file);
    let (status, answer) = follower.call("ordered.put", &json!({"entries": [["late", "v"]]}));
    assert_eq!(status, 200, "{answer}");
    assert!(follower.terminate().success());
}

#[test]
fn the_socket_between_the_processes_is_this_users_alone_and_goes_with_them() {
    let (folder, place) = (folder(115), tempfile::tempdir().unwrap());
    let server = Millpond::start_in(folder.path(), &[], &[("TMPDIR", place.path())]);
    let mut found = std::fs::read_dir(place.path()).unwrap();
    let made = found.next().unwrap().unwrap();
    assert!(found.next().is_none());
    let mode = made.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "{mode:o}");
    assert!(made.path().join("stores.sock").exists());
    assert!(server.terminate().success());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    // Where there is no place for it, a start says so.
    let nowhere = place.path().join("none");
    let refused = Millpond::try_start_in(folder.path(), &[], &[("TMPDIR", &nowhere)]);
    let (_, said) = refused.err().unwrap();
    assert!(said.contains("set TMPDIR to a folder"), "{said}");
}
