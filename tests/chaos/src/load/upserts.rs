//! Callers that upsert rows of their own keys, one call after the other, and know what became of each as well as a caller can.

use super::writers::OUTCOME_UNKNOWN;
use super::{DISK, TRY_AGAIN};
use crate::finding::Broken;
use crate::fresh::{keys_of, payload};
use crate::front::{Answer, Came, Connection, Front};
use crate::ledger::State;
use crate::scene::Scene;
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Rows of an upsert at the most.
const ROWS_MAX: usize = 6;

/// Upserts until the round is over.
pub fn run(scene: &Scene<'_>, writer: u64) {
    let mut random = scene.generator(7000 + writer);
    while !scene.is_over() {
        let front = Front::any(&mut random);
        let Ok(mut connection) = scene.connect(front, &mut random) else {
            scene.sleep(Duration::from_millis(10));
            continue;
        };
        for _ in 0..random.random_range(1..200) {
            scene.sleep(Duration::from_millis(random.random_range(0..=scene.pause_ms_max)));
            if scene.is_over() || upsert(scene, &mut connection, writer, &mut random).is_none() {
                break;
            }
        }
    }
}

/// One upsert. The code that it was refused with, 0 where it was taken; nothing where the connection cannot go on.
pub fn upsert(
    scene: &Scene<'_>,
    connection: &mut Connection,
    writer: u64,
    random: &mut StdRng,
) -> Option<u64> {
    let count = random.random_range(1..=ROWS_MAX);
    let (mut rows, mut removed) = (Vec::new(), Vec::new());
    for key in keys_of(writer).sample(random, count) {
        match random.random_ratio(1, 4) {
            true => removed.push(key),
            false => rows.push(key),
        }
    }
    let number = scene.fresh.begin(writer, &rows, &removed);
    let front = connection.front();
    Tally::add(&scene.tally.calls, 1);
    let (state, code) = match connection.call("features.upsert", payload(number, &rows, &removed)) {
        Came::Answer(_, Answer::Good(answer)) => {
            Tally::add(&scene.tally.answered, 1);
            Tally::add(&scene.tally.upserts, 1);
            scene.upserts.fetch_add(1, Ordering::SeqCst);
            check_answer(scene, &answer);
            (State::There, Some(0))
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Tally::add(&scene.tally.refused, 1);
            let is_disk = DISK.contains(&code) && scene.disk_failed.load(Ordering::SeqCst);
            if !TRY_AGAIN.contains(&code) && !is_disk {
                scene.tell(Broken::Answer, format!("an upsert was refused with {code}: {ex}"));
            }
            let state = match code {
                OUTCOME_UNKNOWN => State::Unknown,
                _ => State::Absent,
            };
            (state, Some(code))
        }
        Came::Closed => {
            Tally::add(&scene.tally.closed, 1);
            (State::Unknown, None)
        }
        Came::Nothing => {
            scene.tell(
                Broken::Answer,
                format!("an upsert over {front} was never answered"),
            );
            (State::Unknown, None)
        }
        Came::Wrong(wrong) => {
            scene.tell(Broken::Answer, format!("an upsert over {front}: {wrong}"));
            (State::Unknown, None)
        }
    };
    if state != State::Unknown
        && let Err(error) = scene.fresh.learn(writer, number, state)
    {
        scene.tell(Broken::UpsertWrong, error);
    }
    code
}

fn check_answer(scene: &Scene<'_>, answer: &Value) {
    let sequence = answer["sequence"].as_u64();
    match sequence.filter(|_| answer["durability"] == scene.durability) {
        Some(sequence) => scene.fresh.answered(sequence),
        None => scene.tell(Broken::Answer, format!("an upsert was answered {answer:.200}")),
    }
}
