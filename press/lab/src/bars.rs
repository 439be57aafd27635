//! The bars of a scenario: promises that its points are held against after a run.
//!
//! Its invariant: every bar gets its line; one whose value cannot be told reads `missing`, fails, and names what was not measured.

use std::collections::{BTreeMap, BTreeSet};

use millpond_press_verdict::{Bar, BarOutcome, Conditions, Formula, Measured, Point, Series};

use crate::scenario::{BarKeys, Conditioned};

/// One bar, read.
pub(crate) struct BarPlan {
    keys: BarKeys,
    formula: Formula,
}

/// What formulas read beside points.
#[derive(Default)]
pub(crate) struct Beside {
    /// By the number of a point and the name of a sample: the value at the point's end, and what it grew by.
    pub(crate) metrics: BTreeMap<(usize, String), (f64, f64)>,
    /// What commands gave, each value with the repeat after which it was taken.
    pub(crate) external: BTreeMap<String, Vec<(usize, f64)>>,
}

impl Beside {
    /// A line for each figure of a command, whether or not a bar is made of it: its median over the rounds, and between what it lay.
    pub(crate) fn lines(&self) -> String {
        let line = |(name, values): (&String, &Vec<(usize, f64)>)| {
            let mut series = Series::default();
            values.iter().for_each(|(_, value)| series.push(*value));
            let (median, low, high) = (series.median(), series.min(), series.max());
            let rounds = values.len();
            format!("figure {name} {median:.4} ({low:.4} to {high:.4}, rounds: {rounds})\n")
        };
        self.external.iter().map(line).collect()
    }
}

/// Reads the bars over targets and values of these names.
pub(crate) fn plan(bars: Vec<BarKeys>, targets: &[&str], external: &[&str]) -> Result<Vec<BarPlan>, String> {
    let mut seen = BTreeSet::new();
    let plan = |keys: BarKeys| {
        let name = &keys.name;
        if name.is_empty() || name.contains(char::is_whitespace) || !seen.insert(name.clone()) {
            return Err(format!(
                "bar.name is {name:?}; programs read it, so it needs letters without blanks, and each bar its own"
            ));
        }
        let formula = Formula::parse(&keys.value, targets, external);
        let formula = formula.map_err(|why| format!("bar {name}: value, {why}"))?;
        Ok(BarPlan { keys, formula })
    };
    bars.into_iter().map(plan).collect()
}

/// The samples of metrics that bars name, each with its target.
pub(crate) fn metrics(bars: &[BarPlan]) -> BTreeSet<(String, String)> {
    let names = bars.iter().flat_map(|bar| bar.formula.metrics());
    names
        .map(|(target, name)| (target.to_owned(), name.to_owned()))
        .collect()
}

/// What every bar comes to, and why one has no value.
pub(crate) fn decide(
    bars: &[BarPlan],
    points: &[Point],
    beside: &Beside,
) -> Vec<(BarOutcome, Option<String>)> {
    bars.iter().map(|bar| bar.decide(points, beside)).collect()
}

impl BarPlan {
    fn decide(&self, points: &[Point], beside: &Beside) -> (BarOutcome, Option<String>) {
        let bar = Bar::new(&self.keys.name, self.keys.op, self.keys.limit);
        let measured = Measured {
            points,
            conditions: match self.keys.of {
                Conditioned::Server => |point| Some(Conditions::of(point)),
                Conditioned::Press => |point| Some(Conditions::of_press_itself(point)),
                Conditioned::Refusals => |point| Some(Conditions::with_refused_connections(point)),
                Conditioned::Counts => |_| None,
            },
            metrics: &|point, name| beside.metrics.get(&(point.number, name.to_owned())).copied(),
            external: &beside.external,
        };
        match self.formula.evaluate(&measured) {
            Ok(value) if value.is_upper_end => (BarOutcome::of_upper_end(&bar, value.runs), None),
            Ok(value) => (BarOutcome::of(&bar, value.value, value.runs), None),
            Err(why) => (BarOutcome::of(&bar, f64::NAN, Series::default()), Some(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_press_verdict::Op;

    fn bar(name: &str, value: &str) -> BarKeys {
        BarKeys {
            name: name.into(),
            value: value.into(),
            op: Op::AtLeast,
            limit: 0.5,
            of: Conditioned::Counts,
        }
    }

    #[test]
    fn every_bar_gets_its_line() {
        let bars = [bar("one", "a.qps / 10"), bar("other", "a.qps / lines")];
        let bars = plan(bars.to_vec(), &["a"], &["lines"]).unwrap();
        let mut point = Point {
            qps: 7.0,
            ..Point::default()
        };
        point.target.name = "a".into();
        let found = decide(&bars, &[point], &Beside::default());
        assert_eq!(found[0].0.line, "bar one 0.7000 >= 0.5000 pass");
        // No command gave its lines.
        assert_eq!(found[1].0.line, "bar other missing >= 0.5000 fail");
        let none = decide(&bars, &[], &Beside::default());
        assert!(none[0].1.as_ref().unwrap().contains("no point of a"));
    }

    #[test]
    fn bars_that_cannot_be_read_are_refused() {
        let check = |bars: &[BarKeys], words: &str| {
            let said = plan(bars.to_vec(), &["a"], &[]).err().unwrap();
            assert!(said.contains(words), "{said}");
        };
        check(&[bar("a b", "a.qps")], "without blanks");
        check(&[bar("x", "a.qps"), bar("x", "a.qps")], "each bar its own");
        check(&[bar("x", "b.qps")], "bar x: value, there is no target \"b\"");
    }
}
