//! Calls that change nothing, one after the other: the loop of those who make them, and what each was answered.
//!
//! What a good answer says is its caller's to judge. Its invariant: a call is counted once, as what became of it, and an answer that
//! no fault explains is told.

use super::TRY_AGAIN;
use crate::finding::Broken;
use crate::front::{Answer, Came, Connection, Front};
use crate::scene::Scene;
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use std::time::Duration;

/// What became of a call.
pub(super) enum Read {
    Good(Value),
    /// It was told to try again.
    Refused,
    /// The connection cannot go on.
    Over,
}

/// Has `once` make calls until the round is over, on one connection after the other; it says whether the connection can go on.
pub(super) fn repeat(
    scene: &Scene<'_>,
    generator: u64,
    mut once: impl FnMut(&mut Connection, &mut StdRng) -> bool,
) {
    let mut random = scene.generator(generator);
    while !scene.is_over() {
        let front = Front::any(&mut random);
        let Ok(mut connection) = scene.connect(front, &mut random) else {
            scene.sleep(Duration::from_millis(10));
            continue;
        };
        for _ in 0..random.random_range(1..=100) {
            if scene.is_over() || !once(&mut connection, &mut random) {
                break;
            }
        }
    }
}

/// Makes a call; `what` is told of an answer that no fault explains.
pub(super) fn read(
    scene: &Scene<'_>,
    connection: &mut Connection,
    what: &str,
    (method, payload): (&'static str, Value),
) -> Read {
    let front = connection.front();
    Tally::add(&scene.tally.calls, 1);
    let wrong = match connection.call(method, payload) {
        Came::Answer(_, Answer::Good(answer)) => {
            Tally::add(&scene.tally.answered, 1);
            return Read::Good(answer);
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Tally::add(&scene.tally.refused, 1);
            if TRY_AGAIN.contains(&code) {
                return Read::Refused;
            }
            format!("was refused with {code}: {ex}")
        }
        Came::Closed => {
            Tally::add(&scene.tally.closed, 1);
            return Read::Over;
        }
        Came::Nothing => "was never answered".to_owned(),
        Came::Wrong(wrong) => wrong,
    };
    scene.tell(Broken::Answer, format!("{what} over {front}: {wrong}"));
    Read::Over
}
