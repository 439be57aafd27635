//! The value of a formula, with the figures it was made of.
//!
//! Its invariants: values are combined within their round, and one without exactly one partner is an error; no figure that took part
//! loses its conditions; what is no ratio any more has no pairs.

use std::collections::BTreeSet;

use super::figures::figure;
use super::{Function, Load, Measured, Node, Path, Value};
use crate::bar::decision::interval;
use crate::bar::{Conditions, Figure, Series};
use crate::{Point, point_in_words};

/// One value, and where it belongs.
#[derive(Debug, Clone)]
struct Sample {
    /// The load in words; nothing for values of commands.
    load: String,
    /// From 1, as repeats are.
    round: usize,
    figure: Figure,
}

/// What a part of a formula comes to.
enum Part {
    /// With the figures it was made of.
    Number(f64, Vec<Figure>),
    Series(Vec<Sample>),
    Upper(Vec<Sample>),
}

pub(super) fn evaluate(root: &Node, measured: &Measured<'_>) -> Result<Value, String> {
    let part = part(root, measured)?;
    let is_upper_end = matches!(part, Part::Upper(_));
    let (value, runs) = match part {
        Part::Number(value, figures) => (Some(value), figures.into_iter().collect()),
        Part::Series(samples) => {
            let runs = runs(&samples);
            (Some(runs.median()), runs)
        }
        Part::Upper(samples) => {
            let runs = runs(&samples);
            (interval(&runs).map(|interval| interval.high), runs)
        }
    };
    let value = value.filter(|value| value.is_finite());
    Ok(Value {
        value: value.ok_or("no round has all of its figures, or no pair lost alike to the hypervisor")?,
        runs,
        is_upper_end,
    })
}

fn runs(samples: &[Sample]) -> Series {
    samples.iter().map(|sample| sample.figure).collect()
}

fn part(node: &Node, measured: &Measured<'_>) -> Result<Part, String> {
    Ok(match node {
        Node::Number(value) => Part::Number(*value, Vec::new()),
        Node::Of(path) => Part::Series(samples(path, measured)?),
        Node::External(name) => {
            let values = measured.external.get(name).filter(|values| !values.is_empty());
            let values = values.filter(|values| values.iter().all(|(_, value)| value.is_finite()));
            let values = values.ok_or_else(|| format!("the command of the figure {name} gave no number"))?;
            let sample = |&(round, value): &(usize, f64)| Sample {
                load: String::new(),
                round,
                figure: Figure::from(value),
            };
            Part::Series(values.iter().map(sample).collect())
        }
        Node::Call(function, parts) => {
            let parts = parts.iter().map(|node| part(node, measured));
            call(*function, parts.collect::<Result<_, _>>()?)?
        }
        Node::Combine(operator, left, right) => {
            combine(*operator, part(left, measured)?, part(right, measured)?)?
        }
    })
}

/// The figure of every point that a path names.
fn samples(path: &Path, measured: &Measured<'_>) -> Result<Vec<Sample>, String> {
    let is_meant = |point: &&Point| {
        let is_load = match &path.load {
            None => true,
            Some(Load::Connections(count)) => point.offered.connections == *count,
            Some(Load::Rate(rate)) => point.offered.rate == Some(*rate),
            Some(Load::Grid(key, value)) => point.grid.get(key) == Some(value),
        };
        point.target.name == path.target && is_load
    };
    let value = |point: &Point| {
        let argument = path.argument.as_deref();
        let found = match path.figure.as_str() {
            "metric" => (measured.metrics)(point, argument.unwrap_or_default()).map(|(now, _)| now),
            "grown" => (measured.metrics)(point, argument.unwrap_or_default()).map(|(_, grown)| grown),
            name => figure(point, name, argument),
        };
        found.filter(|found| found.is_finite()).ok_or_else(|| {
            let argument = argument.map_or_else(String::new, |argument| format!("({argument:?})"));
            let (target, figure, number) = (&path.target, &path.figure, point.number);
            format!("{target}.{figure}{argument} was not measured at point {number}")
        })
    };
    let sample = |point: &Point| {
        Ok(Sample {
            load: point_in_words(point),
            round: point.repeat,
            figure: Figure {
                value: value(point)?,
                conditions: (measured.conditions)(point),
                beside: None,
            },
        })
    };
    let meant = measured.points.iter().filter(is_meant);
    let samples: Vec<Sample> = meant.map(sample).collect::<Result<_, String>>()?;
    match samples.is_empty() {
        true => Err(format!("no point of {} was measured", path.target)),
        false => Ok(samples),
    }
}

fn series(part: Part) -> Result<Vec<Sample>, String> {
    match part {
        Part::Series(samples) => Ok(samples),
        Part::Number(..) => Err("a single number stands where the figures of rounds are needed".into()),
        Part::Upper(_) => Err("upper stands around everything else".into()),
    }
}

fn call(function: Function, parts: Vec<Part>) -> Result<Part, String> {
    let mut parts = parts.into_iter();
    let missing = || "a value is missing".to_owned();
    let first = parts.next().ok_or_else(missing)?;
    match function {
        Function::Ratio => return combine('/', first, parts.next().ok_or_else(missing)?),
        Function::Highest => return parts.try_fold(first, |left, right| combine('>', left, right)),
        _ => {}
    }
    let samples = series(first)?;
    let runs = runs(&samples);
    let figures = |of: &[Figure]| runs.figures().iter().map(|own| under(own, of)).collect();
    Ok(match function {
        Function::Reduce(of) => Part::Number(of(&runs), figures(&[])),
        Function::Farthest => match parts.next() {
            Some(Part::Number(from, of)) => Part::Number(runs.farthest_from(from), figures(&of)),
            _ => return Err("farthest takes a series and the number that it should be".into()),
        },
        Function::Best => Part::Series(best(samples)),
        Function::Upper => Part::Upper(samples),
        Function::Ratio | Function::Highest => return Err(missing()),
    })
}

/// Those of the load whose median is the highest.
fn best(samples: Vec<Sample>) -> Vec<Sample> {
    let of = |load: &str| -> Vec<Sample> {
        let same = samples.iter().filter(|sample| sample.load == load);
        same.cloned().collect()
    };
    let loads = samples.iter().map(|sample| sample.load.as_str());
    let best = loads.max_by(|a, b| runs(&of(a)).median().total_cmp(&runs(&of(b)).median()));
    best.map(of).unwrap_or_default()
}

/// What the operator makes of two numbers; `>` is the higher of them.
fn calculate(operator: char, left: f64, right: f64) -> Result<f64, String> {
    match operator {
        '+' => Ok(left + right),
        '-' => Ok(left - right),
        '*' => Ok(left * right),
        '>' => Ok(left.max(right)),
        _ if right == 0.0 => Err(format!(
            "{left} cannot be divided by 0: nothing of that was counted"
        )),
        _ => Ok(left / right),
    }
}

fn combine(operator: char, left: Part, right: Part) -> Result<Part, String> {
    let each = |samples: Vec<Sample>, figures: &[Figure], of: &dyn Fn(f64) -> Result<f64, String>| {
        let change = |sample: Sample| {
            let value = of(sample.figure.value)?;
            // Only a ratio times a constant is one still, with an interval of its own.
            let figure = match (operator, figures) {
                ('*' | '/', []) => sample.figure,
                _ => under(&sample.figure, figures),
            };
            Ok(Sample {
                figure: Figure { value, ..figure },
                ..sample
            })
        };
        Ok(Part::Series(
            samples.into_iter().map(change).collect::<Result<_, String>>()?,
        ))
    };
    match (left, right) {
        (Part::Number(left, mut figures), Part::Number(right, others)) => {
            figures.extend(others);
            Ok(Part::Number(calculate(operator, left, right)?, figures))
        }
        (Part::Series(left), Part::Number(right, figures)) => {
            each(left, &figures, &|left| calculate(operator, left, right))
        }
        (Part::Number(left, figures), Part::Series(right)) => {
            each(right, &figures, &|right| calculate(operator, left, right))
        }
        (left, right) => Ok(Part::Series(paired(operator, &series(left)?, &series(right)?)?)),
    }
}

/// Values of the same round, and of the same load where both sides have several in a round. Each value on the left has exactly one
/// beside it, and none on the right is left over.
fn paired(operator: char, left: &[Sample], right: &[Sample]) -> Result<Vec<Sample>, String> {
    let is_by_round = is_one_a_round(left) || is_one_a_round(right);
    let is_pair =
        |left: &Sample, right: &Sample| left.round == right.round && (is_by_round || left.load == right.load);
    let unpaired = |sample: &Sample, found: usize| {
        let (load, round) = (&sample.load, sample.round);
        format!(
            "the value of repeat {round} ({load}) has {found} values beside it, expected one; measure both sides in every repeat, and name one load with @"
        )
    };
    if let Some(over) = right
        .iter()
        .find(|right| !left.iter().any(|left| is_pair(left, right)))
    {
        return Err(unpaired(over, 0));
    }
    let pair = |left: &Sample| {
        let found: Vec<&Sample> = right.iter().filter(|right| is_pair(left, right)).collect();
        let [right] = found[..] else {
            return Err(unpaired(left, found.len()));
        };
        let value = calculate(operator, left.figure.value, right.figure.value)?;
        Ok(Sample {
            figure: beside(operator, value, &left.figure, &right.figure),
            ..left.clone()
        })
    };
    left.iter().map(pair).collect()
}

/// Whether no round has two values; those of a load whose rate follows another target differ from round to round.
fn is_one_a_round(samples: &[Sample]) -> bool {
    let rounds: BTreeSet<usize> = samples.iter().map(|sample| sample.round).collect();
    rounds.len() == samples.len()
}

/// A figure in a number, or combined with one: no ratio, and under the conditions of all figures that the number was made of.
fn under(figure: &Figure, of_number: &[Figure]) -> Figure {
    let figure = figure.alone();
    let all = of_number.iter().map(|figure| figure.conditions);
    Figure {
        conditions: all.fold(figure.conditions, Conditions::worse),
        ..figure
    }
}

/// A ratio keeps the conditions of both sides apart, so that pairs can be told by them; other figures stand under the worse.
fn beside(operator: char, value: f64, left: &Figure, right: &Figure) -> Figure {
    let (left, right) = (left.alone().conditions, right.alone().conditions);
    let (conditions, beside) = match operator {
        '/' => (left, right),
        _ => (Conditions::worse(left, right), None),
    };
    Figure {
        value,
        conditions,
        beside,
    }
}
