//! Connections that close: who is told what, and what the next call does.

use crate::peer::{EMPTY, Peer, answer, hold, number, pair};
use millpond_client_rust::{CallError, Client, Options};

#[tokio::test]
async fn nobody_listening_is_a_clear_error() {
    let (_held, addr) = hold("127.0.0.1:0");
    for (addr, expected) in [(addr.as_str(), "refused"), ("no-port", "HOST:PORT")] {
        let error = Client::connect(addr, Options::default()).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Connect { addr: found, .. } if found == addr),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(
            text.contains(addr) && text.contains(expected) && text.contains("millpond serve"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_close_midway_fails_every_waiting_call() {
    let (client, mut peer, _listener) = pair().await;
    let server = async move {
        let (first, second, _third) = (peer.call().await, peer.call().await, peer.call().await);
        peer.send(&answer(first.0, 0, &first.1)).await;
        peer.send(&answer(second.0, 0, &second.1)[..10]).await;
    };
    let [a, b, c] = [number(1), number(2), number(3)];
    let (x, y, z, ()) = tokio::join!(
        client.call("m", &a, None),
        client.call("m", &b, None),
        client.call("m", &c, None),
        server
    );
    assert_eq!(x.unwrap(), a);
    for failed in [y, z] {
        let error = failed.unwrap_err();
        assert!(matches!(&error, CallError::Closed { .. }), "{error:?}");
        assert!(error.to_string().contains("10 bytes into a frame"), "{error}");
    }
}

#[tokio::test]
async fn the_next_call_opens_a_new_connection() {
    let (client, mut peer, listener) = pair().await;
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), async move {
        peer.call().await;
        drop(peer);
    });
    let error = found.unwrap_err();
    assert!(matches!(&error, CallError::Closed { .. }), "{error:?}");
    for at in 0..2 {
        let server = async {
            let mut peer = Peer::accept(&listener).await;
            peer.echo().await;
            peer.echo().await;
            // The third is left to wait, so that its caller learns of the close before it calls again.
            peer.call().await;
        };
        let calls = async {
            assert_eq!(client.call("m", &number(at), None).await.unwrap(), number(at));
            assert_eq!(client.call("m", EMPTY, None).await.unwrap(), EMPTY);
            let error = client.call("m", EMPTY, None).await.unwrap_err();
            assert!(error.to_string().contains("the server closed it"), "{error}");
        };
        tokio::join!(server, calls);
    }
}

#[tokio::test]
async fn a_server_that_is_gone_fails_all_callers_at_once() {
    let (client, mut peer, listener) = pair().await;
    let addr = listener.local_addr().unwrap().to_string();
    let server = async move {
        peer.call().await;
        drop((peer, listener));
        hold(&addr)
    };
    let (found, _held) = tokio::join!(client.call("m", EMPTY, None), server);
    assert!(matches!(found, Err(CallError::Closed { .. })));
    let (x, y, z) = tokio::join!(
        client.call("m", EMPTY, None),
        client.call("m", EMPTY, None),
        client.oneway("m", EMPTY)
    );
    for error in [x.unwrap_err(), y.unwrap_err(), z.unwrap_err()] {
        assert!(matches!(&error, CallError::Connect { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn callers_share_one_attempt_to_connect_again() {
    let (client, mut peer, listener) = pair().await;
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), async move {
        peer.call().await;
        drop(peer);
    });
    assert!(matches!(found, Err(CallError::Closed { .. })));
    // Both calls arrive on the one connection that is accepted.
    let server = async {
        let mut peer = Peer::accept(&listener).await;
        let (first, second) = (peer.call().await, peer.call().await);
        peer.send(&answer(first.0, 0, &first.1)).await;
        peer.send(&answer(second.0, 0, &second.1)).await;
        peer
    };
    let (a, b) = (number(1), number(2));
    let (x, y, _peer) = tokio::join!(client.call("m", &a, None), client.call("m", &b, None), server);
    assert_eq!([x.unwrap(), y.unwrap()], [a, b]);
}
