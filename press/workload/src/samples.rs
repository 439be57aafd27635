//! Generated requests: each one a field that holds `samples` rows of string features, drawn by popularity.
//!
//! The bodies are compact JSON, `{"samples":[["u12","i7"],…]}`. Its invariant: all requests of a set are different.

use serde::Deserialize;

use crate::ranks::Table;
use crate::requests::Building;
use crate::{BYTES_MAX, Error, Random, RequestSet};

/// Where the strings of one column come from: `prefix` followed by a Zipf id in `1..=ids`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// What stands before the number.
    pub prefix: String,
    /// How many ids there are.
    pub ids: usize,
    /// The exponent of the popularity; 0 is uniform.
    #[serde(default = "classic_exponent")]
    pub zipf: f64,
}

/// A set of requests to generate.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    /// The key of the body that holds the rows.
    #[serde(default = "samples_field")]
    pub field: String,
    /// How many requests.
    pub requests: usize,
    /// Rows of one request.
    pub samples: usize,
    /// The columns of a row.
    pub features: Vec<Feature>,
}

fn classic_exponent() -> f64 {
    1.0
}

fn samples_field() -> String {
    "samples".into()
}

/// A set gives up after this many draws in a row that repeat a request it already has.
const REPEATS_MAX: usize = 1_000;

impl Samples {
    /// Draws the set for `seed`.
    ///
    /// # Errors
    /// A number is zero or out of bounds, the set does not fit in [`BYTES_MAX`], or there are not enough different requests.
    pub fn generate(&self, seed: u64) -> Result<RequestSet, Error> {
        self.check_counts()?;
        let columns = self
            .features
            .iter()
            .map(|feature| {
                let prefix = json_string_inside(&feature.prefix);
                Ok((prefix, Table::new(feature.ids, feature.zipf)?))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let mut random = Random::new(seed);
        let mut building = Building::default();
        let mut body = Vec::new();
        let mut repeats = 0;
        while building.ends.len() < self.requests {
            self.draw(&columns, &mut random, &mut body);
            if building.has(&body) {
                repeats += 1;
                if repeats == REPEATS_MAX {
                    let (found, expected) = (building.ends.len(), self.requests);
                    return Err(Error::new(format!(
                        "the generator found only {found} different requests where {expected} were asked; raise ids or samples, or lower zipf"
                    )));
                }
                continue;
            }
            repeats = 0;
            if building.bytes.len() + body.len() > BYTES_MAX {
                let what = format!("a generated set of {} requests", self.requests);
                return Err(Error::too_large(what));
            }
            building.push(&body);
        }
        Ok(building.finish())
    }

    fn check_counts(&self) -> Result<(), Error> {
        let bad = |key: &str, found: usize, expected: &str| {
            Err(Error::setting(format!("the generator's {key}"), found, expected))
        };
        if self.requests == 0 {
            return bad("requests", 0, "at least 1");
        }
        // The smallest row takes six bytes, `["1"],`; larger counts cannot fit whatever they hold.
        if self.samples == 0 || self.samples > BYTES_MAX / 6 {
            return bad(
                "samples",
                self.samples,
                "at least 1, and no more than fit in memory",
            );
        }
        if self.features.is_empty() {
            return bad("features", 0, "at least one column");
        }
        Ok(())
    }

    fn draw(&self, columns: &[(String, Table)], random: &mut Random, body: &mut Vec<u8>) {
        body.clear();
        body.extend_from_slice(b"{\"");
        body.extend_from_slice(json_string_inside(&self.field).as_bytes());
        body.extend_from_slice(b"\":[");
        for sample in 0..self.samples {
            body.extend_from_slice(if sample == 0 { b"[" } else { b",[" });
            for (column, (prefix, zipf)) in columns.iter().enumerate() {
                body.extend_from_slice(if column == 0 { b"\"" } else { b",\"" });
                body.extend_from_slice(prefix.as_bytes());
                body.extend_from_slice(zipf.draw(random).to_string().as_bytes());
                body.push(b'"');
            }
            body.push(b']');
        }
        body.extend_from_slice(b"]}");
    }
}

/// `text` as it stands between the quotes of a JSON string.
fn json_string_inside(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn samples(requests: usize, rows: usize, ids: usize) -> Samples {
        let feature = |prefix: &str| Feature {
            prefix: prefix.into(),
            ids,
            zipf: 1.0,
        };
        Samples {
            field: "samples".into(),
            requests,
            samples: rows,
            features: vec![feature("u"), feature("i\"")],
        }
    }

    #[test]
    fn the_set_of_r1_is_distinct_and_repeatable() {
        let description = samples(10_000, 15, 20_000);
        let set = description.generate(42).unwrap();
        assert_eq!((set.len(), set.distinct()), (10_000, 10_000));
        let again = description.generate(42).unwrap();
        assert!(set.iter().eq(again.iter()));
        let other = description.generate(43).unwrap();
        assert!(!set.iter().eq(other.iter()));
        for body in set.iter() {
            let value: serde_json::Value = serde_json::from_slice(body).unwrap();
            let rows = value["samples"].as_array().unwrap();
            assert_eq!(rows.len(), 15);
            assert!(rows.iter().all(|row| {
                let row = row.as_array().unwrap();
                row.len() == 2
                    && row[0].as_str().unwrap().starts_with('u')
                    && row[1].as_str().unwrap().starts_with("i\"")
            }));
        }
    }

    /// Goldens: the first request of a seed never changes, or old results could not be run again.
    #[test]
    fn the_first_request_of_a_seed_is_fixed() {
        let set = samples(1, 2, 1_000).generate(1).unwrap();
        assert_eq!(
            String::from_utf8_lossy(set.get(0)),
            r#"{"samples":[["u39","i\"149"],["u805","i\"16"]]}"#
        );
    }

    #[test]
    fn impossible_sets_are_refused() {
        let said = |samples: Samples| samples.generate(1).expect_err("refused").to_string();
        assert!(said(samples(0, 15, 10)).contains("requests is 0"));
        assert!(said(samples(10, 0, 10)).contains("samples is 0"));
        assert!(said(samples(10, 1, 0)).contains("ids is 0"));
        // Two columns of two ids give four requests.
        assert!(said(samples(5, 1, 2)).contains("only 4 different requests where 5"));
        assert!(said(samples(10, usize::MAX, 2)).contains("samples is"));
    }
}
