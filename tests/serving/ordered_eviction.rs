//! Stores that make room: over the methods, over RESP, and behind a restart.

use super::resp::Redis;
use crate::harness::{Http, Millpond};
use serde_json::json;

const CONFIG: &str = r#"
default_store = "cache"
[server]
listen = "127.0.0.1:0"
threads = 1
[server.resp]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[ordered.cache]
path = "cache"
memory_bytes_max = 6000
eviction = "oldest_write"
[ordered.sessions]
durability = "memory"
memory_bytes_max = 1000
eviction = "soonest_expiry"
"#;

fn put(http: &mut Http, table: &str, key: &str, ttl_ms: Option<u64>) -> (u16, u64) {
    let mut call = json!({"table": table, "entries": [[key, "x".repeat(47)]]});
    if let Some(ttl_ms) = ttl_ms {
        call["ttl_ms"] = json!(ttl_ms);
    }
    let (status, answer) = http.call("ordered.put", &call);
    (status, answer["code"].as_u64().unwrap_or_default())
}

fn are_there(http: &mut Http, table: &str, keys: &[&str]) -> Vec<bool> {
    let (status, answer) = http.call("ordered.get", &json!({"table": table, "keys": keys}));
    assert_eq!(status, 200, "{answer}");
    let values = answer["values"].as_array().unwrap();
    values.iter().map(|value| !value.is_null()).collect()
}

fn store_len(http: &mut Http) -> u64 {
    let (_, answer) = http.call("ordered.inspect", &json!({}));
    answer["store"]["entries"].as_u64().unwrap()
}

#[test]
fn a_cache_keeps_what_was_written_last_and_a_restart_brings_nothing_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), CONFIG).unwrap();
    let server = Millpond::start(folder.path(), &["admin.token=s3cret"]);
    let mut http = Http::connect(&server.addr);
    // Of 100 bytes each: 60 fit.
    for number in 0..300 {
        assert_eq!(put(&mut http, "cache", &format!("k{number:04}"), None), (200, 0));
    }
    let (_, answer) = http.call("ordered.inspect", &json!({}));
    let store = &answer["store"];
    assert_eq!(
        [&store["entries"], &store["evicted"], &store["entry_bytes"]],
        [&json!(60), &json!(240), &json!(6000)]
    );
    assert_eq!(store["eviction"], "oldest_write");
    server.wait_for_metric("millpond_store_evicted_total{store=\"cache\"} 240");
    let mut redis = Redis::connect(&server);
    let stats = redis.bulk("INFO stats");
    assert!(stats.contains("\r\nevicted_keys:240\r\n"), "{stats:?}");
    let calls = stats.split("total_commands_processed:").nth(1).unwrap();
    let calls: u64 = calls.lines().next().unwrap().parse().unwrap();
    assert!(calls >= 301, "{stats:?}");
    let memory = redis.bulk("INFO memory");
    assert_eq!(
        memory,
        format!("# Memory\r\nused_memory:{}\r\n\r\n", store["memory_bytes"])
    );
    // What RESP writes makes room too; a value that no room can be made for is refused.
    redis.line("SET from-resp 1", "+OK\r\n");
    let large = format!("SET large {}", "x".repeat(6000));
    redis.line(
        &large,
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    );
    let keys: Vec<String> = (0..300).map(|number| format!("k{number:04}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let before = are_there(&mut http, "cache", &keys);
    assert!(before[290..].iter().all(|is_there| *is_there), "{before:?}");
    // By a checkpoint, in place of the log.
    let (status, answer) = http.call("ordered.checkpoint", &json!({"_token": "s3cret"}));
    assert_eq!(
        (status, &answer["entries"]),
        (200, &json!(store_len(&mut http))),
        "{answer}"
    );
    let of_memory = json!({"table": "sessions", "_token": "s3cret"});
    let (status, answer) = http.call("ordered.checkpoint", &of_memory);
    assert_eq!((status, &answer["code"]), (400, &json!(30104)), "{answer}");
    assert_eq!(http.call("ordered.checkpoint", &json!({})).1["code"], 30109);
    drop((http, redis));
    assert!(server.terminate().success());

    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    assert_eq!(are_there(&mut http, "cache", &keys), before);
    assert_eq!(
        are_there(&mut http, "cache", &["from-resp", "large"]),
        [true, false]
    );
}

#[test]
fn only_what_expires_gives_way_by_its_expiry() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), CONFIG).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let hour = 3_600_000;
    for (key, hours) in [("first", 3), ("later", 2), ("last", 1)] {
        let put = put(&mut http, "sessions", key, Some(hours * hour));
        assert_eq!(put, (200, 0));
    }
    for number in 0..8 {
        let put = put(&mut http, "sessions", &format!("stays{number}"), None);
        assert_eq!(put, (200, 0), "{number}");
    }
    let keys = ["first", "later", "last", "stays0", "stays7"];
    assert_eq!(
        are_there(&mut http, "sessions", &keys),
        [true, false, false, true, true]
    );
    // The last that may go goes, and then there is none.
    assert_eq!(put(&mut http, "sessions", "stays8", None), (200, 0));
    assert_eq!(put(&mut http, "sessions", "stays9", None), (507, 30114));
    assert_eq!(
        are_there(&mut http, "sessions", &["first", "stays8", "stays9"]),
        [false, true, false]
    );
}
