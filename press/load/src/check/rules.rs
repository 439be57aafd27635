//! What a scenario says of right answers, as TOML gives it.

use serde::Deserialize;

use millpond_press_workload::RandomRows;

/// What a scenario says of right answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// The key of the answer that holds numbers.
    pub field: Option<String>,
    /// As many numbers as this array of the request has elements.
    pub length_of: Option<String>,
    /// The smallest number.
    pub min: f32,
    /// The largest number.
    pub max: f32,
    /// How far a number may lie from the expected one.
    pub tolerance: f32,
    /// The text that every answer must hold.
    pub contains: Option<String>,
    /// Whether every answer to a request must equal the first one to it.
    pub same: bool,
    /// Whether values read must be those that `fill` wrote; so where there is a `fill`, unless it says false.
    pub values: Option<bool>,
    /// Where rows of features are looked up: those that `millpond features random` makes.
    pub rows: Option<RandomRows>,
    /// The part of the answers that is checked.
    pub share: f64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            field: None,
            length_of: None,
            min: 0.0,
            max: 1.0,
            tolerance: 1e-4,
            contains: None,
            same: false,
            values: None,
            rows: None,
            share: 1.0,
        }
    }
}
