//! The bars of the press itself: whether its figures are true, its schedule is kept, its verdicts are right, and what it costs.

pub(crate) mod client_cost;
pub(crate) mod open_loop;
pub(crate) mod search;
pub(crate) mod truth;
pub(crate) mod verdicts;
