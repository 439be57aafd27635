//! Service level objectives: `p99 < 5ms, errors < 0.1%`.
//!
//! Its invariant: an objective whose figure does not exist, because too few samples stand behind it, is not met.

use millpond_press_recorder::SAMPLES_BEYOND_MIN;
use millpond_press_report::{Point, SloOutcome};

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    /// A percentile of the latency, in percent.
    Percentile(f64),
    Mean,
    Max,
    /// Wrong answers, errors, refusals and requests never sent, as a share of all.
    Errors,
    /// Refusals alone.
    Refused,
    /// Answers a second.
    Rate,
}

#[derive(Debug, Clone, PartialEq)]
struct Limit {
    text: String,
    figure: Figure,
    /// Whether the figure must lie below the limit.
    below: bool,
    /// Whether the limit itself is allowed.
    or_equal: bool,
    /// Microseconds, a share, or requests a second.
    limit: f64,
}

/// All of them must hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slo {
    pub(crate) text: String,
    limits: Vec<Limit>,
}

impl Slo {
    /// Reads `FIGURE < LIMIT` parts divided by commas or `and`; an error tells at which character the bad one begins.
    pub(crate) fn parse(text: &str) -> Result<Slo, String> {
        if text.trim().is_empty() {
            return Err("slo is empty; write it as \"p99 < 5ms, errors < 0.1%\"".into());
        }
        let mut limits = Vec::new();
        let mut rest = Some(text);
        let mut before = 0;
        while let Some(text) = rest {
            let (part, after, divider) = first_part(text);
            let blank = part.chars().count() - part.trim_start().chars().count();
            limits.push(limit(part.trim(), before + blank + 1)?);
            before += part.chars().count() + divider;
            rest = after;
        }
        Ok(Slo {
            text: text.trim().to_owned(),
            limits,
        })
    }

    /// How many samples its highest percentile needs before it can be named.
    pub(crate) fn samples_needed(&self) -> f64 {
        let needed = |limit: &Limit| match limit.figure {
            Figure::Percentile(percent) => SAMPLES_BEYOND_MIN as f64 / (1.0 - percent / 100.0),
            _ => 1.0,
        };
        self.limits.iter().map(needed).fold(1.0, f64::max)
    }

    /// Holds a point against it.
    pub(crate) fn judge(&self, point: &Point) -> SloOutcome {
        let failures: Vec<String> = self
            .limits
            .iter()
            .filter_map(|limit| limit.failure(point))
            .collect();
        SloOutcome {
            slo: self.text.clone(),
            met: failures.is_empty(),
            failures,
        }
    }
}

/// The text before the first comma or `and`, what follows it, and how many characters divide them.
fn first_part(text: &str) -> (&str, Option<&str>, usize) {
    const DIVIDERS: [&str; 2] = [",", " and "];
    let found = DIVIDERS
        .iter()
        .filter_map(|divider| Some((text.find(divider)?, divider.len())));
    match found.min() {
        Some((at, divider)) => (&text[..at], text.get(at + divider..), divider),
        None => (text, None, 0),
    }
}

/// Reads one part; `place` is that of its first character in the whole, from 1.
fn limit(text: &str, place: usize) -> Result<Limit, String> {
    let bad = |what: &str| {
        format!(
            "slo, character {place}: {what}; write parts such as \"p99 < 5ms\", \"p99.9 <= 800us\", \"mean < 1ms\", \
             \"errors < 0.1%\", \"refused < 1%\" or \"rate > 1000\""
        )
    };
    if text.is_empty() {
        return Err(bad("there is nothing between two dividers, or behind the last"));
    }
    let at = text
        .find(['<', '>'])
        .ok_or_else(|| bad(&format!("{text:?} has no < or >")))?;
    let (name, rest) = text.split_at(at);
    let below = rest.starts_with('<');
    let (or_equal, value) = match rest[1..].strip_prefix('=') {
        Some(value) => (true, value.trim()),
        None => (false, rest[1..].trim()),
    };
    let figure = figure(name.trim()).map_err(|what| bad(&what))?;
    let (limit, expected) = match figure {
        Figure::Percentile(_) | Figure::Mean | Figure::Max => {
            (microseconds(value), "a time above 0 in us, ms or s")
        }
        Figure::Errors | Figure::Refused => (share(value), "a share from 0% to 100%, or from 0 to 1"),
        Figure::Rate => (number(value), "answers a second, without a unit"),
    };
    let limit =
        limit.ok_or_else(|| bad(&format!("{text:?} has the limit {value:?}, expected {expected}")))?;
    Ok(Limit {
        text: text.to_owned(),
        figure,
        below,
        or_equal,
        limit,
    })
}

fn figure(name: &str) -> Result<Figure, String> {
    Ok(match name {
        "mean" => Figure::Mean,
        "max" => Figure::Max,
        "errors" => Figure::Errors,
        "refused" => Figure::Refused,
        "rate" => Figure::Rate,
        "" => return Err("there is no figure before the < or >".into()),
        other => {
            let percent = other.strip_prefix('p').and_then(number);
            match percent {
                Some(percent) if (1.0..100.0).contains(&percent) => Figure::Percentile(percent),
                Some(_) => return Err(format!("{other:?} is no percentile, expected p1 to p99.99")),
                None => return Err(format!("{other:?} is no figure")),
            }
        }
    })
}

/// A number as people write it: digits, and a point between some of them.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let ends = text.starts_with('.') || text.ends_with('.');
    text.parse().ok().filter(|_| is_plain && !ends)
}

fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (digits, scale) = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let us = number(digits.trim_end())? * scale;
    (us.is_finite() && us > 0.0).then_some(us)
}

fn share(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent.trim_end())? / 100.0,
        None => number(text)?,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

impl Limit {
    /// Why it does not hold, if it does not.
    fn failure(&self, point: &Point) -> Option<String> {
        let counters = &point.counters;
        let offered = (counters.offered() - counters.cut).max(1) as f64;
        let (found, words) = match self.figure {
            Figure::Percentile(percent) => {
                let us = percentile(point, percent);
                (us, us.map(in_time))
            }
            Figure::Mean => (point.latency.us_mean, point.latency.us_mean.map(in_time)),
            Figure::Max => (point.latency.us_max, point.latency.us_max.map(in_time)),
            Figure::Errors => {
                let bad = counters.failed_total() + counters.refused_total() + counters.not_sent;
                let share = bad as f64 / offered;
                (Some(share), Some(format!("{:.3} %", share * 100.0)))
            }
            Figure::Refused => {
                let share = counters.refused_total() as f64 / offered;
                (Some(share), Some(format!("{:.3} %", share * 100.0)))
            }
            Figure::Rate => (Some(point.qps), Some(format!("{:.0}/s", point.qps))),
        };
        let (Some(found), Some(words)) = (found, words) else {
            return Some(format!(
                "{}: n/a, {} samples are too few",
                self.text, point.latency.count
            ));
        };
        let holds = match (self.below, self.or_equal) {
            (true, false) => found < self.limit,
            (true, true) => found <= self.limit,
            (false, false) => found > self.limit,
            (false, true) => found >= self.limit,
        };
        (!holds).then(|| format!("{}: found {words}", self.text))
    }
}

/// The percentile, from the summary where it stands there, else from the curve.
fn percentile(point: &Point, percent: f64) -> Option<f64> {
    let named = point.latency.percentiles();
    if let Some((_, us)) = named.iter().find(|(name, _)| *name == percent) {
        return *us;
    }
    let mut curve = point.curve.iter();
    curve.find(|(at, _)| *at >= percent).map(|(_, us)| *us)
}

fn in_time(us: f64) -> String {
    if us < 1_000.0 {
        format!("{us:.1} us")
    } else {
        format!("{:.2} ms", us / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn objectives_are_held_against_figures() {
        let mut point = Point {
            qps: 900.0,
            ..Point::default()
        };
        point.counters.ok = 999;
        point.counters.not_sent = 1;
        point.latency.us_p99 = Some(4_000.0);
        let failures = |text: &str| Slo::parse(text).unwrap().judge(&point).failures;
        assert!(failures("p99 < 5ms, errors <= 0.1% and rate > 800").is_empty());
        assert_eq!(failures("p99 < 4ms, errors < 0.1%").len(), 2);
        assert_eq!(failures("p99<=0.004s"), Vec::<String>::new());
        assert!(failures("p99.9 < 5ms")[0].contains("too few"));
        assert!(failures("rate>=1000")[0].contains("900/s"));
        let needed = Slo::parse("p50 < 1s, p99 < 2s, max < 3s")
            .unwrap()
            .samples_needed();
        assert!((needed - 1_000.0).abs() < 1e-6, "{needed}");
    }

    #[test]
    fn what_is_no_objective_is_refused_with_its_place_and_its_form() {
        let check = |text: &str, words: &str| {
            let said = Slo::parse(text).unwrap_err();
            assert!(
                said.contains(words) && said.contains("p99 < 5ms"),
                "{text:?}: {said}"
            );
        };
        check("", "slo is empty");
        check(" ", "slo is empty");
        check("p99", "character 1: \"p99\" has no < or >");
        check(
            "p99 < 5",
            "character 1: \"p99 < 5\" has the limit \"5\", expected a time",
        );
        check("p99 < 5 min", "limit \"5 min\"");
        check("p99 < -1ms", "limit \"-1ms\"");
        check("p99 < 1e3ms", "limit \"1e3ms\"");
        check("p99 < infs", "limit \"infs\"");
        check("p99 < .5ms", "limit \".5ms\"");
        check("p99 < 5ms,, errors < 1%", "character 11: there is nothing");
        check(", p99 < 5ms", "character 1: there is nothing");
        check("p99 < 5ms,", "character 11: there is nothing");
        check("p99 < 5ms and  and max < 1s", "character 15: there is nothing");
        check(
            "p99 < 5ms, errors<",
            "character 12: \"errors<\" has the limit \"\"",
        );
        check("p99 < 5ms,  < 1ms", "character 13: there is no figure");
        check("p99 < 5µs, p100 < 5ms", "character 12: \"p100\" is no percentile");
        check("p101 < 5ms", "\"p101\" is no percentile");
        check("p0.5 < 5ms", "\"p0.5\" is no percentile");
        check("p+99 < 5ms", "\"p+99\" is no figure");
        check("latency < 5ms", "\"latency\" is no figure");
        check("p99 =< 5ms", "\"p99 =\" is no figure");
        check("errors < 5ms", "expected a share");
        check("errors < 101%", "expected a share");
        check("rate > 5ms", "expected answers a second");
    }
}
