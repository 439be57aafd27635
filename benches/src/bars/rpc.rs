//! The bars of the network front: what a call costs beside a bare echo, and beside FPNN's own server; very many connections;
//! what more calls than it can serve do to it; what its log costs; builds with other allocators.

pub(crate) mod allocators;
pub(crate) mod connections;
pub(crate) mod echo;
pub(crate) mod fpnn;
pub(crate) mod log_levels;
pub(crate) mod massive;
pub(crate) mod overload;
pub(crate) mod tls;
