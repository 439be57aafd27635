//! The fixed row counts that runs may have: which one a run is padded to, and how many rows a batch takes. It runs nothing.
//! Its invariant: a size that it gives is one of those that were given, or there are none.

/// Sizes of one model at most.
const SIZES_MAX: usize = 64;

/// What is wrong with sizes. `at` is the section.
pub(super) fn check(sizes: &[usize], batch_size_max: usize, at: &str) -> Result<(), String> {
    if sizes.len() > SIZES_MAX {
        let count = sizes.len();
        return Err(format!(
            "{at}.batch_sizes has {count} sizes; expected at most {SIZES_MAX}"
        ));
    }
    if sizes.first() == Some(&0) || !sizes.is_sorted_by(|before, after| before < after) {
        return Err(format!(
            "{at}.batch_sizes is {sizes:?}; expected ascending sizes from 1, as [1, 4, 8]"
        ));
    }
    match sizes.last().filter(|largest| **largest > batch_size_max) {
        None => Ok(()),
        Some(largest) => Err(format!(
            "{at}.batch_sizes holds {largest}, and batch_size_max is {batch_size_max}; raise that, or leave the size out"
        )),
    }
}

/// The size that a run of so many rows has; their own number where there are no sizes.
pub(super) fn padded(sizes: &[usize], rows: usize) -> usize {
    sizes.iter().copied().find(|size| *size >= rows).unwrap_or(rows)
}

/// How many of the rows that wait the next batch takes: all where they fill more than half of the size that they would be padded to, else as
/// many as fill the size below. Without sizes, `most`.
pub(super) fn batch(sizes: &[usize], most: usize, waiting: usize) -> usize {
    if sizes.is_empty() || waiting >= most {
        return most;
    }
    let size = padded(sizes, waiting);
    let below = sizes.iter().rev().copied().find(|below| *below <= waiting);
    match below {
        Some(below) if waiting * 2 <= size => below,
        _ => size.min(most),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_size_that_is_filled_goes_before_one_that_is_half_empty() {
        let batches = |sizes: &[usize]| {
            (1..=9)
                .map(|waiting| batch(sizes, 8, waiting))
                .collect::<Vec<_>>()
        };
        assert_eq!(batches(&[1, 4, 8]), [1, 1, 4, 4, 8, 8, 8, 8, 8]);
        assert_eq!(batches(&[1, 2, 8]), [1, 2, 2, 2, 8, 8, 8, 8, 8]);
        assert_eq!(batches(&[8]), [8; 9]);
        assert_eq!(batches(&[]), [8; 9]);
        let runs: Vec<usize> = [1, 2, 4, 5, 8, 9]
            .iter()
            .map(|rows| padded(&[1, 4, 8], *rows))
            .collect();
        assert_eq!(runs, [1, 4, 4, 8, 8, 9]);
    }

    #[test]
    fn sizes_that_cannot_be_meant_are_refused() {
        let problem = |sizes: &[usize], most| check(sizes, most, "models.a").unwrap_err();
        assert_eq!(check(&[1, 4, 8], 256, "models.a"), Ok(()));
        for sizes in [[0, 1], [4, 4], [8, 4]] {
            assert!(
                problem(&sizes, 8).contains("models.a.batch_sizes is ["),
                "{sizes:?}"
            );
        }
        assert!(problem(&[1, 8], 4).contains("holds 8, and batch_size_max is 4"));
        let many: Vec<usize> = (1..66).collect();
        assert!(problem(&many, 100).contains("has 65 sizes; expected at most 64"));
    }
}
