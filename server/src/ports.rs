//! What the connections of each port may use: of the data ports as configured, of the admin port always the same.
//! It binds nothing. Its invariant: silent connections, however many, keep nobody from the admin port.

use crate::{Bind, Error, config, encryption};
use config::Config;
use millpond_calls::Service;
use millpond_fronts_answer::{Reach, Serving};
use millpond_fronts_http::{self as http, Hosts, HttpOptions};
use millpond_fronts_native::{self as native, NativeOptions};
use millpond_fronts_resp::{self as resp, RespOptions};
use millpond_fronts_websocket as websocket;
use millpond_net::{Counters, Fronts, Hints, Listener, Options, Timeouts, Transport};
use millpond_wire_frame::Limits;
use std::sync::Arc;
use std::time::Duration;

/// Calls to its peer that a connection may have unanswered.
const PUSHES_PER_CONNECTION_MAX: usize = 1024;

/// What the connections of a port may use, of the port and of each protocol.
pub(crate) struct Port {
    pub(crate) options: Options,
    pub(crate) native: NativeOptions,
    pub(crate) http: HttpOptions,
    /// What listeners speak that are [`RESP_PORT`]'s; nothing where there are none.
    pub(crate) resp: Option<RespOptions>,
}

/// The place of RESP among what a transport's listeners speak.
pub(crate) const RESP_PORT: usize = 1;

/// What a port counts, and its protocols.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) net: Arc<Counters>,
    pub(crate) native: Arc<native::Counters>,
    pub(crate) http: Arc<http::Counters>,
}

impl Port {
    /// Starts its net threads, whose connections are served by `service`, with `reach` to other servers; nothing is accepted before [`Transport::accept`].
    pub(crate) fn prepare<S: Service>(
        self,
        listeners: Vec<Listener>,
        name: &str,
        service: S,
        reach: Option<Box<dyn Reach<S>>>,
    ) -> Result<(Transport, Counted), Error> {
        let (native, http) = (Arc::new(self.native), self.http);
        let mut counted = Counted {
            net: Arc::default(),
            native: Arc::clone(&native.counters),
            http: Arc::clone(&http.counters),
        };
        // In the order in which first bytes are looked at.
        let fronts: Fronts<_> = Arc::new([
            http::front(http, websocket::upgrade(Arc::clone(&native))),
            native::front(native),
        ]);
        let resp: Fronts<_> = self.resp.into_iter().map(resp::front).collect();
        let ports = Arc::new([fronts, resp]);
        let serving = Serving::new(service).reaching(reach);
        let transport = Transport::prepare(listeners, name, self.options, ports, serving)?;
        counted.net = transport.counters();
        Ok((transport, counted))
    }

    /// Like [`Port::prepare`] of one listener, and accepts.
    pub(crate) fn start(
        self,
        listener: Listener,
        name: &str,
        service: impl Service,
    ) -> Result<Transport, Error> {
        let (mut transport, _) = self.prepare(vec![listener], name, service, None)?;
        transport.accept()?;
        Ok(transport)
    }
}

/// Net threads of a process: where 0 is said one a processor, shared among the processes.
pub(crate) fn net_threads(server: &config::Server) -> usize {
    if server.threads > 0 {
        return server.threads;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / server.processes.max(1)).max(1)
}

/// What connections of the data ports may use.
pub(crate) fn data_port(config: &Config) -> Result<Port, Error> {
    let mut port = data_bounds(config);
    port.native.encryption = encryption::key(&config.server)?;
    Ok(port)
}

/// The same without the key of the encrypted channel.
pub(crate) fn data_bounds(config: &Config) -> Port {
    let limits = Limits {
        frame_bytes_max: config.server.frame_bytes_max,
    };
    let options = Options {
        threads: net_threads(&config.server),
        cpus: config.server.cpus.clone(),
        connections_max: config.server.connections_max,
        idlest_gives_way: false,
        write_buffer_bytes_max: config.server.write_buffer_bytes_max,
        write_buffers_total_bytes_max: config.server.write_buffers_total_bytes_max,
        partial_bytes_max: config.server.unfinished_bytes_max,
        timeouts: Timeouts {
            idle: Duration::from_secs(config.server.idle_timeout_s),
            request: Duration::from_secs(config.server.request_timeout_s),
            write: Duration::from_secs(config.server.write_timeout_s),
        },
        busy_poll: Duration::from_micros(config.server.busy_poll_us),
        hints: Hints {
            cpus: "name processors that exist in server.cpus",
            connections: "raise server.connections_max",
            partial_requests: "raise server.unfinished_bytes_max",
            write_buffer_key: "server.write_buffer_bytes_max",
            write_buffers_total_key: "server.write_buffers_total_bytes_max",
        },
    };
    Port {
        options,
        native: NativeOptions {
            in_flight_max: config.server.in_flight_per_connection_max,
            pushes_max: PUSHES_PER_CONNECTION_MAX,
            limits,
            encryption: None,
            counters: Arc::default(),
        },
        http: HttpOptions {
            limits,
            // Read once a process, and needed as long as that.
            cors_origins: leaked(&config.server.cors_origins),
            hosts: hosts("server.hosts", &config.server.hosts),
            counters: Arc::default(),
        },
        resp: crate::resp::options(config, limits),
    }
}

/// What connections of the admin port may use, of which no key changes but the names it is called by.
pub(crate) fn admin_port(admin: &config::Admin) -> Port {
    let limits = Limits {
        frame_bytes_max: 64 << 10,
    };
    let options = Options {
        threads: 1,
        cpus: Vec::new(),
        connections_max: 100,
        idlest_gives_way: true,
        write_buffer_bytes_max: config::Server::default().write_buffer_bytes_max,
        write_buffers_total_bytes_max: 16 << 20,
        partial_bytes_max: 16 << 20,
        timeouts: Timeouts::default(),
        busy_poll: Duration::ZERO,
        hints: Hints {
            cpus: "it is pinned to none",
            connections: "close some to the admin port, which takes no more",
            partial_requests: "send less",
            write_buffer_key: "the admin port's own bound",
            write_buffers_total_key: "the admin port's own bound",
        },
    };
    Port {
        options,
        native: NativeOptions {
            in_flight_max: 16,
            pushes_max: 0,
            limits,
            encryption: None,
            counters: Arc::default(),
        },
        http: HttpOptions {
            limits,
            cors_origins: Vec::new(),
            hosts: hosts("admin.hosts", &admin.hosts),
            counters: Arc::default(),
        },
        resp: None,
    }
}

/// The names of a key, read once a process.
fn hosts(key: &'static str, listed: &[String]) -> Hosts {
    Hosts {
        listed: leaked(listed),
        key,
    }
}

fn leaked(texts: &[String]) -> Vec<&'static str> {
    texts.iter().map(|text| &*text.clone().leak()).collect()
}

/// Binds what is listened on beside `server.listen`.
pub(crate) fn listen_also(server: &config::Server, bind: Bind) -> Result<Vec<Listener>, Error> {
    let key = "server.listen_also";
    let bind = |listen: &config::Listen| match listen {
        config::Listen::Inet(address) => bind(*address, key),
        config::Listen::Unix(path) => Listener::bind_unix(path, key),
    };
    Ok(server.listen_also.iter().map(bind).collect::<Result<_, _>>()?)
}
