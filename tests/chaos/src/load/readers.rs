//! Readers: what was acknowledged is seen by all, what was seen stays, and nobody sees half a put.

use super::TRY_AGAIN;
use crate::finding::Broken;
use crate::front::{Answer, Came, Connection, Front};
use crate::ledger::{State, entries};
use crate::scene::Scene;
use crate::tally::Tally;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use std::time::Duration;

/// Reads until the round is over.
pub fn run(scene: &Scene<'_>, number: u64) {
    let mut random = scene.generator(2000 + number);
    while !scene.is_over() {
        let front = Front::any(&mut random);
        let Ok(mut connection) = scene.connect(front, &mut random) else {
            scene.sleep(Duration::from_millis(10));
            continue;
        };
        for _ in 0..100 {
            if scene.is_over() || !look(scene, &mut connection, &mut random) {
                break;
            }
        }
    }
}

/// Looks for the put behind the newest one of a writer that is known to be there, and for that one.
fn look(scene: &Scene<'_>, connection: &mut Connection, random: &mut StdRng) -> bool {
    let writers = scene.ledger.writers();
    let Some(&writer) = writers.choose(random) else {
        scene.sleep(Duration::from_millis(5));
        return true;
    };
    let newest = scene.ledger.newest(writer);
    // The register is read last: whoever sees a part sees it hold this number or a later one.
    let candidate = newest.map_or(0, |newest| newest + 1);
    let wanted = entries(writer, candidate);
    let keys: Vec<&String> = wanted.iter().map(|[key, _]| key).collect();
    Tally::add(&scene.tally.calls, 1);
    match connection.call("ordered.get", json!({"keys": keys})) {
        Came::Answer(_, Answer::Good(answer)) => {
            Tally::add(&scene.tally.answered, 1);
            judge(scene, writer, candidate, newest, &wanted, &answer);
            true
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Tally::add(&scene.tally.refused, 1);
            if !TRY_AGAIN.contains(&code) {
                scene.tell(Broken::Answer, format!("a get was refused with {code}: {ex}"));
            }
            true
        }
        Came::Closed => {
            Tally::add(&scene.tally.closed, 1);
            false
        }
        Came::Nothing => {
            scene.tell(
                Broken::Answer,
                format!("a get over {} was never answered", connection.front()),
            );
            false
        }
        Came::Wrong(wrong) => {
            scene.tell(
                Broken::Answer,
                format!("a get over {}: {wrong}", connection.front()),
            );
            false
        }
    }
}

fn judge(
    scene: &Scene<'_>,
    writer: u64,
    candidate: u64,
    newest: Option<u64>,
    wanted: &[[String; 2]],
    answer: &Value,
) {
    let Some(values) = answer["values"]
        .as_array()
        .filter(|values| values.len() == wanted.len())
    else {
        scene.tell(
            Broken::Answer,
            format!("a get of {} keys was answered {answer}", wanted.len()),
        );
        return;
    };
    let texts: Vec<Option<String>> = values.iter().map(text).collect();
    let (parts, register) = texts.split_at(texts.len() - 1);
    let register: Option<u64> = register
        .first()
        .cloned()
        .flatten()
        .and_then(|text| text.parse().ok());
    if register < newest {
        scene.tell(
            Broken::PutLost,
            format!("the register of writer {writer} shows {register:?} after {newest:?} was acknowledged"),
        );
    }
    // The keys are read in order, and a put is shown as a whole: after the first that is there all are.
    let mut seen = false;
    for (part, [key, value]) in parts.iter().zip(wanted) {
        match part {
            Some(part) if part != value => {
                scene.tell(Broken::PutWrong, format!("{key} shows {part:.60?}"));
            }
            Some(_) => seen = true,
            None if seen => scene.tell(
                Broken::PutWrong,
                format!("{key} is not shown, and a key of the same put is"),
            ),
            None => {}
        }
    }
    if seen {
        if register < Some(candidate) {
            scene.tell(
                Broken::PutWrong,
                format!("put {candidate} of writer {writer} is shown, and its register holds {register:?}"),
            );
        }
        if let Err(error) = scene.ledger.learn(writer, candidate, State::There) {
            scene.tell(Broken::PutWrong, format!("shown to a reader: {error}"));
        }
    }
}

/// The text of a value, which comes as an array of its bytes.
pub(crate) fn text(value: &Value) -> Option<String> {
    let bytes: Option<Vec<u8>> = value
        .as_array()?
        .iter()
        .map(|byte| u8::try_from(byte.as_u64()?).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}
