//! What a scenario says of right answers, as TOML gives it.

use serde::Deserialize;

use crate::RandomRows;

/// What a scenario says of right answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The key of the answer that holds numbers.
    pub field: Option<String>,
    /// As many numbers as this array of the request has elements.
    pub length_of: Option<String>,
    /// The smallest number.
    #[serde(default)]
    pub min: f32,
    /// The largest number.
    #[serde(default = "score_max")]
    pub max: f32,
    /// How far a number may lie from the expected one.
    #[serde(default = "tolerance")]
    pub tolerance: f32,
    /// The text that every answer must hold.
    pub contains: Option<String>,
    /// Whether every answer to a request must equal the first one to it.
    #[serde(default)]
    pub same: bool,
    /// Whether values read must be those that `fill` wrote; so where there is a `fill`, unless it says false.
    pub values: Option<bool>,
    /// Where rows of features are looked up: those that `millpond features random` makes.
    pub rows: Option<RandomRows>,
    /// The part of the answers that is checked.
    #[serde(default = "share")]
    pub share: f64,
}

fn score_max() -> f32 {
    1.0
}
fn tolerance() -> f32 {
    1e-4
}
fn share() -> f64 {
    1.0
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            field: None,
            length_of: None,
            min: 0.0,
            max: score_max(),
            tolerance: tolerance(),
            contains: None,
            same: false,
            values: None,
            rows: None,
            share: share(),
        }
    }
}
