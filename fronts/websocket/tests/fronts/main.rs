//! Real sockets against services that answer at once, later, out of order, or not at all.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod authority;
mod batches;
mod connections;
#[cfg(feature = "fpnn-encryption")]
mod encryption;
mod half_closed;
mod hostile;
mod hosts;
mod json;
mod listeners;
mod panics;
mod probe;
mod push;
mod stuck;
mod tls;
mod tls_files;
mod tls_hostile;
mod websocket;
mod write_buffers;
