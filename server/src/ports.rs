//! What the connections of each port may use: of the data ports as configured, of the admin port always the same.
//! It binds nothing. Its invariant: silent connections, however many, keep nobody from the admin port.

use crate::{Error, config, encryption};
use config::Config;
use millpond_wire_frame::Limits;
use millpond_wire_transport::{Hosts, HttpOptions, NativeOptions, Options, Patience};
use std::time::Duration;

/// Calls to its peer that a connection may have unanswered.
const PUSHES_PER_CONNECTION_MAX: usize = 1024;

/// Net threads of a process: where 0 is said one a processor, shared among the processes.
pub(crate) fn net_threads(server: &config::Server) -> usize {
    if server.threads > 0 {
        return server.threads;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / server.processes.max(1)).max(1)
}

/// What connections of the data ports may use.
///
/// # Errors
/// [`Error`] where the key of the encrypted channel cannot be read.
pub(crate) fn data_options(config: &Config) -> Result<Options, Error> {
    let mut options = data_bounds(config);
    options.native.encryption = encryption::key(&config.server)?;
    Ok(options)
}

/// The same without the key of the encrypted channel.
pub(crate) fn data_bounds(config: &Config) -> Options {
    let limits = Limits {
        frame_bytes_max: config.server.frame_bytes_max,
    };
    Options {
        threads: net_threads(&config.server),
        cpus: config.server.cpus.clone(),
        connections_max: config.server.connections_max,
        connections_mend: "raise server.connections_max",
        idlest_gives_way: false,
        owed_bytes_max: config.server.write_buffer_bytes_max,
        write_buffers_total_bytes_max: config.server.write_buffers_total_bytes_max,
        unfinished_bytes_max: config.server.unfinished_bytes_max,
        unfinished_mend: "raise server.unfinished_bytes_max",
        patience: Patience {
            idle: Duration::from_secs(config.server.idle_timeout_s),
            request: Duration::from_secs(config.server.request_timeout_s),
            write: Duration::from_secs(config.server.write_timeout_s),
        },
        native: NativeOptions {
            in_flight_max: config.server.in_flight_per_connection_max,
            pushes_max: PUSHES_PER_CONNECTION_MAX,
            limits,
            encryption: None,
        },
        http: HttpOptions {
            limits,
            // Read once a process, and needed as long as that.
            cors_origins: leaked(&config.server.cors_origins),
            hosts: hosts("server.hosts", &config.server.hosts),
        },
    }
}

/// What connections of the admin port may use, of which no key changes but the names it is called by.
pub(crate) fn admin_options(admin: &config::Admin) -> Options {
    let limits = Limits {
        frame_bytes_max: 64 << 10,
    };
    Options {
        threads: 1,
        cpus: Vec::new(),
        connections_max: 100,
        connections_mend: "close some to the admin port, which takes no more",
        idlest_gives_way: true,
        owed_bytes_max: config::Server::default().write_buffer_bytes_max,
        write_buffers_total_bytes_max: 16 << 20,
        unfinished_bytes_max: 16 << 20,
        unfinished_mend: "send less",
        patience: Patience::default(),
        native: NativeOptions {
            in_flight_max: 16,
            pushes_max: 0,
            limits,
            encryption: None,
        },
        http: HttpOptions {
            limits,
            cors_origins: Vec::new(),
            hosts: hosts("admin.hosts", &admin.hosts),
        },
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
