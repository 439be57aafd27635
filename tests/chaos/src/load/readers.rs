//! Readers: what was acknowledged is seen by all, what was seen stays, and nobody sees half a put.

use super::reads::{Read, read, repeat};
use crate::finding::Broken;
use crate::front::Connection;
use crate::ledger::{State, entries};
use crate::scene::Scene;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use std::time::Duration;

/// Reads until the round is over.
pub fn run(scene: &Scene<'_>, number: u64) {
    repeat(scene, 2000 + number, |connection, random| {
        look(scene, connection, random)
    });
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
    let call = ("ordered.get", json!({"keys": keys}));
    match read(scene, connection, "a get", call) {
        Read::Good(answer) => {
            judge(scene, writer, candidate, newest, &wanted, &answer);
            true
        }
        Read::Refused => true,
        Read::Over => false,
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
