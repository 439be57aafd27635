//! A node's methods and what it sends to another one, without sockets.
#![allow(clippy::unwrap_used)]

mod ahead;
mod moved;
mod rig;
