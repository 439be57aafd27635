//! Membership against a real etcd, and against a server that answers what etcd never would.
//!
//! Not a test of the map itself (see `nodes`). What is waited for is an event, never a time; etcd comes from Debian's
//! `etcd-server`, which root gets installed, and where it is missing the tests that need it say so as cargo says that one is ignored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod etcd;
mod fake;
mod faults;
mod garbage;
mod heard;
mod leases;
mod maps;
mod tls;
