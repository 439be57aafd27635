//! Callers that reset their connections (SO_LINGER 0) in the middle of everything: calls unanswered, requests half sent.

use crate::front::{Connection, Front};
use crate::scene::Scene;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;
use std::io::Write as _;
use std::time::Duration;

pub(super) fn run(scene: &Scene<'_>, who: u64, count: u32) {
    let mut random = scene.generator(who);
    for _ in 0..count * 4 {
        if scene.is_over() {
            return;
        }
        let front = Front::any(&mut random);
        if let Ok(mut connection) = scene.connect(front, &mut random) {
            leave(&mut connection, &mut random);
        }
        scene.sleep(Duration::from_millis(random.random_range(0..30)));
    }
}

fn leave(connection: &mut Connection, random: &mut StdRng) {
    let calls = random.random_range(0..20);
    let method = if random.random() { "large" } else { "infer" };
    let payload = match method {
        "infer" => json!({"inputs": {"x": {"shape": [1, 1], "type": "f32", "data": [1]}}}),
        _ => json!({}),
    };
    // What the server does about it is seen by the callers beside.
    let _ = connection.send((0..calls).map(|_| (method, payload.clone())));
    if random.random() {
        let _ = connection
            .socket()
            .write_all(b"FPNN\x01\x80\x01\x04\xff\xff\x00\x00");
    }
    for _ in 0..random.random_range(0..=calls) {
        let _ = connection.receive();
    }
    connection.socket().reset();
}
