//! Returns against lists that grow without an end, and the bound on what is remembered.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// What a source did, all of it.
#[derive(Debug, Clone, Default)]
struct Naive {
    answered: Option<Duration>,
    due: usize,
    gaps: Vec<Duration>,
}

impl Naive {
    fn kept(&self) -> &[Duration] {
        &self.gaps[self.gaps.len().saturating_sub(GAPS)..]
    }

    fn answered(&mut self, now: Duration) {
        let longest = self.kept().iter().max().copied().unwrap_or_default();
        let is_long_ago = self
            .answered
            .is_none_or(|at| at != now && now - at > longest + MS / 1000);
        self.due = if is_long_ago { 1 } else { self.due + 1 };
        self.answered = Some(now);
    }

    fn came(&mut self, now: Duration) -> bool {
        let is_due = self.due > 0;
        if let Some(at) = self.answered.filter(|_| is_due) {
            self.due -= 1;
            self.gaps.push(now - at);
        }
        is_due
    }
}

proptest! {
    #[test]
    fn it_does_what_the_naive_one_does(steps in prop::collection::vec((0..5u64, any::<bool>(), 0..7u32), 0..400)) {
        let origin = Instant::now();
        let mut returns = Returns::new(4, origin);
        let mut naive = vec![Naive::default(); 5];
        // Who was answered, and when, in order: no more than the last of these are expected.
        let mut answers: Vec<(u64, Duration)> = Vec::new();
        let mut now = Duration::ZERO;
        for (source, is_answer, later) in steps {
            now += later * 3 * MS;
            let one = &mut naive[source as usize];
            if is_answer {
                if one.answered != Some(now) {
                    answers.push((source, now));
                }
                one.answered(now);
                returns.answered(source, 1, origin + now);
            } else {
                prop_assert_eq!(returns.came(source, Noticed::at(origin + now)).is_some(), one.came(now));
            }
            prop_assert_eq!(returns.is_empty(), naive.iter().all(|one| one.due == 0));
            let recent = &answers[answers.len().saturating_sub(EXPECTED_MAX)..];
            let is_expected = |(source, one): &(usize, &Naive)| {
                let is_recent = one.answered.is_some_and(|at| recent.contains(&(*source as u64, at)));
                one.due > 0 && one.kept().len() >= GAPS_MIN && is_recent
            };
            let of = |due: usize, gaps: &mut dyn Iterator<Item = f64>| {
                (due, (gaps.sum::<f64>() * 1e3).round() as u64)
            };
            let mut expected: Vec<(usize, u64)> = naive.iter().enumerate().filter(is_expected)
                .map(|(_, one)| of(one.due, &mut one.kept().iter().map(Duration::as_secs_f64)))
                .collect();
            let mut found: Vec<(usize, u64)> = returns.expected(origin + now)
                .map(|one| of(one.due.into(), &mut one.gaps.iter().map(|gap| f64::from(*gap))))
                .collect();
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn sources_come_and_go_and_take_no_more_room() {
    let origin = Instant::now();
    let mut returns = Returns::new(4, origin);
    for source in 0..100_000u64 {
        let now = origin + source as u32 * MS;
        returns.answered(source, 1, now);
        assert!(returns.due <= SOURCES);
        if source % 3 == 0 {
            assert!(
                returns.came(source, Noticed::at(now + MS)).is_some(),
                "the one answered last is remembered"
            );
        }
    }
    assert_eq!(returns.sources.len(), SOURCES);
    assert_eq!(returns.expected(origin).count(), 0, "none came four times");
    let due: usize = returns.sources.iter().map(|source| usize::from(source.due)).sum();
    assert_eq!(returns.due, due);
}

#[test]
fn where_every_request_runs_alone_nothing_is_remembered() {
    let origin = Instant::now();
    let mut returns = Returns::new(1, origin);
    returns.answered(1, 1, origin);
    assert!(returns.is_empty() && returns.came(1, Noticed::at(origin)).is_none());
    assert_eq!(returns.sources.len(), 0);
}

#[test]
fn a_request_that_came_during_a_run_came_when_its_source_usually_does() {
    let origin = Instant::now();
    let mut returns = Returns::new(4, origin);
    let mut now = origin;
    let mut gap_us = |returns: &mut Returns, away_us: u32, read_us: u32| {
        now += MS;
        returns.answered(1, 1, now);
        let us = |us: u32| now + us * (MS / 1000);
        let noticed = Noticed {
            at: us(read_us),
            away_since: Some(us(away_us)),
        };
        let came = returns.came(1, noticed).unwrap();
        (came - now).as_secs_f64() * 1e6
    };
    let mut is_about = |away_us, read_us, expected: f64| {
        let found = gap_us(&mut returns, away_us, read_us);
        assert!((found - expected).abs() < 0.5, "{found} instead of {expected}");
    };
    // Of a source that nothing is known of it came in the middle.
    is_about(0, 100, 50.0);
    is_about(0, 100, 50.0);
    // It was read when it came; from then on its gaps are 60 µs on average.
    is_about(80, 80, 80.0);
    is_about(0, 100, 60.0 - 10.0 / 16.0);
    // What it usually takes had passed before.
    is_about(100, 200, 100.0);
    is_about(0, 40, 40.0);
}
