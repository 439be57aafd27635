//! What the placeholders of one request share: its number, its keys and its random numbers.
//!
//! Its invariant: within a request the first keys are the same for every template, however many each asks for; between
//! requests only inserted keys are remembered.

use crate::{Keys, Random, Sizes};

/// The draws of one request after the other.
#[derive(Debug)]
pub struct Draw<'a> {
    seed: u64,
    sizes: &'a Sizes,
    source: Source<'a>,
    /// Begun anew for each request, so that one request never moves the next.
    random: Random,
    /// The keys of the request so far.
    drawn: Vec<u64>,
    seq: u64,
    /// Whether the keys of this request are inserted rather than drawn.
    inserts: bool,
}

/// Where keys come from.
#[derive(Debug)]
enum Source<'a> {
    /// By popularity, as many as are asked for.
    Popular(&'a mut Keys),
    /// The keys given for the request and no others.
    Given,
}

impl<'a> Draw<'a> {
    /// Draws for `seed` by the popularity of `keys`; it stands at request 0.
    pub fn new(seed: u64, keys: &'a mut Keys, sizes: &'a Sizes) -> Draw<'a> {
        Draw::from(seed, sizes, Source::Popular(keys))
    }

    /// Draws of requests whose keys are given by [`Draw::begin_with`].
    pub(crate) fn given(seed: u64, sizes: &'a Sizes) -> Draw<'a> {
        Draw::from(seed, sizes, Source::Given)
    }

    fn from(seed: u64, sizes: &'a Sizes, source: Source<'a>) -> Draw<'a> {
        let mut draw = Draw {
            seed,
            sizes,
            source,
            random: Random::new(0),
            drawn: Vec::new(),
            seq: 0,
            inserts: false,
        };
        draw.begin(0, false);
        draw
    }

    /// Goes to request `seq`; with `writes`, and where the popularity grows (`latest`), its keys are new ones.
    pub fn begin(&mut self, seq: u64, writes: bool) {
        self.random = Random::of(self.seed, b"requests", seq);
        self.drawn.clear();
        self.seq = seq;
        self.inserts = writes;
    }

    /// Goes to request `seq`, which holds `keys`.
    pub(crate) fn begin_with(&mut self, seq: u64, keys: impl Iterator<Item = u64>) {
        self.begin(seq, false);
        self.drawn.extend(keys);
    }

    /// The keys of the request so far, in the order they were drawn.
    pub fn keys(&self) -> &[u64] {
        &self.drawn
    }

    /// The first `count` keys; fewer where keys are given and fewer are left.
    pub(crate) fn take(&mut self, count: usize) -> &[u64] {
        if let Source::Popular(keys) = &mut self.source {
            while self.drawn.len() < count {
                self.drawn.push(if self.inserts && keys.grows() {
                    keys.insert()
                } else {
                    keys.draw(&mut self.random)
                });
            }
        }
        &self.drawn[..count.min(self.drawn.len())]
    }

    /// The key at this place, from 0.
    pub(crate) fn key_at(&mut self, place: usize) -> u64 {
        self.take(place + 1).get(place).copied().unwrap_or(0)
    }

    /// A uniform number in `from..=to`, `from` not above `to`.
    pub(crate) fn between(&mut self, from: i64, to: i64) -> i64 {
        let span = (i128::from(to) - i128::from(from)).unsigned_abs() + 1;
        // The span is at most 2^64, so neither the product nor the sum passes its type.
        let above = (u128::from(self.random.next_u64()) * span) >> 64;
        (i128::from(from) + above as i128) as i64
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn sizes(&self) -> &'a Sizes {
        self.sizes
    }

    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }
}
