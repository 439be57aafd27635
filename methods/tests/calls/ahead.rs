//! A server whose clock is ahead of the other nodes' clocks: what they refuse is not acknowledged, though it has taken it itself.

use crate::rig::{NodeA, map, map_of};
use millpond_calls::{NodeAnswer, NodeCall, NodeError, Service as _};
use millpond_wire_payload::{Encoding, Payload};
use millpond_wire_schema::{Code, Field as _, Status, features_upsert as schema};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

const UPSERT: &str = r#"{"table": "films", "keys": [1, 2], "values": [7, 8]}"#;

/// Answers what the node sends to others until its caller has an answer; which that is.
fn answered_by(
    node: &NodeA,
    answer: &Receiver<String>,
    mut end: impl FnMut(NodeCall) -> Option<NodeCall>,
) -> String {
    let outbound = node.service.outbound().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let now = Instant::now();
        while let Some(call) = outbound.take() {
            assert_eq!(call.method, "features.upsert");
            if let Some(other) = end(call) {
                let why = NodeError::unavailable(&other.node.name, "is gone");
                other.sink.ended(outbound, now, Err(why));
            }
        }
        outbound.turn(now);
        match answer.try_recv() {
            Ok(answer) => return answer,
            Err(TryRecvError::Empty) => assert!(now < until, "no answer"),
            Err(TryRecvError::Disconnected) => panic!("the call was dropped"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a node answers to a copy with a stamp that is far ahead of its clock.
fn refusal(node: &NodeA, payload: &[u8]) -> Status {
    let payload = Payload::new(Encoding::Msgpack, payload).unwrap();
    let (copied, _) = schema::Call::decode(&payload).unwrap();
    let (map, far) = (copied.copy.unwrap().map, u64::MAX >> 18);
    let copy = format!(
        r#"{{"table": "films", "keys": [1], "values": [7], "copy": {{"map": {map}, "time": {}, "origin": 9}}}}"#,
        far << 16
    );
    let said = node.call("features.upsert", &copy).recv().unwrap();
    assert!(said.contains("30117"), "{said}");
    Status::new(Code::ClockAhead, said)
}

/// Has a copy to another node refused by that one because of its clock.
fn refuse(node: &NodeA, other: &NodeA, call: NodeCall) {
    let outbound = node.service.outbound().unwrap();
    let status = refusal(other, &call.payload);
    let error = NodeError {
        status,
        is_answer: true,
    };
    call.sink.ended(outbound, Instant::now(), Err(error));
}

#[test]
fn a_node_that_is_gone_is_noted_to_miss_what_another_one_refuses_because_of_a_clock() {
    let three = map_of(1, &[("a", "0-1"), ("b", "0-1"), ("c", "0-1")]);
    let [node, other] = ["noting", "refusing"].map(|name| NodeA::start(name, three.clone(), Some(1)));
    let answer = node.call("features.upsert", UPSERT);
    let answer = answered_by(&node, &answer, |call| match &*call.node.name {
        "b" => {
            refuse(&node, &other, call);
            None
        }
        _ => Some(call),
    });
    assert!(answer.contains("ahead of the clock of node"), "{answer}");
    let missed = |name| {
        let now = Instant::now();
        let missed = node.nodes.fresh.ask(name, [].into_iter(), (Duration::ZERO, now));
        missed.len()
    };
    // It has the row by then and "c" would answer an older one; "b" would not take it.
    assert_eq!((missed("c"), missed("b")), (1, 0));
}

#[test]
fn what_a_node_refuses_because_of_a_clock_is_not_acknowledged() {
    let first = map(1, ["0-1", "0-1"]);
    // Both have all keys, and one of them is enough.
    let [node, other] = ["ahead", "behind"].map(|name| NodeA::start(name, first.clone(), Some(1)));
    let answer = node.call("features.upsert", UPSERT);
    let answer = answered_by(&node, &answer, |call| {
        refuse(&node, &other, call);
        None
    });
    for words in [
        "error",
        "30116",
        "ahead of the clock of node",
        "may have the upsert",
    ] {
        assert!(answer.contains(words), "{answer} lacks {words:?}");
    }
}

#[test]
fn what_a_node_takes_or_cannot_be_asked_for_is_acknowledged() {
    let node = NodeA::start("together", map(1, ["0-1", "0-1"]), Some(1));
    let answer = node.call("features.upsert", UPSERT);
    let answer = answered_by(&node, &answer, |call| {
        let mut payload = Vec::new();
        let mut out = millpond_wire_payload::Encoder::new(&mut payload, Encoding::Msgpack, false);
        let taken = schema::Answer {
            sequence: 1,
            durability: "memory".into(),
            replicas: None,
            newer: None,
            wait_ms: None,
        };
        schema::Answer::write(&taken, &mut out);
        let encoding = Encoding::Msgpack;
        let answer = NodeAnswer {
            encoding,
            payload: &payload,
        };
        call.sink
            .ended(node.service.outbound().unwrap(), Instant::now(), Ok(answer));
        None
    });
    assert!(answer.contains("\"replicas\":2"), "{answer}");
    let alone = node.call("features.upsert", UPSERT);
    let answer = answered_by(&node, &alone, Some);
    assert!(answer.contains("\"replicas\":1"), "{answer}");
}
