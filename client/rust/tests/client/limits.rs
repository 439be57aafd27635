//! Everything is bounded: calls in flight, bytes that wait to be written, the size of a frame.

use crate::peer::{EMPTY, Peer, answer, listen, number};
use millpond_client_rust::{CallError, Client, Options};
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::test]
async fn one_call_too_many_is_refused_until_a_place_is_free() {
    let (listener, addr) = listen().await;
    let options = Options {
        connections: 2,
        in_flight_max: 2,
        ..Options::default()
    };
    let client = Client::connect(&addr, options).await.unwrap();
    let mut peers = [Peer::accept(&listener).await, Peer::accept(&listener).await];
    let mut waiting = JoinSet::new();
    for at in 0..4 {
        let client = client.clone();
        waiting.spawn(async move { client.call("m", &number(at), None).await.unwrap() });
    }
    let mut arrived = Vec::new();
    for peer in &mut peers {
        arrived.push([peer.call().await, peer.call().await]);
    }
    let error = client.call("m", EMPTY, None).await.unwrap_err();
    let refused = CallError::TooManyInFlight {
        addr,
        in_flight_max: 2,
        connections: 2,
    };
    assert_eq!(error, refused);
    assert!(
        error
            .to_string()
            .contains("2 calls are in flight on each of 2 connections"),
        "{error}"
    );
    assert_eq!(client.oneway("m", EMPTY).await.unwrap_err(), refused);

    let (seq, payload) = &arrived[1][0];
    peers[1].send(&answer(*seq, 0, payload)).await;
    waiting.join_next().await.unwrap().unwrap();
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peers[1].echo());
    assert_eq!(found.unwrap(), EMPTY);
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_here_and_disturbs_nobody() {
    let (listener, addr) = listen().await;
    let options = Options {
        frame_bytes_max: 1000,
        ..Options::default()
    };
    let client = Client::connect(&addr, options).await.unwrap();
    let mut peer = Peer::accept(&listener).await;
    let deadline = Some(Duration::from_secs(60));
    let long = "m".repeat(256);
    for (method, payload, deadline, expected) in [
        ("m", &b""[..], None, "the payload is empty"),
        ("", EMPTY, None, "the method name is empty"),
        (&long, EMPTY, None, "longer than 255 bytes"),
        (
            "m",
            &[0x80; 984],
            None,
            "its frame is 1001 bytes, over the limit of 1000",
        ),
        (
            "m",
            &[0x93, 1, 2, 3],
            deadline,
            "begins with the byte 0x93; expected a map",
        ),
    ] {
        let error = client.call(method, payload, deadline).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Unsendable { method: found, .. } if found == method),
            "{error:?}"
        );
        assert!(
            error.to_string().contains(expected),
            "{error} does not contain {expected:?}"
        );
    }
    let error = client.oneway("m", b"").await.unwrap_err();
    assert!(matches!(error, CallError::Unsendable { .. }), "{error:?}");
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);
}

#[tokio::test]
async fn callers_wait_while_the_server_does_not_read() {
    const CALLS: usize = 1000;
    let (listener, addr) = listen().await;
    let options = Options {
        frame_bytes_max: 64 << 10,
        ..Options::default()
    };
    let client = Client::connect(&addr, options).await.unwrap();
    let mut peer = Peer::accept(&listener).await;
    let payload = [&[0x81, 0xa1, b'b', 0xc5, 0xff, 0x00][..], &[7; 0xff00]].concat();
    let mut sent = 0;
    tokio::time::pause();
    while tokio::time::timeout(Duration::from_secs(3600), client.oneway("m", &payload))
        .await
        .is_ok()
    {
        sent += 1;
        assert!(
            sent < CALLS,
            "{CALLS} calls of 64 KiB were taken, and nobody reads them"
        );
    }
    tokio::time::resume();
    // The call that gave up waiting was not queued; once the server reads, the rest goes through.
    let rest = async {
        for _ in sent..CALLS {
            client.oneway("m", &payload).await.unwrap();
        }
        drop(client);
    };
    let read = async {
        let mut read = 0;
        while peer.next().await.is_some() {
            read += 1;
        }
        read
    };
    assert_eq!(tokio::join!(rest, read).1, CALLS);
}

#[tokio::test]
async fn zero_connections_and_places_count_as_one() {
    let (listener, addr) = listen().await;
    let options = Options {
        connections: 0,
        in_flight_max: 0,
        ..Options::default()
    };
    let client = Client::connect(&addr, options).await.unwrap();
    let mut peer = Peer::accept(&listener).await;
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);
}
