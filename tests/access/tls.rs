//! TLS through the real binary: calls, methods for encrypted connections, client certificates, and files that change.

use crate::harness::{Http, Millpond};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
[server.tls]
listen = "127.0.0.1:0"
certificate = "server.pem"
private_key = "server.key"
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[methods.echo]
kind = "echo"
[methods.secret]
kind = "echo"
[access.methods.secret]
encrypted_only = true
"#;
const FAILED: &str = "millpond_tls_handshakes_failed_total";
const UNTIL: &str = "millpond_tls_certificate_not_after_seconds";
const REPLACED: &str = "millpond_tls_reloads_total{certificate=\"replaced\"}";
const KEPT: &str = "millpond_tls_reloads_total{certificate=\"kept\"}";

/// Signs certificates for the server and for clients.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Authority { issuer, certificate }
    }

    /// Certificate and key for "localhost", until the end of that year.
    fn signs(&self, year: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn client(&self, own: Option<&(String, String)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap())
            .unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        })
    }
}

/// A folder with a configuration and the server's files, and who signed them.
fn folder(config: &str, year: i32) -> (tempfile::TempDir, Authority) {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    std::fs::write(folder.path().join("millpond.toml"), config).unwrap();
    std::fs::write(folder.path().join("clients.pem"), &authority.certificate).unwrap();
    put(folder.path(), &authority.signs(year));
    (folder, authority)
}

fn put(folder: &Path, (certificate, key): &(String, String)) {
    std::fs::write(folder.join("server.key"), key).unwrap();
    std::fs::write(folder.join("server.pem"), certificate).unwrap();
}

/// One call over a connection of its own: status and answer, and the certificate that the server showed; an error where
/// the server refuses the connection.
fn call(
    server: &Millpond,
    client: &Arc<ClientConfig>,
    method: &str,
) -> std::io::Result<(u16, Value, Vec<u8>)> {
    let socket = TcpStream::connect(server.tls.as_ref().unwrap())?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    let name = "localhost".try_into().unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(client), name).unwrap(), socket);
    let body = r#"{"word":"in secret"}"#;
    write!(
        stream,
        "POST /service/{method} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let shown = stream.conn.peer_certificates().unwrap()[0].to_vec();
    Ok((status, serde_json::from_str(body).unwrap(), shown))
}

/// The value of a metric.
fn metric(server: &Millpond, name: &str) -> u64 {
    let (_, metrics) = server.admin_get("/metrics");
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} is not in\n{metrics}"))
        .parse()
        .unwrap()
}

/// Waits until a metric stands there, or higher.
fn wait_for(server: &Millpond, name: &str, least: u64) {
    while metric(server, name) < least {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn clients_of_redis_may_come_over_tls() {
    let more = "[server.resp]\nlisten = \"127.0.0.1:0\"\ntls_listen = \"127.0.0.1:0\"\n\
                [features.films]\npath = \"tables/films\"\nresp_database = 0\n\
                [access.methods.\"features.*\"]\nencrypted_only = true\n";
    let (folder, authority) = folder(&format!("{CONFIG}{more}"), 2999);
    crate::harness::make_table(&folder.path().join("tables/films"), "films", 1);
    let server = Millpond::start(folder.path(), &[]);
    let socket = TcpStream::connect(server.resp_tls.as_ref().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let name = "localhost".try_into().unwrap();
    let client = ClientConnection::new(authority.client(None), name).unwrap();
    let mut stream = StreamOwned::new(client, socket);
    stream.write_all(b"GET 1\r\nDBSIZE\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "$-1\r\n:200\r\n+OK\r\n");
    let mut clear = TcpStream::connect(server.resp.as_ref().unwrap()).unwrap();
    clear.write_all(b"GET 1\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    clear.read_to_string(&mut answer).unwrap();
    let refused =
        "-NOPERM features.lookup is answered over encrypted connections and Unix sockets only\r\n+OK\r\n";
    assert_eq!(answer, refused);
}

#[test]
fn calls_over_tls_may_call_what_asks_for_it() {
    let (folder, authority) = folder(CONFIG, 2999);
    let server = Millpond::start(folder.path(), &[]);
    let client = authority.client(None);
    for method in ["echo", "secret"] {
        let (status, answer, _) = call(&server, &client, method).unwrap();
        assert_eq!((status, answer), (200, json!({"word": "in secret"})), "{method}");
    }
    let (status, answer) = server.call("secret", &json!({}));
    assert_eq!((status, &answer["code"]), (403, &json!(20013)));
    // Who trusts somebody else refuses the server, and is counted; so is a call in clear.
    assert!(call(&server, &Authority::new().client(None), "echo").is_err());
    let mut clear = Http::connect(server.tls.as_ref().unwrap());
    clear
        .stream
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut said = Vec::new();
    let _ = clear.stream.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    wait_for(&server, FAILED, 2);
    assert_eq!(metric(&server, FAILED), 2);
    assert_eq!(metric(&server, "millpond_tls_handshakes_total"), 2);
    assert_eq!(metric(&server, UNTIL), 32_503_593_600);
    assert_eq!(metric(&server, REPLACED), 0);
    assert!(server.terminate().success());
}

#[test]
fn a_new_certificate_is_taken_and_a_wrong_one_is_not() {
    let (folder, authority) = folder(CONFIG, 2997);
    let server = Millpond::start(folder.path(), &[]);
    let client = || authority.client(None);
    let (_, _, first) = call(&server, &client(), "echo").unwrap();
    // Nobody says that the files have changed.
    put(folder.path(), &authority.signs(2998));
    wait_for(&server, UNTIL, 32_472_057_600);
    let (_, _, second) = call(&server, &client(), "echo").unwrap();
    assert_ne!(first, second);
    // It may have seen the key before the certificate.
    let kept = metric(&server, KEPT);
    std::fs::write(folder.path().join("server.pem"), "no certificate").unwrap();
    wait_for(&server, KEPT, kept + 1);
    let (status, _, still) = call(&server, &client(), "echo").unwrap();
    assert_eq!((status, still), (200, second));
    put(folder.path(), &authority.signs(2999));
    wait_for(&server, UNTIL, 32_503_593_600);
    // Somebody says it, though they have not.
    let replaced = metric(&server, REPLACED);
    server.signal("HUP");
    wait_for(&server, REPLACED, replaced + 1);
    assert_eq!(call(&server, &client(), "echo").unwrap().0, 200);
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(
        log.contains("was not replaced")
            && log.contains("server.tls.certificate: ")
            && log.contains("read again"),
        "{log}"
    );
    assert!(!log.contains("PRIVATE KEY"), "{log}");
}

#[test]
fn clients_need_certificates_where_the_configuration_says_so() {
    let config = CONFIG.replace(
        "private_key = \"server.key\"\n",
        "private_key = \"server.key\"\nclient_certificates = \"clients.pem\"\n",
    );
    let (folder, authority) = folder(&config, 2999);
    let own = authority.signs(2999);
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(
        call(&server, &authority.client(Some(&own)), "echo").unwrap().0,
        200
    );
    assert!(call(&server, &authority.client(None), "echo").is_err());
    wait_for(&server, FAILED, 1);
    drop(server);
    let server = Millpond::start(folder.path(), &["server.tls.client_certificates_required=false"]);
    assert_eq!(call(&server, &authority.client(None), "echo").unwrap().0, 200);
    let stranger = Authority::new().signs(2999);
    assert!(call(&server, &authority.client(Some(&stranger)), "echo").is_err());
}

/// What a command says of the folder's configuration, and whether it is content.
fn said(folder: &Path, command: &[&str], set: &[&str]) -> (bool, String) {
    let mut command_line = crate::harness::millpond();
    command_line.args(command).arg(folder.join("millpond.toml"));
    for pair in set {
        command_line.args(["--set", pair]);
    }
    let done = command_line.output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn files_are_checked_before_anything_starts() {
    let (good, authority) = folder(CONFIG, 2999);
    let path = good.path();
    let (is_good, text) = said(path, &["check-config"], &[]);
    assert!(is_good && text.contains("TLS on 127.0.0.1:0"), "{text}");
    let set = ["server.tls.client_certificates_required=true"];
    let (is_good, text) = said(path, &["check-config"], &set);
    assert!(
        !is_good && text.contains("client_certificates_required says nothing without"),
        "{text}"
    );
    let set = ["server.tls.listen=127.0.0.1:7", "server.listen=127.0.0.1:7"];
    let (is_good, text) = said(path, &["check-config"], &set);
    assert!(!is_good && text.contains("give them different ports"), "{text}");
    std::fs::write(path.join("server.key"), authority.signs(2999).1).unwrap();
    for command in [
        &["check-config"][..],
        &["serve", "--config"],
        &["doctor", "--config"],
    ] {
        let (is_good, text) = said(path, command, &[]);
        assert!(!is_good, "{text}");
        assert!(
            text.contains("server.tls.private_key: ")
                && text.contains("is not the key of the first certificate"),
            "{text}"
        );
    }
}

#[test]
fn a_certificate_that_has_run_out_is_told_of_by_all() {
    let (folder, authority) = folder(CONFIG, 2021);
    let words = "server.tls.certificate has run out: clients refuse it; renew it";
    let (is_good, text) = said(folder.path(), &["check-config"], &[]);
    assert!(is_good && text.contains(words), "{text}");
    let (is_good, text) = said(folder.path(), &["doctor", "--config"], &[]);
    assert!(!is_good && text.contains(words), "{text}");
    // It starts: what does not need it is served.
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(server.call("echo", &json!({})).0, 200);
    assert!(call(&server, &authority.client(None), "echo").is_err());
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(log.contains(words), "{log}");
}

const SCENARIO: &str = r#"
[scenario]
name = "tls"
seed = 1
[target]
protocol = "PROTOCOL"
address = "ADDRESS"
tls_ca = "AUTHORITY"
tls_name = "localhost"
method = "echo"
[requests.generate]
requests = 200
samples = 15
features = [{ prefix = "v", ids = 100 }, { prefix = "v", ids = 100 }]
[check]
same = true
[load]
connections = [4]
requests_per_connection = 50
"#;

/// One run of the press, and its result where it left one.
fn pressed(folder: &Path, protocol: &str, scenario: &str) -> (std::process::Output, Option<Value>) {
    let (file, out) = (
        folder.join("scenario.toml"),
        folder.join(format!("out-{protocol}")),
    );
    std::fs::write(&file, scenario.replace("PROTOCOL", protocol)).unwrap();
    let done = crate::harness::millpond()
        .args([
            "press",
            "run",
            file.to_str().unwrap(),
            "--quiet",
            "--out",
            out.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    let result = std::fs::read(out.join("result.json")).ok();
    (done, result.map(|bytes| serde_json::from_slice(&bytes).unwrap()))
}

#[test]
fn the_press_measures_over_tls() {
    let (folder, _) = folder(CONFIG, 2999);
    let server = Millpond::start(folder.path(), &[]);
    let scenario = SCENARIO.replace("ADDRESS", server.tls.as_ref().unwrap());
    let ours = scenario.replace("AUTHORITY", folder.path().join("clients.pem").to_str().unwrap());
    for protocol in ["http", "native"] {
        let (done, result) = pressed(folder.path(), protocol, &ours);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(result.unwrap()["points"][0]["counters"]["ok"], 200, "{protocol}");
    }
    assert_eq!(metric(&server, "millpond_tls_handshakes_total"), 8);
    let stranger = folder.path().join("stranger.pem");
    std::fs::write(&stranger, Authority::new().certificate).unwrap();
    let theirs = scenario.replace("AUTHORITY", stranger.to_str().unwrap());
    let (done, _) = pressed(folder.path(), "stranger", &theirs.replace("PROTOCOL", "native"));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        !done.status.success() && said.contains("TLS: invalid peer certificate"),
        "{said}"
    );
    for (scenario, words) in [
        (
            theirs.replace("PROTOCOL", "resp"),
            "target.tls_ca is for the protocols",
        ),
        (
            ours.replace("clients.pem", "millpond.toml"),
            "holds no certificate",
        ),
        (
            ours.replace("tls_ca", "# tls_ca"),
            "says nothing without target.tls_ca",
        ),
    ] {
        let (done, _) = pressed(folder.path(), "http", &scenario);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(words), "{said}");
    }
}

#[test]
fn millpond_call_reaches_the_tls_port() {
    let (folder, _authority) = folder(CONFIG, 2099);
    let server = Millpond::start(folder.path(), &[]);
    let addr = format!("tls://{}", server.tls.as_ref().unwrap());
    let call = |more: &[&str]| {
        crate::harness::millpond()
            .args(["call", "secret", r#"{"a": 1}"#, "--addr", &addr, "--tls-ca"])
            .arg(folder.path().join("clients.pem"))
            .args(more)
            .output()
            .unwrap()
    };
    let done = call(&["--tls-name", "localhost"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(answer["a"], json!(1), "{answer}");
    // The certificate is for localhost, and the address says 127.0.0.1.
    let done = call(&[]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("certificate"), "{said}");
}

#[test]
fn a_signal_to_the_parent_has_every_process_read_its_files() {
    let (folder, _) = folder(CONFIG, 2999);
    // Ports of their own: no other test listens on this one of the loopback addresses.
    let own = |host: u8| {
        let free = std::net::TcpListener::bind((format!("127.13.26.{host}"), 0)).unwrap();
        free.local_addr().unwrap()
    };
    let server = Millpond::start(
        folder.path(),
        &[
            "server.processes=2",
            &format!("server.listen={}", own(1)),
            &format!("server.tls.listen={}", own(2)),
        ],
    );
    assert_eq!(metric(&server, REPLACED), 0);
    // The files are as they were, so nobody reads them again by himself.
    server.signal("HUP");
    wait_for(&server, REPLACED, 2);
    assert!(server.terminate().success());
}
