//! Which of the versions that a look found is to be served: the highest whose files stand still.
//!
//! It looks at nothing and serves nothing. Its invariants: what it names was found twice in a row with the same files, and was
//! not refused with them.

use super::Files;
use std::collections::BTreeMap;

/// A version above all that served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) version: u64,
    pub(super) files: Files,
}

/// What the looks before found.
#[derive(Debug, Default)]
pub(super) struct Seeing {
    last: BTreeMap<u64, Files>,
    refused: BTreeMap<u64, Files>,
}

impl Seeing {
    /// Takes what a look found, and names what is to be served, if anything is.
    pub(super) fn look(&mut self, found: Vec<Found>) -> Option<Found> {
        let stands = |found: &&Found| {
            let same = |seen: &BTreeMap<u64, Files>| seen.get(&found.version) == Some(&found.files);
            same(&self.last) && !same(&self.refused)
        };
        let next = found
            .iter()
            .filter(stands)
            .max_by_key(|found| found.version)
            .copied();
        self.last = found.iter().map(|found| (found.version, found.files)).collect();
        // One that is gone is forgotten: what comes under its number is another one.
        self.refused.retain(|version, _| self.last.contains_key(version));
        next
    }

    /// The versions that cannot be served as they are.
    pub(super) fn refused(&self) -> Vec<u64> {
        self.refused.keys().copied().collect()
    }

    /// It cannot be served with these files.
    pub(super) fn refuse(&mut self, found: Found) {
        self.refused.insert(found.version, found.files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions with marks of their files.
    type Looked<'l> = &'l [(u64, u64)];

    /// What each look finds, and what is to be served after it; `refuse` refuses that.
    fn check(looks: &[(Looked<'_>, Option<u64>)], refuse: bool) {
        let mut seeing = Seeing::default();
        for (at, (found, expected)) in looks.iter().enumerate() {
            let found = found.iter().map(|(version, sum)| Found {
                version: *version,
                files: Files::marked(*sum),
            });
            let next = seeing.look(found.collect());
            assert_eq!(next.map(|next| next.version), *expected, "look {at} of {looks:?}");
            if let Some(next) = next.filter(|_| refuse) {
                seeing.refuse(next);
            }
        }
    }

    #[test]
    fn files_stand_still_before_a_version_is_taken() {
        check(&[(&[(5, 1)], None), (&[(5, 1)], Some(5))], false);
        check(
            &[
                (&[(5, 1)], None),
                (&[(5, 2)], None),
                (&[(5, 3)], None),
                (&[(5, 3)], Some(5)),
            ],
            false,
        );
        check(
            &[
                (&[(5, 1)], None),
                (&[], None),
                (&[(5, 1)], None),
                (&[(5, 1)], Some(5)),
            ],
            false,
        );
    }

    #[test]
    fn the_highest_that_stands_still_is_taken() {
        check(&[(&[(5, 1), (6, 1)], None), (&[(5, 1), (6, 1)], Some(6))], false);
        check(
            &[
                (&[(5, 1), (6, 1)], None),
                (&[(5, 1), (6, 2)], Some(5)),
                (&[(6, 2)], Some(6)),
            ],
            false,
        );
    }

    #[test]
    fn a_refused_version_is_not_tried_again_before_it_changes() {
        let (old, new): (&[_], &[_]) = (&[(5, 1)], &[(5, 2)]);
        check(
            &[
                (old, None),
                (old, Some(5)),
                (old, None),
                (new, None),
                (new, Some(5)),
                (new, None),
            ],
            true,
        );
        // The one below it is tried then, and what comes above.
        let both: &[_] = &[(5, 1), (6, 1)];
        check(
            &[(both, None), (both, Some(6)), (both, Some(5)), (both, None)],
            true,
        );
        check(
            &[(old, None), (old, Some(5)), (both, None), (both, Some(6))],
            true,
        );
        // What was deleted and built again is another one.
        check(
            &[
                (old, None),
                (old, Some(5)),
                (&[], None),
                (old, None),
                (old, Some(5)),
            ],
            true,
        );
    }
}
