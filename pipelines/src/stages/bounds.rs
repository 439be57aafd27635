//! What a stage may allocate for one request.
//!
//! Its invariant: a request of few bytes, whose rows the stage makes wider, is refused before memory is asked for.

use crate::Error;

/// Floats that a stage gives for one request at most: 256 MiB of them.
const FLOATS_MAX: usize = 64 << 20;

/// How many floats `rows` rows of `width` are.
///
/// # Errors
/// [`Error::Request`] where they are too many.
pub(super) fn floats(stage: &str, rows: usize, width: usize) -> Result<usize, Error> {
    let floats = rows.saturating_mul(width);
    if floats > FLOATS_MAX {
        let problem = format!(
            "stage {stage:?} would give {rows} rows of {width} floats; {FLOATS_MAX} floats in one request are the limit: send fewer rows at a time"
        );
        return Err(Error::Request { problem });
    }
    Ok(floats)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_grows_is_bounded() {
        assert_eq!(floats("it", 1 << 20, 64).unwrap(), FLOATS_MAX);
        let refused = floats("it", 1 << 20, 65).unwrap_err().to_string();
        assert!(refused.contains("1048576 rows of 65 floats"), "{refused}");
        assert!(floats("it", usize::MAX, 2).is_err());
    }
}
