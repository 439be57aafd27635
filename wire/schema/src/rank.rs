//! `rank`: candidates and their scores for a user.
//!
//! Ids are text or whole numbers and come back as they went in. Its invariant: items and scores of an answer have the
//! same length; with `top` they are sorted, best first.

use crate::declare::{one_for_each, schema};
use crate::field::{AnyMap, Id, List, Named, Numbers, Optional, Text, UInt, Within};
use crate::payload::Read;

/// Candidates one call may carry.
pub const ITEMS_MAX: usize = 10_000;

schema! {
    /// A call.
    call Call {
        /// The pipeline; the default one when absent.
        pipeline: Optional<Text>,
        /// What is known of the user: at least what the pipeline reads.
        user: AnyMap,
        /// Ids of the candidates to score.
        items: List<Id, ITEMS_MAX>,
        /// Answer only this many, best first; all in the call's order when absent.
        top: Optional<Within<0, ITEMS_MAX>>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// Ids, as in the call.
        items: List<Id>,
        /// The score of each.
        scores: Numbers<f32>,
        /// The model that scored.
        model: Text,
        /// Tables and the versions of them that were read.
        versions: Named<UInt>,
    }
    check lengths_fit
}

fn lengths_fit(answer: &Answer<'_>) -> Read<()> {
    one_for_each("scores", answer.scores.len(), "items", answer.items.len())
}
