//! Sources by the bytes that they have waiting, in classes of powers of two, so that one that holds most is found without a look at
//! all of them. It knows nothing of what waits. Its invariants: a source is in the list of its class and in no other, one that
//! holds nothing is in none; and finding and moving cost the same however many sources there are.

/// The number of no source.
const NONE: usize = usize::MAX;
/// Sources of the highest class that are looked at. Where it has more, one that holds at least half of the most may be found.
const LOOKED_AT: usize = 32;
/// A class for each power of two.
const CLASSES: usize = usize::BITS as usize;

/// A source's place among those of its class.
#[derive(Clone, Copy)]
struct Link {
    /// `None`: it holds nothing.
    class: Option<u32>,
    before: usize,
    after: usize,
}

const UNLINKED: Link = Link {
    class: None,
    before: NONE,
    after: NONE,
};

pub(super) struct ByBytes {
    links: Vec<Link>,
    first: [usize; CLASSES],
    /// A bit for each class that has a source.
    filled: usize,
}

impl ByBytes {
    pub(super) fn new() -> ByBytes {
        ByBytes {
            links: Vec::new(),
            first: [NONE; CLASSES],
            filled: 0,
        }
    }

    /// Source `at` holds so many bytes from now on.
    pub(super) fn set(&mut self, at: usize, bytes: usize) {
        if at >= self.links.len() {
            self.links.resize(at + 1, UNLINKED);
        }
        let class = bytes.checked_ilog2();
        if self.links[at].class != class {
            self.unlink(at);
            if let Some(class) = class {
                self.link(at, class);
            }
        }
    }

    /// A source that holds most, where `bytes` says what one holds.
    pub(super) fn heaviest(&self, bytes: impl Fn(usize) -> usize) -> Option<usize> {
        let class = self.filled.checked_ilog2()?;
        let first = self.first[class as usize];
        let next = |at: &usize| Some(self.links[*at].after).filter(|after| *after != NONE);
        std::iter::successors(Some(first), next)
            .take(LOOKED_AT)
            .max_by_key(|at| bytes(*at))
    }

    fn link(&mut self, at: usize, class: u32) {
        let after = std::mem::replace(&mut self.first[class as usize], at);
        self.filled |= 1 << class;
        if let Some(neighbour) = self.links.get_mut(after) {
            neighbour.before = at;
        }
        self.links[at] = Link {
            class: Some(class),
            before: NONE,
            after,
        };
    }

    fn unlink(&mut self, at: usize) {
        let Link { class, before, after } = std::mem::replace(&mut self.links[at], UNLINKED);
        let Some(class) = class else { return };
        match self.links.get_mut(before) {
            Some(neighbour) => neighbour.after = after,
            None => {
                self.first[class as usize] = after;
                if after == NONE {
                    self.filled &= !(1 << class);
                }
            }
        }
        if let Some(neighbour) = self.links.get_mut(after) {
            neighbour.before = before;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    #[test]
    fn as_many_are_looked_at_however_many_there_are() {
        let (mut by_bytes, mut held) = (ByBytes::new(), vec![0; 100_000]);
        for (at, bytes) in held.iter_mut().enumerate() {
            *bytes = 600 + at % 100;
            by_bytes.set(at, *bytes);
        }
        let looked = Cell::new(0);
        let heaviest = |by_bytes: &ByBytes, held: &[usize]| {
            looked.set(0);
            let found = by_bytes.heaviest(|at| {
                looked.set(looked.get() + 1);
                held[at]
            });
            assert!(looked.get() <= 100, "{} were looked at", looked.get());
            found.unwrap()
        };
        assert!(held[heaviest(&by_bytes, &held)] >= 600);
        held[777] = 1024;
        by_bytes.set(777, 1024);
        assert_eq!(heaviest(&by_bytes, &held), 777);
        by_bytes.set(777, 0);
        assert_ne!(heaviest(&by_bytes, &held), 777);
    }

    proptest! {
        #[test]
        fn it_finds_what_a_look_at_all_would(steps in prop::collection::vec((0usize..20, 0u32..64, any::<bool>()), 0..300)) {
            let (mut by_bytes, mut held) = (ByBytes::new(), [0usize; 20]);
            for (at, power, gone) in steps {
                held[at] = if gone { 0 } else { 3usize << power >> 1 };
                by_bytes.set(at, held[at]);
                let most = held.iter().copied().max().unwrap_or(0);
                let found = by_bytes.heaviest(|at| held[at]).map_or(0, |at| held[at]);
                prop_assert_eq!(found, most);
            }
        }
    }
}
