//! Who has been answered and has not come back, and after how long each source came back before. It decides nothing and knows no
//! queue. Its invariants: it takes the same memory whatever comes, and allocates nothing once it is made.
//!
//! A source is the next request of its connection, whoever sends it: one that was answered three times is expected three times.
//! A gap lasts from the end of the run that answered, so the way to the caller and back is in it. Where the thread that reads
//! requests was busy with a run, a request came at an unknown time of that run: what is known of its source decides, see [`Noticed`].

use std::time::{Duration, Instant};

/// Gaps that are kept of a source.
const GAPS: usize = 16;
/// A source with fewer is not expected.
const GAPS_MIN: usize = 4;
/// Sources that are remembered, in sets of [`WAYS`]: in a set the one that was answered longest ago gives way.
const SOURCES: usize = 512;
const WAYS: usize = 4;
/// Of the sources that were answered last so many are expected.
const EXPECTED_MAX: usize = 32;
/// What a request that may have come at any time of a run adds to what is known of its source, beside what it would add by the middle of
/// that time: what agrees with all that is known should hardly change it.
const MIDDLE_WEIGHT: f32 = 1.0 / 16.0;
/// The number of no source.
const NOBODY: u64 = u64::MAX;

#[derive(Debug, Clone, Copy)]
struct Source {
    number: u64,
    /// When it was answered last, in seconds.
    answered: f64,
    /// Answers that no request has followed yet.
    due: u16,
    /// How many gaps are kept, and where the next one goes.
    kept: u8,
    next: u8,
    /// Rows of the last request that was answered.
    rows: u32,
    gaps: [f32; GAPS],
}

impl Source {
    const NONE: Source = Source {
        number: NOBODY,
        answered: f64::NEG_INFINITY,
        due: 0,
        kept: 0,
        next: 0,
        rows: 0,
        gaps: [0.0; GAPS],
    };

    fn gaps(&self) -> &[f32] {
        &self.gaps[..self.kept.into()]
    }

    /// A gap that lies between these.
    fn gap_between(&self, shortest: f32, longest: f32) -> f32 {
        let middle = f32::midpoint(shortest, longest);
        if self.kept == 0 {
            return middle;
        }
        let mean = self.gaps().iter().sum::<f32>() / f32::from(self.kept);
        (mean + MIDDLE_WEIGHT * (middle - mean)).clamp(shortest.min(longest), longest)
    }

    fn longest(&self) -> f32 {
        self.gaps().iter().copied().fold(0.0, f32::max)
    }
}

/// When a request came, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noticed {
    /// It was read then.
    pub at: Instant,
    /// Since then the thread that read it had looked for none; `None` if it came when it was read.
    pub away_since: Option<Instant>,
}

impl Noticed {
    pub(super) fn at(at: Instant) -> Noticed {
        let away_since = None;
        Noticed { at, away_since }
    }
}

/// A source that may come back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    /// How many requests it may send.
    pub due: u16,
    pub rows: u32,
    /// Seconds since it was answered.
    pub age: f64,
    pub gaps: &'a [f32],
}

pub(super) struct Returns {
    /// None where no run takes more than one request.
    sources: Box<[Source]>,
    /// Places of those that were answered last and when, round and round.
    recent: [(u32, f64); EXPECTED_MAX],
    next: usize,
    /// Answers that no request has followed yet, of all that are remembered.
    due: usize,
    origin: Instant,
}

impl Returns {
    pub(super) fn new(batch_size_max: usize, origin: Instant) -> Returns {
        let sources = if batch_size_max > 1 { SOURCES } else { 0 };
        Returns {
            sources: vec![Source::NONE; sources].into(),
            recent: [(0, f64::NAN); EXPECTED_MAX],
            next: 0,
            due: 0,
            origin,
        }
    }

    /// Whether nobody may come back.
    pub(super) fn is_empty(&self) -> bool {
        self.due == 0
    }

    /// A request of `source` has come. Returns when, if it had been answered before.
    pub(super) fn came(&mut self, source: u64, noticed: Noticed) -> Option<Instant> {
        if self.due == 0 {
            return None;
        }
        let (read, away_since) = (self.seconds(noticed.at), noticed.away_since);
        let away_since = away_since.map_or(read, |since| self.seconds(since));
        let mut found = self.set(source).iter_mut().filter(|found| found.number == source);
        let found = found.next().filter(|found| found.due > 0)?;
        let since = |from: f64| (from - found.answered).max(0.0) as f32;
        let gap = found.gap_between(since(away_since), since(read));
        found.due -= 1;
        found.gaps[usize::from(found.next)] = gap;
        found.next = (found.next + 1) % GAPS as u8;
        found.kept = (found.kept + 1).min(GAPS as u8);
        let answered = found.answered;
        self.due -= 1;
        Some(self.origin + Duration::from_secs_f64((answered + f64::from(gap)).max(0.0)))
    }

    /// A request of `source` was answered by a run that ended now.
    pub(super) fn answered(&mut self, source: u64, rows: usize, now: Instant) {
        if self.sources.is_empty() || source == NOBODY {
            return;
        }
        let now = self.seconds(now);
        let first = Returns::first_of(source);
        let set = self.set(source);
        let oldest = (0..WAYS).min_by(|a, b| set[*a].answered.total_cmp(&set[*b].answered));
        let known = set.iter().position(|found| found.number == source);
        let Some(at) = known.or(oldest) else { return };
        let found = &mut set[at];
        let before = usize::from(found.due);
        if known.is_none() {
            *found = Source {
                number: source,
                ..Source::NONE
            };
        }
        let is_first = found.answered != now;
        if is_first && (now - found.answered) as f32 > found.longest() {
            // Nobody was ever away for so long: of that answer nobody comes back.
            found.due = 0;
        }
        found.answered = now;
        found.due = found.due.saturating_add(1);
        found.rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let after = usize::from(found.due);
        self.due = self.due + after - before;
        if is_first {
            self.recent[self.next] = ((first + at) as u32, now);
            self.next = (self.next + 1) % EXPECTED_MAX;
        }
    }

    /// Those that were answered last and have not come back, as far as it is known how long they stay away.
    pub(super) fn expected(&self, now: Instant) -> impl Iterator<Item = Expected<'_>> {
        let now = self.seconds(now);
        let recent = self.recent.iter();
        recent.filter_map(move |&(place, answered)| {
            let source = self.sources.get(place as usize)?;
            let is_due = source.due > 0 && source.answered == answered;
            (is_due && source.gaps().len() >= GAPS_MIN).then(|| Expected {
                due: source.due,
                rows: source.rows,
                age: now - answered,
                gaps: source.gaps(),
            })
        })
    }

    fn first_of(source: u64) -> usize {
        // 2^64 divided by the golden ratio; the high bits are the best spread.
        let spread = source.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        spread as usize % (SOURCES / WAYS) * WAYS
    }

    fn set(&mut self, source: u64) -> &mut [Source] {
        let first = Returns::first_of(source);
        self.sources.get_mut(first..first + WAYS).unwrap_or_default()
    }

    fn seconds(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.origin).as_secs_f64()
    }
}

#[cfg(test)]
mod tests;
