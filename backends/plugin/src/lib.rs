//! Models as shared libraries: `include/millpond_plugin.h` says what such a library exports, docs/plugins.md how it is written.
//!
//! It is not a sandbox: in this process a plugin may do whatever the server may, and its crash is the server's. With `isolate = true` it
//! runs in a worker process. Its invariant: what a plugin says is held against its own signature before anything is made of it.
//!
//! ```no_run
//! use millpond_backends_interface::Backend;
//! use millpond_backends_plugin::Plugin;
//!
//! let model = Plugin::at("dnn.so").load()?;
//! println!("{}", model.signature().inputs[0]); // user: bytes[N]
//! # Ok::<(), millpond_backends_interface::Error>(())
//! ```

mod c_api;
mod model;
mod raw;
mod section;
mod worker;

pub use section::Plugin;
pub use worker::{WORKER, serve_worker};

/// Bytes of what a plugin says that are passed on.
const SAID_MAX: usize = 600;

/// One line of bounded length.
fn bounded(said: &str) -> String {
    let mut words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    words.retain(|letter| !letter.is_control());
    if words.len() > SAID_MAX {
        let end = (0..=SAID_MAX).rev().find(|end| words.is_char_boundary(*end));
        words.truncate(end.unwrap_or_default());
        words.push('…');
    }
    words
}
