//! Whether it pays to wait for callers that were just answered before the next run begins, and how long. It keeps nothing and knows
//! no clock. Its invariant: without a caller that is known to come back in time it pays for nobody.
//!
//! Waiting `w` seconds with `q` requests delays these and whatever comes too late for the run by `w` each; a caller that joins after
//! `g` seconds is answered a run earlier than otherwise, less what it waited for: `saving - g` seconds. A caller that
//! mostly comes back within a run will do so after the next one as well, so what it saves counts again with that chance.

use super::returns::Expected;

/// Waits that are weighed, short ones more closely: the squares of even steps.
const STEPS: usize = 24;
/// A caller that always comes back in time saves as many runs as this at most.
const AGAIN_MAX: f64 = 1.5;

/// What waits, and what waiting is worth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    /// Requests that wait.
    pub requests: usize,
    /// Rows that the run can take besides.
    pub room: usize,
    /// Seconds that a caller gains that joins at once.
    pub saving: f64,
    /// Seconds that the run is expected to take.
    pub run: f64,
    /// No wait may be longer.
    pub longest: f64,
}

/// A wait that pays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wait {
    pub seconds: f64,
    /// Callers that are expected to join.
    pub joiners: f64,
}

/// What is expected by the end of each step.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Callers that have come back in this step.
    come: f64,
    /// What they add to the variance of all that have come by its end.
    variance: f64,
    /// What they gain by it.
    gain: f64,
}

pub(super) fn best_wait<'a>(scene: Scene, expected: impl Iterator<Item = Expected<'a>>) -> Option<Wait> {
    let longest = scene.longest.min(scene.saving);
    if longest <= 0.0 || scene.room == 0 {
        return None;
    }
    let mut steps = [Step::default(); STEPS];
    // All that come back before the run would have ended, and what they have in rows.
    let (mut all, mut callers, mut rows) = (0.0, 0.0, 0.0);
    for source in expected {
        all += source.weigh(&scene, longest, &mut steps);
        callers += f64::from(source.due);
        rows += f64::from(source.due) * f64::from(source.rows);
    }
    if all <= 0.0 {
        return None;
    }
    let room = (scene.room as f64 * callers / f64::max(rows, 1.0)).floor();
    let mut best: Option<(f64, Wait)> = None;
    let (mut come, mut variance, mut gain) = (0.0, 0.0, 0.0);
    for (number, step) in steps.iter().enumerate() {
        come += step.come;
        variance += step.variance;
        gain += step.gain;
        let joiners = at_most(come, variance, room);
        let seconds = longest * (((number + 1) as f64) / STEPS as f64).powi(2);
        let others = (all - joiners).max(0.0);
        let pays = gain * joiners / f64::max(come, 1e-9) - seconds * (scene.requests as f64 + others);
        if pays > best.map_or(0.0, |(most, _)| most) {
            best = Some((pays, Wait { seconds, joiners }));
        }
    }
    best.map(|(_, wait)| wait)
}

impl Expected<'_> {
    /// Adds what is expected of this source to the steps, and returns how many of its callers come before the run would have ended.
    fn weigh(&self, scene: &Scene, longest: f64, steps: &mut [Step; STEPS]) -> f64 {
        let due = f64::from(self.due);
        let left = |gap: &f32| f64::from(*gap) - self.age;
        let away = self.gaps.iter().filter(|gap| left(gap) > 0.0).count();
        if away == 0 {
            return 0.0;
        }
        let short = self
            .gaps
            .iter()
            .filter(|gap| f64::from(**gap) < scene.run)
            .count();
        let share = short as f64 / self.gaps.len() as f64;
        let again = 1.0 + share * (AGAIN_MAX - 1.0);
        // One gap longer than any before is always possible.
        let chance = due / (away + 1) as f64;
        let mut all = 0.0;
        let mut come = [0u8; STEPS];
        for gap in self.gaps {
            let left = left(gap);
            if left <= 0.0 || left > scene.run.max(longest) {
                continue;
            }
            all += chance;
            if left <= longest && self.rows as usize <= scene.room {
                let at = (((left / longest).sqrt() * STEPS as f64) as usize).min(STEPS - 1);
                come[at] += 1;
                steps[at].gain += chance * (scene.saving * again - left);
            }
        }
        // Each of its callers has come by then or not: a number of that many trials.
        let (mut mean, mut variance) = (0.0, 0.0);
        for (step, come) in steps.iter_mut().zip(come) {
            let share = chance * f64::from(come);
            mean += share;
            let by_then = mean * (1.0 - mean / due).max(0.0);
            step.come += share;
            step.variance += by_then - variance;
            variance = by_then;
        }
        all
    }
}

/// The mean of the lesser of `most` and a number with this mean and variance.
fn at_most(mean: f64, variance: f64, most: f64) -> f64 {
    let deviation = variance.sqrt().max(0.05);
    let over = (mean - most) / deviation;
    // The mean excess of a normal number, by a logistic one.
    let excess = if over > 8.0 {
        over
    } else {
        (1.7 * over).exp().ln_1p() / 1.7
    };
    (mean - deviation * excess).clamp(0.0, most)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const MS: f64 = 1e-3;

    fn scene(requests: usize, room: usize) -> Scene {
        Scene {
            requests,
            room,
            saving: 2.0 * MS,
            run: 2.1 * MS,
            longest: 2.0 * MS,
        }
    }

    /// The wait, in milliseconds, for sources of one row that were answered so long ago and have these gaps.
    fn wait_ms(scene: Scene, sources: &[(f64, [f32; 4])]) -> Option<f64> {
        let expected = sources.iter().map(|(age, gaps)| Expected {
            due: 1,
            rows: 1,
            age: age * MS,
            gaps,
        });
        best_wait(scene, expected).map(|wait| wait.seconds / MS)
    }

    /// Back after 0.1 ms, or a little more.
    const SOON: [f32; 4] = [0.1e-3, 0.12e-3, 0.11e-3, 0.1e-3];

    #[test]
    fn a_caller_that_comes_back_soon_is_waited_for() {
        let wait = wait_ms(scene(1, 3), &[(0.0, SOON)]).unwrap();
        assert!((0.12..0.3).contains(&wait), "{wait}");
    }

    #[test]
    fn nobody_is_waited_for_who_is_away_longer_than_ever() {
        assert_eq!(wait_ms(scene(1, 3), &[(0.13, SOON)]), None);
    }

    #[test]
    fn nobody_is_waited_for_without_room_or_time() {
        assert_eq!(wait_ms(scene(1, 0), &[(0.0, SOON)]), None);
        let hurried = Scene {
            longest: 0.0,
            ..scene(1, 3)
        };
        assert_eq!(wait_ms(hurried, &[(0.0, SOON)]), None);
        let late = Scene {
            longest: 0.05 * MS,
            ..scene(1, 3)
        };
        assert_eq!(wait_ms(late, &[(0.0, SOON)]), None);
    }

    #[test]
    fn the_more_wait_the_less_one_caller_is_worth() {
        let later = [1.0e-3, 1.1e-3, 0.9e-3, 1.0e-3];
        assert!(wait_ms(scene(1, 30), &[(0.0, later)]).is_some());
        assert_eq!(wait_ms(scene(8, 30), &[(0.0, later)]), None);
        assert!(wait_ms(scene(8, 30), &[(0.0, SOON)]).is_some());
    }

    #[test]
    fn callers_that_come_at_random_are_not_waited_for() {
        let gaps = |source: usize| [10, 30, 60, 130].map(|ms| (ms + source) as f32 * 1e-3);
        let sources: Vec<_> = (0..32).map(|source| (source as f64, gaps(source))).collect();
        assert_eq!(wait_ms(scene(1, 3), &sources), None);
    }

    #[test]
    fn a_request_that_the_run_cannot_take_is_not_waited_for() {
        let large = Expected {
            due: 1,
            rows: 4,
            age: 0.0,
            gaps: &SOON,
        };
        assert_eq!(best_wait(scene(1, 3), [large].into_iter()), None);
        assert!(best_wait(scene(1, 4), [large].into_iter()).is_some());
    }

    #[test]
    fn the_lesser_of_a_number_and_the_room_is_close_to_what_it_is() {
        for (mean, variance, most, expected) in [
            (0.0, 0.0, 3.0, 0.0),
            (2.0, 0.01, 8.0, 2.0),
            (8.0, 1.0, 2.0, 2.0),
            (2.0, 1.0, 2.0, 1.6),
        ] {
            let found = at_most(mean, variance, most);
            assert!(
                (found - expected).abs() < 0.05,
                "{mean} {variance} {most}: {found}"
            );
        }
    }
}
