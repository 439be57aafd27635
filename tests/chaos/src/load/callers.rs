//! Callers of methods that change nothing: pipelined bursts over every front; each answer is its call's own.

use super::TRY_AGAIN;
use crate::configuration::LARGE_BYTES;
use crate::finding::Broken;
use crate::front::{Answer, Came, Connection, Front};
use crate::scene::Scene;
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// What a call's result has to be.
enum Expected {
    /// The payload itself.
    Same(Value),
    /// A text of this length under "text".
    Text(usize),
    /// One sum, of this number.
    Sum(f64),
    /// A map with the time.
    Time,
}

/// Calls until the round is over.
pub fn run(scene: &Scene<'_>, number: u64) {
    let mut random = scene.generator(3000 + number);
    while !scene.is_over() {
        let front = Front::any(&mut random);
        let Ok(mut connection) = scene.connect(front, &mut random) else {
            scene.sleep(Duration::from_millis(10));
            continue;
        };
        for _ in 0..random.random_range(1..30) {
            if scene.is_over() || !burst(scene, &mut connection, &mut random) {
                break;
            }
        }
    }
}

/// One to sixteen calls in one write, then their answers. Whether the connection can go on.
pub(crate) fn burst(scene: &Scene<'_>, connection: &mut Connection, random: &mut StdRng) -> bool {
    let count = random.random_range(1..=16_u32);
    let (calls, expected): (Vec<_>, Vec<_>) = (0..count).map(|_| call(random)).unzip();
    Tally::add(&scene.tally.calls, u64::from(count));
    let (methods, front) = (
        calls.iter().map(|(method, _)| *method).collect::<Vec<_>>(),
        connection.front(),
    );
    let Ok(first) = connection.send(calls) else {
        Tally::add(&scene.tally.closed, u64::from(count));
        return false;
    };
    let numbers = (0..count).map(|at| first.wrapping_add(at));
    let mut awaited: HashMap<u32, (&str, Expected)> =
        numbers.zip(methods.into_iter().zip(expected)).collect();
    while !awaited.is_empty() {
        match connection.receive() {
            Came::Answer(number, answer) => match awaited.remove(&number) {
                Some((method, expected)) => judge(scene, front, method, &expected, answer),
                None => scene.tell(
                    Broken::Answer,
                    format!("call {number} over {front} was answered late"),
                ),
            },
            Came::Closed => {
                Tally::add(&scene.tally.closed, awaited.len() as u64);
                return false;
            }
            Came::Nothing => {
                let methods: Vec<&str> = awaited.values().map(|(method, _)| *method).collect();
                scene.tell(
                    Broken::Answer,
                    format!("calls over {front} were never answered: {methods:?}"),
                );
                return false;
            }
            Came::Wrong(wrong) => {
                scene.tell(Broken::Answer, format!("over {front}: {wrong}"));
                return false;
            }
        }
    }
    true
}

fn call(random: &mut StdRng) -> ((&'static str, Value), Expected) {
    match random.random_range(0..10) {
        0..6 => {
            let length = random.random_range(0..400);
            let payload = json!({"number": random.random::<u64>(), "text": "e".repeat(length)});
            (("echo", payload.clone()), Expected::Same(payload))
        }
        6 => (("large", json!({})), Expected::Text(LARGE_BYTES)),
        7 => (("*ping", json!({})), Expected::Time),
        _ => {
            let number = random.random_range(0..1000_u32);
            let input = json!({"shape": [1, 1], "type": "f32", "data": [number]});
            (
                ("infer", json!({"inputs": {"x": input}})),
                Expected::Sum(f64::from(number)),
            )
        }
    }
}

fn judge(scene: &Scene<'_>, front: Front, method: &str, expected: &Expected, answer: Answer) {
    match answer {
        Answer::Error(code, ex) => {
            Tally::add(&scene.tally.refused, 1);
            if !TRY_AGAIN.contains(&code) {
                scene.tell(
                    Broken::Answer,
                    format!("{method} over {front} was refused with {code}: {ex}"),
                );
            }
        }
        Answer::Good(answer) => {
            Tally::add(&scene.tally.answered, 1);
            let is_right = match expected {
                Expected::Same(payload) => answer == *payload,
                Expected::Text(length) => answer["text"].as_str().is_some_and(|text| text.len() == *length),
                Expected::Sum(sum) => first_output(&answer) == Some(*sum),
                Expected::Time => answer["ts"].is_u64(),
            };
            if !is_right {
                scene.tell(
                    Broken::Answer,
                    format!("{method} over {front} was answered {answer:.200}"),
                );
            }
        }
    }
}

/// The first number of the output: an array of numbers in JSON, little-endian bytes in msgpack.
fn first_output(answer: &Value) -> Option<f64> {
    let data = answer["outputs"]["y"]["data"].as_array()?;
    match data.as_slice() {
        [number] => number.as_f64(),
        bytes => {
            let bytes: Option<Vec<u8>> = bytes
                .iter()
                .map(|byte| u8::try_from(byte.as_u64()?).ok())
                .collect();
            Some(f64::from(f32::from_le_bytes(bytes?.try_into().ok()?)))
        }
    }
}
