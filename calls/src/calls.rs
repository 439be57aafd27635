//! What the calls of all threads share: the table of methods, access, admission, what serves, and what is counted and logged.
//! It serves nothing. Its invariant: what a call is counted as, it is logged as.

use crate::{Access, Admission, Arrival, Backing, Methods, Nodes, Peer, Reply, SlowLog, Spent, Statistics};
use arc_swap::{ArcSwap, Guard};
use millpond_nodes::Node;
use millpond_wire_schema::{Code, Status};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Characters of an unknown method's name that the log shows.
const UNKNOWN_SHOWN_MAX: usize = 64;
/// Bytes of an error's text that the log shows; the caller gets all of it.
const EX_SHOWN_BYTES_MAX: usize = 512;

/// What every call meets, whatever its method. Methods are served with `S`.
pub struct Calls<S: Backing> {
    /// The table.
    pub methods: Methods<S>,
    /// Who may call what.
    pub access: Access,
    /// How many calls are worked on, and until when.
    pub admission: Arc<Admission>,
    /// What is counted of them.
    pub statistics: Statistics,
    /// Which of them are slow.
    pub slow: SlowLog,
    /// Bytes that an answer may hold.
    pub answer_bytes_max: usize,
    /// The servers that share tables with this one; none where it has all of them alone.
    nodes: OnceLock<Arc<Nodes>>,
    /// The process of this server that has its ordered stores; none where this one has them, or there are none.
    stores_at: OnceLock<Arc<Node>>,
    /// Set when the process begins to stop.
    stopping: AtomicBool,
    /// Set once everything is open and warm.
    state: OnceLock<Arc<ArcSwap<S::State>>>,
}

impl<S: Backing> Calls<S> {
    /// Nothing serves yet.
    pub fn new(
        access: Access,
        admission: Admission,
        methods: Methods<S>,
        slow_ms: u64,
        answer_bytes_max: usize,
    ) -> Calls<S> {
        Calls {
            access,
            admission: Arc::new(admission),
            statistics: Statistics::new(methods.all().count()),
            slow: SlowLog::new(slow_ms),
            answer_bytes_max,
            nodes: OnceLock::new(),
            stores_at: OnceLock::new(),
            stopping: AtomicBool::new(false),
            state: OnceLock::new(),
            methods,
        }
    }

    /// From now on methods are served from that state, which may be another one each turn.
    pub fn open(&self, state: Arc<ArcSwap<S::State>>) {
        let _ = self.state.set(state);
    }

    /// Tables are spread over those nodes.
    pub fn spread(&self, nodes: Arc<Nodes>) {
        let _ = self.nodes.set(nodes);
    }

    /// Another process of this server has its ordered stores.
    pub fn set_stores_at(&self, process: Arc<Node>) {
        let _ = self.stores_at.set(process);
    }

    /// The process that has this server's ordered stores, where this one has not.
    #[inline]
    pub fn stores_at(&self) -> Option<&Arc<Node>> {
        self.stores_at.get()
    }

    /// The servers that share tables with this one.
    #[inline]
    pub fn nodes(&self) -> Option<&Arc<Nodes>> {
        self.nodes.get()
    }

    /// What serves now, if anything does yet.
    pub fn state(&self) -> Option<Guard<Arc<S::State>>> {
        Some(self.state.get()?.load())
    }

    /// From now on calls are refused.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether calls are refused because the process stops.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Refuses a call of that name, which no method has.
    pub(crate) fn unknown(&self, name: &str, peer: Peer, reply: Reply<'_>) {
        if let Err(status) = self.access.admit_peer(peer) {
            return reply.error(&status);
        }
        self.statistics.unknown();
        let shown: String = name.chars().take(UNKNOWN_SHOWN_MAX).collect();
        tracing::debug!(method = ?shown, code = Code::UnknownMethod.number(), "refused");
        let ex = format!("unknown method {name:?}; methods are {}", self.methods.names());
        reply.error(&Status::new(Code::UnknownMethod, ex));
    }

    /// Counts and logs a call that gets an error.
    pub(crate) fn refused(&self, arrival: &Arrival, trace: Option<&str>, status: &Status) {
        if arrival.is_internal {
            return;
        }
        self.statistics.failed(arrival.method, status);
        let (method, code) = (self.methods.name(arrival.method), status.code.number());
        // It may quote what the caller sent.
        let ex = &status.ex[..status.ex.floor_char_boundary(EX_SHOWN_BYTES_MAX)];
        tracing::debug!(method, code, ?ex, "refused");
        if self.slow.ms() > 0 {
            self.slow
                .note(method, arrival, Instant::now(), trace, code, Spent::default());
        }
    }

    /// Counts a call of another thread's whose result was ready at `ready`.
    pub(crate) fn answered(&self, arrival: &Arrival, ready: Instant, trace: Option<&str>, spent: Spent<'_>) {
        if arrival.is_internal {
            return;
        }
        self.statistics.answered(arrival, ready, spent.model);
        let method = self.methods.name(arrival.method);
        self.slow.note(method, arrival, ready, trace, 0, spent);
    }

    /// Logs a call that was answered at once.
    pub(crate) fn tell(&self, arrival: &Arrival, ready: Instant, trace: Option<&str>, spent: Spent<'_>) {
        let method = self.methods.name(arrival.method);
        self.slow.note(method, arrival, ready, trace, 0, spent);
        tracing::debug!(
            method,
            us = ready.saturating_duration_since(arrival.received).as_micros() as u64,
            trace,
            "answered"
        );
    }
}
