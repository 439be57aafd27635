//! The ordered stores of a server that is several processes: one of them has the stores, and the others send it the calls that they get.
//!
//! Its invariant: only processes of this server can connect, so what comes was admitted by one of them.

use crate::config::Config;
use crate::ports::{data_bounds, net_threads};
use crate::processes::Member;
use crate::{Error, Program};
use millpond_calls::{NodeCounts, Nodes, NodesOptions, Service};
use millpond_catalog::Sections;
use millpond_fronts_answer::Serving;
use millpond_fronts_native::{ForwardedOptions, NodePool, PoolOptions, forwarded};
use millpond_net::{Fronts, Listener, Options, Timeouts, Transport};
use millpond_nodes::{Node, RetryOptions};
use millpond_wire_frame::Limits;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a frame that is sent on has beside the caller's.
const BESIDE_BYTES: usize = 64 << 10;
/// Followers that may ask through one net thread beside the calls in flight, which they are not counted with.
const FOLLOWERS_MAX: usize = 1024;
/// What the process that has the stores is known by in counts; no caller reads it.
const NAME: &str = "stores";
/// A call to the process is answered when that has done it, and the parent ends one that hangs.
const ANSWER_MAX: Duration = Duration::from_secs(365 * 86_400);
/// Between two attempts to reach the process: it is started again within 100 ms where it has lived for long.
const AGAIN: Duration = Duration::from_millis(20);
const AGAIN_MAX: Duration = Duration::from_millis(250);

millpond_metrics::counters! {
    /// Calls that this process has sent on.
    pub(crate) struct SentOn {
        /// Of a process that does not have the stores.
        METRICS {
            pub outstanding: u64 = gauge("millpond_stores_outstanding",
                "Calls sent on to the process that has the ordered stores that have not ended."),
            pub calls: u64 = counter("millpond_stores_calls_total",
                "Calls sent on to the process that has the ordered stores."),
            pub failures: u64 = counter("millpond_stores_failures_total",
                "Calls sent on to it that ended without an answer: it was lost."),
            pub connects: u64 = counter("millpond_stores_connects_total",
                "Connections opened to it; after the first one of each net thread each stands for one that was lost."),
        }
    }
}

/// What a process without the stores sends their calls on by.
pub(crate) struct Elsewhere {
    process: Arc<Node>,
    counts: Arc<Nodes>,
    pool: PoolOptions,
}

/// What this process opens: without the stores, where another one has them.
pub(crate) fn sections_here(config: &Config, program: &Program) -> Sections {
    let mut sections = config.sections();
    if are_elsewhere(config, program) {
        sections.take_out_stores();
    }
    sections
}

/// Whether another process has the stores that the configuration names.
fn are_elsewhere(config: &Config, program: &Program) -> bool {
    !config.ordered.is_empty() && program.member.as_ref().is_some_and(|member| !member.has_stores())
}

impl Elsewhere {
    /// Of one of several processes; nothing where it has the stores itself, or there are none.
    pub(crate) fn of(config: &Config, program: &Program) -> Option<Elsewhere> {
        let socket = program.member.as_ref().and_then(Member::stores_socket)?;
        are_elsewhere(config, program).then(|| Elsewhere {
            process: Arc::new(Node {
                name: NAME.to_owned(),
                addresses: vec![format!("unix:{}", socket.display())],
            }),
            counts: Arc::new(Nodes::new(NodesOptions::default())),
            pool: PoolOptions {
                outstanding_max: outstanding_max(config),
                outstanding_bytes_max: config.server.write_buffer_bytes_max,
                answer_timeout: ANSWER_MAX,
                retry: RetryOptions {
                    first: AGAIN,
                    most: AGAIN_MAX,
                },
                // Process 0 bounds its own answers, so none is refused here for its size.
                limits: Limits {
                    frame_bytes_max: u32::MAX as usize,
                },
                ..PoolOptions::default()
            },
        })
    }

    /// Whom the calls are for.
    pub(crate) fn process(&self) -> Arc<Node> {
        Arc::clone(&self.process)
    }

    /// What takes a net thread's calls there.
    pub(crate) fn pool(&self) -> NodePool {
        NodePool::to_stores(Arc::clone(&self.counts), self.pool.clone())
    }

    /// What was sent on.
    pub(crate) fn counts(&self) -> SentOn {
        let counts: Arc<NodeCounts> = self.counts.counts(NAME);
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SentOn {
            outstanding: of(&counts.outstanding),
            calls: of(&counts.calls),
            failures: of(&counts.failures),
            connects: of(&counts.connects),
        }
    }
}

/// The socket of the process that has the stores of several; nobody can connect yet.
pub(crate) fn listener(program: &Program) -> Result<Option<Listener>, Error> {
    let member = program.member.as_ref().filter(|member| member.has_stores());
    let bind =
        |socket: &Path| Listener::bind_unix_deaf(socket, "the socket between the processes (in TMPDIR)");
    Ok(member.and_then(Member::stores_socket).map(bind).transpose()?)
}

/// Starts what answers the other processes there, once it accepts.
pub(crate) fn prepare<S: Service>(
    config: &Config,
    listener: Listener,
    service: S,
) -> Result<Transport, Error> {
    let options = forwarded_options(config);
    let fronts: Fronts<_> = Arc::new([forwarded(options)]);
    let serving = Serving::new(service);
    let transport = Transport::prepare(
        vec![listener],
        "stores",
        bounds(config),
        Arc::new([fronts]),
        serving,
    );
    Ok(transport?)
}

/// What they may use, where there are several processes and stores.
pub(crate) fn of_process_0(config: &Config) -> Option<Options> {
    (config.server.processes > 1 && !config.ordered.is_empty()).then(|| bounds(config))
}

/// What connections between processes may use: each carries the calls of many, so none ends for what one of these does.
fn bounds(config: &Config) -> Options {
    let options = data_bounds(config).options;
    let others = config.server.processes.saturating_sub(1).max(1);
    // One of each net thread, and one that is lost and not yet known to be.
    let connections_max = others * net_threads(&config.server) * 2;
    Options {
        cpus: Vec::new(),
        connections_max,
        // As much as all of them may hold: none is refused for what the others do.
        partial_bytes_max: connections_max.saturating_mul(limits(config).frame_bytes_max),
        write_buffer_bytes_max: options.write_buffers_total_bytes_max,
        timeouts: Timeouts {
            idle: Duration::ZERO,
            request: Duration::ZERO,
            write: Duration::ZERO,
        },
        busy_poll: Duration::ZERO,
        ..options
    }
}

/// What a call may take here: one of RESP may be more than its command, by what names its operations.
pub(crate) fn limits(config: &Config) -> Limits {
    Limits {
        frame_bytes_max: config.server.frame_bytes_max.saturating_mul(2) + BESIDE_BYTES,
    }
}

fn forwarded_options(config: &Config) -> ForwardedOptions {
    ForwardedOptions {
        // The other end counts too, and more would only wait here unread.
        in_flight_max: outstanding_max(config) + 1,
        limits: limits(config),
    }
}

/// Calls of one net thread on their way.
fn outstanding_max(config: &Config) -> usize {
    config.server.in_flight_max.saturating_add(FOLLOWERS_MAX)
}
