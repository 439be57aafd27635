//! Where the edge between rates that meet an SLO and rates that miss it lies, as far as it is known.
//!
//! It offers nothing itself: it is told how each attempt ended, and says which rate to offer next. Its invariant: what one
//! disturbed attempt says of a rate does not stand for ever, because both sides of the edge are offered again.

use std::collections::BTreeMap;

/// Doubling, bisection and repeats over a range of rates.
pub struct Edge {
    start: f64,
    max: f64,
    resolution: f64,
    /// Attempts that each side of the edge must have behind it.
    repeats: u32,
    /// By rate, in order: the bits of positive numbers are in the order of the numbers.
    votes: BTreeMap<u64, Votes>,
}

/// How the attempts at one rate ended.
#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    met: u32,
    missed: u32,
    /// Whether the last miss was the load generator's.
    is_generator: bool,
}

impl Votes {
    /// A tie is no rate that can be relied on.
    fn is_missed(self) -> bool {
        self.missed > 0 && self.missed >= self.met
    }

    /// Whether more attempts would change nothing.
    fn is_settled(self, repeats: u32) -> bool {
        let majority = repeats / 2 + 1;
        self.met + self.missed >= repeats || self.missed >= majority
    }
}

/// What to offer next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Next {
    /// Requests a second.
    pub rate: f64,
    /// Which attempt at it this is, from 1.
    pub attempt: usize,
}

impl Edge {
    /// A search from `start` up to `max`, until the edge is known to the share `resolution`, with `repeats` attempts at both sides of it.
    pub fn new(start: f64, max: f64, resolution: f64, repeats: usize) -> Edge {
        Edge {
            start,
            max,
            resolution,
            repeats: u32::try_from(repeats).unwrap_or(u32::MAX).max(1),
            votes: BTreeMap::new(),
        }
    }

    /// Takes how an attempt ended.
    pub fn vote(&mut self, rate: f64, met: bool, is_generator: bool) {
        let votes = self.votes.entry(rate.to_bits()).or_default();
        if met {
            votes.met += 1;
        } else {
            votes.missed += 1;
            votes.is_generator = is_generator;
        }
    }

    /// The lowest rate that missed the SLO.
    pub fn missed(&self) -> Option<f64> {
        let mut missed = self.votes.iter().filter(|(_, votes)| votes.is_missed());
        missed.next().map(|(bits, _)| f64::from_bits(*bits))
    }

    /// The highest rate that met it, of those below the lowest that missed it.
    pub fn met(&self) -> Option<f64> {
        let below = self.votes.iter().take_while(|(_, votes)| !votes.is_missed());
        below.last().map(|(bits, _)| f64::from_bits(*bits))
    }

    /// Whether the lowest rate that missed it did so because the load generator was the limit.
    pub fn is_generator(&self) -> bool {
        let missed = self.missed().and_then(|rate| self.votes.get(&rate.to_bits()));
        missed.is_some_and(|votes| votes.is_generator)
    }

    /// What to offer next; nothing when the edge is known, or nothing more can be.
    pub fn next(&self) -> Option<Next> {
        if let Some(rate) = self.fresh() {
            return Some(Next { rate, attempt: 1 });
        }
        let unsettled = [self.met(), self.missed()]
            .into_iter()
            .flatten()
            .find_map(|rate| {
                let votes = self.votes.get(&rate.to_bits()).copied().unwrap_or_default();
                (!votes.is_settled(self.repeats)).then_some((rate, votes))
            });
        unsettled.map(|(rate, votes)| Next {
            rate,
            attempt: (votes.met + votes.missed) as usize + 1,
        })
    }

    /// The next rate that was not tried: double while nothing was missed, halve while nothing was met, then the middle.
    fn fresh(&self) -> Option<f64> {
        let (met, missed) = (self.met(), self.missed());
        let next = match (met, missed) {
            (None, None) => self.start,
            (Some(met), None) if met >= self.max => return None,
            (Some(met), None) => (2.0 * met).min(self.max),
            (None, Some(missed)) if missed <= 1.0 => return None,
            (None, Some(missed)) => (missed / 2.0).max(1.0),
            (Some(met), Some(missed)) if missed <= met * (1.0 + self.resolution) => return None,
            // In the middle of the ratio: the edge is as likely in either part.
            (Some(met), Some(missed)) => (met * missed).sqrt(),
        };
        // Whole rates read better, and nothing is known more exactly.
        let next = if next > 1_000.0 {
            next.round()
        } else {
            (next * 10.0).round() / 10.0
        };
        (Some(next) != met && Some(next) != missed).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS_MAX: usize = 60;

    /// Walks against a server whose capacity is known; attempt number `disturbed` ends the wrong way.
    fn search(capacity: f64, start: f64, max: f64, disturbed: Option<usize>) -> (Edge, usize) {
        let mut edge = Edge::new(start, max, 0.03, 3);
        for step in 0..STEPS_MAX {
            let Some(next) = edge.next() else {
                return (edge, step);
            };
            let met = next.rate <= capacity;
            edge.vote(next.rate, met != (disturbed == Some(step)), false);
        }
        panic!("{capacity}: no end after {STEPS_MAX} attempts")
    }

    fn holds(capacity: f64, edge: &Edge) {
        let (met, missed) = (edge.met().unwrap_or_default(), edge.missed().unwrap_or_default());
        assert!(
            met <= capacity && capacity < missed && missed <= met * 1.08,
            "{capacity}: {met} to {missed}"
        );
    }

    #[test]
    fn the_edge_is_found_from_below_and_from_above() {
        for capacity in [3.0, 950.0, 5_000.0, 123_456.0] {
            let (edge, steps) = search(capacity, 1_000.0, 1e6, None);
            holds(capacity, &edge);
            assert!(steps < 25, "{steps} attempts");
        }
        assert_eq!(search(1e9, 1_000.0, 50_000.0, None).0.met(), Some(50_000.0));
        assert_eq!(search(0.0, 1_000.0, 50_000.0, None).0.missed(), Some(1.0));
    }

    #[test]
    fn one_disturbed_attempt_moves_the_edge_nowhere() {
        for capacity in [950.0, 5_000.0, 12_000.0, 123_456.0] {
            for disturbed in 0..20 {
                let (edge, _) = search(capacity, 1_000.0, 1e6, Some(disturbed));
                holds(capacity, &edge);
            }
        }
    }
}
