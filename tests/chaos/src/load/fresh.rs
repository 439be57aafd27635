//! Lookups of fresh rows while they are upserted and folded: what was acknowledged is seen by all, and what was seen stays.

use super::reads::{Read, repeat};
use crate::finding::Broken;
use crate::fresh::{NAME, keys_of};
use crate::front::Connection;
use crate::invariant::fresh::read;
use crate::scene::Scene;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;
use std::time::Duration;

/// Looks until the round is over.
pub fn run(scene: &Scene<'_>) {
    repeat(scene, 7100, |connection, random| {
        scene.sleep(Duration::from_millis(random.random_range(0..=scene.pause_ms_max)));
        look_up(scene, connection, random)
    });
}

/// All keys of a writer. Whether the connection can go on.
fn look_up(scene: &Scene<'_>, connection: &mut Connection, random: &mut StdRng) -> bool {
    const WHAT: &str = "a lookup of fresh rows";
    let writer = random.random_range(0..scene.upserters);
    let keys: Vec<u64> = keys_of(writer).collect();
    let (front, before) = (connection.front(), scene.fresh.before(writer, &keys));
    let call = ("features.lookup", json!({"table": NAME, "keys": keys}));
    let answer = match super::reads::read(scene, connection, WHAT, call) {
        Read::Good(answer) => answer,
        Read::Refused => return true,
        Read::Over => return false,
    };
    let judged = match read(&keys, &answer) {
        Ok((shown, sequence)) => scene.fresh.judge(writer, &keys, &before, (&shown, sequence)),
        Err(wrong) => Err((Broken::UpsertWrong, wrong)),
    };
    if let Err((broken, wrong)) = judged {
        scene.tell(broken, format!("{WHAT} over {front}: {wrong}"));
    }
    true
}
