//! The requests that load a store before a run: every key once, in order.
//!
//! Its invariant: each key of the range is in exactly one request, with the value [`value_of`](crate::value_of) gives it.

use std::ops::Range;

use crate::mix::render_parts;
use crate::requests::Building;
use crate::{Draw, Error, RequestSet, Sizes, Template};

/// One request for each of `keys`, or for each next `n` of them when the parts hold `{keys n}` (the last may hold fewer).
///
/// The parts of a request are joined by line feeds, as in a [`mix`](crate::mix()). `{seq}` counts from the key 0, so a
/// large store can be filled range by range, each beginning at a multiple of `n`.
///
/// # Errors
/// The range is empty, no part holds a key, the parts ask for different numbers of keys, `{value}` stands beside several
/// keys, a size is impossible, or the set needs more than [`BYTES_MAX`](crate::BYTES_MAX) bytes: fill a shorter range.
pub fn fill(seed: u64, keys: Range<u64>, parts: &[Template], sizes: &Sizes) -> Result<RequestSet, Error> {
    sizes.check()?;
    let each = keys_each(parts)?;
    let what = format!("a fill of the keys {} to {}", keys.start, keys.end);
    let mut building = Building::default();
    let mut draw = Draw::given(seed, sizes);
    let mut body = Vec::new();
    let mut first = keys.start;
    while first < keys.end {
        let end = first.saturating_add(each).min(keys.end);
        draw.begin_with(first / each, first..end);
        body.clear();
        render_parts(parts, &mut draw, &mut body);
        building.push_bounded(&what, &body)?;
        first = end;
    }
    building.finish_filled(&what)
}

/// How many keys a request of these parts covers.
fn keys_each(parts: &[Template]) -> Result<u64, Error> {
    let key = "the template of a fill";
    let each = parts.iter().map(Template::keys_each).max().unwrap_or(0);
    if each == 0 {
        let expected = "{key} or {keys 50} in it, or every request would be the same";
        return Err(Error::setting(key, "without a key", expected));
    }
    if let Some(other) = parts
        .iter()
        .flat_map(Template::key_counts)
        .find(|&count| count != each)
    {
        let found = format!("one with {{keys {each}}} and {{keys {other}}}");
        let expected = "the same number everywhere, or keys would be left out";
        return Err(Error::setting(key, found, expected));
    }
    if each > 1 && parts.iter().any(Template::has_value_of_first) {
        let found = format!("one with {{keys {each}}} and {{value}}");
        let expected = "{value} beside {key}, or both in {repeat 50}: it is the value of one key";
        return Err(Error::setting(key, found, expected));
    }
    Ok(each as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::value_of;

    fn run(keys: Range<u64>, parts: &[&str]) -> Result<Vec<String>, Error> {
        let parts: Vec<Template> = parts.iter().map(|part| Template::parse(part).unwrap()).collect();
        let set = fill(3, keys, &parts, &Sizes::Uniform(5, 9))?;
        Ok(set
            .iter()
            .map(|body| String::from_utf8(body.to_vec()).unwrap())
            .collect())
    }

    #[test]
    fn every_key_comes_once_with_its_value() {
        let bodies = run(10..13, &["PUT /{key:04}", "{value}"]).unwrap();
        let expected = (10..13).map(|key| {
            let mut value = Vec::new();
            value_of(3, key, &Sizes::Uniform(5, 9), &mut value);
            format!("PUT /{key:04}\n{}", String::from_utf8(value).unwrap())
        });
        assert!(bodies.into_iter().eq(expected));
    }

    #[test]
    fn keys_go_in_batches_and_ranges_go_on() {
        let whole = run(0..7, &["{seq}: {keys 3 ,}"]).unwrap();
        assert_eq!(whole, ["0: 0,1,2", "1: 3,4,5", "2: 6"]);
        let mut chunks = run(0..3, &["{seq}: {keys 3 ,}"]).unwrap();
        chunks.extend(run(3..7, &["{seq}: {keys 3 ,}"]).unwrap());
        assert_eq!(chunks, whole);
    }

    #[test]
    fn a_repeat_writes_each_key_with_its_own_value() {
        let bodies = run(0..5, &["batch {repeat 3}put {key} {value}{end}"]).unwrap();
        let expected = |keys: Range<u64>| {
            let words = keys.map(|key| {
                let mut value = Vec::new();
                value_of(3, key, &Sizes::Uniform(5, 9), &mut value);
                format!(" put {key} {}", String::from_utf8(value).unwrap())
            });
            format!("batch{}", words.collect::<String>())
        };
        assert_eq!(bodies, [expected(0..3), expected(3..5)]);
        let refused = run(0..5, &["{repeat 3}{key}{end}", "{keys 5}"]).expect_err("refused");
        assert!(
            refused.to_string().contains("{keys 3} and {keys 5}")
                || refused.to_string().contains("{keys 5} and {keys 3}")
        );
    }

    #[test]
    fn impossible_fills_are_refused() {
        let said = |parts: &[&str]| run(0..10, parts).expect_err("refused").to_string();
        assert!(said(&["PUT {seq}"]).contains("without a key"));
        assert!(said(&[]).contains("without a key"));
        assert!(said(&["{keys 5}", "{keys 3}"]).contains("{keys 5} and {keys 3}"));
        assert!(said(&["{keys 5} {value}"]).contains("{keys 5} and {value}"));
        let empty = run(5..5, &["{key}"]).expect_err("refused").to_string();
        assert!(
            empty.contains("a fill of the keys 5 to 5 holds no request"),
            "{empty}"
        );
    }
}
