//! Callers that ask for much and read little: a few bytes now and then, or nothing until they leave.

use crate::front::{Connection, Front};
use crate::scene::Scene;
use rand::RngExt;
use serde_json::json;
use std::io::Read as _;
use std::time::{Duration, Instant};

/// Each asks for so much at most: 300 large answers are 18 MB.
const CALLS_MAX: u32 = 300;

pub(super) fn run(scene: &Scene<'_>, who: u64, count: u32) {
    let mut random = scene.generator(who);
    let mut held: Vec<(Connection, bool)> = Vec::new();
    for _ in 0..count {
        let front = Front::any(&mut random);
        let Ok(mut connection) = scene.connect(front, &mut random) else {
            continue;
        };
        let calls = random.random_range(1..CALLS_MAX);
        connection.socket().set_patience(Duration::from_millis(5));
        let _ = connection.send((0..calls).map(|_| ("large", json!({}))));
        held.push((connection, random.random()));
    }
    let until = Instant::now() + Duration::from_millis(random.random_range(500..2500));
    while !scene.is_over() && Instant::now() < until {
        for (connection, _) in held.iter_mut().filter(|(_, reads)| *reads) {
            let mut few = [0; 700];
            let _ = connection.socket().read(&mut few);
        }
        scene.sleep(Duration::from_millis(20));
    }
    for (connection, _) in &mut held {
        if random.random() {
            connection.socket().reset();
        }
    }
}
