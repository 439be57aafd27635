//! A server that is away: tried again after a wait that grows, and never by every call. The waits are hours of virtual
//! time, so that no machine is slow enough to see one end by itself.

use crate::peer::{EMPTY, Peer, hold, listen, number, pair_with};
use millpond_client_rust::{Backoff, CallError, Client, Options};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};

const HOUR: Duration = Duration::from_secs(3600);

fn options() -> Options {
    Options {
        backoff: Backoff {
            first: HOUR,
            most: 100 * HOUR,
            seed: Some(5),
        },
        ..Options::default()
    }
}

/// A client whose server has answered once and is gone, and the server's port.
async fn abandoned() -> (Client, TcpSocket) {
    let (client, mut peer, listener) = pair_with(options()).await;
    let addr = listener.local_addr().unwrap().to_string();
    let server = async {
        peer.echo().await;
        peer.call().await;
        drop((peer, listener));
        hold(&addr).0
    };
    let calls = async {
        client.call("m", EMPTY, None).await.unwrap();
        client.call("m", EMPTY, None).await.unwrap_err()
    };
    let (error, held) = tokio::join!(calls, server);
    assert!(matches!(error, CallError::Closed { .. }), "{error:?}");
    (client, held)
}

/// How long until the next try, from a call that fails.
async fn wait_of(client: &Client) -> Duration {
    match client.call("m", EMPTY, None).await.unwrap_err() {
        CallError::Connect { retry_after, .. } => retry_after,
        other => panic!("{other:?}"),
    }
}

async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Panics if anybody has connected.
fn nobody_came(listener: TcpListener) -> TcpListener {
    let listener = listener.into_std().unwrap();
    let error = listener.accept().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    TcpListener::from_std(listener).unwrap()
}

#[tokio::test]
async fn calls_fail_at_once_until_the_next_try_is_due() {
    let (client, held) = abandoned().await;
    let wait = wait_of(&client).await;
    assert!(wait > Duration::ZERO && wait <= HOUR, "{wait:?}");
    // The server is back, and nobody knows yet.
    let listener = held.listen(16).unwrap();
    pass(wait / 2).await;
    let error = client.call("m", EMPTY, None).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("(next try in ") && text.contains("refused"),
        "{text}"
    );
    assert!(matches!(error, CallError::Connect { retry_after, .. } if retry_after <= wait / 2));
    let error = client.oneway("m", EMPTY).await.unwrap_err();
    assert!(matches!(error, CallError::Connect { .. }), "{error:?}");
    let listener = nobody_came(listener);
    pass(wait / 2).await;
    let payload = number(1);
    let (found, ()) = tokio::join!(client.call("m", &payload, None), async {
        Peer::accept(&listener).await.echo().await;
    });
    assert_eq!(found.unwrap(), number(1));
}

#[tokio::test]
async fn waits_grow_while_it_is_away_and_begin_anew_once_it_has_answered() {
    let (client, held) = abandoned().await;
    let mut longest = Duration::ZERO;
    for doubled in 0..7 {
        let wait = wait_of(&client).await;
        assert!(wait <= HOUR * (1 << doubled), "{wait:?} after {doubled} failures");
        longest = longest.max(wait);
        pass(wait + Duration::from_millis(1)).await;
    }
    assert!(longest > HOUR, "no wait was longer than the first may be");
    let listener = held.listen(16).unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let server = async {
        let mut peer = Peer::accept(&listener).await;
        peer.echo().await;
        peer.call().await;
    };
    let calls = async {
        client.call("m", EMPTY, None).await.unwrap();
        client.call("m", EMPTY, None).await.unwrap_err()
    };
    tokio::join!(calls, server);
    drop(listener);
    let _held = hold(&addr);
    assert!(wait_of(&client).await <= HOUR);
}

#[tokio::test]
async fn a_server_that_closes_whatever_it_accepts_is_not_stormed() {
    let (client, peer, listener) = pair_with(options()).await;
    let mut peer = Some(peer);
    // The first close is taken for a restart; the second one is not.
    for _ in 0..2 {
        let (found, ()) = tokio::join!(client.call("m", EMPTY, None), async {
            let mut peer = match peer.take() {
                Some(peer) => peer,
                None => Peer::accept(&listener).await,
            };
            peer.call().await;
        });
        assert!(matches!(found, Err(CallError::Closed { .. })), "{found:?}");
    }
    let error = client.call("m", EMPTY, None).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Connect { retry_after, .. } if !retry_after.is_zero()),
        "{error:?}"
    );
    assert!(error.to_string().contains("closed again"), "{error}");
    nobody_came(listener);
}

#[tokio::test]
async fn a_call_that_was_not_written_goes_over_the_next_connection() {
    let (listener, addr) = listen().await;
    let options = Options {
        frame_bytes_max: 64 << 10,
        ..Options::default()
    };
    let client = Client::connect(&addr, options).await.unwrap();
    let peer = Peer::accept(&listener).await;
    let payload = [&[0x81, 0xa1, b'b', 0xc5, 0xff, 0x00][..], &[7; 0xff00]].concat();
    tokio::time::pause();
    while tokio::time::timeout(HOUR, client.oneway("m", &payload))
        .await
        .is_ok()
    {}
    tokio::time::resume();
    // It waits for room on a connection that nobody reads, and that then closes.
    let waiting = client.call("m", EMPTY, None);
    let server = async {
        tokio::task::yield_now().await;
        drop(peer);
        Peer::accept(&listener).await.echo().await;
    };
    let (found, ()) = tokio::join!(waiting, server);
    assert_eq!(found.unwrap(), EMPTY);
}

#[tokio::test]
async fn a_closed_client_has_written_what_was_queued_and_calls_no_more() {
    let (client, mut peer, _listener) = pair_with(Options::default()).await;
    let clone = client.clone();
    for at in 0..3 {
        client.oneway("log", &number(at)).await.unwrap();
    }
    client.close().await;
    for at in 0..3 {
        assert_eq!(peer.next().await.unwrap().payload, number(at));
    }
    assert_eq!(peer.next().await, None);
    let error = clone.call("m", EMPTY, None).await.unwrap_err();
    assert!(
        matches!(error, CallError::Connect { .. }) && error.to_string().contains("client was closed"),
        "{error:?}"
    );
    clone.close().await;
}
