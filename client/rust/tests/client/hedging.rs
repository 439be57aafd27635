//! Second attempts: where they go, which answer is used, how many there are. Delays are virtual time.

use crate::peer::{EMPTY, Peer, answer, listen, number, pair_with};
use millpond_client_rust::schema::payload::{Encoder, Value, decode_map};
use millpond_client_rust::{
    CallError, Client, Code, Encoding, Hedge, HedgeAfter, HedgeCounts, Options, Status,
};
use std::time::Duration;

const DELAY: Duration = Duration::from_secs(30);

/// A second attempt after [`DELAY`], as often as anybody likes.
fn options() -> Options {
    Options {
        hedge: Some(Hedge {
            after: HedgeAfter::Delay(DELAY),
            percent_max: 100,
        }),
        ..Options::default()
    }
}

/// A client of two servers.
async fn two(options: Options) -> (Client, [Peer; 2]) {
    let ((first, a), (second, b)) = (listen().await, listen().await);
    let client = Client::connect(&format!("{a},{b}"), options).await.unwrap();
    let peers = [Peer::accept(&first).await, Peer::accept(&second).await];
    (client, peers)
}

async fn hedged(client: &Client, payload: &[u8]) -> Result<Vec<u8>, CallError> {
    client.call_hedged("m", Encoding::Msgpack, payload, None).await
}

/// Both attempts of one call, in the order they came; virtual time passes between them.
async fn attempts(peers: &mut [Peer; 2]) -> [(usize, u32); 2] {
    let [left, right] = peers;
    tokio::select! {
        (first, _) = left.call() => [(0, first), (1, right.call().await.0)],
        (first, _) = right.call() => [(1, first), (0, left.call().await.0)],
    }
}

#[tokio::test]
async fn the_second_attempt_goes_elsewhere_and_the_first_answer_wins() {
    let (client, mut peers) = two(options()).await;
    tokio::time::pause();
    for winner in [1, 0] {
        let server = async {
            let sent = attempts(&mut peers).await;
            let (at, seq) = sent[winner];
            peers[at].send(&answer(seq, 0, &number(winner as u8))).await;
            sent[1 - winner]
        };
        let (found, (loser, seq)) = tokio::join!(hedged(&client, EMPTY), server);
        assert_eq!(found.unwrap(), number(winner as u8));
        // The other answer comes too late and disturbs nobody.
        peers[loser].send(&answer(seq, 0, EMPTY)).await;
    }
    let expected = HedgeCounts {
        sent: 2,
        won: 1,
        held_back: 0,
    };
    assert_eq!(client.hedge_counts(), expected);
    for _ in 0..2 {
        let [left, right] = &mut peers;
        let (x, y, (), ()) = tokio::join!(
            client.call("m", EMPTY, None),
            client.call("m", EMPTY, None),
            left.echo(),
            right.echo()
        );
        assert_eq!([x.unwrap(), y.unwrap()], [EMPTY, EMPTY]);
    }
    assert_eq!(client.late_answers(), 2);
}

#[tokio::test]
async fn the_second_attempt_goes_to_another_address_where_there_is_one() {
    let ((first, a), (second, b)) = (listen().await, listen().await);
    let options = Options {
        connections: 2,
        ..options()
    };
    let client = Client::connect(&format!("{a},{b}"), options).await.unwrap();
    let mut left = [Peer::accept(&first).await, Peer::accept(&first).await];
    let mut right = [Peer::accept(&second).await, Peer::accept(&second).await];
    tokio::time::pause();
    for _ in 0..8 {
        let server = async {
            // Would wait for ever if both attempts came to one address.
            let (x, y) = tokio::join!(either(&mut left), either(&mut right));
            for (peer, seq) in [x, y] {
                peer.send(&answer(seq, 0, EMPTY)).await;
            }
        };
        let (found, ()) = tokio::join!(hedged(&client, EMPTY), server);
        assert_eq!(found.unwrap(), EMPTY);
    }
}

/// The next call to either, and who got it.
async fn either(peers: &mut [Peer; 2]) -> (&mut Peer, u32) {
    let [one, other] = peers;
    tokio::select! {
        (seq, _) = one.call() => (one, seq),
        (seq, _) = other.call() => (other, seq),
    }
}

#[tokio::test]
async fn a_refusal_or_a_close_loses_against_an_answer() {
    let (client, mut peers) = two(options()).await;
    tokio::time::pause();
    let mut refusal = Vec::new();
    let status = Status::new(Code::Overloaded, "full");
    status.encode(&mut Encoder::new(&mut refusal, Encoding::Msgpack, false));
    let server = async {
        let [(first, first_seq), (second, second_seq)] = attempts(&mut peers).await;
        peers[second].send(&answer(second_seq, 1, &refusal)).await;
        // The client has read the refusal when it declines what came behind it.
        peers[second].send(PUSH).await;
        peers[second].next().await.unwrap();
        peers[first].send(&answer(first_seq, 0, &number(1))).await;
    };
    let (found, ()) = tokio::join!(hedged(&client, EMPTY), server);
    assert_eq!(found.unwrap(), number(1));

    // Both refuse: the caller is told.
    let server = async {
        for (at, seq) in attempts(&mut peers).await {
            peers[at].send(&answer(seq, 1, &refusal)).await;
        }
    };
    let (found, ()) = tokio::join!(hedged(&client, EMPTY), server);
    assert_eq!(found, Err(CallError::Status(status)));

    // The first server closes; the second answers.
    let [left, right] = &mut peers;
    let server = async {
        let (other, seq) = tokio::select! {
            _ = left.call() => { let (seq, _) = right.call().await; left.end().await; (right, seq) },
            _ = right.call() => { let (seq, _) = left.call().await; right.end().await; (left, seq) },
        };
        other.send(&answer(seq, 0, &number(2))).await;
    };
    let (found, ()) = tokio::join!(hedged(&client, EMPTY), server);
    assert_eq!(found.unwrap(), number(2));
}

/// A call of the server's, number 1, which a client without a handler declines.
const PUSH: &[u8] = b"FPNN\x01\x80\x01\x01\x01\x00\x00\x00\x01\x00\x00\x00m\x80";

#[tokio::test]
async fn an_error_that_is_final_wins_as_any_answer_does() {
    let (client, mut peers) = two(options()).await;
    tokio::time::pause();
    let status = Status::new(Code::BadArgument, "no such key");
    let mut payload = Vec::new();
    status.encode(&mut Encoder::new(&mut payload, Encoding::Msgpack, false));
    let server = async {
        let [_, (second, seq)] = attempts(&mut peers).await;
        peers[second].send(&answer(seq, 1, &payload)).await;
    };
    let (found, ()) = tokio::join!(hedged(&client, EMPTY), server);
    assert_eq!(found, Err(CallError::Status(status)));
}

#[tokio::test]
async fn each_attempt_brings_what_is_left_of_the_deadline() {
    let (client, mut peers) = two(options()).await;
    tokio::time::pause();
    let server = async {
        let [left, right] = &mut peers;
        let mut told = Vec::new();
        let (first, other) = tokio::select! {
            (_, payload) = left.call() => (payload, right),
            (_, payload) = right.call() => (payload, left),
        };
        let (seq, second) = other.call().await;
        for payload in [first, second] {
            let map = decode_map(Encoding::Msgpack, &payload).unwrap();
            match map.get("_deadline_ms") {
                Some(Value::UInt(left_ms)) => told.push(*left_ms),
                other => panic!("{other:?}"),
            }
        }
        other.send(&answer(seq, 0, EMPTY)).await;
        told
    };
    let call = client.call_hedged("m", Encoding::Msgpack, EMPTY, Some(4 * DELAY));
    let (found, told) = tokio::join!(call, server);
    assert_eq!(found.unwrap(), EMPTY);
    // The timer counts whole milliseconds, and rounds up.
    assert_eq!(told[0], 120_000);
    assert!((89_999..=90_000).contains(&told[1]), "{told:?}");

    // Neither answers: the deadline is the call's, not the attempt's.
    let call = client.call_hedged("m", Encoding::Msgpack, EMPTY, Some(2 * DELAY));
    let (found, _) = tokio::join!(call, attempts(&mut peers));
    assert!(
        matches!(found, Err(CallError::Timeout { deadline, .. }) if deadline == 2 * DELAY),
        "{found:?}"
    );
}

#[tokio::test]
async fn without_another_connection_an_option_or_credit_there_is_one_attempt() {
    let alone = pair_with(options()).await;
    let silent = two(Options::default()).await;
    let poor = two(Options {
        hedge: Some(Hedge {
            after: HedgeAfter::Delay(DELAY),
            percent_max: 50,
        }),
        ..Options::default()
    })
    .await;
    let never_twice = [
        (alone.0, vec![alone.1], 0),
        (silent.0, Vec::from(silent.1), 0),
        (poor.0, Vec::from(poor.1), 1),
    ];
    tokio::time::pause();
    for (client, mut peers, held_back) in never_twice {
        let found = client
            .call_hedged("m", Encoding::Msgpack, EMPTY, Some(10 * DELAY))
            .await;
        assert!(matches!(found, Err(CallError::Timeout { .. })), "{found:?}");
        let expected = HedgeCounts {
            sent: 0,
            won: 0,
            held_back,
        };
        assert_eq!(client.hedge_counts(), expected);
        drop(client);
        let mut arrived = 0;
        for peer in &mut peers {
            while peer.next().await.is_some() {
                arrived += 1;
            }
        }
        assert_eq!(arrived, 1);
    }
}

#[tokio::test]
async fn a_measured_delay_needs_a_hundred_calls() {
    let options = Options {
        hedge: Some(Hedge {
            after: HedgeAfter::P95,
            percent_max: 100,
        }),
        ..Options::default()
    };
    let (client, mut peers) = two(options).await;
    tokio::time::pause();
    for at in 0..100 {
        let [left, right] = &mut peers;
        let server = async {
            tokio::select! {
                (seq, _) = left.call() => {
                    tokio::time::sleep(Duration::from_secs(at)).await;
                    left.send(&answer(seq, 0, EMPTY)).await;
                }
                (seq, _) = right.call() => {
                    tokio::time::sleep(Duration::from_secs(at)).await;
                    right.send(&answer(seq, 0, EMPTY)).await;
                }
            }
        };
        let (found, ()) = tokio::join!(hedged(&client, EMPTY), server);
        found.unwrap();
    }
    assert_eq!(client.hedge_counts(), HedgeCounts::default());
    // Ninety-five of a hundred took at most 94 s.
    let begun = tokio::time::Instant::now();
    let server = async {
        let [_, (second, seq)] = attempts(&mut peers).await;
        let waited = begun.elapsed();
        peers[second].send(&answer(seq, 0, EMPTY)).await;
        waited
    };
    let (found, waited) = tokio::join!(hedged(&client, EMPTY), server);
    found.unwrap();
    assert_eq!(waited.as_secs(), 94);
    assert_eq!(client.hedge_counts().sent, 1);
}
