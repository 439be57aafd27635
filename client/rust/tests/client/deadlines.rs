//! Deadlines: kept here, told to the server, and nothing left behind when they pass. Time is virtual where it counts.

use crate::peer::{EMPTY, Peer, answer, listen, number, pair};
use millpond_client_rust::schema::payload::{Value, decode_map};
use millpond_client_rust::{CallError, Client, Encoding, Options};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_call_without_an_answer_ends_at_its_deadline() {
    let (client, mut peer, _listener) = pair().await;
    for (encoding, payload) in [
        (Encoding::Msgpack, &number(5)[..]),
        (Encoding::Json, br#"{"n": 5}"#),
    ] {
        tokio::time::pause();
        let error = client
            .call_raw("slow", encoding, payload, Some(DEADLINE))
            .await
            .unwrap_err();
        tokio::time::resume();
        assert!(
            matches!(
                &error,
                CallError::Timeout {
                    deadline: DEADLINE,
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(
            error.to_string().contains("slow") && error.to_string().contains("250ms"),
            "{error}"
        );
        // What the server was told.
        let quest = peer.next().await.unwrap();
        let map = decode_map(quest.encoding, &quest.payload).unwrap();
        assert_eq!(map.get("_deadline_ms"), Some(&Value::UInt(250)));
        assert_eq!(map.get("n"), Some(&Value::UInt(5)));
    }
}

#[tokio::test]
async fn a_level_travels_with_the_calls_of_the_client_that_has_it() {
    let (client, mut peer, _listener) = pair().await;
    let urgent = client.with_priority(2);
    for (client, deadline, expected) in [
        (&urgent, None, Some(2)),
        (&urgent, Some(DEADLINE), Some(2)),
        (&client, None, None),
    ] {
        let server = async {
            let (seq, payload) = peer.call().await;
            peer.send(&answer(seq, 0, EMPTY)).await;
            payload
        };
        let asked = number(5);
        let (found, payload) = tokio::join!(client.call("m", &asked, deadline), server);
        assert_eq!(found.unwrap(), EMPTY);
        let map = decode_map(Encoding::Msgpack, &payload).unwrap();
        assert_eq!(map.get("_priority"), expected.map(Value::UInt).as_ref());
        assert_eq!(map.get("_deadline_ms").is_some(), deadline.is_some());
        assert_eq!(map.get("n"), Some(&Value::UInt(5)));
    }
}

#[tokio::test]
async fn an_epoch_travels_beside_a_level() {
    let (client, mut peer, _listener) = pair().await;
    let client = client.with_priority(2).with_epoch(u64::MAX);
    let server = async {
        let (seq, payload) = peer.call().await;
        peer.send(&answer(seq, 0, EMPTY)).await;
        payload
    };
    let asked = number(5);
    let (found, payload) = tokio::join!(client.call("m", &asked, None), server);
    assert_eq!(found.unwrap(), EMPTY);
    let map = decode_map(Encoding::Msgpack, &payload).unwrap();
    let expected = [("_epoch", u64::MAX), ("_priority", 2), ("n", 5)];
    for (key, value) in expected {
        assert_eq!(map.get(key), Some(&Value::UInt(value)), "{key}");
    }
}

#[tokio::test]
async fn a_late_answer_is_counted_and_disturbs_nobody() {
    let (client, mut peer, _listener) = pair().await;
    tokio::time::pause();
    let error = client.call("slow", EMPTY, Some(DEADLINE)).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error:?}");
    tokio::time::resume();
    assert_eq!(client.late_answers(), 0);
    let server = async {
        let (late, _) = peer.call().await;
        let (seq, payload) = peer.call().await;
        peer.send(&answer(late, 0, EMPTY)).await;
        peer.send(&answer(late, 0, EMPTY)).await;
        peer.send(&answer(seq, 0, &payload)).await;
    };
    let payload = number(1);
    let (found, ()) = tokio::join!(client.call("m", &payload, None), server);
    assert_eq!(found.unwrap(), payload);
    assert_eq!(client.late_answers(), 2);
}

#[tokio::test]
async fn no_time_at_all_sends_nothing() {
    let (client, mut peer, _listener) = pair().await;
    let error = client
        .call("never", EMPTY, Some(Duration::ZERO))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error:?}");
    drop(client);
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn the_longest_deadline_is_a_deadline() {
    let (client, mut peer, _listener) = pair().await;
    let server = async {
        let (seq, payload) = peer.call().await;
        peer.send(&answer(seq, 0, EMPTY)).await;
        payload
    };
    let (found, payload) = tokio::join!(client.call("m", EMPTY, Some(Duration::MAX)), server);
    assert_eq!(found.unwrap(), EMPTY);
    let map = decode_map(Encoding::Msgpack, &payload).unwrap();
    assert_eq!(map.get("_deadline_ms"), Some(&Value::UInt(u64::MAX)));
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_gives_its_place_back() {
    let (listener, addr) = listen().await;
    let options = Options {
        in_flight_max: 1,
        ..Options::default()
    };
    let client = Client::connect(&addr, options).await.unwrap();
    let mut peer = Peer::accept(&listener).await;
    let left = tokio::spawn({
        let client = client.clone();
        async move { client.call("left", EMPTY, None).await }
    });
    let (late, _) = peer.call().await;
    left.abort();
    assert!(left.await.unwrap_err().is_cancelled());
    let server = async {
        let (seq, payload) = peer.call().await;
        peer.send(&answer(late, 0, EMPTY)).await;
        peer.send(&answer(seq, 0, &payload)).await;
    };
    let payload = number(1);
    let (found, ()) = tokio::join!(client.call("m", &payload, None), server);
    assert_eq!(found.unwrap(), payload);
    assert_eq!(client.late_answers(), 1);
}
