//! Several addresses, and those that are no TCP port.

use crate::peer::{EMPTY, Peer, answer, hold, listen, number};
use millpond_client_rust::{CallError, Client, Options};
use tokio::net::UnixListener;

#[tokio::test]
async fn calls_go_to_the_address_with_the_fewest_under_way() {
    let (first, a) = listen().await;
    let (second, b) = listen().await;
    let client = Client::connect(&format!("{a}, {b}"), Options::default())
        .await
        .unwrap();
    let mut first = Peer::accept(&first).await;
    let mut second = Peer::accept(&second).await;
    // Two calls at a time: each server has one of them, whichever it is.
    for at in 0..5 {
        let (one, two) = (number(at), number(100 + at));
        let (x, y, (), ()) = tokio::join!(
            client.call("m", &one, None),
            client.call("m", &two, None),
            first.echo(),
            second.echo()
        );
        assert_eq!([x.unwrap(), y.unwrap()], [one, two]);
    }
}

#[tokio::test]
async fn calls_use_the_addresses_that_are_up() {
    let (up, a) = listen().await;
    let (down, b) = listen().await;
    let client = Client::connect(&format!("{a},{b}"), Options::default())
        .await
        .unwrap();
    let mut up = Peer::accept(&up).await;
    let mut failing = Peer::accept(&down).await;
    let server = async {
        failing.call().await;
        drop((failing, down));
        hold(&b)
    };
    let (x, y, (), _held) = tokio::join!(
        client.call("m", EMPTY, None),
        client.call("m", EMPTY, None),
        up.echo(),
        server
    );
    assert_eq!(
        [x.is_ok(), y.is_ok()].iter().filter(|ok| **ok).count(),
        1,
        "{x:?} {y:?}"
    );
    for at in 0..10 {
        let payload = number(at);
        let (found, ()) = tokio::join!(client.call("m", &payload, None), up.echo());
        assert_eq!(found.unwrap(), number(at));
    }
}

#[tokio::test]
async fn one_address_of_several_is_enough_to_begin_with() {
    let (_held, away) = hold("127.0.0.1:0");
    let (listener, addr) = listen().await;
    let client = Client::connect(&format!("{away},{addr}"), Options::default())
        .await
        .unwrap();
    let mut peer = Peer::accept(&listener).await;
    let (found, ()) = tokio::join!(client.call("m", EMPTY, None), peer.echo());
    assert_eq!(found.unwrap(), EMPTY);

    let (_held, other) = hold("127.0.0.1:0");
    let error = Client::connect(&format!("{away},{other}"), Options::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, CallError::Connect { addr, .. } if *addr == away || *addr == other),
        "{error:?}"
    );
    let error = Client::connect(&format!("{addr},nowhere"), Options::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, CallError::Connect { addr, .. } if addr == "nowhere"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_unix_socket_is_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("millpond.sock");
    let addr = format!("unix:{}", path.display());
    let error = Client::connect(&addr, Options::default()).await.unwrap_err();
    assert!(error.to_string().contains(&addr), "{error}");

    let listener = UnixListener::bind(&path).unwrap();
    let client = Client::connect(&addr, Options::default()).await.unwrap();
    let mut peer = Peer::over(listener.accept().await.unwrap().0);
    for at in 0..3 {
        let server = async {
            let (seq, payload) = peer.call().await;
            peer.send(&answer(seq, 0, &payload)).await;
        };
        let payload = number(at);
        let (found, ()) = tokio::join!(client.call("m", &payload, None), server);
        assert_eq!(found.unwrap(), number(at));
    }
}
