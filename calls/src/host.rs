//! What the process that serves calls says of itself, and lets be changed.
//! It is asked by `*status`, `*infos`, `*tune` and the methods of tables' versions, and for paths that are no method's. Its invariant: no answer of it blocks a net thread.

use crate::Reply;
use millpond_wire_schema::{Code, Status, features_versions, system::AllInfos, tune};
use std::net::IpAddr;
use std::sync::Arc;

/// The process around the methods.
pub trait Host: Send + Sync {
    /// Whether calls should come.
    fn is_ready(&self) -> bool;

    /// What is running, and what it has counted.
    fn infos(&self) -> AllInfos<'static>;

    /// Changes a setting, after which the address `keeps` must still be able to call.
    ///
    /// # Errors
    /// Why it stays as it was.
    fn tune(self: Arc<Self>, call: &tune::Call<'_>, keeps: Option<IpAddr>) -> Result<Tuned, Status>;

    /// Changes a feature table's versions, or which of them serves, on a thread of its own; `on_done` hears what there is then.
    fn versions(self: Arc<Self>, call: VersionsCall, on_done: OnVersions);

    /// Answers an HTTP request for a path that is no method's.
    fn visit(&self, verb: &str, path: &str, reply: Reply<'_>);
}

/// What is asked of a feature table's versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionsCall {
    /// The table's name.
    pub table: String,
    /// What is to become of its versions.
    pub change: VersionChange,
}

/// What is to become of a table's versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionChange {
    /// Nothing: they are listed.
    None,
    /// This one serves; the highest where none is said.
    Activate(Option<u64>),
    /// The one that served before serves again.
    RollBack,
    /// This one goes.
    Delete {
        /// Its number.
        version: u64,
        /// Also where folded upserts go with it that nothing else has.
        lose_upserts: bool,
    },
}

/// Takes what became of it, on any thread.
pub type OnVersions = Box<dyn FnOnce(Result<features_versions::Answer<'static>, Status>) + Send>;

/// No server around the methods: it is always ready, and there is nothing to ask or change.
pub struct NoHost;

impl Host for NoHost {
    fn is_ready(&self) -> bool {
        true
    }

    fn infos(&self) -> AllInfos<'static> {
        AllInfos {
            fpnn: Default::default(),
            app: Default::default(),
            millpond: Default::default(),
        }
    }

    fn tune(self: Arc<Self>, _: &tune::Call<'_>, _: Option<IpAddr>) -> Result<Tuned, Status> {
        Err(Status::new(Code::Internal, "nothing can be tuned here"))
    }

    fn versions(self: Arc<Self>, _: VersionsCall, on_done: OnVersions) {
        on_done(Err(Status::new(Code::Internal, "no version can be changed here")));
    }

    fn visit(&self, _: &str, _: &str, reply: Reply<'_>) {
        reply.error(&Status::new(Code::Internal, "no page is served here"));
    }
}

/// What became of a change.
pub enum Tuned {
    /// It is done.
    Done(tune::Answer<'static>),
    /// Another process decides it: this asks that one, and has its decision answered from any thread.
    Asks(Box<dyn FnOnce(OnDecision) + Send>),
}

/// Takes what was decided.
pub type OnDecision = Box<dyn FnOnce(Result<tune::Answer<'static>, Status>) + Send>;
