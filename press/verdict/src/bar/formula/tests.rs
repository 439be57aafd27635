//! Formulas over points made up for them.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::Judgement;
use crate::bar::{Bar, BarOutcome, Decision, Op, Standing};

fn point(target: &str, connections: usize, repeat: usize, qps: f64) -> Point {
    let mut point = Point {
        repeat,
        qps,
        ..Point::default()
    };
    point.target.name = target.into();
    point.offered.connections = connections;
    point.counters.ok = 100;
    point.latency.us_p99 = Some(qps / 2.0);
    point
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (repeat, scale) in [(1, 1.0), (2, 2.0), (3, 4.0)] {
        points.push(point("a", 1, repeat, 10.0 * scale));
        points.push(point("a", 9, repeat, 30.0 * scale));
        points.push(point("b", 1, repeat, 5.0 * scale));
    }
    points
}

fn evaluate(text: &str) -> Result<Value, String> {
    let external = BTreeMap::from([
        ("lines".to_owned(), vec![(1, 50.0), (2, 100.0), (3, 100.0)]),
        ("every-other".to_owned(), vec![(2, 1.0), (4, 1.0)]),
        ("holed".to_owned(), vec![(1, 1.0), (2, f64::NAN), (3, 1.0)]),
    ]);
    let formula = Formula::parse(text, &["a", "b"], &["lines", "every-other", "holed"])?;
    formula.evaluate(&Measured {
        points: &points(),
        conditions: |point| Some(Conditions::of(point)),
        metrics: &|_, name| (name == "calls{of=\"x\"}").then_some((7.0, 3.0)),
        external: &external,
    })
}

#[test]
fn figures_are_combined_within_their_round() {
    let check = |text: &str, expected: f64| {
        let found = evaluate(text).map(|found| found.value);
        let is_it = found.as_ref().is_ok_and(|found| (found - expected).abs() < 1e-9);
        assert!(is_it, "{text}: {found:?}");
    };
    check("b.qps", 10.0);
    check("ratio(a@1.qps, b.qps)", 2.0);
    check("a@9.qps / a@1.qps", 3.0);
    check("ratio(a@1.qps, best(a.qps))", 1.0 / 3.0);
    check("max(a.qps)", 120.0);
    check("min(b.us_p99)", 2.5);
    check("sum(b.answers) - 100", 200.0);
    check("median(b.qps) / 5", 2.0);
    check("2 * (b.qps + 1) - 1", 21.0);
    check("farthest(lines / b.answers, 1)", 0.5);
    check("mean(b.metric(\"calls{of=\"x\"}\"))", 7.0);
    check("b.grown(\"calls{of=\"x\"}\") * 1_000", 3_000.0);
    check("max(b.refused(30101))", 0.0);
    check("highest(a@1.qps, b.qps, 15)", 20.0);
    check("last(lines) - last(b.qps)", 80.0);
    check("sum(b.verdict(\"VALID unknown\"))", 3.0);
    check("sum(b.verdict(\"VALID offered\"))", 0.0);
}

#[test]
fn what_was_not_measured_is_named() {
    let check = |text: &str, expected: &str| {
        let said = evaluate(text).err().unwrap_or_default();
        assert!(said.contains(expected), "{text}: {said}");
    };
    check("b.us_p50", "b.us_p50 was not measured at point");
    check("max(b.us_p50)", "b.us_p50 was not measured at point");
    check("b.grown(\"other\")", "b.grown(\"other\") was not measured");
    check("ratio(b.qps, b.refused(30101))", "divided by 0");
    check("1 / sum(b.failed)", "divided by 0");
    check("holed", "the figure holed gave no number");
    check("max(holed)", "the figure holed gave no number");
}

#[test]
fn a_ratio_keeps_the_conditions_of_its_sides() {
    let found = evaluate("ratio(a@1.qps, b.qps)").unwrap();
    assert_eq!(found.runs.figures().len(), 3);
    let figure = found.runs.figures()[0];
    assert!(figure.conditions.is_some() && figure.beside.is_some());
    assert_eq!(figure.conditions.unwrap().standing, Standing::Valid);
    let upper = evaluate("upper(ratio(a@1.qps, b.qps))").unwrap();
    assert!(upper.is_upper_end && (upper.value - 2.0).abs() < 1e-9);
    // What a command gave has no conditions, and spoils none.
    let figure = evaluate("b.qps / lines").unwrap().runs.figures()[0];
    assert!(figure.conditions.is_some() && figure.beside.is_none());
}

#[test]
fn every_value_has_exactly_one_partner() {
    let check = |text: &str, expected: &str| {
        let said = evaluate(text).err().unwrap_or_default();
        assert!(said.contains(expected), "{text}: {said}");
    };
    // One load on the left, and two on the right.
    check("ratio(b.qps, a.qps)", "has 2 values beside it, expected one");
    // Each round has two repeats, and its command ran after the second.
    check("a@1.qps / every-other", "repeat 4 () has 0 values beside it");
    check("a@1.qps / (every-other + every-other)", "has 0 values");
    let said = |points: &[Point], text: &str| {
        let formula = Formula::parse(text, &["a", "b"], &[]).unwrap();
        let value = formula.evaluate(&Measured {
            points,
            conditions: |_| None,
            metrics: &|_, _| None,
            external: &BTreeMap::new(),
        });
        value.map(|value| value.runs.figures().len())
    };
    let mut points = points();
    assert_eq!(said(&points, "a.qps / b.qps"), Ok(6));
    // A rate that follows another target is another load in each round.
    for point in points.iter_mut().filter(|point| point.offered.connections == 9) {
        point.offered.kind = crate::LoadKind::Open;
        point.offered.rate = Some(point.qps);
    }
    assert_eq!(said(&points, "a@9.qps / (a@9.us_p99 - b.qps)"), Ok(3));
    // Of one round, a side is missing.
    points.retain(|point| point.target.name != "b" || point.repeat != 2);
    for text in [
        "ratio(a@1.qps, b.qps)",
        "ratio(b.qps, a@1.qps)",
        "highest(b.qps, a@9.qps)",
    ] {
        assert!(said(&points, text).unwrap_err().contains("repeat 2"), "{text}");
    }
}

/// Points of `a` and `b` in so many rounds, each target under a judgement of its own and with requests that were never sent.
fn judged(rounds: usize, a: (Judgement, u64), b: (Judgement, u64)) -> Vec<Point> {
    let sides = [("a", 10.0, a), ("b", 5.0, b)];
    let point = |repeat, (name, qps, (judgement, not_sent)): (&str, f64, _)| {
        let mut point = point(name, 1, repeat, qps);
        point.verdict.judgement = judgement;
        point.counters.not_sent = not_sent;
        point
    };
    let rounds = (1..=rounds).flat_map(|repeat| sides.map(|side| point(repeat, side)));
    rounds.collect()
}

/// What a bar decides that asks for at least `limit`.
fn decided(text: &str, limit: f64, points: &[Point]) -> Decision {
    let formula = Formula::parse(text, &["a", "b"], &[]).unwrap();
    let value = formula.evaluate(&Measured {
        points,
        conditions: |point| Some(Conditions::of(point)),
        metrics: &|_, _| None,
        external: &BTreeMap::new(),
    });
    let value = value.unwrap_or_else(|why| panic!("{text}: {why}"));
    BarOutcome::of(&Bar::new("x", Op::AtLeast, limit), value.value, value.runs).decision
}

#[test]
fn a_number_made_of_a_series_keeps_its_conditions() {
    let valid = (Judgement::Valid, 0);
    let check = |a, expected| {
        let points = judged(3, a, valid);
        for text in [
            "ratio(a.qps, b.qps)",
            "median(a.qps) / b.qps",
            "b.qps / median(a.qps)",
            "farthest(b.qps, median(a.qps))",
            "farthest(b.qps, 1) + max(a.qps)",
            "b.qps * median(ratio(b.qps, a.qps))",
            "highest(b.qps, min(a.qps))",
        ] {
            assert_eq!(decided(text, 0.4, &points), expected, "{text}");
        }
    };
    check(valid, Decision::Pass);
    check((Judgement::Valid, 5), Decision::Fail);
    check((Judgement::Unstable, 0), Decision::Noisy);
}

#[test]
fn an_interval_decides_its_own_ratio_alone() {
    let drifted = (Judgement::EnvDrift, 0);
    let points = judged(9, drifted, drifted);
    let check = |text, limit, expected| assert_eq!(decided(text, limit, &points), expected, "{text}");
    check("ratio(a.qps, b.qps)", 1.9, Decision::Pass);
    check("ratio(a.qps, b.qps) / 4", 0.4, Decision::Pass);
    check("ratio(a.qps, b.qps) / 4", 1.9, Decision::Fail);
    // Its value is no ratio of two loads that took turns, however it began.
    for text in [
        "median(ratio(a.qps, b.qps)) / 4",
        "min(ratio(a.qps, b.qps))",
        "farthest(ratio(a.qps, b.qps), 1)",
        "ratio(a.qps, b.qps) - 1",
        "ratio(a.qps, b.qps) / median(ratio(a.qps, b.qps))",
        "ratio(a.qps, b.qps) + ratio(b.qps, a.qps)",
        "highest(ratio(a.qps, b.qps), 1)",
    ] {
        check(text, 0.1, Decision::Noisy);
        check(text, 9.0, Decision::Noisy);
    }
}

#[test]
fn what_is_no_formula_is_refused() {
    let check = |text: &str, expected: &str| {
        let said = evaluate(text).err().unwrap_or_default();
        assert!(said.contains(expected), "{text}: {said}");
    };
    check("", "character 1: found \"\"");
    check("c.qps", "there is no target \"c\"; the targets are a, b");
    check("a.speed", "\"speed\" is no figure of a point; there are qps");
    check("a.qps b.qps", "character 7");
    check("a", "expected \".\"");
    check("a@x.qps", "a number of connections");
    check("best(a.qps", "expected \")\"");
    check("worst(a.qps)", "a function: ratio");
    check("ratio(a.qps)", "ratio takes 2 values, found 1");
    check("a.metric", "metric needs a sample");
    check("a.qps(1)", "takes nothing in parentheses");
    check("median(3)", "a single number stands");
    check("a@7.qps", "no point of a was measured");
    check("a.metric(\"x", "expected");
    check(&"(".repeat(100), "fewer parentheses");
}

#[test]
fn names_may_stand_in_quotes_and_metrics_are_told() {
    let formula = Formula::parse(
        "'in process'.metric(\"x_total\") / a-b.qps",
        &["in process", "a-b"],
        &[],
    );
    assert_eq!(formula.unwrap().metrics(), [("in process", "x_total")]);
}
