//! A server whose log's disk fails under it: what callers are told, what an operator sees, and what a restart finds.

use crate::harness::{Frames, Millpond, r1_folder};
use millpond_wire_frame::Encoding;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with a server's files, and a disk that fails when told to.
struct Disk {
    folder: tempfile::TempDir,
    library: PathBuf,
    plan: PathBuf,
}

impl Disk {
    fn new() -> Disk {
        let folder = r1_folder();
        let library = compiled(folder.path(), "failing_disk");
        let plan = folder.path().join("plan");
        Disk {
            folder,
            library,
            plan,
        }
    }

    fn start(&self, set: &[&str]) -> Millpond {
        let environment = [
            ("LD_PRELOAD", self.library.as_path()),
            ("MILLPOND_TEST_DISK", &self.plan),
        ];
        Millpond::start_in(self.folder.path(), set, &environment)
    }

    fn fail(&self, plan: &str) {
        std::fs::write(&self.plan, plan).unwrap();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("millpond.log")).unwrap()
    }
}

/// A library to preload into a server, made of the C file of that name beside this one.
pub(crate) fn compiled(folder: &Path, name: &str) -> PathBuf {
    let library = folder.join(name).with_extension("so");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/serving");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(sources.join(name).with_extension("c"))
        .arg("-ldl");
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    library
}

fn put(server: &Millpond, key: &str) -> (u16, Option<u64>, Value) {
    let (status, answer) = server.call("ordered.put", &json!({"entries": [[key, "1"]]}));
    (status, answer["code"].as_u64(), answer["retryable"].clone())
}

fn has(server: &Millpond, key: &str) -> bool {
    let (_, answer) = server.call("ordered.get", &json!({"keys": [key]}));
    !answer["values"][0].is_null()
}

fn metric(server: &Millpond, line: &str) -> bool {
    let (_, page) = server.admin_get("/metrics");
    page.lines().any(|found| found == line)
}

#[test]
fn a_put_that_may_be_found_later_is_told_so_and_the_store_shows_it() {
    let disk = Disk::new();
    let server = disk.start(&[]);
    assert_eq!(put(&server, "kept").0, 200);
    assert_eq!(server.admin_get("/readyz").0, 200);
    assert!(metric(&server, "millpond_store_read_only{store=\"events\"} 0"));
    disk.fail("sync cut");
    assert_eq!(put(&server, "unknown"), (500, Some(30113), json!(false)));
    for _ in 0..3 {
        assert_eq!(put(&server, "refused"), (507, Some(30111), json!(true)));
    }
    assert!(has(&server, "kept") && !has(&server, "unknown"));
    let (status, said) = server.admin_get("/readyz");
    assert!(
        status == 503 && said.contains("\"events\" is read-only"),
        "{said}"
    );
    assert!(metric(&server, "millpond_store_read_only{store=\"events\"} 1"));
    assert_eq!(server.terminate().code(), Some(1));
    let log = disk.log();
    assert_eq!(log.matches("cannot write its log").count(), 1, "{log}");
    assert!(log.contains("the store was not closed in order"), "{log}");

    disk.fail("");
    let server = disk.start(&[]);
    assert!(has(&server, "kept") && has(&server, "unknown") && !has(&server, "refused"));
    assert_eq!(server.admin_get("/readyz").0, 200);
    assert!(server.terminate().success());
}

#[test]
fn a_put_that_was_cut_off_again_is_told_that_nothing_was_written() {
    let disk = Disk::new();
    let server = disk.start(&[]);
    disk.fail("sync");
    assert_eq!(put(&server, "cut off"), (507, Some(30111), json!(true)));
    assert_eq!(server.terminate().code(), Some(1));
    disk.fail("");
    assert!(!has(&disk.start(&[]), "cut off"));
}

#[test]
fn a_logged_store_whose_last_sync_fails_says_so() {
    let disk = Disk::new();
    let server = disk.start(&["ordered.events.durability=\"logged\""]);
    assert_eq!(put(&server, "a").0, 200);
    disk.fail("sync");
    assert_eq!(put(&server, "b").0, 200);
    assert_eq!(server.admin_get("/readyz").0, 200);
    assert_eq!(server.terminate().code(), Some(1));
    let log = disk.log();
    assert!(
        log.contains("cannot sync the segment") && log.contains("may be lost"),
        "{log}"
    );
    assert!(!log.contains("read-only"), "{log}");
}

#[test]
fn a_start_on_a_disk_that_does_not_sync_shows_nothing() {
    let disk = Disk::new();
    let server = disk.start(&["ordered.events.durability=\"logged\""]);
    assert_eq!(put(&server, "a").0, 200);
    server.signal("KILL");
    drop(server);
    disk.fail("sync");
    let environment = [
        ("LD_PRELOAD", disk.library.as_path()),
        ("MILLPOND_TEST_DISK", &disk.plan),
    ];
    let Err((status, said)) = Millpond::try_start_in(disk.folder.path(), &[], &environment) else {
        panic!("it shows what it could not sync")
    };
    assert!(
        !status.success() && said.contains("cannot sync its last segment"),
        "{said}"
    );
    let log = disk.log();
    assert!(
        log.contains("the start failed") && log.contains("cannot sync its last segment"),
        "{log}"
    );
    disk.fail("");
    assert!(has(&disk.start(&[]), "a"));
}

/// A put behind one that is synced for a second, which is to be answered within half of one.
#[test]
fn a_put_that_would_come_too_late_is_refused_and_not_written() {
    let disk = Disk::new();
    disk.fail("slow");
    let server = disk.start(&[]);
    // What a group took counts once the next is taken, so there are two before the call that is refused.
    for key in ["first", "second"] {
        assert_eq!(put(&server, key).0, 200);
    }
    let payload = |key: &str, deadline_ms: u64| {
        let call = json!({"entries": [[key, "1"]], "_deadline_ms": deadline_ms});
        call.to_string().into_bytes()
    };
    let (slow, late) = (payload("slow", 60_000), payload("late", 500));
    let mut frames = Frames::connect(&server.addr);
    let calls = [&slow, &late].map(|payload| ("ordered.put", Encoding::Json, payload.as_slice()));
    let (status, answer) = frames.call_last(&calls);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, &answer["code"]), (1, &json!(30101)), "{answer}");
    let said = answer["ex"].as_str().unwrap();
    assert!(
        said.contains("the predicted wait for the store's log is"),
        "{said}"
    );
    server.wait_for_metric("millpond_refused_total{reason=\"too_late\"} 1");
    server.wait_for_metric("millpond_store_keys{store=\"events\"} 3");
    drop(frames);
    assert!(server.terminate().success());
    disk.fail("");
    let server = disk.start(&[]);
    assert!(has(&server, "second") && has(&server, "slow") && !has(&server, "late"));
}
