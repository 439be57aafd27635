//! The bars of the network front: what a call costs beside a bare echo, and beside FPNN's own server.

pub(crate) mod connections;
pub(crate) mod echo;
pub(crate) mod fpnn;
