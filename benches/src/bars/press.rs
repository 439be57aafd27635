//! The bars of the press itself that need code: whether its figures are true, its verdicts right, and its searches.

pub(crate) mod search;
pub(crate) mod truth;
pub(crate) mod verdicts;
