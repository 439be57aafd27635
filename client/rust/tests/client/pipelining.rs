//! Many calls share a connection, and each gets its own answer however the bytes arrive.

use crate::peer::{EMPTY, Peer, answer, listen, number, pair};
use millpond_client_rust::{Client, Options};
use tokio::task::JoinSet;

#[tokio::test]
async fn answers_in_any_order_reach_their_callers() {
    let (client, mut peer, _listener) = pair().await;
    let server = async {
        let mut calls = Vec::new();
        for _ in 0..3 {
            calls.push(peer.call().await);
        }
        for (seq, payload) in calls.iter().rev() {
            peer.send(&answer(*seq, 0, payload)).await;
        }
    };
    let [a, b, c] = [number(1), number(2), number(3)];
    let (x, y, z, ()) = tokio::join!(
        client.call("m", &a, None),
        client.call("m", &b, None),
        client.call("m", &c, None),
        server
    );
    assert_eq!([x.unwrap(), y.unwrap(), z.unwrap()], [a, b, c]);
}

#[tokio::test]
async fn a_thousand_calls_are_in_flight_on_one_connection() {
    let (client, mut peer, _listener) = pair().await;
    let mut calls = JoinSet::new();
    for at in 0..1000_u32 {
        let client = client.clone();
        calls.spawn(async move {
            let payload = [&[0x81, 0xa1, b'n', 0xce][..], &at.to_be_bytes()].concat();
            (client.call("m", &payload, None).await.unwrap(), payload)
        });
    }
    // Not one is answered before all have arrived.
    let mut arrived = Vec::new();
    for _ in 0..1000 {
        arrived.push(peer.call().await);
    }
    let answers: Vec<u8> = arrived
        .iter()
        .rev()
        .flat_map(|(seq, payload)| answer(*seq, 0, payload))
        .collect();
    peer.send(&answers).await;
    let mut answered = 0;
    while let Some(call) = calls.join_next().await {
        let (found, expected) = call.unwrap();
        assert_eq!(found, expected);
        answered += 1;
    }
    assert_eq!(answered, 1000);
    arrived.sort_unstable();
    arrived.dedup_by_key(|(seq, _)| *seq);
    assert_eq!(arrived.len(), 1000, "two calls had one number");
}

#[tokio::test]
async fn answers_cut_into_bytes_and_glued_together_are_whole() {
    let (client, mut peer, _listener) = pair().await;
    let server = async {
        let (one, two, three) = (peer.call().await, peer.call().await, peer.call().await);
        for byte in answer(one.0, 0, &one.1) {
            peer.send(&[byte]).await;
            tokio::task::yield_now().await;
        }
        let mut glued = answer(two.0, 0, &two.1);
        glued.extend(answer(three.0, 0, &three.1));
        let cut = glued.len() - 5;
        peer.send(&glued[..cut]).await;
        tokio::task::yield_now().await;
        peer.send(&glued[cut..]).await;
    };
    let [a, b, c] = [number(1), number(2), number(3)];
    let (x, y, z, ()) = tokio::join!(
        client.call("m", &a, None),
        client.call("m", &b, None),
        client.call("m", &c, None),
        server
    );
    assert_eq!([x.unwrap(), y.unwrap(), z.unwrap()], [a, b, c]);
}

#[tokio::test]
async fn a_large_call_and_its_answer_pass_whole() {
    let (client, mut peer, _listener) = pair().await;
    let payload = [
        &[0x81, 0xa1, b'b', 0xc6][..],
        &4_000_000_u32.to_be_bytes(),
        &vec![7; 4_000_000],
    ]
    .concat();
    let (found, ()) = tokio::join!(client.call("m", &payload, None), peer.echo());
    assert!(found.unwrap() == payload);
}

#[tokio::test]
async fn calls_go_to_the_connection_with_the_fewest_under_way() {
    let (listener, addr) = listen().await;
    let options = Options {
        connections: 2,
        ..Options::default()
    };
    let client = Client::connect(&addr, options).await.unwrap();
    let mut peers = [Peer::accept(&listener).await, Peer::accept(&listener).await];
    let stuck = tokio::spawn({
        let client = client.clone();
        async move { client.call("stuck", EMPTY, None).await }
    });
    let [left, right] = &mut peers;
    let (busy, idle, seq) = tokio::select! {
        (seq, _) = left.call() => (left, right, seq),
        (seq, _) = right.call() => (right, left, seq),
    };
    for at in 0..10 {
        let payload = number(at);
        let (found, ()) = tokio::join!(client.call("m", &payload, None), idle.echo());
        assert_eq!(found.unwrap(), payload);
    }
    busy.send(&answer(seq, 0, EMPTY)).await;
    assert_eq!(stuck.await.unwrap().unwrap(), EMPTY);
}

#[tokio::test]
async fn oneway_calls_arrive_without_a_number_and_a_dropped_client_still_sends_them() {
    let (client, mut peer, _listener) = pair().await;
    for at in 0..3 {
        client.oneway("log", &number(at)).await.unwrap();
    }
    drop(client);
    for at in 0..3 {
        let quest = peer.next().await.unwrap();
        assert_eq!(
            (quest.method.as_str(), quest.seq, quest.payload),
            ("log", None, number(at))
        );
    }
    assert_eq!(peer.next().await, None);
}

#[test]
fn a_client_is_shared_by_runtimes_and_survives_the_one_it_came_from() {
    fn is_shareable<T: Clone + Send + Sync + 'static>(_: &T) {}
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (home, away) = (runtime(), runtime());
    let (client, mut peer, listener) = home.block_on(pair());
    is_shareable(&client);

    // Called from another runtime while its own one runs on another thread.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let at_home = std::thread::spawn(move || {
        home.block_on(async {
            peer.echo().await;
            // The second call has arrived and is not answered: the runtime stops under it.
            peer.call().await;
            stopped.await.unwrap();
        });
        drop(home);
        listener.into_std().unwrap()
    });
    away.block_on(async {
        assert_eq!(client.call("m", &number(1), None).await.unwrap(), number(1));
        let (second, _) = tokio::join!(client.call("m", EMPTY, None), async { stop.send(()) });
        let error = second.unwrap_err().to_string();
        assert!(
            error.contains("the runtime it was opened on has stopped"),
            "{error}"
        );
    });
    let listener = at_home.join().unwrap();
    away.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let server = async { Peer::accept(&listener).await.echo().await };
        let (found, ()) = tokio::join!(client.call("m", EMPTY, None), server);
        assert_eq!(found.unwrap(), EMPTY);
    });
}
