//! The Rust client: pooled, pipelined, with deadlines.
