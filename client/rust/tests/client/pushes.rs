//! The server calls its client: handlers answer, in any order, so many at a time, whatever happens to them.

use crate::peer::{EMPTY, Peer, answer, number, pair_with};
use millpond_client_rust::schema::payload::decode_map;
use millpond_client_rust::{Code, Options, PushHandler, Status};
use millpond_wire_frame::{Encoding, FrameKind, write_frame};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

fn options(push_handler: PushHandler) -> Options {
    Options {
        push_handler: Some(push_handler),
        ..Options::default()
    }
}

/// A call of the server's; oneway without a number.
fn push(method: &str, seq: Option<u32>, encoding: Encoding, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let kind = match seq {
        Some(seq) => FrameKind::Twoway { method, seq },
        None => FrameKind::Oneway { method },
    };
    write_frame(&mut bytes, encoding, kind, payload).unwrap();
    bytes
}

fn msgpack(method: &str, seq: u32, payload: &[u8]) -> Vec<u8> {
    push(method, Some(seq), Encoding::Msgpack, payload)
}

/// The next answer that the client gives: its number, and its payload or the error in it.
async fn answered(peer: &mut Peer) -> (u32, Result<Vec<u8>, Status>) {
    let found = peer.next().await.unwrap();
    assert_eq!(found.method, "", "a call where an answer was expected");
    let map = decode_map(found.encoding, &found.payload).unwrap();
    let result = match map.get("code") {
        Some(_) => Err(Status::decode(&map)),
        None => Ok(found.payload),
    };
    (found.seq.unwrap(), result)
}

#[tokio::test]
async fn a_handler_gets_what_came_and_its_map_goes_back() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = PushHandler::sync({
        let seen = seen.clone();
        move |push| {
            let payload = push.payload.clone();
            seen.lock().unwrap().push(push);
            Ok(payload)
        }
    });
    let (_client, mut peer, _listener) = pair_with(options(handler)).await;
    // The captured frame C of FPNN's client: the answer to the server's call 1.
    peer.send(&push("log", None, Encoding::Json, b"{\"n\": 1}")).await;
    let simple = b"\x82\xa6Simple\xa3one\xa6duplex\x02";
    peer.send(&msgpack("duplex quest", 1, simple)).await;
    let mut expected = b"FPNN\x01\x80\x02\x00\x14\x00\x00\x00\x01\x00\x00\x00".to_vec();
    expected.extend(simple);
    assert_eq!(peer.bytes(expected.len()).await, expected);
    peer.send(&push("in JSON", Some(9), Encoding::Json, b"{\"n\": 2}"))
        .await;
    let found = peer.next().await.unwrap();
    assert_eq!((found.seq, found.encoding), (Some(9), Encoding::Json));
    assert_eq!(found.payload, b"{\"n\": 2}");

    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort_by(|a, b| a.method.cmp(&b.method));
    let methods: Vec<(&str, bool, Encoding)> = seen
        .iter()
        .map(|push| (push.method.as_str(), push.is_oneway, push.encoding))
        .collect();
    let expected = [
        ("duplex quest", false, Encoding::Msgpack),
        ("in JSON", false, Encoding::Json),
        ("log", true, Encoding::Json),
    ];
    assert_eq!(methods, expected);
    assert_eq!(seen[2].payload, b"{\"n\": 1}");
}

#[tokio::test]
async fn answers_go_back_in_any_order_and_calls_go_on() {
    let release = Arc::new(Notify::new());
    let handler = PushHandler::new({
        let release = release.clone();
        move |push| {
            let release = release.clone();
            async move {
                if push.method == "slow" {
                    release.notified().await;
                }
                Ok(push.payload)
            }
        }
    });
    let (client, mut peer, _listener) = pair_with(options(handler)).await;
    peer.send(&msgpack("slow", 1, &number(1))).await;
    peer.send(&msgpack("quick", 2, &number(2))).await;
    assert_eq!(answered(&mut peer).await, (2, Ok(number(2))));
    // Numbers of the two directions have nothing to do with each other.
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);
    release.notify_one();
    assert_eq!(answered(&mut peer).await, (1, Ok(number(1))));
}

#[tokio::test]
async fn errors_panics_and_what_is_no_answer_are_answered() {
    let handler = PushHandler::new(|push| async move {
        match push.method.as_str() {
            "refuse" => Err(Status::new(Code::NotFound, "no such film")),
            "panic" => panic!("the handler's own fault"),
            "empty" => Ok(Vec::new()),
            "large" => Ok(vec![0x80; 2000]),
            _ => Ok(push.payload),
        }
    });
    let options = Options {
        frame_bytes_max: 1000,
        ..options(handler)
    };
    let (client, mut peer, _listener) = pair_with(options).await;
    for (seq, method, code, expected) in [
        (1, "refuse", Code::NotFound, "no such film"),
        (2, "panic", Code::Internal, "did not finish: it panicked"),
        (3, "empty", Code::Internal, "has 0 bytes; expected one map"),
        (
            4,
            "large",
            Code::Internal,
            "has 2000 bytes; expected one map in a frame of at most 1000",
        ),
    ] {
        peer.send(&msgpack(method, seq, EMPTY)).await;
        let (found, result) = answered(&mut peer).await;
        let status = result.unwrap_err();
        assert_eq!((found, status.code), (seq, code), "{status}");
        assert!(status.ex.contains(expected), "{status}");
    }
    // The connection is as good as before.
    peer.send(&msgpack("fine", 5, &number(5))).await;
    assert_eq!(answered(&mut peer).await, (5, Ok(number(5))));
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);
}

#[tokio::test]
async fn one_push_too_many_is_refused_until_a_place_is_free() {
    let (places, runs) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let handler = PushHandler::new({
        let (places, runs) = (places.clone(), runs.clone());
        move |push| {
            let (places, runs) = (places.clone(), runs.clone());
            async move {
                runs.fetch_add(1, Ordering::Relaxed);
                places.acquire().await.unwrap().forget();
                Ok(push.payload)
            }
        }
    });
    let options = Options {
        pushes_max: 2,
        ..options(handler)
    };
    let (client, mut peer, _listener) = pair_with(options).await;
    for seq in 1..=3 {
        peer.send(&msgpack("m", seq, &number(7))).await;
    }
    peer.send(&push("dropped", None, Encoding::Msgpack, EMPTY)).await;
    let (seq, result) = answered(&mut peer).await;
    let status = result.unwrap_err();
    assert_eq!((seq, status.code), (3, Code::Overloaded), "{status}");
    assert!(status.ex.contains("works on 2 calls"), "{status}");
    places.add_permits(2);
    let mut seqs = [answered(&mut peer).await.0, answered(&mut peer).await.0];
    seqs.sort_unstable();
    assert_eq!(seqs, [1, 2]);
    assert_eq!((client.pushes_refused(), runs.load(Ordering::Relaxed)), (2, 2));
    places.add_permits(1);
    peer.send(&msgpack("m", 4, &number(8))).await;
    assert_eq!(answered(&mut peer).await, (4, Ok(number(8))));
}

#[tokio::test]
async fn an_answer_does_not_go_to_another_connection() {
    let release = Arc::new(Notify::new());
    let finished = Arc::new(Notify::new());
    let handler = PushHandler::new({
        let (release, finished) = (release.clone(), finished.clone());
        move |push| {
            let (release, finished) = (release.clone(), finished.clone());
            async move {
                release.notified().await;
                finished.notify_one();
                Ok(push.payload)
            }
        }
    });
    let (client, mut peer, listener) = pair_with(options(handler)).await;
    peer.send(&msgpack("slow", 1, EMPTY)).await;
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), async move {
        peer.call().await;
        drop(peer);
    });
    found.unwrap_err();
    let server = async {
        let mut peer = Peer::accept(&listener).await;
        let (seq, payload) = peer.call().await;
        release.notify_one();
        finished.notified().await;
        peer.send(&answer(seq, 0, &payload)).await;
        peer
    };
    let payload = number(1);
    let (found, mut peer) = tokio::join!(client.call("m", &payload, None), server);
    assert_eq!(found.unwrap(), number(1));
    drop(client);
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn a_handler_may_call_its_server() {
    let shared: Arc<std::sync::OnceLock<millpond_client_rust::Client>> = Arc::default();
    let handler = PushHandler::new({
        let shared = Arc::downgrade(&shared);
        move |push| {
            let client = shared.upgrade().and_then(|shared| shared.get().cloned());
            async move {
                let answer = client
                    .unwrap()
                    .call("back", &push.payload, Some(Duration::from_secs(60)))
                    .await;
                answer.map_err(|error| Status::new(Code::Internal, error.to_string()))
            }
        }
    });
    let (client, mut peer, _listener) = pair_with(options(handler)).await;
    shared.set(client).unwrap();
    peer.send(&msgpack("forward", 1, EMPTY)).await;
    let (seq, _) = peer.call().await;
    peer.send(&answer(seq, 0, &number(4))).await;
    assert_eq!(answered(&mut peer).await, (1, Ok(number(4))));
}
