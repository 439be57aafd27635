//! Versions of a table that a server fetches from an S3-compatible store: moto's, in the Python environment of the tests.

use crate::harness::{Http, Millpond};
use crate::serving::arrivals::wait;
use crate::serving::versions::{served, switched, write_version};
use serde_json::json;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
[admin]
listen = "127.0.0.1:0"
token = "s3cret"
[log]
file = "millpond.log"
[features.films]
path = "tables/films"
watch_every_ms = 10
[features.films.source]
url = "s3://tables/of/films"
endpoint = "http://STORE"
credentials_file = "credentials"
every_ms = 20
"#;

/// moto looks at no signature, but has only somebody replace an object.
const SIGNED: &str = "Authorization: AWS4-HMAC-SHA256 Credential=test/20261126/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// moto's S3 on a port of its own. Dropping it kills it.
struct Store {
    child: Child,
    addr: String,
}

impl Store {
    /// Starts it; `None` where it is not there, which is said under the test's name.
    fn start(test: &str) -> Option<Store> {
        let Some(python) = python() else {
            let line = format!(
                "\ntest {test} ... ignored, needs moto (make test installs it into target/tests-venv)\n"
            );
            // Not println: what cargo captures of a test that passes, nobody sees.
            let _ = std::io::stdout().write_all(line.as_bytes());
            return None;
        };
        // Another process may take the port between its choice and its use.
        (0..10).find_map(|_| Store::on(&python, free_port()))
    }

    fn on(python: &Path, port: u16) -> Option<Store> {
        let child = Command::new(python)
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut store = Store {
            child,
            addr: format!("127.0.0.1:{port}"),
        };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(&store.addr).is_err() {
            assert!(Instant::now() < until, "moto does not listen");
            if store.child.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        store.put("", &[]);
        Some(store)
    }

    /// Puts an object into the bucket; without a name, makes the bucket.
    fn put(&self, name: &str, body: &[u8]) {
        let mut http = Http::connect(&self.addr);
        let head = format!(
            "PUT /tables{name} HTTP/1.1\r\nHost: {}\r\n{SIGNED}\r\nContent-Length: {}\r\n\r\n",
            self.addr,
            body.len()
        );
        http.stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let (status, answer) = http.answer().unwrap();
        assert_eq!(status, 200, "{answer}");
    }

    /// Uploads files of a version.
    fn upload(&self, folder: &Path, version: u64, names: &[&str]) {
        for name in names {
            let bytes = fs::read(folder.join(format!("{version:08}/{name}"))).unwrap();
            self.put(&format!("/of/films/{version:08}/{name}"), &bytes);
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// The interpreter of the tests' environment, where it has moto.
fn python() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_millpond")).parent()?.parent()?;
    let python = built.join("tests-venv/bin/python");
    let has_moto = Command::new(&python)
        .args(["-c", "import moto.server"])
        .stderr(Stdio::null())
        .status();
    has_moto.is_ok_and(|status| status.success()).then_some(python)
}

const FILES: [&str; 3] = ["shard-00000.mpf", "shard-00001.mpf", "manifest.json"];

/// A folder with a configuration that names the store.
fn folder(store: &Store) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("millpond.toml"),
        CONFIG.replace("STORE", &store.addr),
    )
    .unwrap();
    let credentials = "[default]\naws_access_key_id = test\naws_secret_access_key = hidden\n";
    fs::write(folder.path().join("credentials"), credentials).unwrap();
    folder
}

fn count(server: &Millpond, what: &str) -> u64 {
    let (_, page) = server.admin_get("/metrics");
    let name = format!("millpond_table_{what}_total{{table=\"films\"}} ");
    let value = page.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap().parse().unwrap()
}

#[test]
fn versions_come_from_a_store_and_are_served() {
    let Some(store) = Store::start("tables::fetching::versions_come_from_a_store_and_are_served") else {
        return;
    };
    let made = tempfile::tempdir().unwrap();
    (1..=4).for_each(|version| write_version(made.path(), version));
    let folder = folder(&store);
    // Nothing is there: a start says so.
    let (status, stderr) = Millpond::try_start(folder.path(), &[]).err().unwrap();
    assert!(
        !status.success() && stderr.contains("no whole version is there"),
        "{stderr}"
    );
    // The first version comes before the start ends.
    store.upload(made.path(), 1, &FILES);
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(served(&server), 1);
    // Manifest and one shard: half of it is not taken, whatever else comes.
    store.upload(made.path(), 3, &[FILES[2], FILES[0]]);
    store.upload(made.path(), 2, &FILES);
    wait("version 2 serves", || served(&server) == 2);
    store.upload(made.path(), 3, &[FILES[1]]);
    wait("version 3 serves", || served(&server) == 3);
    wait("both are counted", || {
        (count(&server, "fetches"), count(&server, "arrivals")) == (2, 2)
    });
    // A shard that is not right is refused once, and taken when it is.
    let mut damaged = fs::read(made.path().join("00000004").join(FILES[0])).unwrap();
    damaged[200] ^= 1;
    store.put(&format!("/of/films/00000004/{}", FILES[0]), &damaged);
    store.upload(made.path(), 4, &FILES[1..]);
    wait("it is refused", || count(&server, "fetches_failed") > 0);
    assert_eq!(served(&server), 3);
    store.upload(made.path(), 4, &[FILES[0]]);
    wait("version 4 serves", || served(&server) == 4);
    // A rollback stays, whatever the store has.
    switched(&server, "features.rollback", &json!({}));
    drop(server);
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(served(&server), 3);
    write_version(made.path(), 5);
    store.upload(made.path(), 5, &FILES);
    wait("version 5 serves", || served(&server) == 5);
    assert_eq!(count(&server, "arrivals"), 1, "and nothing before it");
    assert!(server.terminate().success());
    let log = fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert_eq!(
        log.matches("version 4 of s3://tables/of/films is refused")
            .count(),
        1,
        "{log}"
    );
    assert!(!log.contains("hidden"), "no credential is logged");
}

#[test]
fn a_store_that_stands_still_or_ends_changes_nothing() {
    let Some(store) = Store::start("tables::fetching::a_store_that_stands_still_or_ends_changes_nothing")
    else {
        return;
    };
    let made = tempfile::tempdir().unwrap();
    (1..=2).for_each(|version| write_version(made.path(), version));
    store.upload(made.path(), 1, &FILES);
    let folder = folder(&store);
    let server = Millpond::start(folder.path(), &[]);
    store.signal("-STOP");
    // It asks in vain; calls and versions that come another way go on.
    assert_eq!(served(&server), 1);
    store.signal("-CONT");
    store.upload(made.path(), 2, &FILES);
    wait("version 2 serves", || served(&server) == 2);
    drop(store);
    wait("it is noticed", || count(&server, "fetches_failed") > 0);
    assert_eq!(served(&server), 2);
    // A start serves what the folder has.
    drop(server);
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(served(&server), 2);
    assert!(server.terminate().success());
}
