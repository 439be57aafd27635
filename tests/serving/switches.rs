//! Switches of feature tables while calls come, and while the server is killed.

use super::versions::{DIM, ROWS, folder, served, switched};
use crate::harness::{Http, Millpond};
use millpond_client_rust::schema::features_lookup::{Call, Lookup};
use millpond_client_rust::schema::infer::Data;
use millpond_client_rust::{Client, Options};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Lookups by the native client while versions switch: each answer is of one version.
#[test]
fn switches_under_load_mix_no_versions_and_fail_no_call() {
    let folder = folder(&[1, 2]);
    let server = Millpond::start(folder.path(), &[]);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (addr, stop, answered) = (&server.addr, &stop, &answered);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(look_up_until(addr, stop, answered));
            });
        }
        for round in 0..20 {
            let before = answered.load(Ordering::Relaxed);
            switched(&server, "features.activate", &json!({"version": 1 + round % 2}));
            while answered.load(Ordering::Relaxed) < before + 20 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

pub(super) async fn look_up_until(addr: &str, stop: &AtomicBool, answered: &AtomicU64) {
    let client = Client::connect(addr, Options::default()).await.unwrap();
    let keys: Vec<u64> = (0..ROWS + 9).collect();
    while !stop.load(Ordering::Relaxed) {
        let lookup = Lookup {
            table: "films".into(),
            keys: Some(keys.clone()),
            texts: None,
            at_version: None,
            pool: Default::default(),
            offsets: Vec::new(),
            columns: Vec::new(),
            row_type: Default::default(),
            unique: false,
            map: None,
        };
        let rows = client
            .features_lookup(&Call::One(lookup), Some(Duration::from_secs(60)))
            .await
            .unwrap();
        let Data::F32(values) = &rows[0].values else {
            panic!("{:?}", rows[0])
        };
        let version = rows[0].version;
        // What a version has is known: its number in each row, and as many rows.
        let there = (ROWS + version) as usize * DIM;
        assert!(
            values[..there].iter().all(|value| *value == version as f32),
            "of version {version}: {values:?}"
        );
        assert!(
            values[there..].iter().all(|value| *value == 0.0),
            "of version {version}: {values:?}"
        );
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// A server that is killed while versions switch serves the old or the new one when it is started again.
#[test]
fn a_kill_at_any_moment_of_a_switch_leaves_the_old_version_or_the_new() {
    let folder = folder(&[1, 2, 3]);
    let mut active = 3;
    for round in 0..12_u64 {
        let server = Millpond::start(folder.path(), &[]);
        assert_eq!(
            served(&server),
            active,
            "what was acknowledged last or never answered"
        );
        let acknowledged = AtomicU64::new(active);
        let asked = AtomicU64::new(active);
        let addr = server.addr.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for switch in 0.. {
                    let next = 1 + (round + switch) % 3;
                    asked.store(next, Ordering::SeqCst);
                    let body = json!({"table": "films", "version": next, "_token": "s3cret"}).to_string();
                    let Ok(stream) = std::net::TcpStream::connect(&addr) else { return };
                    let mut http = Http { stream };
                    let request = format!("POST /service/features.activate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    use std::io::Write as _;
                    if http.stream.write_all(request.as_bytes()).is_err() {
                        return;
                    }
                    match http.answer() {
                        Some((status, text)) => assert_eq!(status, 200, "{text}"),
                        None => return,
                    }
                    acknowledged.store(next, Ordering::SeqCst);
                }
            });
            // A different moment each round, of those in which a switch goes on.
            std::thread::sleep(Duration::from_micros(1_300 * round + 200));
            server.signal("KILL");
        });
        drop(server);
        let (old, new) = (acknowledged.load(Ordering::SeqCst), asked.load(Ordering::SeqCst));
        let server = Millpond::start(folder.path(), &[]);
        active = served(&server);
        assert!(
            active == old || active == new,
            "{active} is neither {old} nor {new}"
        );
    }
}
