//! The bars of the network front: what a call costs beside a bare echo, and beside FPNN's own server; and very many connections.

pub(crate) mod connections;
pub(crate) mod echo;
pub(crate) mod fpnn;
pub(crate) mod massive;
pub(crate) mod tls;
