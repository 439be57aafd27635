//! Where a transport listens.

use crate::probe::Transport;
use crate::probe::{answers, loopback, options, prepare_with, quest, start_at, started};
use crate::tls::Encrypted;
use millpond_calls::Peer;
use millpond_net::{Bound, Listener, Timeouts};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
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
fn calls_over_a_unix_socket_are_as_good_as_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("millpond.sock");
    let unix = Listener::bind_unix(&path, "server.listen_also").unwrap();
    let (sender, told) = mpsc::sync_channel(1);
    let service = Encrypted { told: sender };
    let options = options(1, Timeouts::default());
    let transport = started(vec![loopback(), unix], options, service);
    let mut over_unix = UnixStream::connect(&path).unwrap();
    over_unix.write_all(&quest("any", 1, &[0x80])).unwrap();
    assert_eq!(told.recv(), Ok(true));
    let mut over_tcp = TcpStream::connect(transport.local_addr()).unwrap();
    over_tcp.write_all(&quest("any", 1, &[0x80])).unwrap();
    assert_eq!(told.recv(), Ok(false));
    transport.close(Duration::from_secs(5));
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
    let mut first = Listener::bind_shared(any, "server.listen").unwrap();
    let addr = first.bound().addr().unwrap();
    let mut second = Listener::bind_shared(addr, "server.listen").unwrap();
    first.listen().unwrap();
    second.listen().unwrap();
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

/// Connections made; two that listen both get some, but for a chance of 2^-63.
const CONNECTIONS: u64 = 64;

#[test]
fn who_shares_an_address_gets_connections_only_when_it_accepts() {
    let listener = Listener::bind_shared("127.13.25.201:0".parse().unwrap(), "server.listen").unwrap();
    let addr = listener.bound().addr().unwrap();
    // Whoever answers tells who called, so somebody has to hear it.
    let (mut first, _heard) = prepare_with(listener);
    first.accept().unwrap();
    let later = Listener::bind_shared(addr, "server.listen").unwrap();
    let (mut second, _heard_too) = prepare_with(later);
    let accepted = |transport: &Transport| transport.counters().accepted.load(Ordering::Relaxed);
    let ask = || {
        for _ in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(addr).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.write_all(&quest("who", 1, &[0x80])).unwrap();
            assert_eq!(answers(&mut stream, 1), [(0, 1)]);
        }
    };
    ask();
    assert_eq!((accepted(&first), accepted(&second)), (CONNECTIONS, 0));
    second.accept().unwrap();
    second.accept().unwrap();
    ask();
    let (of_first, of_second) = (accepted(&first), accepted(&second));
    assert!(of_first >= CONNECTIONS && of_second > 0, "{of_first} {of_second}");
    assert_eq!(of_first + of_second, 2 * CONNECTIONS);
    first.close(Duration::from_secs(5));
    second.close(Duration::from_secs(5));
}

#[test]
fn an_address_that_was_taken_meanwhile_is_refused_by_name() {
    let shared = Listener::bind_shared("127.13.25.202:0".parse().unwrap(), "server.listen").unwrap();
    let addr = shared.bound().addr().unwrap();
    // The kernel lets both bind, and one of them listen.
    let _other = Listener::bind(addr, "elsewhere").unwrap();
    let (mut transport, _) = prepare_with(shared);
    let refused = transport.accept().unwrap_err().to_string();
    assert!(
        refused.contains("server.listen") && refused.contains("another process listens there"),
        "{refused}"
    );
    transport.close(Duration::from_secs(5));
}

/// Either kind of stream.
pub(crate) trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}
