//! The bars of hardening: what hostile callers hold, how soon a server ends, and what the defences cost a request.

pub(super) mod crowd;
pub(super) mod instructions;
pub(super) mod stops;

mod hostile;
mod kinds;
