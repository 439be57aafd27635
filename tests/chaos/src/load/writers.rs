//! Writers: each puts one after the other, and knows what became of each put as well as a caller can.

use super::{DISK, TRY_AGAIN};
use crate::finding::Broken;
use crate::front::{Answer, Came, Connection, Front};
use crate::ledger::{State, entries};
use crate::scene::Scene;
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Answers to a put after which nobody knows whether it was written.
pub(super) const OUTCOME_UNKNOWN: u64 = 30113;
const CONFLICT: u64 = 30112;

/// Puts until the round is over.
pub fn run(scene: &Scene<'_>, writer: u64) {
    let mut random = scene.generator(1000 + writer);
    while !scene.is_over() {
        let front = Front::any(&mut random);
        match scene.connect(front, &mut random) {
            Ok(mut connection) => {
                let puts = random.random_range(1..200);
                for _ in 0..puts {
                    scene.sleep(Duration::from_millis(random.random_range(0..=scene.pause_ms_max)));
                    if scene.is_over() || !put(scene, &mut connection, writer, &mut random) {
                        break;
                    }
                }
            }
            Err(_) => scene.sleep(Duration::from_millis(10)),
        }
    }
}

/// One put, or one that must meet a conflict. Whether the connection can go on.
fn put(scene: &Scene<'_>, connection: &mut Connection, writer: u64, random: &mut StdRng) -> bool {
    Tally::add(&scene.tally.calls, 1);
    if random.random_ratio(1, 10)
        && let Some(newest) = scene.ledger.newest(writer)
    {
        let again = json!({"entries": entries(writer, newest), "if_absent": true});
        return conflict(scene, connection, again);
    }
    let number = scene.ledger.begin(writer);
    let is_batch = random.random_ratio(1, 3);
    let came = match is_batch {
        true => connection.call("ordered.batch", json!({"operations": operations(writer, number)})),
        false => connection.call("ordered.put", json!({"entries": entries(writer, number)})),
    };
    let front = connection.front();
    let (state, goes_on) = match came {
        Came::Answer(_, Answer::Good(answer)) => {
            Tally::add(&scene.tally.answered, 1);
            Tally::add(&scene.tally.puts, 1);
            scene.puts.fetch_add(1, Ordering::SeqCst);
            check_answer(scene, &answer, is_batch);
            (State::There, true)
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Tally::add(&scene.tally.refused, 1);
            explain(scene, code, &ex);
            let state = if code == OUTCOME_UNKNOWN {
                State::Unknown
            } else {
                State::Absent
            };
            (state, true)
        }
        Came::Closed => {
            Tally::add(&scene.tally.closed, 1);
            (State::Unknown, false)
        }
        Came::Nothing => {
            scene.tell(Broken::Answer, format!("a put over {front} was never answered"));
            (State::Unknown, false)
        }
        Came::Wrong(wrong) => {
            scene.tell(Broken::Answer, format!("a put over {front}: {wrong}"));
            (State::Unknown, false)
        }
    };
    if let (true, Err(error)) = (state != State::Unknown, scene.ledger.learn(writer, number, state)) {
        scene.tell(Broken::PutWrong, error);
    }
    goes_on
}

/// The entries of a put as a batch, which removes a key that nobody has, writes each value in two parts, and reads its last entry.
fn operations(writer: u64, number: u64) -> Vec<Value> {
    let entries = entries(writer, number);
    let last = entries.last().map(|[key, _]| json!(["get", key]));
    let puts = entries.iter().flat_map(|[key, value]| {
        let (begin, end) = value.split_at_checked(1).unwrap_or((value, ""));
        [json!(["put", key, begin]), json!(["concatenate", key, end])]
    });
    let removal = json!(["remove", format!("none/{writer}")]);
    [removal].into_iter().chain(puts).chain(last).collect()
}

fn check_answer(scene: &Scene<'_>, answer: &Value, is_batch: bool) {
    let is_right = match (
        is_batch,
        answer["versions"].as_array(),
        answer["results"].as_array(),
    ) {
        (false, Some(versions), _) => versions.len() == 4,
        (true, _, Some(results)) => match results.as_slice() {
            [removed, puts @ .., read] => {
                *removed == json!(false)
                    && puts.len() == 8
                    && puts.iter().all(Value::is_u64)
                    && !read.is_null()
            }
            _ => false,
        },
        _ => false,
    };
    if !is_right || answer["durability"] != "synced" {
        scene.tell(
            Broken::Answer,
            format!("a put of four keys was answered {answer}"),
        );
    }
}

/// An error that nothing in this round explains is a finding.
fn explain(scene: &Scene<'_>, code: u64, ex: &str) {
    let is_disk = DISK.contains(&code) && scene.disk_failed.load(Ordering::SeqCst);
    if !TRY_AGAIN.contains(&code) && !is_disk {
        scene.tell(Broken::Answer, format!("a put was refused with {code}: {ex}"));
    }
}

/// The same keys again, only if they are absent: they are not.
fn conflict(scene: &Scene<'_>, connection: &mut Connection, again: Value) -> bool {
    match connection.call("ordered.put", again) {
        Came::Answer(_, Answer::Error(CONFLICT, _)) => {
            Tally::add(&scene.tally.answered, 1);
            true
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Tally::add(&scene.tally.refused, 1);
            explain(scene, code, &ex);
            true
        }
        Came::Answer(_, Answer::Good(answer)) => {
            scene.tell(
                Broken::PutLost,
                format!("keys that were acknowledged were absent to if_absent: {answer}"),
            );
            false
        }
        Came::Closed => {
            Tally::add(&scene.tally.closed, 1);
            false
        }
        Came::Nothing => {
            scene.tell(Broken::Answer, "a put with if_absent was never answered");
            false
        }
        Came::Wrong(wrong) => {
            scene.tell(Broken::Answer, format!("a put with if_absent: {wrong}"));
            false
        }
    }
}
