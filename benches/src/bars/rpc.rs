//! The bars of the network front that need code: very many connections, and what more calls than it can serve do to it.

pub(crate) mod massive;
pub(crate) mod overload;
