//! The server: configuration, engines, router, admission, drain and the admin port.
//!
//! It is the only crate where wire and engines meet. Its invariant: it is ready only when every table is resident, every
//! model has run its warm-up sizes and every pipeline has answered calls; and a stop finishes what was accepted.
//!
//! ```no_run
//! use millpond_server::{Server, config::Config};
//!
//! let config = Config::read(std::path::Path::new("millpond.toml"))?;
//! let server = Server::start(config)?;
//! println!("serving on {}", server.local_addr());
//! server.shutdown();
//! # Ok::<(), millpond_server::Error>(())
//! ```

mod access;
mod admin;
mod admission;
pub mod config;
pub mod doctor;
mod encryption;
mod error;
mod handlers;
mod load;
mod log;
mod methods;
mod metrics;
mod panics;
mod ports;
mod processes;
mod program;
mod rehearsal;
mod router;
mod slow;
mod stop;
mod tls;
mod watch;

pub use error::Error;
pub use load::{LoadSummary, load_events};
pub use log::{LogHandle, Logging, say, say_within};
pub use panics::abort_on_panic;
pub use processes::{Member, Supervisor};
pub use program::Program;
pub use stop::{PARENT_STOP_LATE, STOP_LATE, Stopped};

use access::Access;
use admission::Admission;
use config::Config;
use methods::Methods;
use metrics::{Arrival, Metrics};
use millpond_catalog::{Handle, Pinned};
use millpond_engines_ordered::Durability;
use millpond_net::{Listener, Transport, raise_file_limit};
use millpond_wire_schema::Status;
use ports::{Counted, admin_port, data_port};
use slow::{ModelTime, SlowLog};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use watch::{Health, Watch};

/// Bytes of an error's words that the log shows; whoever called has all of them.
const EX_SHOWN_BYTES_MAX: usize = 512;

/// What every thread of the server sees.
pub(crate) struct Shared {
    config: Config,
    methods: Methods,
    metrics: Metrics,
    access: Access,
    slow: SlowLog,
    put_failures: handlers::ordered_put::PutFailures,
    admission: Arc<Admission>,
    /// Set once everything is open and warm.
    engines: OnceLock<Arc<Handle>>,
    draining: AtomicBool,
    /// Whether its threads turn.
    health: Health,
    started: Instant,
    data_counted: OnceLock<Counted>,
    certificate: OnceLock<Arc<tls::Certificate>>,
    program: OnceLock<Program>,
    /// Set where the process is one of several.
    member: OnceLock<Member>,
}

impl Shared {
    fn new(config: Config) -> Shared {
        let methods = Methods::new(&config);
        let deadline_default = Duration::from_millis(config.server.deadline_ms_default);
        Shared {
            admission: Arc::new(Admission::new(
                config.server.in_flight_max,
                config.server.in_flight_bytes_max,
                deadline_default,
            )),
            metrics: Metrics::new(methods.len()),
            access: Access::new(&config, &methods),
            slow: SlowLog::new(config.log.slow_ms),
            put_failures: handlers::ordered_put::PutFailures::default(),
            methods,
            engines: OnceLock::new(),
            draining: AtomicBool::new(false),
            health: Health::default(),
            started: Instant::now(),
            data_counted: OnceLock::new(),
            certificate: OnceLock::new(),
            program: OnceLock::new(),
            member: OnceLock::new(),
            config,
        }
    }

    /// The catalog that serves now.
    fn ready_engines(&self) -> Option<Pinned> {
        Some(self.engines.get()?.pin())
    }

    /// Counts and logs a call that gets an error.
    fn refused(&self, arrival: &Arrival, trace: Option<&str>, status: &Status) {
        if arrival.is_own {
            return;
        }
        self.metrics.failed(arrival.method, status);
        let (method, code) = (self.methods.name(arrival.method), status.code.number());
        // It may quote what the caller sent.
        let ex = &status.ex[..status.ex.floor_char_boundary(EX_SHOWN_BYTES_MAX)];
        tracing::debug!(method, code, ?ex, "refused");
        if self.slow.is_on() {
            self.note_slow(arrival, Instant::now(), trace, code, None);
        }
    }

    /// Counts a call of another thread's whose result was ready at `ready`.
    fn answered(&self, arrival: &Arrival, ready: Instant, trace: Option<&str>, model: Option<ModelTime>) {
        if arrival.is_own {
            return;
        }
        self.metrics.answered(arrival, ready, model);
        if self.slow.is_on() {
            self.note_slow(arrival, ready, trace, 0, model);
        }
    }

    /// Whether somebody wants a line of a call.
    fn tells_calls(&self) -> bool {
        self.slow.is_on() || tracing::enabled!(tracing::Level::DEBUG)
    }

    /// Logs a call that was answered at once.
    fn tell(&self, arrival: &Arrival, ready: Instant, trace: Option<&str>) {
        self.note_slow(arrival, ready, trace, 0, None);
        tracing::debug!(
            method = self.methods.name(arrival.method),
            us = ready.saturating_duration_since(arrival.received).as_micros() as u64,
            trace,
            "answered"
        );
    }

    fn note_slow(
        &self,
        arrival: &Arrival,
        at: Instant,
        trace: Option<&str>,
        code: u32,
        model: Option<ModelTime>,
    ) {
        let name = self.methods.name(arrival.method);
        if self.slow.note(name, arrival, at, trace, code, model) {
            self.metrics.slow();
        }
    }

    fn is_ready(&self) -> bool {
        self.why_not_ready().is_none()
    }

    /// Why no call should come, if there is a reason.
    fn why_not_ready(&self) -> Option<String> {
        if self.engines.get().is_none() {
            return Some("it is warming up".to_owned());
        }
        if self.draining.load(Ordering::Relaxed) {
            return Some("it is stopping".to_owned());
        }
        self.health.complaint().or_else(|| self.read_only_store())
    }

    /// What to say of a store that a failure made read-only, if there is one.
    fn read_only_store(&self) -> Option<String> {
        let engines = self.ready_engines()?;
        let mut stores = engines.stores.iter();
        let (name, _) = stores.find(|(_, store)| store.read_only().is_some())?;
        Some(format!(
            "ordered store {name:?} is read-only after a failure of its log; restart to recover"
        ))
    }
}

/// Opens what a configuration names, as a start would, and closes it again; ordered stores are left alone, because opening one
/// may repair it.
/// Returns what a start would warn of.
///
/// # Errors
/// What a start would say.
pub fn dry_open(config: &Config) -> Result<Vec<String>, Error> {
    let mut dry = config.clone();
    for store in dry.ordered.values_mut() {
        (store.path, store.durability) = (None, Durability::Memory);
    }
    for model in dry.models.values_mut() {
        model.batcher.instances = 1;
    }
    data_port(&dry)?;
    let tls = tls::read(&dry.server)?;
    Handle::open(dry.sections(), dry.resources())?;
    let warnings = tls.map_or(Vec::new(), |tls| tls::warnings(&tls));
    Ok(warnings.into_iter().map(|warning| warning.text).collect())
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    data: Transport,
    /// None where the process is one of several: their parent has it.
    admin: Option<Transport>,
    tls: Option<tls::Port>,
    /// Asks the threads whether they turn.
    watch: Watch,
}

impl Server {
    /// Opens everything, reads every byte of the tables, binds both ports, warms, and serves. While it warms, health is answered and calls are told that
    /// the server is not ready.
    ///
    /// # Errors
    /// [`Error`]: what, where, and a hint.
    pub fn start(config: Config) -> Result<Server, Error> {
        Server::start_in(config, Program::default())
    }

    /// As [`Server::start`], in a program of which that is known.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_in(config: Config, program: Program) -> Result<Server, Error> {
        Server::open(config, program, None)
    }

    /// As [`Server::start_in`], as one of several processes: on an address that it shares with the others, without an
    /// admin port, and with its share of the net threads and processors. It accepts when it is warm, and its parent has told it
    /// what was tuned.
    ///
    /// # Errors
    /// As [`Server::start`]; and [`Error::Process`] when it is stopped before it serves.
    pub fn start_member(config: Config, program: Program, member: &Member) -> Result<Server, Error> {
        Server::open(config, program, Some(member))
    }

    fn open(config: Config, program: Program, member: Option<&Member>) -> Result<Server, Error> {
        if member.is_none() && config.server.processes > 1 {
            return Err(Error::Unfit(format!(
                "server.processes is {}, and this is one process; a Supervisor starts several, or set it to 1",
                config.server.processes
            )));
        }
        let config = match member {
            Some(member) => processes::share(config, member.number()),
            None => config,
        };
        Server::open_here(config, program, member)
    }

    fn open_here(config: Config, program: Program, member: Option<&Member>) -> Result<Server, Error> {
        raise_files(config.server.connections_max);
        let port = data_port(&config)?;
        let engines = Handle::open(config.sections(), config.resources())?;
        let bind = if member.is_some() {
            Listener::bind_shared
        } else {
            Listener::bind
        };
        let mut listeners = vec![bind(config.server.listen, "server.listen")?];
        listeners.extend(listen_also(&config.server, bind)?);
        let (tls, listener) = tls::Port::open(&config.server, bind)?.unzip();
        listeners.extend(listener);
        let admin = match member {
            None => Some(Listener::bind(config.admin.listen, "admin.listen")?),
            Some(_) => None,
        };
        let shared = Arc::new(Shared::new(config));
        let allocator = program.allocator;
        let _ = shared.program.set(program);
        if let Some(member) = member {
            let _ = shared.member.set(member.clone());
        }
        let start_admin = |listener| {
            let view = Arc::clone(&shared);
            admin_port(&shared.config.admin).start(listener, "admin", admin::Admin { view })
        };
        let admin = admin.map(start_admin).transpose()?;
        let router = router::Router::new(Arc::clone(&shared));
        // While it warms, a lone process answers that it is not ready; one of several leaves that to the others.
        let (mut data, counted) = port.prepare(listeners, "net", router)?;
        let state = if member.is_none() {
            data.accept()?;
            "listening"
        } else {
            "bound"
        };
        let _ = shared.data_counted.set(counted);
        if let Some(tls) = &tls {
            let _ = shared.certificate.set(Arc::clone(&tls.certificate));
        }
        let listen: Vec<String> = data.bounds().iter().map(ToString::to_string).collect();
        let at = admin
            .as_ref()
            .map(|admin| tracing::field::display(admin.local_addr()));
        tracing::info!(
            listen = listen.join(" "),
            admin = at,
            allocator,
            "{state}; warming up"
        );
        let mut server = Server::watched(shared, data, admin, tls)?;
        let warm = server.warm(Arc::new(engines));
        match warm.and_then(|()| server.join(member)) {
            Ok(()) => Ok(server),
            Err(error) => {
                server.close(Instant::now());
                Err(error)
            }
        }
    }

    /// The parts of it, and somebody who looks after them.
    fn watched(
        shared: Arc<Shared>,
        data: Transport,
        admin: Option<Transport>,
        tls: Option<tls::Port>,
    ) -> Result<Server, Error> {
        let admin_pulses = admin.as_ref().map(Transport::pulses).unwrap_or_default();
        let watch = Watch::start(&shared, data.pulses().and(admin_pulses))?;
        Ok(Server {
            shared,
            data,
            admin,
            tls,
            watch,
        })
    }

    fn warm(&self, engines: Arc<Handle>) -> Result<(), Error> {
        engines.warm()?;
        rehearsal::hold(&self.shared, &engines);
        engines.pin().forget_counts();
        let _ = self.shared.engines.set(engines);
        let ms = self.shared.started.elapsed().as_millis() as u64;
        tracing::info!(ms, "ready");
        Ok(())
    }

    /// One of several processes accepts when it is as the others are.
    fn join(&mut self, member: Option<&Member>) -> Result<(), Error> {
        let Some(member) = member else {
            return Ok(());
        };
        member.wait_to_serve(&self.shared)?;
        self.data.accept()?;
        member.is_ready();
        tracing::info!("accepting");
        Ok(())
    }

    /// Where calls are answered.
    pub fn local_addr(&self) -> SocketAddr {
        self.data.local_addr()
    }

    /// Where health and metrics are; none where the process is one of several.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Transport::local_addr)
    }

    /// Where calls are answered by TLS, if anywhere.
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls.as_ref().map(|tls| tls.addr)
    }

    /// Has the files of `server.tls` read again; connections that have begun keep what they began with. Without them the log
    /// says that nothing is done.
    pub fn reload(&self) {
        match &self.tls {
            Some(tls) => tls.reload(),
            None => tracing::info!("nothing to read again: there is no server.tls; SIGTERM stops"),
        }
    }
}

/// Binds what is listened on beside `server.listen`.
fn listen_also(server: &config::Server, bind: Bind) -> Result<Vec<Listener>, Error> {
    let key = "server.listen_also";
    let bind = |listen: &config::Listen| match listen {
        config::Listen::Inet(address) => bind(*address, key),
        config::Listen::Unix(path) => Listener::bind_unix(path, key),
    };
    Ok(server.listen_also.iter().map(bind).collect::<Result<_, _>>()?)
}

/// Raises the limit on open files as far as it goes, and says where that is not enough.
fn raise_files(connections_max: usize) {
    let files = raise_file_limit();
    if (files as usize) < connections_max {
        tracing::warn!(
            files,
            connections_max,
            "fewer files may be open than connections are allowed; raise the limit (ulimit -n)"
        );
    }
}

/// How an address is bound: alone, or shared.
type Bind = fn(SocketAddr, &str) -> Result<Listener, millpond_net::Error>;
