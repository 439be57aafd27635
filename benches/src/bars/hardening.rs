//! The bars of hardening that need code: what hostile callers hold, and how soon a server ends.

pub(super) mod crowd;
pub(super) mod stops;

mod hostile;
