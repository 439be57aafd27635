//! Starts the binary on ports of its own, calls it over HTTP, and makes tables and models for it.

use millpond_engines_features::{Schema, write::Writer};
use millpond_pipelines::key_hash;
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Floats a row of [`make_table`]'s rows: two of them make the 16 inputs of the MLP.
pub const DIM: usize = 8;

/// The configuration of an R1-shaped server: samples of two strings, one table, the small MLP.
pub const R1: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 2
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[features.embeddings]
path = "tables/embeddings"
[ordered.events]
path = "events"
[models.mlp]
path = "mlp.onnx"
batch_size_max = 64
[pipelines.r1]
request = "samples"
stages = [
    { name = "a", hash = { slot = "0", from = "samples.0" } },
    { name = "b", hash = { slot = "1", from = "samples.1" } },
    { name = "av", lookup = { table = "embeddings", keys = "a" } },
    { name = "bv", lookup = { table = "embeddings", keys = "b" } },
    { name = "x", assemble = { columns = ["av", "bv"] } },
    { name = "scores", model = { model = "mlp", input = "x" } },
]
"#;

/// A folder with everything [`R1`] names.
pub fn r1_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), R1).unwrap();
    std::fs::copy(data("mlp.onnx"), folder.path().join("mlp.onnx")).unwrap();
    make_table(&folder.path().join("tables/embeddings"), "embeddings", 1);
    folder
}

/// A model or reference that the tests of the ONNX Runtime backend ship.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../backends/onnxruntime/tests/data")
        .join(name)
}

/// The binary. Its models run on the ONNX Runtime that ORT_DYLIB_PATH names, else on that of the demo's environment in this checkout,
/// else on whichever is installed.
pub fn millpond() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    if let Some(library) = library() {
        command.env("ORT_DYLIB_PATH", library);
    }
    command
}

/// The demo's environment, where nothing else is said and it is there.
pub fn library() -> Option<PathBuf> {
    let of_the_demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.demo/venv");
    let is_wanted = std::env::var_os("ORT_DYLIB_PATH").is_none() && of_the_demo.is_dir();
    is_wanted.then(|| of_the_demo.canonicalize().unwrap())
}

/// Rows for users and items 0..100 of slots "0" and "1".
pub fn make_table(dir: &Path, name: &str, version: u64) {
    let mut writer = Writer::create(dir, name, version, Schema::floats(DIM), 2).unwrap();
    for id in 0..100 {
        for slot in ["0", "1"] {
            writer
                .push(key_hash(slot, &format!("v{id}")), &row(slot, id))
                .unwrap();
        }
    }
    writer.finish().unwrap();
}

/// The row of one id: any fixed function of it will do.
pub fn row(slot: &str, id: usize) -> Vec<f32> {
    let bias = if slot == "0" { 0.1 } else { -0.2 };
    (0..DIM)
        .map(|column| ((id * 7 + column * 3) % 19) as f32 / 19.0 + bias)
        .collect()
}

/// A running server; dropping it kills it.
pub struct Millpond {
    pub child: Child,
    pub addr: String,
    pub admin: String,
    /// Where TLS is, if anywhere.
    pub tls: Option<String>,
    /// Where RESP is, in clear and by TLS.
    pub resp: Option<String>,
    pub resp_tls: Option<String>,
}

impl Millpond {
    /// Starts `serve` with the folder's configuration and waits until it is ready.
    pub fn start(folder: &Path, set: &[&str]) -> Millpond {
        match Millpond::try_start(folder, set) {
            Ok(started) => started,
            Err((status, stderr)) => panic!("the server did not start: {status}\n{stderr}"),
        }
    }

    /// The same, or the exit status and what it said.
    pub fn try_start(folder: &Path, set: &[&str]) -> Result<Millpond, (ExitStatus, String)> {
        Millpond::try_start_to(folder, set, Stdio::piped())
    }

    /// As [`Millpond::try_start`], with its standard error going elsewhere.
    pub fn try_start_to(
        folder: &Path,
        set: &[&str],
        stderr: Stdio,
    ) -> Result<Millpond, (ExitStatus, String)> {
        Millpond::run(folder, set, stderr, &[])
    }

    /// As [`Millpond::start`], with more in its environment.
    pub fn start_in(folder: &Path, set: &[&str], environment: &[(&str, &Path)]) -> Millpond {
        match Millpond::try_start_in(folder, set, environment) {
            Ok(started) => started,
            Err((status, stderr)) => panic!("the server did not start: {status}\n{stderr}"),
        }
    }

    /// As [`Millpond::try_start`], with more in its environment.
    pub fn try_start_in(
        folder: &Path,
        set: &[&str],
        environment: &[(&str, &Path)],
    ) -> Result<Millpond, (ExitStatus, String)> {
        Millpond::run(folder, set, Stdio::piped(), environment)
    }

    fn run(
        folder: &Path,
        set: &[&str],
        stderr: Stdio,
        environment: &[(&str, &Path)],
    ) -> Result<Millpond, (ExitStatus, String)> {
        let mut command = millpond();
        command.envs(environment.iter().copied());
        command
            .args(["serve", "--config"])
            .arg(folder.join("millpond.toml"));
        set.iter().for_each(|pair| {
            command.args(["--set", pair]);
        });
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        match line
            .trim()
            .strip_prefix("millpond serves on ")
            .and_then(|rest| rest.split_once(", health and metrics on "))
        {
            Some((addr, rest)) => {
                let mut named = rest.split(", ");
                let admin = named.next().unwrap().to_owned();
                let (mut tls, mut resp, mut resp_tls) = (None, None, None);
                for (what, addr) in named.filter_map(|part| part.split_once(" on ")) {
                    match what {
                        "TLS" => tls = Some(addr.to_owned()),
                        "RESP" => resp = Some(addr.to_owned()),
                        "RESP by TLS" => resp_tls = Some(addr.to_owned()),
                        other => panic!("{other} is said to be on {addr}"),
                    }
                }
                Ok(Millpond {
                    addr: addr.to_owned(),
                    admin,
                    tls,
                    resp,
                    resp_tls,
                    child,
                })
            }
            None => {
                let mut stderr = String::new();
                if let Some(mut said) = child.stderr.take() {
                    said.read_to_string(&mut stderr).unwrap();
                }
                Err((child.wait().unwrap(), stderr))
            }
        }
    }

    /// Calls a method on a connection of its own.
    pub fn call(&self, method: &str, payload: &Value) -> (u16, Value) {
        Http::connect(&self.addr).call(method, payload)
    }

    /// The status and body of a GET on the admin port.
    pub fn admin_get(&self, path: &str) -> (u16, String) {
        Http::connect(&self.admin).send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// Waits until `/metrics` has that line: what is counted after an answer has left may come after the answer.
    pub fn wait_for_metric(&self, line: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        let line = format!("{line}\n");
        loop {
            let (_, metrics) = self.admin_get("/metrics");
            if metrics.contains(&line) {
                return;
            }
            assert!(Instant::now() < until, "{line} is not in\n{metrics}");
        }
    }

    /// Waits until a metric without labels has a value that will do.
    pub fn wait_for(&self, name: &str, will_do: impl Fn(u64) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let (_, metrics) = self.admin_get("/metrics");
            let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
            let found = lines.find_map(|value| value.trim().parse().ok());
            if found.is_some_and(&will_do) {
                return;
            }
            assert!(Instant::now() < until, "{name} is {found:?}");
        }
    }

    /// Sends SIGTERM and waits for the end.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal("TERM");
        self.child.wait().unwrap()
    }

    /// Sends a signal. One that is to stop it has stopped all its threads when this returns, and one that kills it has closed its files.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
        let until = Instant::now() + Duration::from_secs(60);
        while name == "STOP" && !self.stands_still() {
            assert!(Instant::now() < until, "it goes on after SIGSTOP");
            std::thread::sleep(Duration::from_millis(1));
        }
        while name == "KILL" && !self.has_ended() {
            assert!(Instant::now() < until, "it goes on after SIGKILL");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether the kernel has nothing left of it but how it ended: another process can have its sockets then.
    fn has_ended(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else {
            return true;
        };
        let mut threads = threads.flatten();
        let is_over = threads.next().is_none_or(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
        });
        is_over && threads.next().is_none()
    }

    /// Whether the kernel says that each of its threads is stopped.
    fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_none_or(|(_, state)| state.starts_with('T'))
        })
    }
}

impl Drop for Millpond {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text of a call.
fn request(method: &str, payload: &Value) -> String {
    let body = payload.to_string();
    format!(
        "POST /service/{method} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn json_of(method: &str, text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{method}: {error} in {text:?}"))
}

/// One HTTP connection, kept open.
pub struct Http {
    pub stream: TcpStream,
}

impl Http {
    pub fn connect(addr: &str) -> Http {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Http { stream }
    }

    /// Status and JSON of one call.
    pub fn call(&mut self, method: &str, payload: &Value) -> (u16, Value) {
        let (status, text) = self.send(&request(method, payload));
        (status, json_of(method, &text))
    }

    /// The same, or `None` where the connection is lost.
    pub fn try_call(&mut self, method: &str, payload: &Value) -> Option<(u16, Value)> {
        let request = request(method, payload);
        self.stream.write_all(request.as_bytes()).ok()?;
        let (status, text) = self.answer()?;
        Some((status, json_of(method, &text)))
    }

    /// Status and body of one request.
    pub fn send(&mut self, request: &str) -> (u16, String) {
        self.stream.write_all(request.as_bytes()).unwrap();
        match self.read_answer() {
            Ok(answer) => answer,
            Err(error) => panic!("no answer on {:?}: {error}", self.stream),
        }
    }

    /// The next answer, or `None` where none comes.
    pub fn answer(&mut self) -> Option<(u16, String)> {
        self.read_answer().ok()
    }

    fn read_answer(&mut self) -> io::Result<(u16, String)> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .unwrap()
            .parse()
            .unwrap();
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status, String::from_utf8(body).unwrap()))
    }
}

/// One connection of native frames, a call at a time.
pub struct Frames {
    stream: TcpStream,
    seq: u32,
}

impl Frames {
    pub fn connect(addr: &str) -> Frames {
        let stream = Http::connect(addr).stream;
        Frames { stream, seq: 0 }
    }

    /// The answer's status (0: good, 1: an error) and payload.
    pub fn call(&mut self, method: &str, encoding: Encoding, payload: &[u8]) -> (u8, Vec<u8>) {
        self.call_last(&[(method, encoding, payload)])
    }

    /// The same of the last of some calls that are sent at once, where it is answered first.
    pub fn call_last(&mut self, calls: &[(&str, Encoding, &[u8])]) -> (u8, Vec<u8>) {
        let mut bytes = Vec::new();
        for (method, encoding, payload) in calls {
            self.seq += 1;
            let kind = FrameKind::Twoway {
                method,
                seq: self.seq,
            };
            write_frame(&mut bytes, *encoding, kind, payload).unwrap();
        }
        self.stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        loop {
            match parse_frame(&answer, Limits::default()).unwrap() {
                Parsed::Whole { message, .. } => {
                    let FrameKind::Answer { status, seq } = message.kind else {
                        panic!("{:?} is no answer", message.kind)
                    };
                    assert_eq!(seq, self.seq);
                    return (status, message.payload.to_vec());
                }
                Parsed::Partial { .. } => {
                    let mut chunk = [0; 4096];
                    let read = self.stream.read(&mut chunk).unwrap();
                    assert!(read > 0, "the connection closed without an answer");
                    answer.extend_from_slice(&chunk[..read]);
                }
            }
        }
    }
}
