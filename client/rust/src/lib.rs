//! The Rust client: pooled, pipelined, with deadlines.
//!
//! A [`Client`] holds a few connections, to one address or several; every call goes to the one with the fewest calls under
//! way, and many calls share one write. It is not a server and knows no engine; it never repeats a call unless its caller
//! has said that this is safe ([`Client::call_hedged`]). Its invariant: every call ends, in an answer or a [`CallError`], once it is answered,
//! its deadline passes or its connection closes; nothing a server sends makes it panic.
//!
//! ```
//! use millpond_client_rust::{CallError, Client, Options};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! # let held = tokio::net::TcpSocket::new_v4()?;
//! # held.bind("127.0.0.1:0".parse().unwrap())?;
//! # let addr = held.local_addr()?.to_string();
//! // Nobody listens at `addr`: the error says where, why, and a hint.
//! let error = Client::connect(&addr, Options::default()).await.unwrap_err();
//! assert!(matches!(error, CallError::Connect { .. }));
//! assert!(error.to_string().contains(&addr) && error.to_string().contains("millpond serve"));
//!
//! # let server = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let addr = server.local_addr()?.to_string();
//! // This server listens but never answers: the deadline ends the call.
//! let client = Client::connect(&addr, Options::default()).await.unwrap();
//! let empty_map = [0x80];
//! let error = client.call("*ping", &empty_map, Some(Duration::from_millis(5))).await.unwrap_err();
//! assert!(matches!(error, CallError::Timeout { .. }));
//! # Ok(())
//! # }
//! ```

mod address;
mod backoff;
mod client;
mod error;
mod hedge;
mod link;
mod methods;
mod nodes;
mod options;
mod pool;
mod push;
mod split;
mod tls;

pub use backoff::Backoff;
pub use client::Client;
pub use error::CallError;
pub use hedge::{Hedge, HedgeAfter, HedgeCounts};
#[cfg(feature = "membership")]
pub use millpond_membership as membership;
pub use millpond_nodes::{BucketMap, HedgeOptions, RetryOptions};
pub use millpond_wire_frame as frame;
pub use millpond_wire_schema as schema;
pub use millpond_wire_schema::{Code, Status, payload::Encoding};
pub use nodes::{NodesClient, NodesCounts, NodesOptions, Token};
pub use options::Options;
pub use push::{Push, PushHandler};
pub use tls::{Tls, TlsIdentity};

/// The examples of the client's page are compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
mod documented {}
