//! Whether a queue stands: for a while it was never short, and what it keeps waiting it only keeps waiting. It knows no clock and
//! refuses nothing. Its invariants: a queue that turns hardly anybody away does not stand, however long it is; and no queue stands
//! for longer than an episode without having been as long as deadlines allow in between.
//!
//! As in CoDel (RFC 8289): a queue that serves a burst becomes short again; one that stays above a target for an interval
//! serves nobody by its length. All is counted in full runs, so nothing is configured.
//!
//! From within an episode nobody can tell callers that only come back at once from too many calls: both are refused and come again. So an
//! episode ends, and the queue may grow up to deadlines; callers that find room there do not fill it any further. The
//! sooner deadlines refuse again, the longer is the next episode.

use std::time::{Duration, Instant};

/// Full runs that a call may wait in a queue that stands, and the least that this is.
const TARGET_RUNS: f64 = 3.0;
const TARGET_MIN: f64 = 1e-3;
/// Full runs after which a queue stands that was always above the target, and after which it does not when nobody was refused; and
/// the least that this is.
const INTERVAL_RUNS: f64 = 16.0;
const INTERVAL_MIN: f64 = 10e-3;
/// Of so many calls that come meanwhile one must be refused at least: then more come than are served. Callers that wait for
/// their answers can keep a queue long for ever; they would only come back at once.
const REFUSED_OF: u64 = 32;
/// The last so many calls tell, or half as many.
const CAME_MAX: u64 = 2048;
/// Full runs of the first episode, of each further one times the one before, and of the longest.
const EPISODE_RUNS: f64 = 256.0;
const LONGER: f64 = 8.0;
const EPISODE_RUNS_MAX: f64 = 16_384.0;
/// Seconds that an episode lasts at most, unless that is fewer than so many runs.
const EPISODE_MAX: f64 = 30.0;
const EPISODE_RUNS_MIN: f64 = 64.0;

/// A time during which a queue stands.
#[derive(Debug, Clone, Copy)]
struct Episode {
    /// The full runs that it may last.
    runs: f64,
    began: Instant,
    /// Its end at the latest.
    until: Instant,
    /// When a call was refused last that deadlines alone would not have refused at any time, or it began.
    refused: Instant,
}

impl Episode {
    /// When it is over, if nobody is refused any more, and whether that is because nobody was for an interval.
    fn end(&self, run: f64) -> (Instant, bool) {
        let calm = self.refused + interval(run);
        (calm.min(self.until), calm < self.until)
    }
}

/// A queue that may stand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    /// Since when every look has found it above the target.
    above_since: Option<Instant>,
    /// Calls that came meanwhile, and those of them that were refused.
    came: u64,
    refused: u64,
    /// The last episode.
    episode: Option<Episode>,
    /// For the statistics.
    episodes: u64,
}

/// Seconds that a call may wait in a queue that stands, where a full run takes so many.
pub(super) fn target(run: f64) -> f64 {
    (TARGET_RUNS * run).max(TARGET_MIN)
}

fn interval(run: f64) -> Duration {
    Duration::from_secs_f64((INTERVAL_RUNS * run).clamp(INTERVAL_MIN, 1e6))
}

impl Standing {
    /// What is left in the queue behind a batch that was just cut will take `left` seconds; a full run takes `run`.
    pub(super) fn look(&mut self, left: f64, run: f64, now: Instant) {
        let stands = self.limit(run, now).is_some();
        if left <= target(run) || stands {
            // What an episode refuses is no sign that there should be another.
            (self.above_since, self.came, self.refused) = (None, 0, 0);
        }
        if stands || left <= target(run) {
            return;
        }
        let since = *self.above_since.get_or_insert(now);
        let is_over = now.saturating_duration_since(since) >= interval(run);
        if is_over && self.refused * REFUSED_OF > self.came {
            self.begin(run, now);
        }
    }

    fn begin(&mut self, run: f64, now: Instant) {
        let is_soon = |last: &Episode| {
            let (end, is_calm) = last.end(run);
            !is_calm && now.saturating_duration_since(end) <= end.saturating_duration_since(last.began)
        };
        let runs = self
            .episode
            .filter(is_soon)
            .map_or(EPISODE_RUNS, |last| (last.runs * LONGER).min(EPISODE_RUNS_MAX));
        let longest = EPISODE_MAX.max(EPISODE_RUNS_MIN * run);
        let lasts = Duration::from_secs_f64((runs * run).min(longest).clamp(INTERVAL_MIN, 1e6));
        self.episode = Some(Episode {
            runs,
            began: now,
            until: now + lasts,
            refused: now,
        });
        self.episodes += 1;
        (self.above_since, self.came, self.refused) = (None, 0, 0);
    }

    /// A call was accepted.
    pub(super) fn accepted(&mut self) {
        self.came += 1;
        if self.came == CAME_MAX {
            // What was long ago counts less.
            (self.came, self.refused) = (self.came / 2, self.refused / 2);
        }
    }

    /// A call was refused, or gave way, that a queue as short as the target would have served in time.
    pub(super) fn refused(&mut self, run: f64, now: Instant) {
        self.accepted();
        self.refused += 1;
        if let Some(episode) = self.episode.as_mut().filter(|episode| now < episode.end(run).0) {
            episode.refused = now;
        }
    }

    /// The seconds that a call may wait now, if the queue stands.
    pub(super) fn limit(&self, run: f64, now: Instant) -> Option<f64> {
        let (end, _) = self.episode?.end(run);
        (now < end).then(|| target(run))
    }

    /// Episodes that there were.
    pub(super) fn episodes(&self) -> u64 {
        self.episodes
    }

    pub(super) fn forget_counts(&mut self) {
        self.episodes = 0;
    }
}

#[cfg(test)]
mod tests;
