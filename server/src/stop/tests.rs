//! Servers in this process with something in them that stands still: what is said of it, and how they stop.
//! Its tests assert no time: limits are there only so that a hang fails.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::config::Config;
use crate::{Program, admin, ports};
use millpond_calls::{Call, Reply, Service};
use millpond_catalog::Handle;
use millpond_engines_ordered::Put;
use millpond_net::Listener;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Waits end here only so that a hang fails.
const WAIT_MAX: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 2
drain_ms_max = 50
[admin]
listen = "127.0.0.1:0"
[ordered.events]
durability = "memory"
[models.slow]
backend = "practice"
behaviour = "wait"
us = 0
us_per_row = 1000000
batch_size_max = 10
warm_up = [1]
"#;

fn config() -> Config {
    toml::from_str(CONFIG).unwrap()
}

/// What lets something go that stands still, and hears when it does.
struct Gate {
    entered: Receiver<()>,
    go: SyncSender<()>,
}

/// Stands still where it is called, until the gate opens.
#[derive(Clone)]
struct Standing {
    entered: SyncSender<()>,
    gate: Arc<Mutex<Receiver<()>>>,
}

impl Standing {
    fn new() -> (Standing, Gate) {
        let ((entered, told), (go, gate)) = (sync_channel(8), sync_channel(8));
        let gate = Arc::new(Mutex::new(gate));
        (Standing { entered, gate }, Gate { entered: told, go })
    }

    fn stand(&self) {
        self.entered.send(()).unwrap();
        let _ = self.gate.lock().unwrap().recv();
    }
}

impl Service for Standing {
    fn call(&self, _: &Call<'_>, reply: Reply<'_>) {
        self.stand();
        reply.ok(|out| out.map(|_| ()));
    }
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn wait_for(address: SocketAddr, path: &str, word: &str) {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let answer = get(address, path);
        if answer.contains(word) {
            return;
        }
        assert!(Instant::now() < until, "{path} says {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Stops on a thread of its own, so that a stop that hangs fails the test.
fn stops(server: Server) -> Stopped {
    let (done, stopped) = sync_channel(1);
    std::thread::spawn(move || done.send(server.shutdown()));
    stopped.recv_timeout(WAIT_MAX).expect("the stop ends")
}

/// A server whose calls stand still on their net threads.
fn with_standing_calls() -> (Server, Gate) {
    let config = config();
    let shared = Arc::new(Shared::new(config.clone(), Program::default()));
    let engines = Handle::open(config.sections(), config.resources()).unwrap();
    shared.calls.open(engines.current());
    let (service, gate) = Standing::new();
    let bind = || Listener::bind("127.0.0.1:0".parse().unwrap(), "server.listen").unwrap();
    let data = ports::data_port(&config).unwrap();
    let data = data.start(bind(), "net", service).unwrap();
    let view = Arc::clone(&shared);
    let admin = ports::admin_port(&config.admin).start(bind(), "admin", admin::Admin { view });
    let server = Server::watched(shared, data, (Some(admin.unwrap()), None), None).unwrap();
    (server, gate)
}

/// Has a net thread of it stand still.
fn stand(server: &Server, gate: &Gate) -> TcpStream {
    let mut stream = TcpStream::connect(server.local_addr()).unwrap();
    stream
        .write_all(b"GET /service/any HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    gate.entered.recv_timeout(WAIT_MAX).unwrap();
    stream
}

#[test]
fn a_net_thread_that_stands_still_shows_and_holds_up_no_stop() {
    let (server, gate) = with_standing_calls();
    let admin = server.admin_addr().unwrap();
    wait_for(admin, "/readyz", "ready\n");
    assert!(get(admin, "/readyz").contains("HTTP/1.1 200"));
    assert!(get(admin, "/metrics").contains("millpond_threads_stuck 0\n"));
    let _standing = stand(&server, &gate);
    wait_for(admin, "/readyz", "not ready: net-");
    assert!(get(admin, "/readyz").contains("does not turn"));
    wait_for(admin, "/metrics", "millpond_threads_stuck 1\n");
    assert!(
        get(admin, "/healthz").contains("HTTP/1.1 200"),
        "it may come back"
    );
    gate.go.send(()).unwrap();
    wait_for(admin, "/readyz", "HTTP/1.1 200");
    let _standing = stand(&server, &gate);
    let left = stops(server).left;
    assert!(left.len() == 1 && left[0].starts_with("net-"), "{left:?}");
}

#[test]
fn a_stop_that_everything_follows_leaves_nothing() {
    let (server, _gate) = with_standing_calls();
    assert_eq!(stops(server), Stopped::default());
}

/// As one whose sync hangs: the log thread does not come back.
#[test]
fn a_store_that_stands_still_holds_up_no_stop() {
    let server = Server::start(config()).unwrap();
    let (standing, gate) = Standing::new();
    let store = server.shared.calls.state().unwrap().stores["events"].clone();
    // A smaller one is made by its caller.
    let put = Put {
        entries: vec![(b"key".to_vec(), vec![0; 1 << 20])],
        ..Put::default()
    };
    assert!(store.write(put, Box::new(move |_| standing.stand())).is_ok());
    gate.entered.recv_timeout(WAIT_MAX).unwrap();
    assert_eq!(stops(server).left, ["ordered.events"]);
    drop(store);
}

#[test]
fn a_model_that_does_not_return_holds_up_no_stop() {
    let server = Server::start(config()).unwrap();
    let mut stream = TcpStream::connect(server.local_addr()).unwrap();
    // Runs of ten seconds, one after the other: hours.
    let rows = vec!["[1]"; 10_000].join(",");
    let body = format!(
        "{{\"_deadline_ms\":100000000,\"inputs\":{{\"x\":{{\"shape\":[10000,1],\"type\":\"f32\",\"data\":[{rows}]}}}}}}"
    );
    let head = format!(
        "POST /service/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    wait_for(
        server.admin_addr().unwrap(),
        "/metrics",
        "millpond_model_busy{model=\"slow\",version=\"1\"} 1\n",
    );
    let left = stops(server).left;
    assert_eq!(left, ["1 unfinished call", "a run of models.slow"]);
}
