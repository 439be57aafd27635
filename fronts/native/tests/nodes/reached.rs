//! Nodes that are reached: over each kind of address, once they are there, and where the map has them.

use crate::rig::*;
use millpond_fronts_native::PoolOptions;
use millpond_net::{Listener, Transport};
use millpond_nodes::{BucketMap, RetryOptions};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

#[test]
fn calls_are_answered_by_the_node_over_tcp_and_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("node.sock");
    let tcp = serve(loopback(), Echo, None);
    let unix = serve(Listener::bind_unix(&socket, "here").unwrap(), Echo, None);
    for address in [tcp.local_addr().to_string(), format!("unix:{}", socket.display())] {
        let proxy = Proxy::to(&address, PoolOptions::default());
        let mut client = proxy.client();
        for round in 0..3_u8 {
            // More than one connection has, and more bytes than the kernel takes at once.
            for seq in 0..200 {
                client.send(
                    seq,
                    &payload(seq as u8 ^ round, if seq % 50 == 0 { 60_000 } else { 10 }),
                );
            }
            let mut seen = [false; 200];
            for _ in 0..200 {
                let (seq, status, answer) = client.answer();
                assert_eq!(status, 0, "{}", error_of(&answer));
                let bytes = if seq % 50 == 0 { 60_000 } else { 10 };
                assert_eq!(answer, payload(seq as u8 ^ round, bytes));
                assert!(
                    !std::mem::replace(&mut seen[seq as usize], true),
                    "{seq} was answered twice"
                );
            }
        }
        let error = client.call(&[0x80]).unwrap_err();
        assert!(
            error.contains("node \"b\": empty") && error.contains("retryable=false"),
            "{error}"
        );
        assert_eq!(proxy.counted(), [601, 0, 0]);
        proxy.transport.close(Duration::ZERO);
    }
    Transport::close_all(vec![tcp, unix], Duration::ZERO);
}

#[test]
fn a_node_that_is_not_there_is_named_and_reached_once_it_is_back() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let retry = RetryOptions {
        first: Duration::from_millis(1),
        most: Duration::from_millis(1),
    };
    let pool = PoolOptions {
        retry,
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address.to_string(), pool);
    let mut client = proxy.client();
    let error = client.call(&payload(1, 0)).unwrap_err();
    assert!(
        error.contains("30116") && error.contains("node \"b\" cannot be reached"),
        "{error}"
    );
    assert!(error.contains("retryable=true"), "{error}");
    let node = serve(Listener::bind(address, "here").unwrap(), Echo, None);
    let until = Instant::now() + Duration::from_secs(60);
    while client.call(&payload(1, 0)).is_err() {
        assert!(Instant::now() < until, "it is not reached again");
    }
    assert_eq!(client.call(&payload(2, 0)), Ok(payload(2, 0)));
    node.close(Duration::ZERO);
    proxy.transport.close(Duration::ZERO);
}

#[test]
fn addresses_that_cannot_be_used_are_said() {
    for (address, words) in [
        ("tls://127.0.0.1:1", "with nodes.tls, tls://HOST:PORT"),
        ("nowhere.example:1", "no address that can be used"),
        ("unix:/nowhere/at.all", "cannot be reached: No such file"),
    ] {
        let proxy = Proxy::to(address, PoolOptions::default());
        let error = proxy.client().call(&payload(1, 0)).unwrap_err();
        assert!(error.contains(words), "{address}: {error}");
        proxy.transport.close(Duration::ZERO);
    }
}

#[test]
fn calls_of_one_turn_reach_a_node_where_each_of_their_maps_has_it() {
    let nodes = [(); 2].map(|()| serve(loopback(), Echo, None));
    let addresses = [&nodes[0], &nodes[1]].map(|node| node.local_addr().to_string());
    let proxy = Proxy::to_each(&[&addresses[0], &addresses[1]], PoolOptions::default());
    let mut client = proxy.client();
    let mut bytes = Vec::new();
    for seq in 0..4 {
        let kind = FrameKind::Twoway { method: "any", seq };
        write_frame(&mut bytes, Encoding::Msgpack, kind, &payload(seq as u8, 10)).unwrap();
    }
    client.stream.write_all(&bytes).unwrap();
    for _ in 0..4 {
        let (seq, status, answer) = client.answer();
        assert_eq!(status, 0, "{}", error_of(&answer));
        assert_eq!(answer, payload(seq as u8, 10));
    }
    proxy.transport.close(Duration::ZERO);
    Transport::close_all(nodes.into(), Duration::ZERO);
}

#[test]
fn a_connection_to_a_node_that_the_map_has_no_more_ends() {
    let map_of = |version: u64, name: &str, address: &str| {
        let text = format!(
            "version = {version}\nbuckets = 4\nnodes = [{{ name = \"{name}\", addresses = [\"{address}\"] }}]"
        );
        Arc::new(BucketMap::from_toml(&text).unwrap())
    };
    let (told, ended) = mpsc::sync_channel(1);
    let (address, node) = by_hand(move |mut stream| {
        let (mut input, mut pings) = (Vec::new(), 0);
        loop {
            while let Parsed::Whole { message, len } = parse_frame(&input, Limits::default()).unwrap() {
                let FrameKind::Twoway { method, seq } = message.kind else {
                    panic!("{:?} is no call", message.kind)
                };
                pings += u32::from(method == "*ping");
                let mut bytes = Vec::new();
                let kind = FrameKind::Answer { status: 0, seq };
                write_frame(&mut bytes, Encoding::Msgpack, kind, message.payload).unwrap();
                // It may be closed by then.
                let _ = stream.write_all(&bytes);
                input.drain(..len);
            }
            let mut chunk = [0; 1024];
            match stream.read(&mut chunk).unwrap() {
                0 => return told.send(true).unwrap(),
                count => input.extend_from_slice(&chunk[..count]),
            }
            if pings == 50 {
                return told.send(false).unwrap();
            }
        }
    });
    let pool = PoolOptions {
        keep_alive: Duration::from_millis(100),
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address, pool);
    assert_eq!(proxy.nodes.offer(map_of(1, "b", &address)), Ok(true));
    assert_eq!(proxy.client().call(&payload(1, 0)), Ok(payload(1, 0)));
    assert_eq!(proxy.nodes.offer(map_of(2, "c", "127.0.0.1:1")), Ok(true));
    assert!(ended.recv().unwrap(), "it is kept open by pings");
    node.join().unwrap();
    proxy.transport.close(Duration::ZERO);
}
