//! Calls of methods without sockets: a node's, with what it sends to another one, and those to a model at the end of a turn.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ahead;
mod answers;
mod moved;
mod pooling;
mod rig;
mod sweep;
