//! A number of a stage's description. Its invariant: it is finite.

use serde::Deserialize;

/// A float that a configuration may hold.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Number(pub(crate) f32);

/// Finite numbers are equal to themselves.
impl Eq for Number {}

impl TryFrom<f64> for Number {
    type Error = String;

    fn try_from(number: f64) -> Result<Number, String> {
        let short = number as f32;
        match short.is_finite() {
            true => Ok(Number(short)),
            false => Err(format!("{number} is no finite number of 32 bits")),
        }
    }
}
