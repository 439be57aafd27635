//! Lookups in the feature table while its versions switch: each answer is of one version, which may serve, and whole.

use super::reads::{Read, read, repeat};
use crate::finding::Broken;
use crate::front::Connection;
use crate::scene::Scene;
use crate::table::{DIM, KEYS, NAME};
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::time::Duration;

/// Looks keys up until the round is over.
pub fn run(scene: &Scene<'_>, number: u64) {
    repeat(scene, 4000 + number, |connection, random| {
        let can_go_on = look_up(scene, connection, random);
        scene.sleep(Duration::from_millis(random.random_range(0..=scene.pause_ms_max)));
        can_go_on
    });
}

/// One lookup. Whether the connection can go on.
fn look_up(scene: &Scene<'_>, connection: &mut Connection, random: &mut StdRng) -> bool {
    const WHAT: &str = "a lookup";
    let count = random.random_range(1..40);
    let keys: Vec<u64> = (0..count).map(|_| random.random_range(0..KEYS + 20)).collect();
    let (front, before) = (connection.front(), scene.served.before());
    let call = ("features.lookup", json!({"table": NAME, "keys": keys}));
    let answer = match read(scene, connection, WHAT, call) {
        Read::Good(answer) => answer,
        Read::Refused => return true,
        Read::Over => return false,
    };
    Tally::add(&scene.tally.lookups, 1);
    let version = answer["version"].as_u64().unwrap_or_default();
    if let Err(wrong) = judge(&keys, &answer) {
        scene.tell(Broken::Version, format!("{WHAT} over {front}: {wrong}"));
    } else if !scene.served.may_serve(&before, version) {
        let seen = format!("version {version} answered {WHAT} over {front}; it was {before:?}");
        scene.tell(Broken::Version, seen);
    }
    true
}

/// Whether these are the rows of those keys, all of the version that the answer names.
fn judge(keys: &[u64], answer: &Value) -> Result<(), String> {
    let version = answer["version"].as_u64().ok_or("no version")?;
    let found = bytes(&answer["found"]).ok_or("no found bits")?;
    let values = floats(&answer["values"], keys.len() * DIM).ok_or("not as many numbers as asked for")?;
    for (at, (key, row)) in keys.iter().zip(values.chunks(DIM)).enumerate() {
        let is_found = found.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
        let expected = match *key < KEYS {
            true => [version as f32, *key as f32],
            false => [0.0; DIM],
        };
        if is_found != (*key < KEYS) || row != expected {
            return Err(format!(
                "key {key} of version {version} has {row:?}, found: {is_found}"
            ));
        }
    }
    Ok(())
}

pub(crate) fn bytes(value: &Value) -> Option<Vec<u8>> {
    let byte = |number: &Value| u8::try_from(number.as_u64()?).ok();
    value.as_array()?.iter().map(byte).collect()
}

/// So many numbers: numbers in JSON, little-endian bytes in msgpack.
pub(crate) fn floats(value: &Value, count: usize) -> Option<Vec<f32>> {
    let numbers = value.as_array()?;
    if numbers.len() == count {
        return numbers
            .iter()
            .map(|number| Some(number.as_f64()? as f32))
            .collect();
    }
    let bytes = bytes(value).filter(|bytes| bytes.len() == 4 * count)?;
    let (words, _) = bytes.as_chunks();
    Some(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_mixes_versions_or_keys_is_seen() {
        let check = |found: u8, values: Value, expected: bool| {
            let answer = json!({"version": 2, "found": [found], "values": values});
            assert_eq!(judge(&[7, KEYS], &answer).is_ok(), expected, "{answer}");
        };
        check(1, json!([2.0, 7.0, 0.0, 0.0]), true);
        check(1, json!([1.0, 7.0, 0.0, 0.0]), false);
        check(1, json!([2.0, 8.0, 0.0, 0.0]), false);
        check(3, json!([2.0, 7.0, 0.0, 0.0]), false);
        check(0, json!([2.0, 7.0, 0.0, 0.0]), false);
        check(1, json!([2.0, 7.0]), false);
        let bytes: Vec<u8> = [2.0, 7.0, 0.0, 0.0_f32]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        check(1, json!(bytes), true);
    }
}
