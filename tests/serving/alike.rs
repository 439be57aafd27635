//! Lookups that differ in their keys alone: each answer has the bytes that the same lookup has in a call of several.

use crate::harness::{Frames, Millpond};
use crate::serving::versions::{ROWS, write_version};
use millpond_wire_payload::{Encoder, Encoding};
use serde_json::json;
use std::fs;

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
[admin]
listen = "127.0.0.1:0"
[features.still]
path = "tables/films"
[features.other]
path = "tables/films"
memory = "mapped"
[features.films]
path = "tables/films"
[features.films.overlay]
durability = "memory"
[access.tokens.deploy]
token = "s3cret"
methods = ["features.activate"]
"#;

/// Entries of a lookup.
type Entries = fn(&mut Encoder<'_>, &[u64]);

const ALIKE: [Entries; 12] = [
    |out, keys| asked(out, "still", keys),
    |out, keys| asked(out, "other", keys),
    |out, keys| asked(out, "films", keys),
    |out, keys| {
        out.key("keys");
        out.block(keys);
        out.key("table");
        out.text("films");
    },
    |out, keys| typed(out, "f16", keys),
    |out, keys| typed(out, "f64", keys),
    |out, keys| typed(out, "u8", keys),
    |out, keys| typed(out, "none", keys),
    |out, keys| {
        asked(out, "films", keys);
        out.key("columns");
        out.array(|out| out.text("vector"));
    },
    |out, keys| {
        asked(out, "films", keys);
        out.key("at_version");
        out.uint(1);
    },
    |out, keys| {
        asked(out, "films", keys);
        out.key("unique");
        out.bool(true);
    },
    |out, keys| {
        asked(out, "films", keys);
        out.key("pool");
        out.text("sum");
        out.key("offsets");
        out.block(&[0, keys.len() as u32]);
    },
];

fn asked(out: &mut Encoder<'_>, table: &str, keys: &[u64]) {
    out.key("table");
    out.text(table);
    out.key("keys");
    out.block(keys);
}

fn typed(out: &mut Encoder<'_>, row_type: &str, keys: &[u64]) {
    out.key("type");
    out.text(row_type);
    asked(out, "films", keys);
}

/// What any call may have beside its method's keys.
fn reserved(out: &mut Encoder<'_>) {
    out.key("_deadline_ms");
    out.uint(60_000);
    out.key("_priority");
    out.uint(3);
}

fn payload(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes, Encoding::Msgpack, false).map(write);
    bytes
}

/// Calls every lookup some times with other keys, some of which no row has.
fn check(frames: &mut Frames) {
    let mut call = |payload: &[u8]| frames.call("features.lookup", Encoding::Msgpack, payload);
    for (at, entries) in ALIKE.iter().enumerate() {
        for count in [0, 1, 3, 40] {
            for round in 0..10 {
                let more = |out: &mut Encoder<'_>| {
                    if round > 4 {
                        reserved(out)
                    }
                };
                let keys: Vec<u64> = (0..count).map(|key| (key + round) * 311 % (ROWS + 99)).collect();
                let one = call(&payload(|out| {
                    entries(out, &keys);
                    more(out);
                }));
                let (status, several) = call(&payload(|out| {
                    out.key("lookups");
                    out.array(|out| out.map(|out| entries(out, &keys)));
                    more(out);
                }));
                let several = several.strip_prefix(b"\x81\xa7lookups\x91").unwrap();
                assert!(
                    status == 0 && one == (0, several.to_vec()),
                    "lookup {at}: {keys:?}"
                );
            }
        }
    }
}

#[test]
fn answers_are_those_of_calls_that_are_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("millpond.toml"), CONFIG).unwrap();
    write_version(&folder.path().join("tables/films"), 1);
    let server = Millpond::start(folder.path(), &[]);
    let mut frames = Frames::connect(&server.addr);
    check(&mut frames);
    let row = json!({"table": "films", "keys": [311], "values": [7.0, 7.0, 7.0, 7.0]});
    let (status, answer) = server.call("features.upsert", &row);
    assert_eq!(status, 200, "{answer}");
    check(&mut frames);
    write_version(&folder.path().join("tables/films"), 2);
    let call = json!({"table": "films", "version": 2, "_token": "s3cret"});
    let (status, answer) = server.call("features.activate", &call);
    assert_eq!(status, 200, "{answer}");
    check(&mut frames);
    let page = server.admin_get("/metrics").1;
    let total = |table: &str| {
        let name = format!("millpond_table_keys_total{{table=\"{table}\"");
        let lines = page.lines().filter(|line| line.starts_with(&name));
        let counts = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
        counts.sum::<f64>()
    };
    // Three checks, ten rounds of 44 keys, and each lookup twice; every key counts.
    assert_eq!(total("still"), 3.0 * 10.0 * 44.0 * 2.0, "{page}");
}
