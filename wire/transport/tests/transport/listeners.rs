//! Where a transport listens.

use crate::probe::{answers, quest, start_at};
use millpond_wire_transport::{Bound, Listener, Peer};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[test]
fn one_service_answers_on_ipv4_ipv6_and_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("millpond.sock");
    let others = vec![
        Listener::bind("[::1]:0".parse().unwrap(), "server.listen_also").unwrap(),
        Listener::bind_unix(&path, "server.listen_also").unwrap(),
    ];
    let (transport, peers) = start_at(others);
    let bounds = transport.bounds().to_vec();
    let Bound::Inet(v6) = bounds[1] else {
        panic!("{bounds:?}")
    };
    let ask = |mut stream: Box<dyn ReadWrite>| {
        stream.write_all(&quest("who", 1, &[0x80])).unwrap();
        assert_eq!(answers(&mut stream, 1), [(0, 1)]);
        peers.recv().unwrap()
    };
    let v4 = ask(Box::new(TcpStream::connect(transport.local_addr()).unwrap()));
    assert!(v4.ip().unwrap().is_ipv4(), "{v4}");
    let v6 = ask(Box::new(TcpStream::connect(v6).unwrap()));
    assert!(v6.ip().unwrap().is_ipv6(), "{v6}");
    assert_eq!(ask(Box::new(UnixStream::connect(&path).unwrap())), Peer::Unix);
    transport.close(Duration::from_secs(5));
    assert!(!path.exists(), "the socket's file goes with its listener");
}

#[test]
fn a_unix_socket_that_is_in_use_is_refused_and_one_that_was_left_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("millpond.sock");
    let held = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let refused = Listener::bind_unix(&path, "server.listen_also")
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("millpond.sock")
            && refused.contains("server.listen_also")
            && refused.contains("stop it"),
        "{refused}"
    );
    drop(held);
    drop(Listener::bind_unix(&path, "server.listen_also").unwrap());
    std::fs::write(&path, "not a socket").unwrap();
    let refused = Listener::bind_unix(&path, "server.listen_also")
        .unwrap_err()
        .to_string();
    assert!(refused.contains("is no socket"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"not a socket");
}

#[test]
fn an_address_is_shared_only_by_those_who_share_it() {
    let any = "127.13.25.200:0".parse().unwrap();
    let first = Listener::bind_shared(any, "server.listen").unwrap();
    let addr = first.bound().addr().unwrap();
    let second = Listener::bind_shared(addr, "server.listen").unwrap();
    assert_eq!(second.bound(), first.bound());
    let refused = Listener::bind(addr, "server.listen").unwrap_err().to_string();
    assert!(refused.contains("another process listens there"), "{refused}");
    drop((first, second));
    let alone = Listener::bind(addr, "server.listen").unwrap();
    let refused = Listener::bind_shared(addr, "server.listen")
        .unwrap_err()
        .to_string();
    assert!(refused.contains("another process listens there"), "{refused}");
    drop(alone);
}

/// Either kind of stream.
pub(crate) trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}
