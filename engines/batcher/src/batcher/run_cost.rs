//! What a run costs whatever its rows, learnt from runs by their size. It refuses nothing: that is for `forecast`, whose
//! averages forget sizes that are no longer seen. Its invariant: no one run, however long, moves it for long.
//!
//! Sizes fall into classes, a power of two each; a class keeps its last eight runs and stands for the median of them. The line
//! through the classes is a least squares one, in which a class counts less the longer it was not seen. A class of one run may be
//! one that was held up: it counts as no more than the line through the others gives.

use std::time::Duration;

/// Classes of sizes: 1, 2, 3 to 4, 5 to 8, … rows; the last holds all that are larger.
const CLASSES: usize = 16;
/// Runs that a class keeps.
const KEPT: usize = 8;
/// Runs after which it does not count at all: the model may have become another one.
const KNOWN_FOR: u64 = 16_384;
/// Runs after which a class that was not seen again counts half.
const HALVED_AFTER: f64 = 256.0;
/// A class with fewer runs may stand for one that was held up. Of two the shorter one counts.
const SURE: u8 = 2;
/// The part of a run that counts as its fixed cost while runs of one size alone are known.
const ASSUMED: f64 = 0.5;

/// The last runs of one class.
#[derive(Debug, Clone, Copy, Default)]
struct Class {
    seconds: [f32; KEPT],
    rows: [f32; KEPT],
    /// How many runs it keeps, and where the next one goes.
    kept: u8,
    next: u8,
    /// The number of the last of them.
    last: u64,
}

impl Class {
    /// Its middle run, by rows and by time.
    fn median(&self) -> Option<(f64, f64)> {
        let kept = usize::from(self.kept);
        let middle = |mut of: [f32; KEPT]| {
            let of = of.get_mut(..kept)?;
            of.sort_unstable_by(f32::total_cmp);
            of.get(kept.checked_sub(1)? / 2).map(|&found| f64::from(found))
        };
        Some((middle(self.rows)?, middle(self.seconds)?))
    }
}

/// What a run takes: `fixed + row * rows` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Cost {
    pub fixed: f64,
    pub row: f64,
}

impl Cost {
    pub(super) fn of(self, rows: usize) -> f64 {
        self.fixed + self.row * rows as f64
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct RunCost {
    classes: [Class; CLASSES],
    runs: u64,
}

impl RunCost {
    pub(super) fn observe(&mut self, rows: usize, took: Duration) {
        let bits = rows.max(1).next_power_of_two().trailing_zeros() as usize;
        let class = &mut self.classes[bits.min(CLASSES - 1)];
        self.runs += 1;
        class.last = self.runs;
        let at = usize::from(class.next);
        class.next = (class.next + 1) % KEPT as u8;
        class.kept = (class.kept + 1).min(KEPT as u8);
        (class.rows[at], class.seconds[at]) = (rows as f32, took.as_secs_f32());
    }

    /// `None` before a run was seen.
    pub(super) fn fitted(&self) -> Option<Cost> {
        let mut points = [Point::default(); CLASSES];
        let is_known = |class: &&Class| self.runs - class.last <= KNOWN_FOR;
        for (class, point) in self.classes.iter().filter(is_known).zip(&mut points) {
            if let Some((rows, seconds)) = class.median() {
                let unseen = (self.runs - class.last) as f64;
                *point = Point {
                    weight: f64::from(class.kept) / (1.0 + unseen / HALVED_AFTER),
                    rows,
                    seconds,
                    is_sure: class.kept >= SURE,
                };
            }
        }
        for at in 0..CLASSES {
            let Point { rows, is_sure, .. } = points[at];
            let (before, others) = points.split_at(at);
            let others = before.iter().chain(others.iter().skip(1));
            let says = others.clone().filter(|other| other.weight > 0.0).count();
            if !is_sure
                && says > 1
                && let Some(likely) = line(others)
            {
                points[at].seconds = points[at].seconds.min(likely.fixed + likely.row * rows);
            }
        }
        line(points.iter())
    }
}

/// What a class says.
#[derive(Debug, Clone, Copy, Default)]
struct Point {
    /// Zero: nothing.
    weight: f64,
    rows: f64,
    seconds: f64,
    is_sure: bool,
}

/// The least squares line; `None` where no point says anything.
fn line<'a>(points: impl Iterator<Item = &'a Point> + Clone) -> Option<Cost> {
    let weight: f64 = points.clone().map(|point| point.weight).sum();
    if weight == 0.0 {
        return None;
    }
    let mean = |of: fn(&Point) -> f64| {
        let weighed = points.clone().map(|point| point.weight * of(point));
        weighed.sum::<f64>() / weight
    };
    let (rows, seconds) = (mean(|point| point.rows), mean(|point| point.seconds));
    let (mut variance, mut covariance) = (0.0, 0.0);
    for point in points.clone() {
        let off = point.rows - rows;
        variance += point.weight * off * off;
        covariance += point.weight * off * (point.seconds - seconds);
    }
    // Without rows a run takes no less than nothing, and more rows take no less time than fewer.
    let row_max = seconds / rows;
    let row = match variance > 0.0 {
        true => (covariance / variance).clamp(0.0, row_max),
        false => row_max * (1.0 - ASSUMED),
    };
    Some(Cost {
        fixed: seconds - row * rows,
        row,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// The fixed cost in microseconds after these runs of (rows, us).
    fn fixed_us(runs: impl IntoIterator<Item = (usize, u32)>) -> f64 {
        let mut cost = RunCost::default();
        for (rows, us) in runs {
            cost.observe(rows, us * US);
        }
        cost.fitted().unwrap().fixed * 1e6
    }

    fn check(found: f64, expected: f64, within: f64) {
        assert!(
            (found - expected).abs() <= within,
            "{found} us, expected {expected}"
        );
    }

    #[test]
    fn nothing_is_said_before_a_run_was_seen() {
        assert_eq!(RunCost::default().fitted(), None);
    }

    #[test]
    fn one_size_alone_leaves_half_to_the_run() {
        check(fixed_us([(1, 2100); 50]), 1050.0, 1.0);
        check(fixed_us([(4, 2400); 50]), 1200.0, 1.0);
    }

    #[test]
    fn two_sizes_tell_a_run_from_its_rows() {
        check(fixed_us([(1, 2100), (4, 2400)].repeat(4)), 2000.0, 1.0);
        check(fixed_us([(1, 1000), (4, 4000)].repeat(4)), 0.0, 1.0);
        check(
            fixed_us((1..200).map(|rows| (rows, 500 + 3 * rows as u32))),
            500.0,
            5.0,
        );
    }

    #[test]
    fn a_size_that_is_no_longer_seen_is_not_forgotten_at_once() {
        let once = [(1, 2100), (2, 2200)].into_iter();
        check(fixed_us(once.chain([(2, 2200); 1000])), 2000.0, 1.0);
    }

    #[test]
    fn runs_that_were_held_up_move_nothing() {
        let held_up = |turn: usize| if turn.is_multiple_of(5) { 30_000 } else { 0 };
        let runs = (0..400).map(|turn| (1 + turn % 4, 2000 + 100 * (1 + turn % 4) as u32 + held_up(turn)));
        check(fixed_us(runs), 2000.0, 150.0);
    }

    /// A run each of 1, 16 and 256 rows, one of them held up, and then runs of four rows, or of several sizes.
    #[test]
    fn one_run_that_was_held_up_moves_little_whatever_its_size() {
        let truly = |rows: u32| 2000 + 100 * rows;
        for held_up in [1, 16, 256, 300] {
            let warm_up = [1, 16, 256].map(|rows| {
                let us = match held_up {
                    300 if rows == 256 => 300_000,
                    _ if rows == held_up => 30_000,
                    _ => 0,
                };
                (rows as usize, truly(rows).max(us))
            });
            let fours = warm_up.into_iter().chain([(4, truly(4)); 30]);
            check(fixed_us(fours), 2000.0, 500.0);
            let several = [1, 2, 4]
                .repeat(5)
                .into_iter()
                .map(|rows| (rows as usize, truly(rows)));
            check(fixed_us(warm_up.into_iter().chain(several)), 2000.0, 100.0);
        }
        let before = [1, 2, 4]
            .repeat(20)
            .into_iter()
            .map(|rows| (rows as usize, truly(rows)));
        check(fixed_us(before.chain([(256, 300_000)])), 2000.0, 100.0);
    }

    #[test]
    fn of_two_runs_the_shorter_one_counts() {
        for [first, second] in [[30_000, 2100], [2100, 30_000]] {
            check(
                fixed_us([(1, first), (1, second), (4, 9000), (4, 2400)]),
                2000.0,
                1.0,
            );
        }
    }

    #[test]
    fn sizes_that_are_seen_again_and_again_are_believed() {
        // More rows than fit somewhere take more than their share.
        let small = [1, 2, 4]
            .repeat(8)
            .into_iter()
            .map(|rows: u32| (rows as usize, 2000 + 100 * rows));
        let fixed = fixed_us(small.chain([(256, 300_000); 2]));
        assert!(fixed < 500.0, "{fixed}");
    }

    #[test]
    fn a_size_that_was_not_seen_for_long_says_nothing_of_a_faster_model() {
        let before = [(1, 2100), (4, 2400)].repeat(8).into_iter();
        check(
            fixed_us(before.chain(std::iter::repeat_n((1, 310), 20_000))),
            155.0,
            1.0,
        );
    }

    #[test]
    fn a_model_that_becomes_faster_is_followed() {
        let sizes = |us: u32| {
            [(1, us + 100), (2, us + 200), (4, us + 400)]
                .into_iter()
                .cycle()
                .take(60)
        };
        check(fixed_us(sizes(2000).chain(sizes(500))), 500.0, 1.0);
    }
}
