//! A mix of operations: requests drawn ahead of a run by weight, with the keys each of them holds.
//!
//! Its invariant: request `i` depends on the seed, the description and `i` alone, but for keys inserted by earlier writes
//! under `latest`.

use crate::requests::Building;
use crate::weights::{check_weights, choose};
use crate::{BYTES_MAX, Draw, Error, Keys, Random, RequestSet, Sizes, Template};

/// One kind of request of a mix.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// How results name it.
    pub name: String,
    /// Its share is this over the sum of all weights; finite, 0 or more.
    pub weight: f64,
    /// Whether it writes: under `latest` its keys are new ones.
    pub writes: bool,
    /// The parts of a request, such as a path and a body; at least one.
    pub parts: Vec<Template>,
}

/// The requests of a mix.
#[derive(Debug, Clone)]
pub struct Mixed {
    /// The requests: the parts of each, joined by line feeds. A template may hold line feeds itself, so only the last
    /// part should when the parts are to be told apart again.
    pub requests: RequestSet,
    /// For each request the index of its operation.
    pub operation_of: Vec<u16>,
    /// The keys of all requests, one request after the other.
    keys: Vec<u64>,
    /// Where the keys of each request end; the next ones begin there.
    key_ends: Vec<usize>,
}

impl Mixed {
    /// The keys request `index` holds, in order, so that its answer can be checked against
    /// [`value_of`](crate::value_of); empty when it holds none or there is no such request.
    pub fn keys_of(&self, index: usize) -> &[u64] {
        let Some(&end) = self.key_ends.get(index) else {
            return &[];
        };
        let start = if index == 0 { 0 } else { self.key_ends[index - 1] };
        &self.keys[start..end]
    }

    /// Keys of a request, the mean; nothing where requests hold none.
    pub fn keys_mean(&self) -> Option<f64> {
        (!self.keys.is_empty()).then(|| self.keys.len() as f64 / self.requests.len() as f64)
    }

    /// One more than the largest key of all requests: under `latest` that is beyond the keys there were at the start.
    pub fn keys_end(&self) -> u64 {
        self.keys.iter().max().map_or(0, |key| key + 1)
    }
}

/// The most requests of one mix, so that their indexes stay within the bound on memory too.
const COUNT_MAX: usize = BYTES_MAX / size_of::<usize>();

/// Draws `count` requests by the weights of `operations`.
///
/// Keys come from `keys`, which keeps what was inserted: a second call goes on from there. Values are
/// [`value_of`](crate::value_of) `seed`, so a store filled with the same seed and sizes answers with the same ones.
///
/// # Errors
/// `count` is 0, there is no operation or more than 65,535, one has no part, a weight is negative or not finite, all are
/// 0, a size is impossible, or the bodies or the keys need more than [`BYTES_MAX`] bytes.
pub fn mix(
    seed: u64,
    count: usize,
    operations: &[Operation],
    keys: &mut Keys,
    sizes: &Sizes,
) -> Result<Mixed, Error> {
    check(operations, sizes)?;
    let what = format!("a mix of {count} requests");
    let too_large = || Error::too_large(&what);
    if count > COUNT_MAX {
        return Err(too_large());
    }
    let mut building = Building::default();
    let mut mixed_keys = Vec::new();
    let mut key_ends = Vec::with_capacity(count);
    let mut operation_of = Vec::with_capacity(count);
    let mut choices = Random::of(seed, b"choosing", 0);
    let mut draw = Draw::new(seed, keys, sizes);
    let mut body = Vec::new();
    for seq in 0..count as u64 {
        let chosen = choose(operations.iter().map(|operation| operation.weight), &mut choices);
        let operation = &operations[chosen];
        draw.begin(seq, operation.writes);
        body.clear();
        render_parts(&operation.parts, &mut draw, &mut body);
        building.push_bounded(&what, &body)?;
        mixed_keys.extend_from_slice(draw.keys());
        if mixed_keys.len() > BYTES_MAX / size_of::<u64>() {
            return Err(too_large());
        }
        key_ends.push(mixed_keys.len());
        operation_of.push(chosen as u16);
    }
    Ok(Mixed {
        requests: building.finish_filled(&what)?,
        operation_of,
        keys: mixed_keys,
        key_ends,
    })
}

/// Appends the parts of a request, joined by line feeds.
pub(crate) fn render_parts(parts: &[Template], draw: &mut Draw, body: &mut Vec<u8>) {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            body.push(b'\n');
        }
        part.render(draw, body);
    }
}

fn check(operations: &[Operation], sizes: &Sizes) -> Result<(), Error> {
    sizes.check()?;
    if operations.is_empty() || operations.len() > usize::from(u16::MAX) {
        return Err(Error::setting(
            "the number of operations",
            operations.len(),
            "1 to 65535",
        ));
    }
    for operation in operations {
        let Operation { name, weight, .. } = operation;
        if !weight.is_finite() || *weight < 0.0 {
            let key = format!("the weight of operation \"{name}\"");
            return Err(Error::setting(key, weight, "a finite number of 0 or more"));
        }
        if operation.parts.is_empty() {
            let key = format!("the number of parts of operation \"{name}\"");
            return Err(Error::setting(key, 0, "at least one template"));
        }
    }
    let weights = operations.iter().map(|operation| operation.weight);
    check_weights("the mix of operations", weights)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Popularity, value_of};

    fn operation(name: &str, weight: f64, writes: bool, parts: &[&str]) -> Operation {
        Operation {
            name: name.into(),
            weight,
            writes,
            parts: parts.iter().map(|part| Template::parse(part).unwrap()).collect(),
        }
    }

    fn read_and_write() -> [Operation; 2] {
        [
            operation("read", 0.9, false, &["GET /{key}", "{keys 3}"]),
            operation("write", 0.1, true, &["PUT /{key}", r#"{"v":"{value}"}"#]),
        ]
    }

    fn mixed(seed: u64, count: usize, popularity: &Popularity) -> Mixed {
        let mut keys = Keys::new(500, popularity).unwrap();
        let sizes = Sizes::Uniform(5, 9);
        mix(seed, count, &read_and_write(), &mut keys, &sizes).unwrap()
    }

    #[test]
    fn a_mix_has_its_weights_and_tells_its_keys() {
        let mixed = mixed(4, 10_000, &Popularity::Zipf(0.99));
        assert_eq!((mixed.requests.len(), mixed.operation_of.len()), (10_000, 10_000));
        let writes = mixed.operation_of.iter().filter(|&&index| index == 1).count();
        assert!(writes.abs_diff(1_000) < 150, "{writes}");
        for (index, body) in mixed.requests.iter().enumerate() {
            let keys = mixed.keys_of(index);
            let expected = if mixed.operation_of[index] == 0 {
                assert_eq!(keys.len(), 3);
                format!("GET /{}\n{} {} {}", keys[0], keys[0], keys[1], keys[2])
            } else {
                assert_eq!(keys.len(), 1);
                let mut value = Vec::new();
                value_of(4, keys[0], &Sizes::Uniform(5, 9), &mut value);
                let value = String::from_utf8(value).unwrap();
                format!("PUT /{}\n{{\"v\":\"{value}\"}}", keys[0])
            };
            assert_eq!(String::from_utf8_lossy(body), expected);
            assert!(keys.iter().all(|&key| key < 500));
        }
        assert!(mixed.keys_of(10_000).is_empty());
        let held: usize = (0..10_000).map(|index| mixed.keys_of(index).len()).sum();
        assert_eq!(mixed.keys_mean(), Some(held as f64 / 10_000.0));
    }

    #[test]
    fn a_mix_depends_on_its_seed_and_its_start_not_on_its_count() {
        let bodies = |seed, count| {
            let mixed = mixed(seed, count, &Popularity::Latest(0.99));
            mixed.requests.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        assert_eq!(bodies(1, 300), bodies(1, 300));
        assert_eq!(bodies(1, 300), bodies(1, 600)[..300]);
        assert_ne!(bodies(1, 300), bodies(2, 300));
    }

    #[test]
    fn writes_insert_under_latest() {
        let mixed = mixed(4, 5_000, &Popularity::Latest(0.99));
        let mut newest = 499;
        let writes = mixed
            .operation_of
            .iter()
            .filter(|&&operation| operation == 1)
            .count();
        assert_eq!(mixed.keys_end(), 500 + writes as u64);
        for index in 0..5_000 {
            let keys = mixed.keys_of(index);
            if mixed.operation_of[index] == 1 {
                newest += 1;
                assert_eq!(keys, [newest]);
            } else {
                assert!(keys.iter().all(|&key| key <= newest));
            }
        }
        assert!(newest > 800);
    }

    /// A golden: the first requests of a seed never change, or old results could not be run again.
    #[test]
    fn the_first_requests_of_a_seed_are_fixed() {
        let mixed = mixed(1, 2, &Popularity::Zipf(0.99));
        assert_eq!(
            String::from_utf8_lossy(mixed.requests.get(0)),
            "GET /214\n214 427 339"
        );
    }

    #[test]
    fn impossible_mixes_are_refused() {
        let refused = |count, operations: &[Operation], sizes: Sizes| {
            let mut keys = Keys::new(10, &Popularity::Uniform).unwrap();
            mix(1, count, operations, &mut keys, &sizes)
                .expect_err("refused")
                .to_string()
        };
        let said = |operations: &[Operation]| refused(10, operations, Sizes::default());
        let one = |weight, parts: &[&str]| operation("read", weight, false, parts);
        assert!(said(&[]).contains("the number of operations is 0"));
        assert!(said(&[one(-1.0, &["x"])]).contains("the weight of operation \"read\" is -1"));
        assert!(said(&[one(0.0, &["x"])]).contains("a sum of weights of 0"));
        assert!(said(&[one(1.0, &[])]).contains("at least one template"));
        let fine = [one(1.0, &["x"])];
        assert!(refused(0, &fine, Sizes::default()).contains("a mix of 0 requests holds no request"));
        assert!(refused(usize::MAX, &fine, Sizes::default()).contains("needs more than"));
        assert!(refused(1, &fine, Sizes::Constant(usize::MAX)).contains("sizes is"));
        let large = [one(1.0, &[&"{value}".repeat(100)])];
        assert!(refused(1, &large, Sizes::Constant(crate::SIZE_MAX)).contains("needs more than"));
    }
}
