//! `features.upsert`: fresh rows over a table's versions, by every protocol, across kills, folds and switches.

use crate::harness::{Frames, Http, Millpond, millpond};
use crate::serving::resp::Redis;
use crate::serving::versions::{DIM, ROWS, write_version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millpond_engines_features::UPSERT_BYTES_MAX;
use millpond_wire_payload::{Encoding, Payload};
use millpond_wire_schema::{Field as _, features_upsert};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A folder with a table of one version, whose overlay has these keys beside its path.
pub(super) fn folder(overlay: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        r#"
[server]
listen = "127.0.0.1:0"
threads = 2
[server.resp]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[features.films]
path = "tables/films"
resp_database = 0
[features.films.overlay]
{overlay}
[features.still]
path = "tables/films"
[access.tokens.deploy]
token = "s3cret"
methods = ["features.activate", "features.rollback", "features.delete"]
"#
    );
    fs::write(folder.path().join("millpond.toml"), config).unwrap();
    write_version(&folder.path().join("tables/films"), 1);
    folder
}

pub(super) const LOGGED: &str = "path = \"overlay\"\ndurability = \"logged\"";

pub(super) fn upsert(server: &Millpond, keys: &[u64], value: f64) -> (u16, Value) {
    let values = vec![value; keys.len() * DIM];
    server.call(
        "features.upsert",
        &json!({"table": "films", "keys": keys, "values": values}),
    )
}

pub(super) fn lookup(server: &Millpond, keys: &[u64]) -> Value {
    let (status, answer) = server.call("features.lookup", &json!({"table": "films", "keys": keys}));
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The first number of each key's row.
pub(super) fn firsts(answer: &Value) -> Vec<f64> {
    let values = answer["values"].as_array().unwrap();
    values
        .iter()
        .step_by(DIM)
        .map(|value| value.as_f64().unwrap())
        .collect()
}

pub(super) fn fold(folder: &Path) -> String {
    let mut command = millpond();
    command.current_dir(folder);
    let done = command
        .args(["features", "fold", "tables/films", "--log", "overlay"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn every_protocol_sees_an_upsert_and_a_kill_loses_none() {
    let folder = folder(LOGGED);
    let server = Millpond::start(folder.path(), &[]);
    let (status, answer) = upsert(&server, &[3, 1000], 7.0);
    assert_eq!(
        (status, answer),
        (200, json!({"sequence": 1, "durability": "logged"}))
    );

    let mut frames = Frames::connect(&server.addr);
    let call = features_upsert::Call {
        keys: Some(vec![4]),
        values: vec![8.0; DIM],
        remove: Some(vec![5]),
        ..features_upsert::Call::new("films".into())
    };
    let mut payload = Vec::new();
    let encoder = &mut millpond_wire_payload::Encoder::new(&mut payload, Encoding::Msgpack, false);
    features_upsert::Call::write(&call, encoder);
    let (failed, answer) = frames.call("features.upsert", Encoding::Msgpack, &payload);
    assert_eq!(failed, 0, "{}", answer.escape_ascii());
    let answer = Payload::new(Encoding::Msgpack, &answer).unwrap();
    assert_eq!(features_upsert::Answer::decode(&answer).unwrap().0.sequence, 2);

    for restarted in [false, true] {
        let server = match restarted {
            false => &server,
            true => {
                server.signal("KILL");
                &Millpond::start(folder.path(), &[])
            }
        };
        let answer = lookup(server, &[3, 4, 5, 6, 1000]);
        assert_eq!(firsts(&answer), [7.0, 8.0, 0.0, 1.0, 7.0]);
        assert_eq!(answer["overlay_sequence"], json!(2), "{answer}");
        let mut redis = Redis::connect(server);
        let row = 8.0_f32.to_le_bytes().repeat(DIM);
        redis.check(b"GET 4\r\n", &[b"$16\r\n", &*row, b"\r\n"].concat());
        redis.check(b"EXISTS 3 5 1000\r\n", b":2\r\n");
        // Another table of the same files takes none.
        let (_, still) = server.call("features.lookup", &json!({"table": "still", "keys": [4]}));
        assert_eq!((firsts(&still), still.get("overlay_sequence")), (vec![1.0], None));
        let (_, inspected) = server.call("features.inspect", &json!({"table": "films"}));
        let overlay = &inspected["tables"][0]["overlay"];
        assert_eq!(
            (&overlay["entries"], &overlay["sequence"]),
            (&json!(4), &json!(2)),
            "{overlay}"
        );
    }
}

#[test]
fn what_is_wrong_is_refused_by_name_and_a_full_overlay_says_what_to_do() {
    let folder = folder("durability = \"memory\"\nbytes_max = 140");
    let server = Millpond::start(folder.path(), &["server.frame_bytes_max=33554432"]);
    let refused = |payload: Value, code: u64, words: &[&str]| {
        let (_, answer) = server.call("features.upsert", &payload);
        assert_eq!(answer["code"], json!(code), "{answer}");
        for word in words {
            assert!(
                answer["ex"].as_str().unwrap().contains(word),
                "{word:?} is not in {answer}"
            );
        }
    };
    let of =
        |table: &str, keys: &[u64], values: &[f64]| json!({"table": table, "keys": keys, "values": values});
    refused(of("none", &[1], &[0.0; DIM]), 30105, &["none"]);
    refused(of("still", &[1], &[0.0; DIM]), 30107, &["features.still.overlay"]);
    refused(
        of("films", &[1], &[0.0; 3]),
        30104,
        &["4 for each of 1 keys", "3 numbers"],
    );
    refused(of("films", &[], &[]), 30104, &["at least one key"]);
    let mut columns = of("films", &[1], &[0.0]);
    columns["columns"] = json!(["colour"]);
    refused(columns, 30104, &["colour", "vector"]);
    refused(
        json!({"table": "films", "texts": ["a"], "values": [0, 0, 0, 0]}),
        30104,
        &["numbers"],
    );
    refused(json!({"table": "films", "values": []}), 10009, &["keys"]);
    // More than one record of the log may have is too large; what only sounds like it is not.
    let many = STANDARD.encode(vec![0; UPSERT_BYTES_MAX + 8]);
    refused(
        json!({"table": "films", "remove": many, "base64": true}),
        30110,
        &["at most 16777216 bytes", "16777224", "send fewer keys"],
    );
    let mut columns = of("films", &[1], &[0.0]);
    columns["columns"] = json!(["at most"]);
    refused(columns, 30104, &["at most", "vector"]);

    assert_eq!(upsert(&server, &[1, 2], 5.0).0, 200);
    let (status, answer) = upsert(&server, &[3], 5.0);
    assert_eq!((status, answer["code"].as_u64()), (507, Some(30114)), "{answer}");
    let ex = answer["ex"].as_str().unwrap();
    assert!(
        ["films", "110 bytes", "55 more", "140 are allowed", "ttl_ms"]
            .iter()
            .all(|word| ex.contains(word))
            && !ex.contains("fold"),
        "{ex}"
    );
    assert_eq!(upsert(&server, &[1, 2], 6.0).0, 200, "it does not grow");
    let (_, page) = server.admin_get("/metrics");
    for line in [
        "millpond_overlay_entries{table=\"films\"} 2",
        "millpond_overlay_bytes{table=\"films\"} 110",
        "millpond_overlay_sequence{table=\"films\"} 2",
        "millpond_overlay_refused_total{table=\"films\"} 1",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
}

#[test]
fn a_row_that_is_too_old_is_gone_and_so_is_its_memory() {
    let folder = folder("durability = \"memory\"\nttl_ms = 50");
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(upsert(&server, &[1, 2000], 5.0).0, 200);
    server.wait_for("millpond_overlay_expired_total{table=\"films\"}", |count| {
        count == 2
    });
    server.wait_for("millpond_overlay_entries{table=\"films\"}", |count| count == 0);
    assert_eq!(firsts(&lookup(&server, &[1, 2000])), [1.0, 0.0]);
}

#[test]
fn damage_in_the_log_stops_a_start_and_a_torn_tail_is_cut() {
    let folder = folder(LOGGED);
    let server = Millpond::start(folder.path(), &[]);
    for value in 1..=3 {
        assert_eq!(upsert(&server, &[1], f64::from(value)).0, 200);
    }
    assert!(server.terminate().success());
    let log = folder.path().join("overlay/log-00000000000000000001.mpl");
    let sound = fs::read(&log).unwrap();
    fs::write(&log, &sound[..sound.len() - 5]).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(firsts(&lookup(&server, &[1])), [2.0]);
    let said = fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(said.contains("torn tail cut from the overlay's log"), "{said}");
    assert!(server.terminate().success());
    let mut damaged = sound;
    damaged[60] ^= 1;
    fs::write(&log, &damaged).unwrap();
    let Err((_, said)) = Millpond::try_start(folder.path(), &[]) else {
        panic!("it started on a damaged log");
    };
    assert!(
        said.contains("damaged record at offset 32") && said.contains("truncate -s 32"),
        "{said}"
    );
}

#[test]
fn an_overlay_is_of_one_process() {
    let folder = folder("durability = \"memory\"");
    let Err((_, said)) = Millpond::try_start(folder.path(), &["server.processes=2"]) else {
        panic!("two processes serve one overlay");
    };
    assert!(
        said.contains("features.films.overlay") && said.contains("one process only"),
        "{said}"
    );
}

#[test]
fn a_switch_that_a_restart_does_not_follow_gives_up_nothing_of_the_log() {
    let folder = folder(LOGGED);
    let fixed = &["features.films.version=1"];
    let server = Millpond::start(folder.path(), fixed);
    assert_eq!(upsert(&server, &[1, 2000], 5.0).0, 200);
    assert_eq!(upsert(&server, &[3], 7.0).0, 200);
    assert_eq!(upsert(&server, &[4], 8.0).0, 200);
    assert!(fold(folder.path()).contains("folded up to sequence 2"));
    let call = json!({"table": "films", "version": 2, "_token": "s3cret"});
    let (status, answer) = server.call("features.activate", &call);
    assert_eq!((status, &answer["persistent"]), (200, &json!(false)), "{answer}");
    assert_eq!(upsert(&server, &[1], 9.0).0, 200);
    assert_eq!(firsts(&lookup(&server, &[1, 2000, 3, 4])), [9.0, 5.0, 7.0, 8.0]);
    assert!(server.terminate().success());
    let server = Millpond::start(folder.path(), fixed);
    assert_eq!(firsts(&lookup(&server, &[1, 2000, 3, 4])), [9.0, 5.0, 7.0, 8.0]);
}

/// A writer counts a key up, and a reader that sees a lower number than was acknowledged before it asked has lost one.
#[test]
fn a_fold_and_its_switch_lose_nothing_under_load() {
    let folder = folder(LOGGED);
    let server = Millpond::start(folder.path(), &[]);
    let (acknowledged, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut http = Http::connect(&server.addr);
            let mut count = 1;
            while !done.load(Ordering::Relaxed) {
                let call = json!({"table": "films", "keys": [7, ROWS * 2], "values": vec![count; 2 * DIM]});
                let (status, answer) = http.call("features.upsert", &call);
                assert_eq!(status, 200, "{answer}");
                acknowledged.store(count, Ordering::Release);
                count += 1;
            }
        });
        scope.spawn(|| {
            let mut http = Http::connect(&server.addr);
            while !done.load(Ordering::Relaxed) {
                let least = acknowledged.load(Ordering::Acquire);
                let (_, answer) = http.call(
                    "features.lookup",
                    &json!({"table": "films", "keys": [7, ROWS * 2]}),
                );
                let found = firsts(&answer);
                assert!(
                    least == 0 || found.iter().all(|value| *value >= least as f64),
                    "{found:?} after {least}"
                );
            }
        });
        // Panics would leave the others going for ever.
        let folds = std::panic::catch_unwind(|| {
            for version in 2..=5 {
                let before = acknowledged.load(Ordering::Acquire);
                server.wait_for("millpond_overlay_sequence{table=\"films\"}", |sequence| {
                    sequence > before + 20
                });
                assert!(fold(folder.path()).contains("folded up to sequence"));
                let call = json!({"table": "films", "version": version, "_token": "s3cret"});
                let (status, answer) = server.call("features.activate", &call);
                assert_eq!((status, &answer["active"]), (200, &json!(version)), "{answer}");
            }
        });
        done.store(true, Ordering::Relaxed);
        folds.unwrap();
    });
    let last = acknowledged.load(Ordering::Acquire) as f64;
    let (_, inspected) = server.call("features.inspect", &json!({"table": "films"}));
    let folded = inspected["tables"][0]["overlay"]["folded"].as_u64().unwrap();
    assert!(folded > 60, "{inspected}");
    server.signal("KILL");
    let server = Millpond::start(folder.path(), &[]);
    let answer = lookup(&server, &[7, ROWS * 2, 8]);
    assert_eq!(
        (firsts(&answer), &answer["version"]),
        (vec![last, last, 1.0], &json!(5))
    );
}
