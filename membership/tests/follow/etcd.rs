//! A real etcd with a folder and ports of its own. It ends with its test, whatever state it is in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long it may take to be ready.
const READY: Duration = Duration::from_secs(60);

pub struct Etcd {
    child: Child,
    folder: TempDir,
    client: u16,
    arguments: Vec<String>,
}

impl Etcd {
    /// Starts one; `None` where there is none, which is said under the test's name.
    pub fn start(test: &str) -> Option<Etcd> {
        Etcd::start_with(test, "http", |_| Vec::new())
    }

    /// With further arguments, made for its folder.
    pub fn start_with(test: &str, scheme: &str, more: impl Fn(&Path) -> Vec<String>) -> Option<Etcd> {
        if !is_there() {
            let line = format!(
                "\ntest {test} ... ignored, needs etcd, which is not here (apt-get install etcd-server)\n"
            );
            // Not println: what cargo captures of a test that passes, nobody sees.
            let _ = std::io::stdout().write_all(line.as_bytes());
            return None;
        }
        // Another process may take a port between its choice and its use.
        for _ in 0..10 {
            let folder = tempfile::tempdir().unwrap();
            let [client, peer] = free_ports();
            let (client_url, peer_url) = (
                format!("{scheme}://127.0.0.1:{client}"),
                format!("http://127.0.0.1:{peer}"),
            );
            let mut arguments: Vec<String> = [
                "--name=test".to_owned(),
                format!("--data-dir={}", folder.path().join("data").display()),
                format!("--listen-client-urls={client_url}"),
                format!("--advertise-client-urls={client_url}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster=test={peer_url}"),
            ]
            .into();
            arguments.extend(more(folder.path()));
            let child = spawn(&folder, &arguments);
            let mut etcd = Etcd {
                child,
                folder,
                client,
                arguments,
            };
            if etcd.is_ready(scheme) {
                return Some(etcd);
            }
        }
        panic!("etcd does not start");
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn port(&self) -> u16 {
        self.client
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again over the same data, or over none.
    pub fn restart(&mut self, keep_data: bool) {
        if !keep_data {
            std::fs::remove_dir_all(self.folder.path().join("data")).unwrap();
        }
        self.child = spawn(&self.folder, &self.arguments);
        assert!(self.is_ready("http"), "etcd does not start again");
    }

    /// A call by hand: the body of the answer.
    pub fn post(&self, path: &str, body: &str) -> String {
        let answer = post(self.client, path, body).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    pub fn put(&self, key: &str, value: &str, lease: &str) {
        let (key, value) = (STANDARD.encode(key), STANDARD.encode(value));
        self.post(
            "/v3/kv/put",
            &format!(r#"{{"key":"{key}","value":"{value}","lease":"{lease}"}}"#),
        );
    }

    pub fn delete(&self, key: &str) {
        self.post(
            "/v3/kv/deleterange",
            &format!(r#"{{"key":"{}"}}"#, STANDARD.encode(key)),
        );
    }

    /// A lease that nobody keeps.
    pub fn lease(&self, ttl_s: u32) -> String {
        let answer = self.post("/v3/lease/grant", &format!(r#"{{"TTL":"{ttl_s}"}}"#));
        let from = answer.split_once(r#""ID":""#).unwrap().1;
        from.split_once('"').unwrap().0.to_owned()
    }

    fn is_ready(&mut self, scheme: &str) -> bool {
        let end = Instant::now() + READY;
        while Instant::now() < end && self.child.try_wait().unwrap().is_none() {
            let answers = match scheme {
                "http" => post(self.client, "/v3/kv/range", r#"{"key":"YQ=="}"#)
                    .is_ok_and(|answer| answer.contains("200 OK")),
                _ => TcpStream::connect(("127.0.0.1", self.client)).is_ok(),
            };
            if answers {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &TempDir, arguments: &[String]) -> Child {
    let log = File::create(folder.path().join("log")).unwrap();
    Command::new("etcd")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn free_ports() -> [u16; 2] {
    let listeners = [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn post(port: u16, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Whether etcd is here; root on Debian gets it installed, nobody else is asked for anything.
fn is_there() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    let runs = || {
        Command::new("etcd")
            .arg("--version")
            .output()
            .is_ok_and(|done| done.status.success())
    };
    *THERE.get_or_init(|| {
        if runs() {
            return true;
        }
        // RUNLEVEL: an etcd that starts by itself would take ports.
        let install = "[ $(id -u) = 0 ] && command -v apt-get && export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 && \
             get='apt-get -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends etcd-server' && \
             ($get || (apt-get update && $get))";
        let _ = Command::new("bash").args(["-c", install]).output();
        runs()
    })
}
