//! The server: configuration, wiring, drain and the admin port.
//!
//! It serves no method itself. Its invariant: it is ready only when every table is resident, every model has run its warm-up
//! sizes and every pipeline has answered calls; and a stop finishes what was accepted.
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

mod admin;
mod arrivals;
pub mod config;
pub mod doctor;
mod encryption;
mod error;
mod following;
mod fresh;
mod halt;
mod host;
mod infos;
mod log;
mod nodes;
mod panics;
mod ports;
mod processes;
mod program;
mod rehearsal;
mod resp;
mod stop;
mod stores;
mod switch;
mod tls;
mod tune;
mod watch;

pub use error::Error;
pub use log::{LogHandle, Logging, say, say_within};
pub use panics::abort_on_panic;
pub use processes::{Member, Supervisor};
pub use program::Program;
pub use resp::RespAddrs;
pub use stop::{PARENT_STOP_LATE, STOP_LATE, Stopped};

use arrivals::Arrivals;
use config::Config;
use millpond_calls::{Access, Admission, Calls, Host, MethodService};
use millpond_catalog::{Catalog, Handle, Sections};
use millpond_engines_features as features;
use millpond_engines_ordered::Durability;
use millpond_fronts_answer::Reach;
use millpond_fronts_native::Pools;
use millpond_methods::Engines;
use millpond_net::{Listener, Pulses, Transport, raise_file_limit};
use ports::{Counted, admin_port, data_port, listen_also};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use watch::{Health, Watch};

/// What every thread of the server sees.
pub(crate) struct Shared {
    config: Config,
    calls: Arc<Calls<Engines>>,
    /// Whether its threads turn.
    health: Health,
    started: Instant,
    data_counted: OnceLock<Counted>,
    certificate: OnceLock<Arc<tls::Certificate>>,
    switching: switch::Switching,
    program: Program,
    /// The servers that share tables with this one.
    spread: Option<nodes::Spread>,
    /// Where the ordered stores are, where another process of this server has them.
    stores: Option<stores::Elsewhere>,
}

impl Shared {
    fn new(config: Config, program: Program) -> Shared {
        let stores = stores::Elsewhere::of(&config, &program);
        let methods = match stores {
            Some(_) => millpond_methods::table_without_stores(&config.methods),
            None => millpond_methods::table(&config.methods),
        };
        let server = &config.server;
        let calls = Calls::new(
            Access::new(&config.access, config.admin.token.clone(), &methods),
            Admission::new(
                server.in_flight_max,
                server.in_flight_bytes_max,
                Duration::from_millis(server.deadline_ms_default),
            ),
            methods,
            config.log.slow_ms,
            server.frame_bytes_max,
        );
        if let Some(stores) = &stores {
            calls.set_stores_at(stores.process());
        }
        Shared {
            calls: Arc::new(calls),
            health: Health::default(),
            started: Instant::now(),
            data_counted: OnceLock::new(),
            certificate: OnceLock::new(),
            switching: switch::Switching::default(),
            program,
            spread: None,
            stores,
            config,
        }
    }

    /// The same, sharing tables with other servers.
    fn spreading(mut self, spread: Option<nodes::Spread>) -> Shared {
        if let Some(spread) = &spread {
            self.calls.spread(Arc::clone(&spread.nodes));
        }
        self.spread = spread;
        self
    }

    /// What takes its calls to other servers and processes, where there are any.
    fn reach(&self) -> Option<Box<dyn Reach<MethodService<Engines>>>> {
        let nodes = self.spread.as_ref().map(nodes::Spread::pool);
        let stores = self.stores.as_ref().map(stores::Elsewhere::pool);
        Some(Box::new(Pools::new(nodes, stores)?))
    }

    /// What a net thread of the data port serves calls with.
    fn service(self: &Arc<Shared>) -> MethodService<Engines> {
        MethodService::new(Arc::clone(&self.calls), Arc::clone(self) as Arc<dyn Host>)
    }

    /// Whether this server is a node that has fresh rows, and has not caught up with the others since it was started.
    fn is_behind(&self) -> bool {
        let nodes = self.calls.nodes().filter(|nodes| nodes.map().is_some());
        self.has_fresh_rows() && nodes.is_some_and(|nodes| !nodes.fresh.has_begun())
    }

    /// Whether it answers lookups of fresh rows that other nodes have too.
    fn has_fresh_rows(&self) -> bool {
        self.config.spread_overlays().next().is_some()
    }

    /// Why no call should come, if there is a reason.
    fn why_not_ready(&self) -> Option<String> {
        let Some(catalog) = self.calls.state() else {
            return Some("it is warming up".to_owned());
        };
        if self.calls.is_stopping() {
            return Some("it is stopping".to_owned());
        }
        let complaint = self.health.complaint();
        let complaint = complaint.or_else(|| read_only_store(&catalog));
        complaint.or_else(|| {
            self.is_behind()
                .then(|| "it catches up with upserts that it missed".to_owned())
        })
    }
}

/// What to say of a store that a failure made read-only, if there is one.
fn read_only_store(catalog: &Catalog) -> Option<String> {
    if let Some((name, _)) = catalog
        .overlays()
        .find(|(_, overlay)| overlay.read_only().is_some())
    {
        return Some(format!(
            "the overlay of feature table {name:?} is read-only after a failure of its log; restart to recover"
        ));
    }
    let mut stores = catalog.stores.iter();
    let (name, _) = stores.find(|(_, store)| store.read_only().is_some())?;
    Some(format!(
        "ordered store {name:?} is read-only after a failure of its log; restart to recover"
    ))
}

/// Opens what a configuration names, as a start would, and closes it again; ordered stores and overlays are left alone, because opening one
/// may repair it.
/// Returns what a start would warn of.
///
/// # Errors
/// What a start would say.
pub fn dry_open(config: &Config) -> Result<Vec<String>, Error> {
    let mut dry = config.clone();
    for store in dry.ordered.values_mut() {
        (store.path, store.durability) = (None, Durability::Memory);
        (store.follow, store.follow_token_file, store.follow_ca) = (None, None, None);
        (store.acknowledge, store.acknowledge_ms) = Default::default();
    }
    for overlay in dry
        .features
        .values_mut()
        .filter_map(|table| table.overlay.as_mut())
    {
        (overlay.path, overlay.durability) = (None, Durability::Memory);
    }
    for model in dry.models.values_mut() {
        model.batcher.instances = 1;
    }
    data_port(&dry)?;
    let tls = tls::read(&dry.server)?;
    let outward = dry.nodes.as_ref().map(nodes::read_tls).transpose()?.flatten();
    let mut sections = dry.sections();
    let mut warnings = without_versions(&mut sections);
    Handle::open(sections, dry.resources())?;
    let of_tls = tls.iter().flat_map(tls::warnings);
    let of_tls = of_tls.chain(outward.iter().flat_map(tls::outward_warnings));
    warnings.extend(of_tls.map(|warning| warning.text));
    warnings.extend(config.overlay_warnings());
    Ok(warnings)
}

/// Takes out the tables that have no version before a start has fetched one; returns what was not looked at for that.
fn without_versions(sections: &mut Sections) -> Vec<String> {
    let are_empty = sections.features.iter().filter(|(_, section)| {
        let there = features::versions(&section.path);
        section.source.is_some() && matches!(there, Err(features::Error::NoVersions { .. }))
    });
    let names: Vec<String> = are_empty.map(|(name, _)| name.clone()).collect();
    let take_out = |name: String| {
        let pipelines = sections.take_out_table(&name);
        let pipelines = pipelines
            .iter()
            .map(|pipeline| format!(", nor pipelines.{pipeline}"));
        let pipelines: String = pipelines.collect();
        format!(
            "features.{name} has no version yet, so it was not opened{pipelines}; a start fetches one from its source first"
        )
    };
    names.into_iter().map(take_out).collect()
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    data: Transport,
    /// None where the process is one of several: their parent has it.
    admin: Option<Transport>,
    tls: Option<tls::Port>,
    /// Where other processes of this server are answered, where this one has the ordered stores of all.
    stores: Option<Transport>,
    resp: RespAddrs,
    /// Follows the map of nodes, where there is one.
    follower: Option<nodes::Follower>,
    /// Catches up with upserts, where this server is a node that has fresh rows.
    catching_up: Option<fresh::CatchingUp>,
    /// Takes the records of other servers' ordered stores, where stores here follow them.
    following: following::Followings,
    /// Asks the threads whether they turn.
    watch: Watch,
    /// Look for new versions of tables, once it serves.
    arrivals: Arrivals,
}

impl Server {
    /// Opens everything, reads every byte of the tables, binds both ports, warms, and serves. While it warms, it answers health checks, and calls with
    /// `NotReady`.
    ///
    /// # Errors
    /// [`Error`]: what, where, and a hint.
    pub fn start(config: Config) -> Result<Server, Error> {
        Server::start_in(config, Program::default())
    }

    /// Like [`Server::start`], as a part of that program.
    ///
    /// # Errors
    /// As [`Server::start`]; and [`Error::Process`] where one of several processes is stopped before it serves.
    pub fn start_in(config: Config, program: Program) -> Result<Server, Error> {
        let config = match &program.member {
            Some(member) => processes::share(config, member.number()),
            None if config.server.processes > 1 => {
                return Err(Error::Unfit(format!(
                    "server.processes is {}, and this is one process; a Supervisor starts several, or set it to 1",
                    config.server.processes
                )));
            }
            None => config,
        };
        Server::open(config, program)
    }

    fn open(config: Config, program: Program) -> Result<Server, Error> {
        raise_files(config.server.connections_max);
        let port = data_port(&config)?;
        let serving = match &program.member {
            Some(member) => member.wait_to_open()?,
            None => BTreeMap::new(),
        };
        arrivals::fetch_first(&config, program.member.as_ref())?;
        let sections = stores::sections_here(&config, &program);
        let engines = Handle::open_serving(sections, &serving, config.resources())?;
        let engines = Arc::new(engines);
        let bind = match program.member {
            Some(_) => Listener::bind_shared,
            None => Listener::bind,
        };
        let mut listeners = vec![bind(config.server.listen, "server.listen")?];
        listeners.extend(listen_also(&config.server, bind)?);
        let (tls, listener) = tls::Port::open(&config.server, bind)?.unzip();
        listeners.extend(listener);
        let begins_with = tls.as_ref().map(tls::Port::begins_with);
        let (resp, of_resp) = resp::open(&config, begins_with, bind)?;
        listeners.extend(of_resp);
        let admin = match program.member {
            None => Some(Listener::bind(config.admin.listen, "admin.listen")?),
            Some(_) => None,
        };
        let of_stores = stores::listener(&program)?;
        let spread = nodes::open(&config)?;
        let shared = Arc::new(Shared::new(config, program).spreading(spread));
        let start_admin = |listener| {
            let view = Arc::clone(&shared);
            admin_port(&shared.config.admin).start(listener, "admin", admin::Admin { view })
        };
        let admin = admin.map(start_admin).transpose()?;
        // While it warms, a lone process answers that it is not ready; one of several leaves that to the others.
        let (mut data, counted) = port.prepare(listeners, "net", shared.service(), shared.reach())?;
        let prepare = |listener| stores::prepare(&shared.config, listener, shared.service());
        let stores = of_stores.map(prepare).transpose()?;
        let state = match shared.program.member {
            Some(_) => "bound",
            None => {
                data.accept()?;
                "listening"
            }
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
            allocator = shared.program.allocator,
            "{state}; warming up"
        );
        let mut server = Server::watched(shared, data, (admin, stores), tls)?;
        server.resp = resp;
        let warm = server.warm(&engines);
        let joined = warm.and_then(|()| server.join(&engines));
        match joined.and_then(|()| Arrivals::start(&server.shared, &engines)) {
            Ok(arrivals) => Server { arrivals, ..server }.follow(),
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
        (admin, stores): (Option<Transport>, Option<Transport>),
        tls: Option<tls::Port>,
    ) -> Result<Server, Error> {
        let beside = admin.iter().chain(&stores).map(Transport::pulses);
        let watch = Watch::start(&shared, beside.fold(data.pulses(), Pulses::and))?;
        Ok(Server {
            shared,
            data,
            admin,
            tls,
            stores,
            resp: RespAddrs::default(),
            follower: None,
            catching_up: None,
            following: following::Followings::default(),
            watch,
            arrivals: Arrivals::default(),
        })
    }

    fn warm(&self, engines: &Arc<Handle>) -> Result<(), Error> {
        engines.warm()?;
        rehearsal::hold(&self.shared, &engines.pin());
        engines.pin().forget_counts();
        let _ = self.shared.switching.engines.set(Arc::clone(engines));
        self.shared.calls.open(engines.current());
        let ms = self.shared.started.elapsed().as_millis() as u64;
        tracing::info!(ms, "ready");
        Ok(())
    }

    /// One of several processes accepts when it is as the others are.
    fn join(&mut self, engines: &Handle) -> Result<(), Error> {
        let Some(member) = &self.shared.program.member else {
            return Ok(());
        };
        let serving = member.wait_to_serve(&self.shared, engines.pin().serving())?;
        switch::follow(engines, serving)?;
        if let Some(stores) = &mut self.stores {
            stores.accept()?;
        }
        self.data.accept()?;
        member.is_ready();
        tracing::info!("accepting");
        Ok(())
    }

    /// From now on other servers may call, and the map of nodes is followed; and it has caught up with them when this returns.
    fn follow(mut self) -> Result<Server, Error> {
        let shared = Arc::clone(&self.shared);
        match following::Followings::start(&shared, self.data.local_addr()) {
            Ok(following) => self.following = following,
            Err(error) => {
                self.close(Instant::now());
                return Err(error);
            }
        }
        let Some(spread) = &shared.spread else {
            return Ok(self);
        };
        let follower = nodes::Follower::start(&shared, spread, self.data.local_addr());
        let followed = follower.and_then(|follower| {
            self.follower = follower;
            fresh::CatchingUp::start(&shared, spread)
        });
        match followed {
            Ok(catching_up) => {
                self.catching_up = catching_up;
                Ok(self)
            }
            Err(error) => {
                self.close(Instant::now());
                Err(error)
            }
        }
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

    /// Where clients of Redis are answered, if anywhere.
    pub fn resp_addrs(&self) -> RespAddrs {
        self.resp
    }

    /// Has the files of `server.tls` read again; connections that have begun keep what they began with. Without them the log
    /// says that nothing is done.
    pub fn reload(&self) {
        if let Some(follower) = &self.follower {
            follower.reload();
        }
        match &self.tls {
            Some(tls) => tls.reload(),
            None if self.follower.is_some() => {}
            None => tracing::info!("nothing to read again: there is no server.tls; SIGTERM stops"),
        }
    }
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
