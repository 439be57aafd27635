//! Fuzz targets: what is fed to everything that reads bytes from a network, and what must hold whatever they are.
//!
//! A target is a function of bytes. It panics where a promise is broken, which is its one way to tell: by an assertion of
//! its own, or by a panic of what it called. libFuzzer calls it with bytes of its making (`make fuzz`), the test of this
//! crate with every file of `corpus/TARGET` (`make test`). Its invariant: the same bytes give the same outcome, whatever
//! ran before, so that a finding is a file.

mod bucket_map;
mod client_link;
mod connection;
mod cuts;
mod exchange;
mod files;
mod frame;
mod framing;
mod http;
mod image;
#[cfg(feature = "fpnn-encryption")]
mod key;
mod memory;
mod merge;
mod ordered;
mod ordered_checkpoint;
mod ordered_log;
mod overlay_log;
mod payload;
mod resp;
mod strict;
mod table;
mod table_input;
mod unread;
mod websocket;

pub use bucket_map::bucket_map;
pub use client_link::client_link;
pub use connection::connection;
pub use exchange::close;
pub use frame::frame;
pub use http::http;
pub use image::image;
#[cfg(feature = "fpnn-encryption")]
pub use key::key;
pub use merge::merge;
pub use ordered_checkpoint::ordered_checkpoint;
pub use ordered_log::ordered_log;
pub use overlay_log::overlay_log;
pub use payload::payload;
pub use resp::resp;
pub use table::table;
pub use table_input::table_input;
pub use websocket::websocket;

/// A target: the name of its folder in `corpus/`, and what is called with each input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets of this build.
pub const TARGETS: &[Target] = &[
    ("frame", frame),
    ("http", http),
    ("websocket", websocket),
    ("payload", payload),
    ("resp", resp),
    ("connection", connection),
    ("client_link", client_link),
    ("image", image),
    ("bucket_map", bucket_map),
    ("merge", merge),
    ("table", table),
    ("overlay_log", overlay_log),
    ("ordered_log", ordered_log),
    ("ordered_checkpoint", ordered_checkpoint),
    ("table_input", table_input),
    #[cfg(feature = "fpnn-encryption")]
    ("key", key),
];

/// Targets of other builds, with the feature that they need.
pub const ELSEWHERE: &[(&str, &str)] = &[
    #[cfg(not(feature = "fpnn-encryption"))]
    ("key", "fpnn-encryption"),
];
