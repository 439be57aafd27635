//! Whether the queue of the log stands: a queue serves bursts, and one that is never short makes every write wait for nothing. As in
//! CoDel (RFC 8289), but counted in groups of the log: writes without a deadline have no predicted wait.
//!
//! It refuses nothing. Its invariants: a queue that turns hardly any write away does not stand; and none stands for longer than an episode
//! without having been as long as configured in between, so that callers which only come back at once are not refused for ever.

/// Groups that may wait in a queue that stands.
const TARGET: usize = 3;
/// Groups taken one after the other, each with more than these left behind it, after which a queue stands; and groups after which it
/// does not when no write was refused.
const INTERVAL: u64 = 16;
/// Of so many writes that come meanwhile one must be refused at least: then more come than the disk takes.
const REFUSED_OF: u64 = 32;
/// The shares are of the last so many writes, or of half as many.
const CAME_MAX: u64 = 2048;
/// Groups of the first episode, of each further one times the one before, and of the longest.
const EPISODE: u64 = 256;
const LONGER: u64 = 8;
const EPISODE_MAX: u64 = 16_384;

/// A time during which a queue stands, by the numbers of groups.
#[derive(Debug, Clone, Copy)]
struct Episode {
    began: u64,
    until: u64,
    /// When a write was refused last, or it began.
    refused: u64,
    /// Bytes that may wait.
    bytes_max: usize,
}

impl Episode {
    /// When it is over, if no write is refused any more, and whether that is because none was for a while.
    fn end(&self) -> (u64, bool) {
        let calm = self.refused + INTERVAL;
        (calm.min(self.until), calm < self.until)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Groups that were taken: what stands for time here.
    groups: u64,
    /// Of these, since the queue was short.
    above: u64,
    /// Writes that came since then, and those refused.
    came: u64,
    refused: u64,
    /// The last episode.
    episode: Option<Episode>,
}

impl Standing {
    /// A group of up to `group_bytes_max` was taken, and so many bytes are left behind it.
    pub(crate) fn took(&mut self, left: usize, group_bytes_max: usize) {
        let target = group_bytes_max.saturating_mul(TARGET);
        self.groups += 1;
        if left == 0 {
            // It has drained. An idle log takes no groups, so this cannot wait for their number.
            self.episode = None;
        }
        if left <= target || self.bytes_max().is_some() {
            // What an episode refuses is no sign that there should be another.
            (self.above, self.came, self.refused) = (0, 0, 0);
            return;
        }
        self.above += 1;
        if self.above >= INTERVAL && self.refused * REFUSED_OF > self.came {
            self.begin(target);
        }
    }

    fn begin(&mut self, bytes_max: usize) {
        let groups = self.groups;
        let is_soon = |last: &Episode| {
            let (end, is_calm) = last.end();
            !is_calm && groups.saturating_sub(end) <= end - last.began
        };
        let lasts = self.episode.filter(is_soon).map_or(EPISODE, |last| {
            ((last.until - last.began) * LONGER).min(EPISODE_MAX)
        });
        self.episode = Some(Episode {
            began: groups,
            until: groups + lasts,
            refused: groups,
            bytes_max,
        });
        (self.above, self.came, self.refused) = (0, 0, 0);
    }

    /// A write has come, and was taken in or not.
    pub(crate) fn came(&mut self, is_refused: bool) {
        self.came += 1;
        self.refused += u64::from(is_refused);
        if self.came > CAME_MAX {
            // What was long ago counts less.
            (self.came, self.refused) = (self.came / 2, self.refused / 2);
        }
        let groups = self.groups;
        if let Some(episode) = self
            .episode
            .as_mut()
            .filter(|episode| is_refused && groups < episode.end().0)
        {
            episode.refused = groups;
        }
    }

    /// Bytes that may wait, if the queue stands.
    pub(crate) fn bytes_max(&self) -> Option<usize> {
        let episode = self.episode?;
        (self.groups < episode.end().0).then_some(episode.bytes_max)
    }
}
