//! The kinds of targets, a file each. The list of them is [`crate::KINDS`].

pub(crate) mod echo;
pub(crate) mod features;
pub(crate) mod http;
pub(crate) mod infer;
pub(crate) mod memcached;
pub(crate) mod native;
pub(crate) mod ordered;
pub(crate) mod resp;

mod body;
