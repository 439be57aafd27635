//! By which names a server of this machine is called (DNS rebinding).

use crate::probe::{connect, http, start, start_at};
use millpond_net::Listener;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn ask(start: &str, host: &str) -> String {
    format!("{start}\r\nHost: {host}\r\nContent-Length: 2\r\n\r\n{{}}")
}

#[test]
fn a_loopback_listener_answers_no_name_of_a_stranger() {
    let (transport, _tickets) = start(10, 16);
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
    assert_eq!(transport.http.hosts_refused.load(Ordering::Relaxed), 24);
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
    if let Some(own) = own_address() {
        let port = transport.bounds()[2].addr().unwrap().port();
        let said = http(&mut TcpStream::connect((own, port)).unwrap(), &request);
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
    transport.close(Duration::from_secs(5));
}

/// An address of this machine that others reach, if it has one; nothing is sent for it.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback()).then_some(own)
}

/// A listener on every address has those of loopback too, where a body's name may point.
#[test]
fn whoever_comes_over_loopback_is_looked_at_whatever_the_listener_is_bound_to() {
    for (any, loopback) in [("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "::1")] {
        let Ok(listener) = Listener::bind(any.parse().unwrap(), "server.listen_also") else {
            // A machine without IPv6.
            continue;
        };
        let (transport, _peers) = start_at(vec![listener]);
        let port = transport.bounds()[1].addr().unwrap().port();
        let Ok(mut stream) = TcpStream::connect((loopback, port)) else {
            continue;
        };
        for (host, expected) in [("localhost", "HTTP/1.1 200"), ("evil.example", "HTTP/1.1 403")] {
            let said = http(&mut stream, &ask("POST /service/who HTTP/1.1", host));
            assert!(said.starts_with(expected), "{any}, {host}: {said}");
        }
        transport.close(Duration::from_secs(5));
    }
}
