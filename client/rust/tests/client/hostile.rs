//! A server that sends what no server should: a clear error, a closed connection, and never a panic or a hang.

use crate::peer::{EMPTY, Peer, answer, listen, number, pair};
use millpond_client_rust::schema::payload::Encoder;
use millpond_client_rust::{CallError, Client, Code, Options, Status};
use millpond_wire_frame::{Encoding, FrameKind, write_frame};
use proptest::prelude::*;

/// What a call gets when it is answered with `bytes`.
async fn answered_with(bytes: &[u8]) -> Result<Vec<u8>, CallError> {
    let (listener, addr) = listen().await;
    let options = Options {
        frame_bytes_max: 1000,
        ..Options::default()
    };
    let client = Client::connect(&addr, options).await.unwrap();
    let mut peer = Peer::accept(&listener).await;
    let server = async {
        peer.call().await;
        peer.send(bytes).await;
        // The client closes by itself, or the end of the stream ends its wait.
        drop(peer);
    };
    tokio::join!(client.call("m", EMPTY, None), server).0
}

#[tokio::test]
async fn what_is_no_answer_is_named_and_closes_the_connection() {
    let with_header = |version: u8, flag: u8, mtype: u8, psize: u32| {
        let mut bytes = b"FPNN".to_vec();
        bytes.extend([version, flag, mtype, 0]);
        bytes.extend(psize.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes
    };
    for (bytes, expected) in [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "does not speak the protocol: the first bytes are",
        ),
        (with_header(9, 0x80, 2, 1), "frame version 9"),
        (with_header(1, 0xc0, 2, 1), "frame flags 0xc0"),
        (with_header(1, 0x80, 5, 1), "message type 5"),
        (with_header(1, 0x80, 2, 0), "the payload is empty"),
        (
            with_header(1, 0x80, 2, u32::MAX),
            "an answer of 4294967311 bytes; this client accepts 1000",
        ),
        (answer(2, 0, EMPTY), "an answer to call 2, which was never made"),
        (answer(0, 0, EMPTY), "an answer to call 0, which was never made"),
    ] {
        let error = answered_with(&bytes).await.unwrap_err();
        assert!(matches!(&error, CallError::Protocol { .. }), "{error:?}");
        assert!(
            error.to_string().contains(expected),
            "{error} does not contain {expected:?}"
        );
    }
}

#[tokio::test]
async fn garbage_fails_the_calls_that_wait_and_the_next_one_connects_again() {
    let (client, mut peer, listener) = pair().await;
    let server = async {
        let (first, second) = (peer.call().await, peer.call().await);
        let mut bytes = answer(first.0, 0, &first.1);
        bytes.extend(b"garbage");
        peer.send(&bytes).await;
        // The client has closed this connection.
        assert_eq!(peer.next().await, None);
        drop((peer, second));
        Peer::accept(&listener).await.echo().await;
    };
    let calls = async {
        let (a, b) = (number(1), number(2));
        let (x, y) = tokio::join!(client.call("m", &a, None), client.call("m", &b, None));
        assert_eq!(x.unwrap(), a);
        assert!(matches!(y, Err(CallError::Protocol { .. })));
        assert_eq!(client.call("m", &b, None).await.unwrap(), b);
    };
    tokio::join!(server, calls);
}

#[tokio::test]
async fn an_error_answer_is_its_status_and_keeps_the_connection() {
    let (client, mut peer, _listener) = pair().await;
    let status = Status::new(Code::Overloaded, "the queue of \"ranker\" is full");
    let mut payload = Vec::new();
    status.encode(&mut Encoder::new(&mut payload, Encoding::Msgpack, false));
    let server = async {
        for payload in [&payload[..], &[0xc1]] {
            let (seq, _) = peer.call().await;
            peer.send(&answer(seq, 1, payload)).await;
        }
        peer.echo().await;
    };
    let calls = async {
        assert_eq!(
            client.call("m", EMPTY, None).await,
            Err(CallError::Status(status.clone()))
        );
        let error = client.call("m", EMPTY, None).await.unwrap_err().to_string();
        assert!(
            error.contains("an error answer to m: the payload is not valid msgpack"),
            "{error}"
        );
        assert_eq!(client.call("m", EMPTY, None).await.unwrap(), EMPTY);
    };
    tokio::join!(server, calls);
}

#[tokio::test]
async fn a_refused_connection_is_told_why() {
    let (listener, addr) = listen().await;
    let client = Client::connect(&addr, Options::default()).await.unwrap();
    let status = Status::new(Code::Overloaded, "1000 connections are open");
    let server = async {
        let mut peer = Peer::accept(&listener).await;
        let (seq, _) = peer.call().await;
        let mut payload = Vec::new();
        status.encode(&mut Encoder::new(&mut payload, Encoding::Msgpack, false));
        peer.send(&answer(seq, 1, &payload)).await;
    };
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), server);
    assert_eq!(found, Err(CallError::Status(status)));
}

#[tokio::test]
async fn a_call_from_the_server_is_declined() {
    let (client, mut peer, _listener) = pair().await;
    for kind in [
        FrameKind::Oneway { method: "push" },
        FrameKind::Twoway {
            method: "push",
            seq: 77,
        },
    ] {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, Encoding::Json, kind, b"{}").unwrap();
        peer.send(&bytes).await;
    }
    let declined = peer.next().await.unwrap();
    assert_eq!((declined.seq, declined.encoding), (Some(77), Encoding::Json));
    let text = String::from_utf8(declined.payload).unwrap();
    assert!(
        text.contains("20004") && text.contains("serves no methods"),
        "{text}"
    );
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_end_the_call(cut in 0_usize..17, change in 0_usize..17, byte: u8, tail in proptest::collection::vec(any::<u8>(), 0..60)) {
        // An answer that is cut off, changed in one place, and followed by anything.
        let mut bytes = answer(1, 0, EMPTY)[..cut].to_vec();
        if let Some(changed) = bytes.get_mut(change) {
            *changed = byte;
        }
        bytes.extend(tail);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match runtime.block_on(answered_with(&bytes)) {
            Err(CallError::Closed { detail, .. }) => prop_assert!(!detail.contains("runtime"), "the task died: {detail}"),
            Ok(_) | Err(CallError::Protocol { .. } | CallError::Status(_)) => {}
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }
}
