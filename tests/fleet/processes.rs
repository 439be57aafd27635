//! Several processes on one port: each answers, one that dies is started again, and none outlives the parent.

use crate::harness::{Http, Millpond, make_table};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections made until every process had one; with two processes 64 of them miss one with a chance of 2^-63.
const CONNECTIONS: usize = 64;
/// Waits end here only so that a hang fails.
const WAIT_MAX: Duration = Duration::from_secs(60);

const CONFIG: &str = "[server]\nlisten = \"LISTEN\"\nthreads = 1\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"t\"\n\
                      [log]\nfile = \"millpond.log\"\n[methods.echo]\nkind = \"echo\"\n\
                      [features.embeddings]\npath = \"tables/embeddings\"\n";

/// An address whose port nobody else uses: no other test listens on this one of the loopback addresses.
pub(super) fn own_address(host: u8) -> String {
    let free = TcpListener::bind((format!("127.13.25.{host}"), 0)).unwrap();
    free.local_addr().unwrap().to_string()
}

fn folder(host: u8) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("LISTEN", &own_address(host));
    std::fs::write(folder.path().join("millpond.toml"), config).unwrap();
    make_table(&folder.path().join("tables/embeddings"), "embeddings", 1);
    folder
}

fn start(folder: &Path) -> Millpond {
    Millpond::start(folder, &["server.processes=2"])
}

fn connections(server: &Millpond) -> Vec<Http> {
    (0..CONNECTIONS).map(|_| Http::connect(&server.addr)).collect()
}

pub(super) fn infos(http: &mut Http) -> Value {
    let (status, infos) = http.call("*infos", &json!({}));
    assert_eq!(status, 200, "{infos}");
    infos["millpond"].clone()
}

/// What `/metrics` of the admin port says of a sample.
pub(super) fn sample(server: &Millpond, name: &str) -> f64 {
    let (status, page) = server.admin_get("/metrics");
    assert_eq!(status, 200, "{page}");
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{page}"))
        .parse()
        .unwrap()
}

pub(super) fn pids(server: &Millpond) -> BTreeSet<u32> {
    (0..2)
        .map(|number| sample(server, &format!("millpond_process_pid{{process=\"{number}\"}}")) as u32)
        .collect()
}

pub(super) fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT_MAX;
    while !done() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the process runs: one that has ended and was not waited for does not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('Z'));
    state == Some(false)
}

/// How much the process that answers logs.
fn level(http: &mut Http) -> String {
    let (_, infos) = http.call("*infos", &json!({}));
    infos["FPNN.status"]["server"]["log"]["level"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn kill(pid: u32) {
    signal(pid, "-KILL");
}

pub(super) fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    let sent = std::process::Command::new("kill").args([name, &pid]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_process_that_hangs_is_not_ready_and_started_again() {
    let folder = folder(12);
    let server = start(folder.path());
    let before = pids(&server);
    let victim = *before.iter().next().unwrap();
    signal(victim, "-STOP");
    wait("it is noticed", || {
        let (status, page) = server.admin_get("/readyz");
        status == 503
            && page.starts_with("not ready: process ")
            && page.contains(" does not answer its parent")
    });
    wait("it is killed", || {
        sample(&server, "millpond_process_restarts_total") == 1.0
    });
    wait("all are ready again", || server.admin_get("/readyz").0 == 200);
    let after = pids(&server);
    assert!(
        !after.contains(&victim) && after.len() == 2,
        "{before:?} {after:?}"
    );
    assert!(server.terminate().success());
}

#[test]
fn both_answer_and_their_figures_are_one() {
    let folder = folder(1);
    let server = start(folder.path());
    assert_eq!(server.admin_get("/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(server.admin_get("/healthz").0, 200);
    let mut connections = connections(&server);
    let mut own = [0.0; 2];
    let mut seen = BTreeSet::new();
    for http in &mut connections {
        let infos = infos(http);
        let process = infos["process"].as_u64().unwrap() as usize;
        seen.insert(infos["pid"].as_u64().unwrap() as u32);
        for _ in 0..=process {
            assert_eq!(http.call("echo", &json!({"a": 1})).0, 200);
            own[process] += 1.0;
        }
    }
    assert_eq!(seen, pids(&server), "each process has answered");
    // Each process's own count, by its own infos, is what was sent to it; their sum is what the parent tells.
    for http in &mut connections {
        let infos = infos(http);
        let process = infos["process"].as_u64().unwrap() as usize;
        assert_eq!(
            infos["methods"]["echo"]["answered"], own[process] as u64,
            "{infos}"
        );
    }
    let calls = "millpond_calls_total{method=\"echo\"}";
    assert_eq!(sample(&server, calls), own[0] + own[1]);
    let buckets = "millpond_call_seconds_bucket{method=\"echo\",le=\"+Inf\"}";
    assert_eq!(sample(&server, buckets), own[0] + own[1]);
    assert_eq!(sample(&server, "millpond_connections"), CONNECTIONS as f64);
    let each: f64 = (0..2)
        .map(|number| {
            sample(
                &server,
                &format!("millpond_process_connections{{process=\"{number}\"}}"),
            )
        })
        .sum();
    assert_eq!(each, CONNECTIONS as f64);
    assert_eq!(sample(&server, "millpond_processes"), 2.0);
    assert_eq!(sample(&server, "millpond_ready"), 1.0);
    assert_eq!(
        sample(&server, "millpond_table_rows{table=\"embeddings\"}"),
        200.0,
        "of one table, not of two"
    );
    drop(connections);
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    for number in 0..2 {
        let mark = format!(" process={number}");
        let ready = |line: &&str| line.contains(" ready ms=") && line.ends_with(&mark);
        assert_eq!(log.lines().filter(ready).count(), 1, "{log}");
    }
}

#[test]
fn a_process_that_is_killed_is_started_again() {
    let folder = folder(2);
    let server = start(folder.path());
    let mut calls = 0.0;
    for http in &mut connections(&server) {
        assert_eq!(http.call("echo", &json!({})).0, 200);
        calls += 1.0;
    }
    let counted = "millpond_calls_total{method=\"echo\"}";
    assert_eq!(sample(&server, counted), calls);
    let before = pids(&server);
    let victim = *before.iter().next().unwrap();
    kill(victim);
    wait("it is noticed", || {
        sample(&server, "millpond_process_restarts_total") == 1.0
    });
    wait("all are ready again", || server.admin_get("/readyz").0 == 200);
    let after = pids(&server);
    assert_eq!(after.len(), 2);
    assert_eq!(before.intersection(&after).count(), 1, "{before:?} {after:?}");
    // What the dead one had counted is not lost, so the sum never falls.
    assert_eq!(sample(&server, counted), calls);
    let answering: BTreeSet<u32> = connections(&server)
        .iter_mut()
        .map(|http| infos(http)["pid"].as_u64().unwrap() as u32)
        .collect();
    assert_eq!(answering, after);
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(
        log.contains(&format!(
            "(pid {victim}) ended with signal: 9 (SIGKILL) while it served; it is started again"
        )),
        "{log}"
    );
}

#[test]
fn a_killed_parent_leaves_nothing() {
    let folder = folder(3);
    let mut server = start(folder.path());
    let processes = pids(&server);
    assert!(processes.iter().all(|pid| runs(*pid)));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    wait("the processes are gone", || {
        !processes.iter().any(|pid| runs(*pid))
    });
    assert!(
        TcpListener::bind(&server.addr).is_ok(),
        "nobody listens there any more"
    );
}

#[test]
fn a_stop_drains_every_process() {
    let folder = folder(4);
    let server = start(folder.path());
    let processes = pids(&server);
    let mut connections = connections(&server);
    let lookup = json!({"table": "embeddings", "keys": (0..2000).collect::<Vec<u64>>()}).to_string();
    for http in &mut connections {
        assert_eq!(http.call("*ping", &json!({})).0, 200);
    }
    for http in &mut connections {
        use std::io::Write as _;
        let request = format!(
            "POST /service/features.lookup HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{lookup}",
            lookup.len()
        );
        http.stream.write_all(request.as_bytes()).unwrap();
    }
    server.signal("TERM");
    for http in &mut connections {
        let (status, answer) = http.answer().expect("an answer, not a closed connection");
        assert!(status == 200 || status == 503, "{status} {answer}");
    }
    let mut server = server;
    assert!(server.child.wait().unwrap().success());
    assert!(!processes.iter().any(|pid| runs(*pid)));
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert_eq!(log.matches(" draining ").count(), 2, "{log}");
}

#[test]
fn what_is_tuned_in_one_holds_for_all_and_for_those_that_start_later() {
    let folder = folder(5);
    let server = start(folder.path());
    let tune = json!({"key": "server.log.level", "value": "error", "_token": "t"});
    let (status, answer) = server.call("*tune", &tune);
    assert_eq!((status, &answer["value"]), (200, &json!("error")));
    wait("all follow", || {
        connections(&server).iter_mut().all(|http| level(http) == "error")
    });
    for pid in pids(&server) {
        kill(pid);
    }
    wait("both are noticed", || {
        sample(&server, "millpond_process_restarts_total") == 2.0
    });
    wait("both are ready", || server.admin_get("/readyz").0 == 200);
    wait("both have taken it over", || {
        connections(&server).iter_mut().all(|http| level(http) == "error")
    });
    assert!(server.terminate().success());
}

#[test]
fn what_several_processes_cannot_share_is_refused() {
    let folder = folder(6);
    let check = |set: &[&str], words: &[&str]| match Millpond::try_start(folder.path(), set) {
        Ok(_) => panic!("it started; expected {words:?}"),
        Err((status, stderr)) => {
            assert_eq!(status.code(), Some(1), "{stderr}");
            for word in words {
                assert!(stderr.contains(word), "{word:?} is not in:\n{stderr}");
            }
        }
    };
    let two = "server.processes=2";
    check(
        &["server.processes=0"],
        &["server.processes is 0; expected at least 1"],
    );
    check(&["server.processes=257"], &["server.processes is 257"]);
    check(
        &[two, "server.listen=127.0.0.1:0"],
        &["server.listen is 127.0.0.1:0", "port 0"],
    );
    check(
        &[two, "server.listen_also=[\"unix:x.sock\"]"],
        &["server.listen_also[0] is unix:", "a Unix socket has one process"],
    );
    // A port that somebody has is refused, also by somebody who would share it.
    let server = start(folder.path());
    check(&[two], &[&server.addr, "server.listen", "another process"]);
    assert!(server.terminate().success());
    // What a process finds only when it starts ends all, and is said once.
    let table = folder.path().join("tables/embeddings/00000001/shard-00000.mpf");
    std::fs::write(table, b"damaged").unwrap();
    match Millpond::try_start(folder.path(), &[two]) {
        Ok(_) => panic!("it started with a damaged table"),
        Err((status, stderr)) => {
            assert_eq!(status.code(), Some(1), "{stderr}");
            assert_eq!(stderr.matches("features.embeddings").count(), 1, "{stderr}");
            assert!(
                stderr.contains("process 0") && stderr.contains("before it was ready"),
                "{stderr}"
            );
        }
    }
}

#[test]
fn a_process_that_starts_again_has_the_list_of_the_others() {
    let folder = folder(7);
    let server = start(folder.path());
    // Each change needs those before it, so one process is told all; in the end this test's own address may not call any more.
    let mut http = Http::connect(&server.addr);
    for (command, value) in [
        ("addIP", "127.0.0.1"),
        ("enable", "true"),
        ("addIP", "10.0.0.0/8"),
        ("removeIP", "127.0.0.1"),
    ] {
        let key = format!("server.security.ip.whiteList.{command}");
        let tune = json!({"key": key, "value": value, "force": true, "_token": "t"});
        let (status, answer) = http.call("*tune", &tune);
        assert_eq!(status, 200, "{answer}");
    }
    let all_refuse = || {
        let mut connections = connections(&server);
        connections
            .iter_mut()
            .all(|http| http.call("echo", &json!({})).0 == 403)
    };
    wait("all refuse", all_refuse);
    for pid in pids(&server) {
        kill(pid);
    }
    wait("both are noticed", || {
        sample(&server, "millpond_process_restarts_total") == 2.0
    });
    wait("both are ready", || server.admin_get("/readyz").0 == 200);
    wait("all refuse again", all_refuse);
    assert!(server.terminate().success());
}

#[test]
fn calls_that_cross_at_two_processes_leave_them_alike() {
    let folder = folder(8);
    let server = start(folder.path());
    let mut connections = connections(&server);
    let mut of = |process: u64| {
        let at = connections
            .iter_mut()
            .position(|http| infos(http)["process"] == process);
        connections.swap_remove(at.expect("a connection to each process"))
    };
    let mut asking = [of(0), of(1)];
    // While the parent stands still, none of the two calls can have been decided before the other is made.
    server.signal("STOP");
    for (http, value) in asking.iter_mut().zip(["debug", "error"]) {
        let body = json!({"key": "server.log.level", "value": value, "_token": "t"}).to_string();
        use std::io::Write as _;
        write!(
            http.stream,
            "POST /service/*tune HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
    }
    server.signal("CONT");
    for (http, value) in asking.iter_mut().zip(["debug", "error"]) {
        let (status, answer) = http.answer().expect("an answer");
        assert!(status == 200 && answer.contains(value), "{status} {answer}");
    }
    wait("they agree", || {
        let [first, second] = &mut asking;
        level(first) == level(second)
    });
    drop(connections);
    assert!(server.terminate().success());
}

#[test]
fn a_process_that_starts_again_takes_no_call_before_it_is_as_the_others() {
    let folder = folder(9);
    let (token, file) = (folder.path().join("token"), folder.path().join("millpond.toml"));
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&token, "t\n").unwrap();
    std::fs::write(&file, config.replace("token = \"t\"", "token_file = \"token\"")).unwrap();
    let server = start(folder.path());
    let tune = json!({"key": "server.log.level", "value": "error", "_token": "t"});
    assert_eq!(server.call("*tune", &tune).0, 200);
    wait("all follow", || {
        connections(&server).iter_mut().all(|http| level(http) == "error")
    });
    // Its successor waits for its token until somebody writes it.
    std::fs::remove_file(&token).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&token).status();
    assert!(made.unwrap().success());
    let victim = *pids(&server).iter().next().unwrap();
    kill(victim);
    wait("its successor is started", || {
        let pids = pids(&server);
        pids.len() == 2 && !pids.contains(&victim) && !pids.contains(&0)
    });
    // From here on nobody tells it anything.
    server.signal("STOP");
    std::fs::write(&token, "t\n").unwrap();
    let as_the_others = |http: &mut Http| {
        let (status, answer) = http.call("echo", &json!({"a": 1}));
        assert_eq!((status, answer), (200, json!({"a": 1})));
        assert_eq!(level(http), "error");
    };
    let log = folder.path().join("millpond.log");
    wait("it is warm", || {
        as_the_others(&mut Http::connect(&server.addr));
        // It logs as the configuration says, until it is told otherwise.
        let log = std::fs::read_to_string(&log).unwrap();
        log.matches(" ready ms=").count() == 3
    });
    connections(&server).iter_mut().for_each(as_the_others);
    server.signal("CONT");
    wait("all are ready again", || server.admin_get("/readyz").0 == 200);
    let after = pids(&server);
    let mut answering = BTreeSet::new();
    for http in &mut connections(&server) {
        as_the_others(http);
        answering.insert(infos(http)["pid"].as_u64().unwrap() as u32);
    }
    assert_eq!(answering, after);
    assert!(server.terminate().success());
}
