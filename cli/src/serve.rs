//! `millpond serve` and `millpond check-config`.
//! Its invariant: a configuration that `check-config` accepts is refused by `serve` only for what it finds in files and ports.

use anyhow::Context as _;
use clap::Args;
use millpond_server::config::{Config, Origin, load};
use millpond_server::{Logging, Server};
use std::path::PathBuf;

/// Where the configuration comes from.
#[derive(Args)]
struct Source {
    /// Set one key, over the file and the environment: --set log.level=2 --set 'server.listen="0.0.0.0:13500"'.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Source {
    fn load(&self, file: Option<PathBuf>) -> Result<Config, millpond_server::Error> {
        load(&Origin {
            file,
            environment: std::env::vars().collect(),
            flags: self.set.clone(),
        })
    }
}

/// Serves until SIGTERM or Ctrl-C, then finishes what was accepted. Flags come before environment variables
/// (MILLPOND__LOG__LEVEL=2 is log.level = 2), those before the file, that before the defaults.
#[derive(Args)]
pub(crate) struct Serve {
    /// The configuration; every key is explained in config/millpond.toml. Without one only *ping, *status and *infos are served.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
}

/// Checks a configuration: keys, values and pipelines; reads every byte of the tables and loads the models it names, and sees
/// whether they fit. Ordered stores, the log file and ports are left alone: opening them would change them.
#[derive(Args)]
pub(crate) struct CheckConfig {
    /// The configuration.
    file: PathBuf,
    #[command(flatten)]
    source: Source,
}

pub(crate) fn serve(arguments: &Serve) -> anyhow::Result<()> {
    let config = arguments.source.load(arguments.config.clone())?;
    let logging = Logging::start(&config.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    // Signals are caught before the start, so that one that comes while models warm up ends it.
    let mut signals = runtime
        .block_on(async { Signals::new() })
        .context("cannot catch signals")?;
    let Some(server) = start(&runtime, &mut signals, config, &logging)? else {
        return Ok(());
    };
    crate::print(&format!(
        "millpond serves on {}, health and metrics on {}",
        server.local_addr(),
        server.admin_addr()
    ));
    runtime.block_on(signals.next());
    let (done, mut finished) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || done.send(server.shutdown()));
    runtime.block_on(async {
        tokio::select! {
            all = &mut finished => match all {
                Ok(true) => Ok(()),
                Ok(false) => anyhow::bail!("stopped with unfinished calls after server.drain_ms_max"),
                Err(_) => anyhow::bail!("the stop failed"),
            },
            () = signals.next() => anyhow::bail!("stopped at once by a second signal, before the first one's stop was done"),
        }
    })
}

/// Starts the server; `None` when a signal came first. Nothing is accepted before it is ready, so nothing is left.
fn start(
    runtime: &tokio::runtime::Runtime,
    signals: &mut Signals,
    config: Config,
    logging: &Logging,
) -> anyhow::Result<Option<Server>> {
    let handle = logging.handle();
    let (done, mut started) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // Nobody waits any more when a signal came first.
        drop(done.send(Server::start_logged(config, Some(handle))));
    });
    runtime.block_on(async {
        tokio::select! {
            server = &mut started => Ok(Some(server.context("the start failed")??)),
            () = signals.next() => Ok(None),
        }
    })
}

/// SIGTERM and Ctrl-C.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

pub(crate) fn check(arguments: &CheckConfig) -> anyhow::Result<()> {
    let config = arguments.source.load(Some(arguments.file.clone()))?;
    millpond_server::dry_open(&config)?;
    let names = |what: &str, names: Vec<&String>| match names.as_slice() {
        [] => format!("  no {what}"),
        names => format!(
            "  {what}: {}",
            names
                .iter()
                .map(|name| name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    crate::print(&format!(
        "{}: good\n  listens on {}, admin on {}\n{}\n{}\n{}\n{}\n{}",
        arguments.file.display(),
        config.server.listen,
        config.admin.listen,
        names("models", config.models.keys().collect()),
        names("feature tables", config.features.keys().collect()),
        names("ordered stores", config.ordered.keys().collect()),
        names("pipelines", config.pipelines.keys().collect()),
        names("methods of its own", config.methods.keys().collect()),
    ));
    Ok(())
}
