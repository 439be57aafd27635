//! Lookups of fresh rows while they are upserted and folded: what was acknowledged is seen by all, and what was seen stays.

use super::TRY_AGAIN;
use crate::finding::Broken;
use crate::fresh::{NAME, keys_of};
use crate::front::{Answer, Came, Connection, Front};
use crate::invariant::fresh::read;
use crate::scene::Scene;
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;
use std::time::Duration;

/// Looks until the round is over.
pub fn run(scene: &Scene<'_>) {
    let mut random = scene.generator(7100);
    while !scene.is_over() {
        let front = Front::any(&mut random);
        let Ok(mut connection) = scene.connect(front, &mut random) else {
            scene.sleep(Duration::from_millis(10));
            continue;
        };
        for _ in 0..100 {
            scene.sleep(Duration::from_millis(random.random_range(0..=scene.pause_ms_max)));
            if scene.is_over() || !look_up(scene, &mut connection, &mut random) {
                break;
            }
        }
    }
}

/// All keys of a writer. Whether the connection can go on.
fn look_up(scene: &Scene<'_>, connection: &mut Connection, random: &mut StdRng) -> bool {
    let writer = random.random_range(0..scene.upserters);
    let keys: Vec<u64> = keys_of(writer).collect();
    let (front, before) = (connection.front(), scene.fresh.before(writer, &keys));
    Tally::add(&scene.tally.calls, 1);
    let wrong = match connection.call("features.lookup", json!({"table": NAME, "keys": keys})) {
        Came::Answer(_, Answer::Good(answer)) => {
            Tally::add(&scene.tally.answered, 1);
            let judged = match read(&keys, &answer) {
                Ok((shown, sequence)) => scene.fresh.judge(writer, &keys, &before, (&shown, sequence)),
                Err(wrong) => Err((Broken::UpsertWrong, wrong)),
            };
            if let Err((broken, wrong)) = judged {
                scene.tell(broken, format!("a lookup of fresh rows over {front}: {wrong}"));
            }
            return true;
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Tally::add(&scene.tally.refused, 1);
            if TRY_AGAIN.contains(&code) {
                return true;
            }
            format!("was refused with {code}: {ex}")
        }
        Came::Closed => {
            Tally::add(&scene.tally.closed, 1);
            return false;
        }
        Came::Nothing => "was never answered".to_owned(),
        Came::Wrong(wrong) => wrong,
    };
    scene.tell(
        Broken::Answer,
        format!("a lookup of fresh rows over {front}: {wrong}"),
    );
    false
}
