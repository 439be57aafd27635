//! The client against a server that does what each test tells it: one behaviour a module.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod closing;
mod deadlines;
mod hedging;
mod hostile;
mod keep_alive;
mod limits;
mod nodes;
mod peer;
mod pipelining;
mod pushes;
mod reconnecting;
mod split;
mod tls;
mod typed;
