//! By which names a server of this machine is called (DNS rebinding).

use crate::probe::{connect, http, start, start_at};
use millpond_wire_transport::Listener;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn ask(start: &str, host: &str) -> String {
    format!("{start}\r\nHost: {host}\r\nContent-Length: 2\r\n\r\n{{}}")
}

#[test]
fn a_loopback_listener_answers_no_name_of_a_stranger() {
    let (transport, _tickets) = start(10, 16);
    let counters = transport.counters();
    let mut stream = connect(&transport);
    for host in [
        "127.0.0.1",
        "127.0.0.1:1",
        "[::1]:1",
        "localhost:1",
        "app.internal",
    ] {
        let said = http(&mut stream, &ask("POST /service/echo HTTP/1.1", host));
        assert!(said.starts_with("HTTP/1.1 200"), "{host}: {said}");
    }
    let starts = [
        "POST /service/echo HTTP/1.1",
        "GET /healthz HTTP/1.1",
        "GET /service/echo HTTP/1.0",
        "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "OPTIONS /service/echo HTTP/1.1\r\nOrigin: https://app.example",
        "POST /service/echo HTTP/1.1\r\nOrigin: https://app.example",
    ];
    for start in starts {
        for host in ["evil.example", "evil.example:13500", "localhost.evil.example", ""] {
            let said = http(&mut connect(&transport), &ask(start, host));
            let is_told = said.starts_with("HTTP/1.1 403") && said.contains("server.hosts");
            assert!(is_told, "{start} for {host:?}: {said}");
        }
    }
    assert_eq!(counters.hosts_refused.load(Ordering::Relaxed), 24);
    // No browser speaks HTTP/1.0.
    let said = http(
        &mut stream,
        "POST /service/echo HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
    );
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    transport.close(Duration::from_secs(5));
}

#[test]
fn other_listeners_answer_every_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let others = vec![
        Listener::bind_unix(&path, "server.listen_also").unwrap(),
        Listener::bind("0.0.0.0:0".parse().unwrap(), "server.listen_also").unwrap(),
    ];
    let (transport, _peers) = start_at(others);
    let request = ask("POST /service/who HTTP/1.1", "evil.example");
    let said = http(&mut UnixStream::connect(&path).unwrap(), &request);
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let port = transport.bounds()[2].addr().unwrap().port();
    let said = http(&mut TcpStream::connect(("127.0.0.1", port)).unwrap(), &request);
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    transport.close(Duration::from_secs(5));
}
