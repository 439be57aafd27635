//! etcd as the source of the bucket map and of the nodes that are up.
//!
//! [`Membership::start`] follows the keys of one cluster on a thread of its own, over etcd's JSON gateway, and says what changes
//! through a callback; with [`Options::registration`] it also keeps this process registered under a lease. [`publish`] puts a new
//! map there. It routes nothing: that is the caller's, with `millpond-nodes`. The keys are drawn in docs/formats/bucket-map.md.
//! The invariant: nothing that etcd does, answers or fails to answer takes the last good map away.
//!
//! ```no_run
//! use millpond_membership::{Event, Membership, Options};
//!
//! let options = Options::new(["http://127.0.0.1:2379"], "ranking");
//! let membership = Membership::start(options, |event| match event {
//!     Event::Map(map) => println!("map {} has {} nodes", map.version(), map.nodes().len()),
//!     other => println!("{other:?}"),
//! })?;
//! // It follows etcd until it is dropped.
//! drop(membership);
//! # Ok::<(), millpond_membership::Error>(())
//! ```

mod backoff;
mod endpoint;
mod error;
mod follow;
mod gateway;
mod http;
mod lease;
mod messages;
mod options;
mod publish;
mod state;
mod tls;

pub use error::Error;
pub use options::{Options, Tls, TlsIdentity};
pub use publish::publish;

use millpond_nodes::{BucketMap, Node};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// What changed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// etcd answers, and everything that changed while it did not follows.
    Connected {
        /// Which of the endpoints.
        endpoint: String,
    },
    /// etcd does not answer, or answers garbage. The last map and nodes stay, and it is asked again after a backoff, until
    /// [`Event::Connected`]; later failures until then are not said.
    Lost(Error),
    /// A new map.
    Map(Arc<BucketMap>),
    /// etcd has no map any more. The last one stays.
    MapGone,
    /// A key has a value that cannot be used. What was known under it stays.
    Refused {
        /// The key.
        key: String,
        /// What is wrong with its value.
        why: String,
    },
    /// A node registered, or changed its addresses.
    NodeUp(Node),
    /// A node's lease ended, or it left.
    NodeDown {
        /// Its name.
        name: String,
    },
    /// This process registered under a new lease: at the start, and whenever the old lease was lost.
    Registered {
        /// The lease.
        lease: i64,
    },
    /// Another process registered under the name of this one, which it took over.
    NameTaken {
        /// The name.
        name: String,
    },
}

/// Follows a cluster until it is dropped.
#[derive(Debug)]
pub struct Membership {
    /// Dropped or sent to: the thread ends.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Membership {
    /// Starts to follow a cluster. etcd need not answer yet. The callback runs on the thread that keeps the lease: it hands the
    /// event on and returns.
    ///
    /// # Errors
    /// The options cannot be used, or there can be no thread.
    pub fn start(
        options: Options,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> Result<Membership, Error> {
        let follower = follow::Follower::new(&options, Box::new(on_event))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::thread)?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("membership".to_owned())
            .spawn(move || {
                runtime.block_on(follower.run(stopped));
                // A name that is being looked up blocks a thread of the runtime; nothing waits for it.
                runtime.shutdown_background();
            })
            .map_err(Error::thread)?;
        Ok(Membership {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Whether it still follows; not after a panic of the callback.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Membership {
    /// Gives the lease up, for which it waits as long as for one call, and ends the thread. No callback runs afterwards.
    fn drop(&mut self) {
        drop(self.stop.take());
        let thread = self.thread.take();
        // A callback that drops its own membership must not wait for itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
