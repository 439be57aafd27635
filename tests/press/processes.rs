//! `load.processes`: a load generator of several processes offers what one would, and none of them outlives the press.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// Bytes of a request.
const BYTES: usize = 32;
/// Waits are bounded only so that a hang fails.
const LOOKS: usize = 3_000;

/// An echo server that counts, and what it saw.
#[derive(Default)]
struct Seen {
    bytes: usize,
    from: Vec<IpAddr>,
}

fn echo() -> (SocketAddr, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let counted = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, counted) = (stream.unwrap(), counted.clone());
            counted
                .lock()
                .unwrap()
                .from
                .push(stream.peer_addr().unwrap().ip());
            std::thread::spawn(move || echo_one(stream, &counted));
        }
    });
    (address, seen)
}

fn echo_one(mut stream: TcpStream, seen: &Mutex<Seen>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        seen.lock().unwrap().bytes += count;
        if stream.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new(address: SocketAddr, load: &str) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[scenario]\nname = \"processes\"\nseed = 3\n[target]\nprotocol = \"echo\"\naddress = \"{address}\"\n\
             [requests]\nbytes = {BYTES}\n[load]\n{load}\n"
        );
        std::fs::write(folder.path().join("s.toml"), text).unwrap();
        Case { folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn command(&self, set: &[&str]) -> Command {
        let mut command = crate::harness::millpond();
        command
            .args(["press", "run", "--quiet", "--out"])
            .args([self.out(), self.folder.path().join("s.toml")])
            .args(set.iter().flat_map(|pair| ["--set", pair]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // What is sent to this group reaches the press and not these tests.
            .process_group(0);
        command
    }

    fn run(&self, set: &[&str]) -> Output {
        self.command(set).output().unwrap()
    }

    fn result(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.out().join("result.json")).unwrap()).unwrap()
    }

    /// Starts a run that has `processes` and goes on; gives their numbers once requests are on their way.
    fn start(&self, processes: usize, seen: &Mutex<Seen>) -> (Child, Vec<u32>) {
        let press = self.command(&[]).spawn().unwrap();
        let workers = wait_for(|| {
            let workers = children(press.id());
            let is_sending = seen.lock().unwrap().bytes > 100 * BYTES;
            (workers.len() == processes && is_sending).then_some(workers)
        });
        (press, workers)
    }
}

fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never came");
}

/// What follows a process's name in its `stat`: its state and its parent. Nothing when it has gone.
fn state_and_parent(pid: &str) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let pid = name.parse().ok()?;
        (state_and_parent(&name)?.1 == parent).then_some(pid)
    })
    .collect()
}

/// Whether it has ended, collected or not: its new parent may take its time.
fn is_gone(pid: u32) -> bool {
    state_and_parent(&pid.to_string()).is_none_or(|(state, _)| state == "Z")
}

fn signal(name: &str, pid: i64) {
    let done = Command::new("kill")
        .args([name, "--", &pid.to_string()])
        .status()
        .unwrap();
    assert!(done.success());
}

const ENDLESS: &str = "connections = [6]\nduration_s = 600\nwarmup_s_max = 0\nthink_ms = 1\nprocesses = 3";

#[test]
fn what_several_processes_offer_is_what_one_would() {
    let load = "connections = [7]\nrequests_per_connection = 30\nclient_threads = 2\n\
                source_addresses = [\"127.0.0.2\", \"127.0.0.3\"]";
    for processes in [1, 2, 3] {
        let (address, seen) = echo();
        let case = Case::new(address, load);
        let done = case.run(&[&format!("load.processes={processes}")]);
        assert!(done.status.success(), "{done:?}");
        let result = case.result();
        let (point, seen) = (&result["points"][0], seen.lock().unwrap());
        let counters = &point["counters"];
        assert_eq!(
            (&counters["ok"], &counters["connections_opened"]),
            (&Value::from(210), &Value::from(7)),
            "{counters}"
        );
        assert_eq!(seen.bytes, 210 * BYTES);
        // Connection i comes from address i, beginning anew after the last, whichever process it is in.
        let from = |last| {
            seen.from
                .iter()
                .filter(|ip| **ip == IpAddr::from([127, 0, 0, last]))
                .count()
        };
        assert_eq!((from(2), from(3)), (4, 3));
        assert_eq!(point["latency"]["count"], 210);
        assert_eq!(point["client_threads"], 2 * processes);
        let log = std::fs::read_to_string(case.out().join("latency-0001.hlog")).unwrap();
        let tags = log
            .lines()
            .filter_map(|line| line.strip_prefix("Tag=")?.split(',').next());
        assert_eq!(tags.collect::<BTreeSet<_>>().len(), 2 * processes);
        let pinning = result["pinning"].to_string();
        assert_eq!(
            pinning.contains(&format!("in {processes} processes")),
            processes > 1,
            "{pinning}"
        );
    }
}

#[test]
fn several_processes_play_one_schedule_and_are_watched() {
    let (address, seen) = echo();
    let load = "connections = [8]\nrate = [600]\narrivals = \"constant\"\nduration_s = 1.5\nwarmup_s_max = 0.5\n\
                processes = 3";
    let case = Case::new(address, load);
    let done = case.run(&["scenario.repeats=2"]);
    assert!(done.status.success(), "{done:?}");
    let result = case.result();
    let points = result["points"].as_array().unwrap();
    let mut sent = 0;
    for point in points {
        let count = |name: &str| point["counters"][name].as_u64().unwrap();
        // A last request that is too late for the end of the schedule is not sent, but it is counted.
        assert_eq!(count("ok") + count("not_sent"), 900, "{}", point["counters"]);
        assert!(count("ok") > 450, "{}", point["counters"]);
        let seconds = point["series"].as_array().unwrap().iter();
        assert_eq!(
            seconds
                .map(|second| second["answers"].as_u64().unwrap())
                .sum::<u64>(),
            count("ok")
        );
        sent += count("ok") + point["warm_up"]["answers"].as_u64().unwrap();
        assert!(point["client_cpu"]["seconds"].as_f64().unwrap() > 0.0);
        let threads = point["resources"]["threads"].as_array().unwrap();
        let pids = threads.iter().filter_map(|thread| {
            let name = thread["name"].as_str()?;
            name.starts_with("press-client").then(|| thread["pid"].as_u64())
        });
        assert_eq!(pids.collect::<BTreeSet<_>>().len(), 3, "{threads:?}");
    }
    assert_eq!(points.len(), 2);
    let seen = seen.lock().unwrap();
    assert_eq!((seen.bytes, seen.from.len()), (sent as usize * BYTES, 8));
}

#[test]
fn a_process_that_dies_is_told() {
    let (address, seen) = echo();
    let case = Case::new(address, ENDLESS);
    let (press, workers) = case.start(3, &seen);
    signal("-KILL", workers[1].into());
    let done = press.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert!(
        said.contains("of 3 (pid") && said.contains("ended by itself (signal: 9"),
        "{said}"
    );
    let result = case.result();
    assert_eq!(result["state"], "failed");
    assert!(said.contains(result["failure"].as_str().unwrap()), "{result}");
    wait_for(|| workers.iter().all(|&pid| is_gone(pid)).then_some(()));
}

#[test]
fn no_process_outlives_a_press_that_is_killed() {
    let (address, seen) = echo();
    let case = Case::new(address, ENDLESS);
    let (mut press, workers) = case.start(3, &seen);
    signal("-KILL", press.id().into());
    press.wait().unwrap();
    wait_for(|| workers.iter().all(|&pid| is_gone(pid)).then_some(()));
}

#[test]
fn an_interrupt_leaves_what_all_processes_did() {
    let (address, seen) = echo();
    let case = Case::new(address, ENDLESS);
    let (press, workers) = case.start(3, &seen);
    // As a terminal does it: to the whole group.
    signal("-INT", -i64::from(press.id()));
    let done = press.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    let result = case.result();
    let point = &result["points"][0];
    assert_eq!(
        (&result["state"], &point["interrupted"]),
        (&"interrupted".into(), &true.into())
    );
    let count = |name: &str| point["counters"][name].as_u64().unwrap() as usize;
    assert_eq!(count("connections_opened"), 6);
    let bytes = seen.lock().unwrap().bytes;
    // Each connection may have had one more on its way when they were counted.
    assert!(count("ok") >= 100 - 6 && (count("ok")..=count("ok") + count("cut")).contains(&(bytes / BYTES)));
    wait_for(|| workers.iter().all(|&pid| is_gone(pid)).then_some(()));
}

#[test]
fn what_cannot_be_started_says_so() {
    let by_hand = crate::harness::millpond()
        .args(["press", "worker"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&by_hand.stderr).into_owned();
    assert!(
        !by_hand.status.success() && said.contains("`press run`"),
        "{said}"
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let case = Case::new(address, ENDLESS);
    let absent = case.run(&[]);
    let said = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(
        absent.status.code() == Some(3) && said.contains("start the server there"),
        "{said}"
    );
}

#[test]
fn a_process_that_is_stopped_holds_up_no_interrupt() {
    let (address, seen) = echo();
    let case = Case::new(address, ENDLESS);
    let (press, workers) = case.start(3, &seen);
    signal("-STOP", workers[1].into());
    signal("-INT", press.id().into());
    let done = press.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(3), "{said}");
    // Its figures are missing, so the point that was under way is not told as if it were whole.
    assert!(
        said.contains(&format!(
            "(pid {}) says nothing any more, and did not stop",
            workers[1]
        )),
        "{said}"
    );
    let result = case.result();
    assert_eq!(
        (&result["state"], result["points"].as_array().map(Vec::len)),
        (&"failed".into(), Some(0))
    );
    wait_for(|| workers.iter().all(|&pid| is_gone(pid)).then_some(()));
}
