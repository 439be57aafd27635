//! An echo server of known behaviour, for trying the load tool on, for its tests and for benches.
//!
//! It knows no protocol: what comes is echoed, and a request is a number of bytes. It is no model of a good server; it does
//! one thing, and that thing is known exactly. Its invariant: a connection is touched by the one thread that serves it.
//!
//! ```
//! use millpond_press_practice::{Arguments, start};
//! use std::io::{Read, Write};
//!
//! let server = start(Arguments::from_words(["--listen", "127.0.0.1:0"])?)?;
//! let mut connection = std::net::TcpStream::connect(server.address())?;
//! connection.write_all(b"as it came")?;
//! let mut answer = [0; 10];
//! connection.read_exact(&mut answer)?;
//! assert_eq!(&answer, b"as it came");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arguments;
mod behaviour;
mod connections;
mod delay;
mod error;
mod event_loop;
mod kind;
mod poller;
mod quantity;
mod random;
mod running;
mod truth;

pub use arguments::Arguments;
pub use error::Error;
pub use running::{Running, run, start};
