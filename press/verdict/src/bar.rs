//! What a bar is: a figure, a comparison and a limit, under a name that stays; and whether the figures it was made of decide it.
//!
//! Its invariant: a figure that is no number passes nothing.

mod conditions;
mod decision;
mod formula;
mod series;

pub use conditions::{Conditions, Standing};
pub use decision::{Decision, PAIRS_MIN};
use decision::{decide, decide_upper_end, interval};
pub use formula::{Formula, Measured, MetricOf, Value};
pub use series::{Figure, Series};

use std::fmt;

use millpond_press_recorder::Interval;
use serde::{Deserialize, Serialize};

/// How a figure is held against its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// It is not below the limit.
    #[serde(rename = ">=")]
    AtLeast,
    /// It is not above the limit.
    #[serde(rename = "<=")]
    AtMost,
    /// It is the limit.
    #[serde(rename = "==")]
    Equal,
}

/// One promise.
#[derive(Debug, Clone, Copy)]
pub struct Bar<'n> {
    /// Ends in its unit or in what it is a ratio of.
    pub name: &'n str,
    /// Which side of the limit is good.
    pub op: Op,
    /// What its figure is held against.
    pub limit: f64,
}

impl<'n> Bar<'n> {
    /// A bar of this name.
    pub const fn new(name: &'n str, op: Op, limit: f64) -> Bar<'n> {
        Bar { name, op, limit }
    }

    /// Whether a figure is on the good side.
    pub fn passes(&self, value: f64) -> bool {
        match self.op {
            Op::AtLeast => value >= self.limit,
            Op::AtMost => value <= self.limit,
            Op::Equal => value == self.limit,
        }
    }

    /// The line that programs read: `bar NAME VALUE OP LIMIT pass|fail|noisy`.
    pub fn line(&self, value: f64, decision: Decision) -> String {
        let (name, op) = (self.name, self.op);
        format!(
            "bar {name} {} {op} {} {decision}",
            figure(value),
            figure(self.limit)
        )
    }
}

/// A bar with what its figure came to.
#[derive(Debug, Clone, Serialize)]
pub struct BarOutcome {
    /// The bar's name.
    pub name: String,
    /// Nothing where it could not be measured.
    pub value: Option<f64>,
    /// Which side of the limit is good.
    pub op: Op,
    /// What the value is held against.
    pub limit: f64,
    /// What the value says.
    #[serde(rename = "verdict")]
    pub decision: Decision,
    /// Of a ratio of two loads in turns: the interval of its pairs that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// What the value was made of, run by run.
    pub runs: Series,
    /// The line that programs read.
    #[serde(skip)]
    pub line: String,
}

impl BarOutcome {
    /// Decides a bar by its value, which was made of `runs`.
    pub fn of(bar: &Bar<'_>, value: f64, runs: Series) -> BarOutcome {
        BarOutcome::decided(bar, value, decide(bar, value, &runs), runs)
    }

    /// Decides a bar whose limit holds for the upper end of a ratio's interval.
    pub fn of_upper_end(bar: &Bar<'_>, runs: Series) -> BarOutcome {
        let (value, decision) = decide_upper_end(bar, &runs);
        BarOutcome::decided(bar, value, decision, runs)
    }

    fn decided(bar: &Bar<'_>, value: f64, decision: Decision, runs: Series) -> BarOutcome {
        BarOutcome {
            name: bar.name.to_owned(),
            value: value.is_finite().then_some(value),
            op: bar.op,
            limit: bar.limit,
            decision,
            interval: interval(&runs),
            line: bar.line(value, decision),
            runs,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Four significant places at least, without tails of zeros; `missing` for what is no number.
pub fn figure(value: f64) -> String {
    if !value.is_finite() {
        "missing".to_owned()
    } else if value == value.trunc() {
        format!("{value}")
    } else if value.abs() < 0.01 {
        format!("{value:.2e}")
    } else if value.abs() < 100.0 {
        format!("{value:.4}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_they_hold() {
        let check = |op, limit, value, expected: &str| {
            let bar = Bar::new("a-b", op, limit);
            let decision = if bar.passes(value) {
                Decision::Pass
            } else {
                Decision::Fail
            };
            assert_eq!(bar.line(value, decision), expected);
        };
        check(Op::AtLeast, 0.9, 0.95, "bar a-b 0.9500 >= 0.9000 pass");
        check(Op::AtLeast, 0.9, 0.8999, "bar a-b 0.8999 >= 0.9000 fail");
        check(Op::AtMost, 1e-4, 2e-6, "bar a-b 2.00e-6 <= 1.00e-4 pass");
        check(Op::Equal, 0.0, 3.0, "bar a-b 3 == 0 fail");
        check(Op::Equal, 1.0, 0.99999, "bar a-b 1.0000 == 1 fail");
        check(Op::AtMost, 60.0, f64::NAN, "bar a-b missing <= 60 fail");
        check(Op::AtLeast, 8.0, f64::NAN, "bar a-b missing >= 8 fail");
        let noisy = Bar::new("a-b", Op::AtLeast, 0.9).line(0.95, Decision::Noisy);
        assert_eq!(noisy, "bar a-b 0.9500 >= 0.9000 noisy");
    }
}
