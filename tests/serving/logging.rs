//! Report R1's levels: 2 writes a line a request with its scores, 3 none. And a log that nobody reads.

use crate::harness::{Http, Millpond, R1, r1_folder};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

fn request_lines(level: &str, format: &str) -> Vec<String> {
    let folder = r1_folder();
    let server = Millpond::start(
        folder.path(),
        &[&format!("log.level={level}"), &format!("log.format={format}")],
    );
    let mut http = Http::connect(&server.addr);
    for _ in 0..50 {
        assert_eq!(http.call("infer", &json!({"samples": [["v1", "v2"]]})).0, 200);
    }
    drop(http);
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_log_lines_dropped_total 0"),
        "{metrics}"
    );
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    log.lines()
        .filter(|line| line.contains("answered"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn level_2_writes_a_line_a_request() {
    let lines = request_lines("2", "text");
    assert_eq!(lines.len(), 50);
    assert!(
        lines
            .iter()
            .all(|line| line.contains("method=\"infer\"") && line.contains("scores=[")),
        "{}",
        lines[0]
    );
    let lines = request_lines("debug", "json");
    assert_eq!(lines.len(), 50);
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (line["method"].as_str(), line["level"].as_str()),
            (Some("infer"), Some("DEBUG"))
        );
    }
}

#[test]
fn level_3_and_5_write_none() {
    assert_eq!(request_lines("3", "text").len(), 0);
    assert_eq!(request_lines("5", "text").len(), 0);
}

/// Whoever calls chooses the trace; in the lines of the log and of the slow log it is a beginning of it.
#[test]
fn a_trace_of_any_length_makes_no_long_line() {
    let folder = r1_folder();
    let set = ["log.level=debug", "log.slow_ms=1", "server.threads=1"];
    let server = Millpond::start(folder.path(), &set);
    let long = "é".repeat(1 << 20);
    let calls = [
        ("infer", json!({"samples": [["v1", "v2"]], "_trace": long})),
        // So many samples take more than the millisecond that makes a call slow.
        (
            "infer",
            json!({"samples": vec![["v1", "v2"]; 10_000], "_trace": long}),
        ),
        (
            "features.lookup",
            json!({"table": "embeddings", "keys": [1], "_trace": long}),
        ),
    ];
    for (method, payload) in &calls {
        let (status, answer) = server.call(method, payload);
        assert_eq!(status, 200, "{answer}");
    }
    let head = format!(
        "GET /service/*ping HTTP/1.1\r\nHost: localhost\r\ntraceparent: {}\r\n\r\n",
        "t".repeat(5000)
    );
    assert_eq!(Http::connect(&server.addr).send(&head).0, 200);
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    let traced = |trace: String| {
        let shown = format!("trace=\"{trace}\"");
        log.lines().filter(|line| line.contains(&shown)).count()
    };
    assert!(traced("é".repeat(64)) >= 4, "{log}");
    assert_eq!(traced("t".repeat(128)), 1, "{log}");
    let longest = log.lines().map(str::len).max().unwrap();
    assert!(longest < 8192, "a line of {longest} bytes");
}

/// Whoever calls chooses what an error quotes; the caller gets all of it, the log a beginning.
#[test]
fn an_error_of_any_length_makes_no_long_line() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &["log.level=debug"]);
    let long = "é".repeat(1 << 20);
    let (status, answer) = server.call("infer", &json!({"model": long, "samples": [["v1", "v2"]]}));
    assert_eq!(status, 404);
    assert!(answer["ex"].as_str().unwrap().contains(&long));
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(log.contains("refused") && log.contains(&"é".repeat(200)), "{log}");
    let longest = log.lines().map(str::len).max().unwrap();
    assert!(longest < 1024, "a line of {longest} bytes");
}

/// A pipe that stands for a log's reader who does not read: open at this end, so that the server's opening waits for nobody.
fn fifo(path: &Path) -> File {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// What a log into such a pipe is started with: room for a few hundred lines, and everything logged.
const INTO_FIFO: [&str; 5] = [
    "log.file=log.fifo",
    "log.level=trace",
    "log.queue_bytes_max=16384",
    "server.threads=1",
    "admin.token=s3cret-admin",
];

/// More calls than such a log has room for.
const CALLS: usize = 3000;

fn dropped(server: &Millpond) -> u64 {
    let (_, metrics) = server.admin_get("/metrics");
    let name = "millpond_log_lines_dropped_total ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

fn set_level(server: &Millpond, level: &str) {
    let call = json!({"key": "server.log.level", "value": level, "_token": "s3cret-admin"});
    assert_eq!(server.call("*tune", &call).1["value"], level);
}

/// Every call gets its scores, each before the next is sent.
fn call(http: &mut Http, calls: usize) {
    for _ in 0..calls {
        let (status, answer) = http.call("infer", &json!({"samples": [["v1", "v2"]]}));
        assert_eq!(
            (status, answer["scores"].as_array().map(Vec::len)),
            (200, Some(1))
        );
    }
}

/// The lines that come out of the pipe from now on.
fn read(fifo: File) -> Receiver<String> {
    let (line_out, lines) = sync_channel(1024);
    std::thread::spawn(move || {
        let mut lines = BufReader::new(fifo).lines();
        // The pipe never ends; the thread does when nobody wants its lines any more.
        while line_out.send(lines.next().unwrap().unwrap()).is_ok() {}
    });
    lines
}

/// The next line that `find` finds something in.
fn next<T>(lines: &Receiver<String>, find: impl Fn(&str) -> Option<T>) -> T {
    loop {
        let line = lines.recv_timeout(Duration::from_secs(60)).expect("another line");
        if let Some(found) = find(&line) {
            return found;
        }
    }
}

#[test]
fn a_log_that_nobody_reads_keeps_no_call_waiting_and_says_what_it_dropped() {
    let folder = r1_folder();
    let fifo = fifo(&folder.path().join("log.fifo"));
    let server = Millpond::start(folder.path(), &INTO_FIFO);
    let mut http = Http::connect(&server.addr);
    call(&mut http, CALLS);
    set_level(&server, "error");
    let lost = dropped(&server);
    assert!(
        lost > CALLS as u64,
        "two lines a call, and room for few of them: {lost}"
    );
    call(&mut http, 100);
    assert_eq!(dropped(&server), lost, "nothing is logged at this level");
    // Somebody reads again, and is told of every line that is missing.
    let lines = read(fifo);
    let mut told = 0;
    while told < lost {
        told += next(&lines, |line| {
            let (_, count) = line.split_once("log lines dropped")?.1.rsplit_once("lines=")?;
            Some(count.parse::<u64>().unwrap())
        });
    }
    assert_eq!(told, lost);
    set_level(&server, "trace");
    call(&mut http, 1);
    next(&lines, |line| {
        line.contains("called method=\"infer\"").then_some(())
    });
    next(&lines, |line| {
        (line.contains("answered") && line.contains("scores=[")).then_some(())
    });
    assert_eq!(dropped(&server), lost);
    assert!(server.terminate().success());
}

#[test]
fn a_log_that_nobody_reads_does_not_hold_up_a_stop() {
    let folder = r1_folder();
    let _fifo = fifo(&folder.path().join("log.fifo"));
    let server = Millpond::start(folder.path(), &INTO_FIFO);
    call(&mut Http::connect(&server.addr), CALLS);
    assert_eq!(server.terminate().code(), Some(1), "the log is lost");
}

/// Has the folder's server log to standard error.
fn without_log_file(folder: &Path) {
    let config = R1.replace("[log]\nfile = \"millpond.log\"\n", "");
    assert_ne!(config, R1);
    std::fs::write(folder.join("millpond.toml"), config).unwrap();
}

/// A reader of the pipe may come later, or never.
#[test]
fn a_log_into_a_pipe_without_a_reader_does_not_hold_up_the_start() {
    let folder = r1_folder();
    let path = folder.path().join("log.fifo");
    drop(fifo(&path));
    let (started, starts) = sync_channel(1);
    let place = folder.path().to_owned();
    std::thread::spawn(move || started.send(Millpond::start(&place, &INTO_FIFO)).unwrap());
    let server = starts.recv_timeout(Duration::from_secs(60));
    let pipe = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let server = server.expect("the server starts before anybody reads");
    call(&mut Http::connect(&server.addr), CALLS);
    assert!(dropped(&server) > CALLS as u64);
    // What was written before there was a reader is there.
    let lines = read(pipe);
    next(&lines, |line| line.contains("listening").then_some(()));
    next(&lines, |line| line.contains("log lines dropped").then_some(()));
    assert!(server.terminate().success());
}

/// What a pipe takes as one piece, which no other writer's bytes come into.
const PIPE_BUF: usize = 4096;

/// A socket of datagrams in the place of the pipe shows each write for itself.
#[test]
fn standard_error_gets_whole_lines_in_writes_that_a_pipe_keeps_together() {
    let folder = r1_folder();
    without_log_file(folder.path());
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let set = ["log.level=trace", "server.threads=1"];
    let stderr = OwnedFd::from(theirs).into();
    let server = Millpond::try_start_to(folder.path(), &set, stderr).unwrap();
    // Nobody reads yet, so lines gather.
    call(&mut Http::connect(&server.addr), 1000);
    server.signal("TERM");
    let (mut write, mut longest) = (vec![0; 1 << 20], 0);
    loop {
        let len = ours.recv(&mut write).unwrap();
        let text = std::str::from_utf8(&write[..len]).unwrap();
        assert!(len <= PIPE_BUF && text.ends_with('\n'), "{len} bytes: {text}");
        longest = longest.max(len);
        if text.contains(" stopped") {
            break;
        }
    }
    assert!(longest > PIPE_BUF / 2, "{longest}");
}

/// The server's exit status, or `None` when it runs on; a server that hangs makes a failed test of it, and no endless one.
fn ended(mut server: Millpond) -> Option<ExitStatus> {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(status) = server.child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// More lines than a pipe holds on standard error, which nobody reads; then a stop.
#[test]
fn a_standard_error_that_nobody_reads_does_not_hold_up_a_stop() {
    for processes in ["1", "2"] {
        let folder = tempfile::tempdir().unwrap();
        // Several processes share a port that is named; nobody else listens at this one of the loopback addresses.
        let listen = TcpListener::bind("127.13.26.1:0").unwrap().local_addr().unwrap();
        let config = format!(
            "[server]\nlisten = \"{listen}\"\nthreads = 1\nprocesses = {processes}\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [log]\nlevel = \"trace\"\n[methods.echo]\nkind = \"echo\"\n"
        );
        std::fs::write(folder.path().join("millpond.toml"), config).unwrap();
        let (unread, theirs) = std::io::pipe().unwrap();
        let server = Millpond::try_start_to(folder.path(), &[], OwnedFd::from(theirs).into()).unwrap();
        for _ in 0..20 {
            let mut http = Http::connect(&server.addr);
            (0..CALLS / 20).for_each(|_| assert_eq!(http.call("echo", &json!({})).0, 200));
        }
        server.signal("TERM");
        let status = ended(server).expect("it ends");
        assert_eq!(status.code(), Some(1), "{processes}: the log is lost");
        drop(unread);
    }
}

/// The same of a standard error that is full before the server has anything to say: why it does not start.
#[test]
fn a_standard_error_that_is_full_does_not_hold_up_the_end_of_a_start() {
    let (_unread, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    while (&theirs).write(&[0; 4096]).is_ok() {}
    while (&theirs).write(&[0]).is_ok() {}
    theirs.set_nonblocking(false).unwrap();
    let child = crate::harness::millpond()
        .args(["serve", "--set", "server.threads=none"])
        .stderr(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    let (addr, admin, tls) = (String::new(), String::new(), None);
    let server = Millpond {
        child,
        addr,
        admin,
        tls,
        resp: None,
        resp_tls: None,
    };
    assert_eq!(ended(server).expect("it ends").code(), Some(1));
}
