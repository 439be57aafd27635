//! The kinds of targets: a file each, and a row of [`KINDS`].

mod body;
mod configured;
mod echo;
mod features;
mod http;
mod infer;
mod memcached;
mod native;
mod ordered;
mod pipeline;
mod program;
mod resp;

use crate::TargetKind;
pub use http::{Connection, Request};
pub use program::ProgramStart;

/// Every kind, in the order in which they are named to users.
pub static KINDS: &[TargetKind] = &[
    http::KIND,
    native::KIND,
    resp::KIND,
    memcached::KIND,
    echo::KIND,
    features::KIND,
    ordered::KIND,
    infer::KIND,
    pipeline::KIND,
    program::KIND,
];
