//! SIGTERM ends the process, whatever hangs in it; what it leaves behind is said, and the status tells.
//!
//! Limits are far beyond `server.drain_ms_max` and a second: they are there only so that a hang fails. The figure itself is
//! measured by `make bench`.

use crate::harness::{Http, Millpond};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A stop ends long before this.
const WAIT_MAX: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[server]
listen = "LISTEN"
threads = 1
drain_ms_max = 200
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[methods.echo]
kind = "echo"
[models.slow]
backend = "practice"
behaviour = "wait"
us = 0
us_per_row = 100000
batch_size_max = 100
warm_up = [1]
"#;

/// A server of its own address; no other test listens on this one of the loopback addresses.
fn start(host: u8, set: &[&str]) -> (tempfile::TempDir, Millpond) {
    let folder = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind((format!("127.13.26.{host}"), 0)).unwrap();
    let config = CONFIG.replace("LISTEN", &free.local_addr().unwrap().to_string());
    drop(free);
    std::fs::write(folder.path().join("millpond.toml"), config).unwrap();
    let server = Millpond::start(folder.path(), set);
    (folder, server)
}

/// A call whose runs take ten minutes, and its connection.
fn call_that_does_not_return(server: &Millpond) -> Http {
    let mut http = Http::connect(&server.addr);
    let rows = vec!["1"; 6000].join(",");
    let inputs = format!("{{\"x\":{{\"shape\":[6000,1],\"type\":\"f32\",\"data\":[{rows}]}}}}");
    let body = format!("{{\"_deadline_ms\":100000000,\"inputs\":{inputs}}}");
    let request = format!(
        "POST /service/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    http.stream.write_all(request.as_bytes()).unwrap();
    server.wait_for_metric("millpond_model_busy{model=\"slow\",version=\"1\"} 1");
    http
}

/// Sends SIGTERM; the status and what was said on standard error.
fn stopped(mut server: Millpond) -> (Option<i32>, String) {
    server.signal("TERM");
    let until = Instant::now() + WAIT_MAX;
    let status = loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "the process runs on");
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut said = String::new();
    server
        .child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    (status.code(), said)
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("millpond.log")).unwrap()
}

#[test]
fn a_model_that_does_not_return_is_left_behind() {
    let (folder, server) = start(1, &[]);
    let _http = call_that_does_not_return(&server);
    let (code, said) = stopped(server);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("1 unfinished call, a run of models.slow"), "{said}");
    let log = log(folder.path());
    assert!(
        log.contains("left=\"1 unfinished call, a run of models.slow\""),
        "{log}"
    );
}

#[test]
fn a_model_that_does_not_return_is_left_behind_by_several_processes() {
    let (folder, server) = start(2, &["server.processes=2"]);
    let _http = call_that_does_not_return(&server);
    let (code, said) = stopped(server);
    assert_eq!(code, Some(1), "{said}");
    // A busy machine ends the process a moment later than itself, and then its parent does.
    assert!(
        said.contains("not all of it ended in order: process ") && said.contains("a run of models.slow"),
        "{said}"
    );
    let log = log(folder.path());
    assert!(log.contains("a run of models.slow"), "{log}");
}

/// One that takes no word from its parent is killed in time.
#[test]
fn a_process_that_stands_still_holds_up_no_stop() {
    let (_folder, server) = start(3, &["server.processes=2"]);
    let (_, page) = server.admin_get("/metrics");
    let pid = page
        .lines()
        .find_map(|line| line.strip_prefix("millpond_process_pid{process=\"1\"} "))
        .unwrap();
    assert!(
        Command::new("kill")
            .args(["-STOP", pid])
            .status()
            .unwrap()
            .success()
    );
    let (code, said) = stopped(server);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(&format!("process 1 (pid {pid}) ended with signal: 9")),
        "{said}"
    );
}

/// A full pipe for the folder's log, held open, and the key that names it.
fn full_fifo(folder: &Path) -> (std::fs::File, String) {
    let fifo = folder.join("log.fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let config = CONFIG.replace("LISTEN", "127.0.0.1:0");
    std::fs::write(folder.join("millpond.toml"), config).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let mut pipe = options
        .read(true)
        .write(true)
        .custom_flags(NONBLOCK)
        .open(&fifo)
        .unwrap();
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    (pipe, "log.file=log.fifo".to_owned())
}

/// The log's thread stands in a write; everything else has ended in order, and the last words do not wait for it.
#[test]
fn a_log_that_nobody_reads_holds_up_no_stop_without_a_drain() {
    let folder = tempfile::tempdir().unwrap();
    let (_pipe, set) = full_fifo(folder.path());
    let server = Millpond::start(folder.path(), &["server.drain_ms_max=0", &set]);
    let (code, said) = stopped(server);
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn a_start_that_fails_and_a_second_signal_show_in_the_log() {
    let (folder, server) = start(5, &["server.drain_ms_max=60000"]);
    let _http = call_that_does_not_return(&server);
    server.signal("TERM");
    let until = Instant::now() + WAIT_MAX;
    while !log(folder.path()).contains("draining") {
        assert!(Instant::now() < until, "{}", log(folder.path()));
        std::thread::sleep(Duration::from_millis(10));
    }
    let (code, said) = stopped(server);
    assert!(code == Some(1) && said.contains("by a second signal"), "{said}");
    let log_now = log(folder.path());
    let last = log_now.lines().last().unwrap_or_default();
    assert!(
        last.contains("by a second signal") && last.contains("left=\"1 unfinished call\""),
        "{log_now}"
    );

    // A folder is where the store's lock is to be: only the store finds that out.
    std::fs::create_dir_all(folder.path().join("taken/lock")).unwrap();
    let set = ["ordered.events={path=\"taken\"}"];
    let Err((status, said)) = Millpond::try_start_in(folder.path(), &set, &[]) else {
        panic!("it starts in a folder that cannot be locked")
    };
    assert!(
        !status.success() && said.contains("taken: cannot lock the folder"),
        "{said}"
    );
    let log_now = log(folder.path());
    assert!(
        log_now.contains("the start failed") && log_now.contains("taken: cannot lock the folder"),
        "{log_now}"
    );
}

/// With time left for the drain the end of the log is what is waited for, in vain.
#[test]
fn a_log_that_is_lost_shows_in_the_status() {
    let folder = tempfile::tempdir().unwrap();
    let (_pipe, set) = full_fifo(folder.path());
    let server = Millpond::start(folder.path(), &["server.drain_ms_max=20000", &set]);
    let (code, said) = stopped(server);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the log takes no more lines"), "{said}");
}

/// `O_NONBLOCK` of Linux.
const NONBLOCK: i32 = 0o4000;

#[test]
fn a_stop_with_nothing_to_do_is_clean() {
    // Time that a clean stop does not use up, however busy the machine is.
    let drain = "server.drain_ms_max=20000";
    for set in [&[drain][..], &[drain, "server.processes=2"]] {
        let (_folder, server) = start(4, set);
        let mut http = Http::connect(&server.addr);
        assert_eq!(http.call("echo", &serde_json::json!({"a": 1})).0, 200);
        let (code, said) = stopped(server);
        assert_eq!((code, said.as_str()), (Some(0), ""));
    }
}
