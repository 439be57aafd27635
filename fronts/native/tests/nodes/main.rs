//! Calls from one transport to another, over connections that net threads open: answers, errors, and nodes that are not there.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod lost;
mod reached;
mod rig;
