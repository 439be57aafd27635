//! A call as a value, the way back to its caller, and what every method's calls go through: access, admission, deadlines,
//! statistics, the slow log.
//!
//! A connection, the warm-up and a caller in the same process make a [`Call`] and implement [`Sink`]; what serves it gets a [`Reply`] and cannot
//! tell them apart. It knows no socket and no engine. Its invariant: every call is answered once, by an answer or an error: a
//! [`Reply`] and a [`Ticket`] that are dropped answer an error.
//!
//! ```
//! use millpond_calls::{Answer, Later, Reply, Sink};
//! use millpond_wire_payload::Encoding;
//! use millpond_wire_schema::Status;
//! use std::sync::{Arc, atomic::AtomicBool};
//!
//! #[derive(Default)]
//! struct Answers(Vec<u8>);
//!
//! impl Answer for Answers {
//!     fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)> {
//!         Some((&mut self.0, Encoding::Json))
//!     }
//!     fn finish(&mut self) {}
//!     fn error(&mut self, status: &Status) {
//!         self.0.extend(status.to_string().bytes());
//!     }
//!     fn body(&mut self, _: u16, _: &str, bytes: &[u8]) {
//!         self.0.extend(bytes);
//!     }
//! }
//!
//! impl Later for Answers {
//!     fn gone(&self) -> Arc<AtomicBool> {
//!         Arc::default()
//!     }
//! }
//!
//! impl Sink for Answers {
//!     fn later(&mut self) -> Box<dyn Later> {
//!         Box::new(Answers::default())
//!     }
//! }
//!
//! let mut answers = Answers::default();
//! Reply::to(&mut answers).ok(|out| out.raw(b"{}"));
//! assert_eq!(answers.0, b"{}");
//! drop(Reply::to(&mut answers));
//! assert!(answers.0.ends_with(b"the handler returned no answer"));
//! ```

pub mod access;
mod admission;
mod call;
mod calls;
mod clock;
mod copies;
mod freshness;
mod host;
mod method;
mod nodes;
mod outbound;
mod peer;
mod push;
mod reply;
mod served;
mod service;
mod slow;
mod statistics;

pub use access::Access;
pub use admission::{Admission, Permit};
pub use call::{Call, Caller, Meta};
pub use calls::Calls;
pub use clock::Clock;
pub use copies::{Copies, CopyUnderWay};
pub use freshness::{Fresh, Freshness, Heard, MissedRows};
pub use host::{Host, NoHost, OnDecision, OnVersions, Tuned, VersionChange, VersionsCall};
pub use method::{
    Callers, ConfiguredHandler, Cost, Handler, MethodId, MethodSpec, Methods, Serve, StateHandler,
};
pub use nodes::{MapInUse, NodeCounts, Nodes, NodesOptions};
pub use outbound::{
    NodeAnswer, NodeCall, NodeError, NodeSink, OnTime, Outbound, OutboundTimer, forwarded, split_forwarded,
};
pub use peer::Peer;
pub use push::{OnAnswer, Push, PushAnswer, PushError, Pusher};
pub use reply::{Answer, Later, Owed, Reply, Sink, Ticket};
pub use served::{Detached, Served};
pub use service::{Backing, MethodService, Service};
pub use slow::{ModelTime, SlowLog, Spent, TARGET as SLOW_TARGET};
pub use statistics::{Arrival, CallCounts, Split, Statistics, Totals};
