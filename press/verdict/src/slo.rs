//! Service level objectives: `p99 < 5ms, errors < 0.1%`.
//!
//! To a latency every offered request counts: one that failed, was refused or was never sent is slower than any limit.
//! `accepted.p99` is of the answers alone. Its invariants: an objective whose figure does not exist, because too few samples
//! stand behind it, is not met; and nothing is met by a point of failures, unless the objectives say how many may fail.

use crate::{Point, SloOutcome};
use millpond_press_recorder::{Latency, Reached, SAMPLES_BEYOND_MIN};

use crate::outcomes::Outcomes;

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
    /// Whether a latency is that of the answers alone.
    accepted: bool,
    /// Whether the figure must lie below the limit.
    below: bool,
    /// Whether the limit itself is allowed.
    or_equal: bool,
    /// Microseconds, a share, or requests a second.
    limit: f64,
}

/// All of them must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Slo {
    /// As it was written.
    pub text: String,
    limits: Vec<Limit>,
}

impl Slo {
    /// Reads `FIGURE < LIMIT` parts divided by commas or `and`; an error tells at which character the bad one begins.
    pub fn parse(text: &str) -> Result<Slo, String> {
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
    pub fn samples_needed(&self) -> f64 {
        let needed = |limit: &Limit| match limit.figure {
            Figure::Percentile(percent) => SAMPLES_BEYOND_MIN as f64 / (1.0 - percent / 100.0),
            _ => 1.0,
        };
        self.limits.iter().map(needed).fold(1.0, f64::max)
    }

    /// Holds a point against it; `answers` are the latencies behind the point's summary.
    pub fn judge(&self, point: &Point, answers: &Latency) -> SloOutcome {
        let outcomes = Outcomes::of(point);
        let failure = |limit: &Limit| limit.failure(point, answers, &outcomes);
        let mut failures: Vec<String> = self.limits.iter().filter_map(failure).collect();
        let names_errors = self.limits.iter().any(|limit| limit.figure == Figure::Errors);
        if outcomes.is_failing() && !names_errors {
            failures.push(format!(
                "{}, and this SLO does not say how many may (errors < …)",
                outcomes.unanswered_in_words().unwrap_or_default()
            ));
        }
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
             \"accepted.p99 < 5ms\", \"errors < 0.1%\", \"refused < 1%\" or \"rate > 1000\""
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
    let (accepted, name) = match name.trim().strip_prefix("accepted.") {
        Some(name) => (true, name),
        None => (false, name.trim()),
    };
    let figure = figure(name).map_err(|what| bad(&what))?;
    if accepted && matches!(figure, Figure::Errors | Figure::Refused | Figure::Rate) {
        return Err(bad(&format!(
            "\"accepted.{name}\" is no figure: accepted stands before a percentile, mean or max"
        )));
    }
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
        accepted,
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
    fn failure(&self, point: &Point, answers: &Latency, outcomes: &Outcomes) -> Option<String> {
        let latency = |reached: Reached| match reached {
            Reached::TooFew => None,
            Reached::Us(us) => Some((us, in_time(us))),
            Reached::Never => {
                let words = outcomes.unanswered_in_words().unwrap_or_default();
                Some((
                    f64::INFINITY,
                    format!("{words}; they count as slower than any limit"),
                ))
            }
        };
        let of_share = |share: f64| Some((share, format!("{:.3} %", share * 100.0)));
        let (counted, population) = match self.accepted {
            true => (answers.count(), answers.count()),
            false => (outcomes.answers, outcomes.offered),
        };
        // A mean or a maximum of all exists where all of them were answered.
        let of_all = |us: Option<f64>| match us {
            _ if counted < population => Reached::Never,
            Some(us) => Reached::Us(us),
            None => Reached::TooFew,
        };
        let found = match self.figure {
            Figure::Percentile(percent) => latency(answers.reached_by(percent / 100.0, counted, population)),
            Figure::Mean => latency(of_all(point.latency.us_mean)),
            Figure::Max => latency(of_all(point.latency.us_max)),
            Figure::Errors => {
                of_share(outcomes.share(outcomes.failed + outcomes.refused + outcomes.not_sent))
            }
            Figure::Refused => of_share(outcomes.share(outcomes.refused)),
            Figure::Rate => Some((point.qps, format!("{:.0}/s", point.qps))),
        };
        let Some((found, words)) = found else {
            return Some(format!("{}: n/a, {population} samples are too few", self.text));
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

    /// A point with so many answers, of which the n-th took n microseconds.
    fn answered(count: u64) -> (Point, Latency) {
        let mut latency = Latency::new();
        (1..=count).for_each(|us| latency.record_ns(us * 1_000));
        let mut point = Point {
            qps: 900.0,
            ..Point::default()
        };
        point.counters.ok = count;
        point.latency = latency.summary();
        (point, latency)
    }

    fn failures(text: &str, (point, latency): &(Point, Latency)) -> Vec<String> {
        let outcome = Slo::parse(text).unwrap().judge(point, latency);
        assert_eq!(outcome.met, outcome.failures.is_empty());
        outcome.failures
    }

    #[test]
    fn objectives_are_held_against_figures() {
        let mut point = answered(9_990);
        point.0.counters.not_sent = 10;
        let failures = |text: &str| failures(text, &point);
        assert!(failures("p99 < 9.95ms, errors <= 0.1% and rate > 800").is_empty());
        assert_eq!(failures("p99 < 9ms, errors < 0.1%").len(), 2);
        assert_eq!(failures("p99<=0.00995s"), Vec::<String>::new());
        assert!(failures("accepted.p99.95 < 5ms")[0].contains("n/a, 9990 samples are too few"));
        assert!(failures("p99.95 < 5ms")[0].contains("10 of 10000 requests were never sent"));
        assert!(failures("rate>=1000")[0].contains("900/s"));
        let needed = Slo::parse("p50 < 1s, p99 < 2s, max < 3s")
            .unwrap()
            .samples_needed();
        assert!((needed - 1_000.0).abs() < 1e-6, "{needed}");
    }

    #[test]
    fn every_offered_request_counts_to_a_latency() {
        let mut point = answered(9_000);
        point.0.counters.refused.insert(30_101, 1_000);
        assert!(failures("p89 < 9ms, accepted.p99 < 9ms, accepted.max < 10ms", &point).is_empty());
        let said = failures("p91 < 60s, mean < 60s, max < 60s", &point);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(
            said.iter()
                .all(|said| said.contains("1000 of 10000 requests were refused; they count as slower")),
            "{said:?}"
        );
        // The percentile of all is that of fewer answers.
        assert!(failures("p50 < 5.1ms", &point).is_empty() && !failures("p50 < 4.9ms", &point).is_empty());
        assert!(!failures("accepted.p50 < 4.4ms", &point).is_empty());
        assert!(
            failures("accepted.p50 < 4.4ms", &point)[0].starts_with("accepted.p50 < 4.4ms: found 4.50 ms")
        );
        let none = (Point::default(), Latency::new());
        assert!(failures("p99 < 60s", &none)[0].contains("0 samples are too few"));
        assert!(failures("max < 60s", &none)[0].contains("0 samples are too few"));
    }

    #[test]
    fn a_percentile_is_missed_at_any_count_where_more_got_no_answer() {
        for refused in [true, false] {
            let mut point = answered(43);
            match refused {
                true => drop(point.0.counters.refused.insert(30_101, 818)),
                false => point.0.counters.wrong = 818,
            }
            let said = failures("p99 < 500ms", &point);
            assert!(
                said[0].starts_with("p99 < 500ms: found 818 of 861 requests ")
                    && !said[0].contains("too few"),
                "{said:?}"
            );
        }
        let mut point = answered(860);
        point.0.counters.wrong = 1;
        assert!(failures("p99 < 500ms", &point)[0].contains("861 samples are too few"));
    }

    #[test]
    fn failures_are_allowed_by_name_alone() {
        let mut point = answered(9_000);
        point.0.counters.wrong = 1_000;
        let said = failures("accepted.p99 < 60s, rate > 1", &point);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("1000 of 10000 requests failed, and this SLO does not say"));
        assert!(failures("accepted.p99 < 60s, errors < 11%", &point).is_empty());
        assert!(failures("accepted.p99 < 60s, errors < 9%", &point)[0].contains("10.000 %"));
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
        check("accepted.errors < 1%", "\"accepted.errors\" is no figure");
        check("accepted < 1s", "\"accepted\" is no figure");
        check("p99 =< 5ms", "\"p99 =\" is no figure");
        check("errors < 5ms", "expected a share");
        check("errors < 101%", "expected a share");
        check("rate > 5ms", "expected answers a second");
    }
}
