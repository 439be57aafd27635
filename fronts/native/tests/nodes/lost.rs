//! Nodes that die, say nothing, or take long, with calls under way.

use crate::rig::*;
use millpond_fronts_native::PoolOptions;
use millpond_nodes::RetryOptions;
use millpond_wire_frame::{Encoding, FrameKind, write_frame};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[test]
fn each_call_of_a_connection_that_dies_ends_once() {
    let (told, heard) = mpsc::sync_channel::<()>(1);
    let (address, node) = by_hand(move |mut stream| {
        // Reads something of the calls, and goes.
        let _ = stream.read(&mut [0; 64]);
        heard.recv().unwrap();
    });
    let proxy = Proxy::to(&address, PoolOptions::default());
    let mut client = proxy.client();
    for seq in 0..10 {
        client.send(seq, &payload(1, 10));
    }
    told.send(()).unwrap();
    let mut seen: Vec<u32> = (0..10)
        .map(|_| {
            let (seq, status, error) = client.answer();
            assert!(
                status != 0 && error_of(&error).contains("node \"b\""),
                "{}",
                error_of(&error)
            );
            seq
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    let [calls, failures, outstanding] = proxy.counted();
    assert_eq!((calls, outstanding), (failures, 0));
    node.join().unwrap();
    proxy.transport.close(Duration::ZERO);
}

#[test]
fn the_wait_for_a_node_that_answers_and_dies_does_not_grow() {
    // The last of so many waits would be of eighteen minutes.
    const DEATHS: usize = 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let node = std::thread::spawn(move || {
        for _ in 0..DEATHS {
            let mut stream = listener.accept().unwrap().0;
            assert_eq!(answer_next(&mut stream), "echo");
            // Dies on the next.
            let _ = stream.read(&mut [0; 64]);
        }
    });
    let retry = RetryOptions {
        first: Duration::from_millis(1),
        most: Duration::from_secs(3600),
    };
    let pool = PoolOptions {
        retry,
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address, pool);
    let mut client = proxy.client();
    let until = Instant::now() + Duration::from_secs(60);
    for death in 0..DEATHS {
        while client.call(&payload(1, 0)).is_err() {
            assert!(Instant::now() < until, "it is not reached again after {death}");
        }
        client.call(&payload(1, 0)).unwrap_err();
    }
    node.join().unwrap();
    proxy.transport.close(Duration::ZERO);
}

#[test]
fn a_node_that_says_nothing_or_nonsense_is_given_up() {
    let answer = |seq| {
        let mut bytes = Vec::new();
        let kind = FrameKind::Answer { status: 0, seq };
        write_frame(&mut bytes, Encoding::Msgpack, kind, &[0x80]).unwrap();
        bytes
    };
    for (bytes, words) in [
        (Vec::new(), "sent nothing for 300 ms"),
        (b"no frame at all".to_vec(), "sent what is no answer"),
        (answer(999), "an answer to 999, which was not asked"),
    ] {
        let (address, node) = by_hand(move |mut stream| {
            let _ = stream.read(&mut [0; 64]);
            stream.write_all(&bytes).unwrap();
            // Until the proxy ends it.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let pool = PoolOptions {
            answer_timeout: Duration::from_millis(300),
            ..PoolOptions::default()
        };
        let proxy = Proxy::to(&address, pool);
        let error = proxy.client().call(&payload(1, 0)).unwrap_err();
        assert!(error.contains(words), "{error}");
        node.join().unwrap();
        proxy.transport.close(Duration::ZERO);
    }
}

#[test]
fn a_connection_without_calls_is_kept_open_by_pings() {
    let (address, node) = by_hand(|mut stream| {
        let methods = [(); 3].map(|()| answer_next(&mut stream));
        assert_eq!(methods, ["echo", "*ping", "*ping"]);
    });
    let pool = PoolOptions {
        keep_alive: Duration::from_millis(100),
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address, pool);
    assert_eq!(proxy.client().call(&payload(1, 0)), Ok(payload(1, 0)));
    node.join().unwrap();
    proxy.transport.close(Duration::ZERO);
}

#[test]
fn a_node_whose_answer_takes_long_to_come_is_heard_all_the_while() {
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
    let (address, node) = by_hand(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let mut bytes = Vec::new();
        let kind = FrameKind::Answer { status: 0, seq: 1 };
        write_frame(&mut bytes, Encoding::Msgpack, kind, &payload(7, 1000)).unwrap();
        let began = Instant::now();
        // Each piece comes soon after the one before, and all of them later than a silent node may be.
        let pieces = bytes.len().div_ceil(20);
        for piece in bytes.chunks(pieces) {
            stream.write_all(piece).unwrap();
            std::thread::sleep(ANSWER_TIMEOUT / 10);
        }
        assert!(began.elapsed() > ANSWER_TIMEOUT);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let pool = PoolOptions {
        answer_timeout: ANSWER_TIMEOUT,
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address, pool);
    assert_eq!(proxy.client().call(&payload(7, 1000)), Ok(payload(7, 1000)));
    proxy.transport.close(Duration::ZERO);
    node.join().unwrap();
}
