//! Keep-alive: pings while nothing else happens, a connection that leaves them unanswered, and one that closes.

use crate::peer::{EMPTY, Peer, answer, pair, pair_with};
use millpond_client_rust::{CallError, Options};
use std::time::Duration;

fn options() -> Options {
    Options {
        keep_alive: Some(Duration::from_secs(20)),
        ..Options::default()
    }
}

#[tokio::test]
async fn pings_keep_coming_while_they_are_answered() {
    let (client, mut peer, _listener) = pair_with(options()).await;
    tokio::time::pause();
    for _ in 0..5 {
        let ping = peer.next().await.unwrap();
        assert_eq!((ping.method.as_str(), ping.payload.as_slice()), ("*ping", EMPTY));
        peer.send(&answer(ping.seq.unwrap(), 0, EMPTY)).await;
    }
    tokio::time::resume();
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);
    assert_eq!(client.late_answers(), 0);
}

#[tokio::test]
async fn a_connection_that_leaves_them_unanswered_is_closed_and_opened_again() {
    let (client, mut peer, listener) = pair_with(options()).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call("m", EMPTY, None).await.unwrap_err() }
    });
    peer.call().await;
    tokio::time::pause();
    for _ in 0..3 {
        assert_eq!(peer.next().await.unwrap().method, "*ping");
    }
    assert_eq!(peer.next().await, None);
    let error = waiting.await.unwrap();
    assert!(matches!(error, CallError::Closed { .. }), "{error:?}");
    assert!(error.to_string().contains("3 pings in a row"), "{error}");
    // No call asks for it.
    let mut peer = Peer::accept(&listener).await;
    assert_eq!(peer.next().await.unwrap().method, "*ping");
    drop(client);
}

#[tokio::test]
async fn a_connection_that_closes_is_opened_again_before_a_call_needs_it() {
    let (client, peer, listener) = pair_with(options()).await;
    drop(peer);
    let mut peer = Peer::accept(&listener).await;
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);
    // A client that nobody holds keeps nothing alive.
    drop(client);
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn nothing_is_sent_unless_it_was_asked_for() {
    let (client, mut peer, _listener) = pair().await;
    tokio::time::pause();
    let quiet = tokio::time::timeout(Duration::from_secs(3600), peer.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    drop(client);
}
