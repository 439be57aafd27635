//! What a bar's figure is made of, as a scenario writes it: `ratio(millpond.qps, tokio.qps)`.
//!
//! A figure of a target is a series, one value a point: `TARGET.FIGURE`, of one load `TARGET@3000.FIGURE` (connections),
//! `TARGET@50000/s.FIGURE` (rate) or `TARGET@level=5.FIGURE` (grid). Series are combined value by value within their round. Its
//! invariant: a value is a number, or an error that names the figure that was not measured.

mod evaluate;
mod figures;
mod parse;

use std::collections::BTreeMap;

use super::{Conditions, Series};
use crate::Point;

/// A formula that was read.
#[derive(Debug, Clone)]
pub struct Formula {
    text: String,
    root: Node,
}

/// What is combined.
#[derive(Debug, Clone)]
enum Node {
    Number(f64),
    Of(Path),
    /// Values that a command of the scenario gave, one a round.
    External(String),
    Call(Function, Vec<Node>),
    Combine(char, Box<Node>, Box<Node>),
}

/// A figure of the points of one target.
#[derive(Debug, Clone, PartialEq)]
struct Path {
    target: String,
    load: Option<Load>,
    figure: String,
    /// What stands in its parentheses, such as the name of a metric.
    argument: Option<String>,
}

/// Which points of a target are meant.
#[derive(Debug, Clone, PartialEq)]
enum Load {
    Connections(usize),
    Rate(f64),
    Grid(String, String),
}

#[derive(Debug, Clone, Copy)]
enum Function {
    Ratio,
    /// One number of a series.
    Reduce(fn(&Series) -> f64),
    /// The value that is farthest from another.
    Farthest,
    /// The values of the load whose median is the highest.
    Best,
    /// The highest of several series, value by value.
    Highest,
    /// The upper end of a ratio's interval.
    Upper,
}

/// Answers with a sample of a server's own metrics at a point's end, and by how much it grew within the point.
pub type MetricOf<'a> = dyn Fn(&Point, &str) -> Option<(f64, f64)> + 'a;

/// What stands behind the names of a formula.
pub struct Measured<'a> {
    /// All points of a run.
    pub points: &'a [Point],
    /// The conditions of a point; nothing for counts, which no noise changes.
    pub conditions: fn(&Point) -> Option<Conditions>,
    /// A sample of a server's own metrics at the end of a point, and by how much it grew within the point.
    pub metrics: &'a MetricOf<'a>,
    /// Values that commands gave, each with the repeat after which it was taken.
    pub external: &'a BTreeMap<String, Vec<(usize, f64)>>,
}

/// What a formula comes to.
#[derive(Debug, Clone)]
pub struct Value {
    /// A series stands for its median.
    pub value: f64,
    /// What it was made of.
    pub runs: Series,
    /// Whether it is the upper end of a ratio's interval, which is decided by [`super::decide_upper_end`].
    pub is_upper_end: bool,
}

impl Formula {
    /// Reads a formula over these targets and values of commands.
    ///
    /// # Errors
    /// It is none; the message says what was found and how one is written.
    pub fn parse(text: &str, targets: &[&str], external: &[&str]) -> Result<Formula, String> {
        let root = parse::parse(text, external)?;
        let formula = Formula {
            text: text.to_owned(),
            root,
        };
        formula.root.check(targets)?;
        Ok(formula)
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The metrics of servers that it names, each with its target.
    pub fn metrics(&self) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        self.root.visit(&mut |path| {
            if let (true, Some(name)) = (figures::is_metric(&path.figure), &path.argument) {
                found.push((path.target.as_str(), name.as_str()));
            }
        });
        found
    }

    /// Its value.
    ///
    /// # Errors
    /// It names points or figures that were not measured, or combines what cannot be combined.
    pub fn evaluate(&self, measured: &Measured<'_>) -> Result<Value, String> {
        evaluate::evaluate(&self.root, measured)
    }
}

impl Node {
    /// Calls `see` for every figure of a target.
    fn visit<'n>(&'n self, see: &mut impl FnMut(&'n Path)) {
        match self {
            Node::Number(_) | Node::External(_) => {}
            Node::Of(path) => see(path),
            Node::Call(_, parts) => parts.iter().for_each(|part| part.visit(see)),
            Node::Combine(_, left, right) => {
                left.visit(see);
                right.visit(see);
            }
        }
    }

    /// Whether all names are known.
    fn check(&self, targets: &[&str]) -> Result<(), String> {
        let mut wrong = None;
        self.visit(&mut |path| {
            if wrong.is_none() {
                wrong = path.check(targets).err();
            }
        });
        wrong.map_or(Ok(()), Err)
    }
}

impl Path {
    fn check(&self, targets: &[&str]) -> Result<(), String> {
        if !targets.contains(&self.target.as_str()) {
            let (target, known) = (&self.target, targets.join(", "));
            return Err(format!("there is no target {target:?}; the targets are {known}"));
        }
        figures::check(&self.figure, self.argument.as_deref())
    }
}

#[cfg(test)]
mod tests;
