//! `millpond serve` and `millpond check-config`.
//! Its invariant: a configuration that `check-config` accepts is refused by `serve` only for what it finds in files and ports.

use anyhow::Context as _;
use clap::Args;
use millpond_server::config::{Config, Origin, load};
use millpond_server::{
    LogHandle, Logging, Member, PARENT_STOP_LATE, Program, RespAddrs, STOP_LATE, Server, Stopped, Supervisor,
    say_within,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long the last words on standard error wait for a reader.
const LAST_WORDS_MAX: Duration = Duration::from_millis(30);
/// How long the line that says where it serves waits for a reader.
const READER_MAX: Duration = Duration::from_secs(1);
const ENDS: &str = "\
Examples:
  millpond serve --config config/millpond.toml
  millpond serve --config config/millpond.toml --set log.level=2

Signals:
  SIGTERM, Ctrl-C  stop: finish what was accepted, then end; a second one ends at once
  SIGHUP           read the certificates of [server.tls] and the map of [nodes] again

Exit status:
  0  everything that was accepted is finished, and everything was closed
  1  the start failed, or something was left behind (it is named on standard error), or the log was lost
  2  the command line is wrong";
/// Said where the log's file or standard error took nothing any more.
const LOG_LOST: &str = "the log takes no more lines; what was queued is lost";
const CHECK_EXAMPLES: &str = "\
Examples:
  millpond check-config config/millpond.toml";
/// The last words after a second signal.
const AT_ONCE: &str = "stopped at once by a second signal, before the first one's stop was done";
/// How long killed processes are waited for.
const KILLED_MAX: Duration = Duration::from_secs(5);

/// Where the configuration comes from.
#[derive(Args)]
pub(crate) struct Source {
    /// Set one key, over the file and the environment: --set log.level=2 --set 'server.listen="0.0.0.0:13500"'.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Source {
    pub(crate) fn load(
        &self,
        file: Option<PathBuf>,
        last: Option<String>,
    ) -> Result<Config, millpond_server::Error> {
        load(&Origin {
            file,
            environment: std::env::vars().collect(),
            flags: self.set.iter().cloned().chain(last).collect(),
        })
    }
}

/// Serves until SIGTERM or Ctrl-C, then finishes what was accepted, for server.drain_ms_max, and ends within a second after that; its
/// status is 1 where it left anything unfinished. Flags come before environment variables
/// (MILLPOND__LOG__LEVEL=2 is log.level = 2), those before the file, that before the defaults.
#[derive(Args)]
#[command(after_help = ENDS)]
pub(crate) struct Serve {
    /// The configuration; every key is explained in config/millpond.toml. Without one only *ping, *status and *infos are served.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Processes that share the port, for hosts that let a process open few files: server.processes, over everything else.
    #[arg(long, value_name = "N")]
    processes: Option<usize>,
    /// Which of these processes this is; serve itself starts them.
    #[arg(long, value_name = "NUMBER", hide = true)]
    process: Option<usize>,
    #[command(flatten)]
    source: Source,
}

/// Checks a configuration: keys, values and pipelines; reads every byte of the tables and loads the models it names, and sees
/// whether they fit. Ordered stores, logs of overlays, the log file and ports are left alone: opening them would change them. It looks
/// whether their folders can be made and written in, and makes none.
#[derive(Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckConfig {
    /// The configuration.
    file: PathBuf,
    #[command(flatten)]
    source: Source,
}

pub(crate) fn serve(arguments: &Serve) -> anyhow::Result<()> {
    let processes = arguments
        .processes
        .map(|count| format!("server.processes={count}"));
    let config = arguments.source.load(arguments.config.clone(), processes)?;
    let logging = Logging::start_as(&config.log, arguments.process)?;
    let done = serve_logged(arguments, config, logging.handle());
    if logging.end() {
        return done;
    }
    match done {
        Ok(()) => anyhow::bail!(LOG_LOST),
        Err(error) => Err(error.context(LOG_LOST)),
    }
}

/// Serves, with a log that the caller ends.
fn serve_logged(arguments: &Serve, config: Config, log: LogHandle) -> anyhow::Result<()> {
    millpond_server::abort_on_panic(log.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    // Signals are caught before the start, so that one that comes while models warm up ends it.
    let signals = runtime
        .block_on(async { Signals::new() })
        .context("cannot catch signals")?;
    let late = if config.server.processes > 1 && arguments.process.is_none() {
        PARENT_STOP_LATE
    } else {
        STOP_LATE
    };
    let running = Running {
        signals,
        stop_max: Duration::from_millis(config.server.drain_ms_max) + late,
        log,
    };
    runtime.block_on(async {
        match arguments.process {
            Some(number) => running.member(config, number).await,
            None if config.server.processes > 1 => running.several(arguments, &config).await,
            None => running.alone(config).await,
        }
    })
}

/// What every way to serve needs.
struct Running {
    signals: Signals,
    /// From the word to stop to the end of the process.
    stop_max: Duration,
    log: LogHandle,
}

impl Running {
    /// The whole server.
    async fn alone(mut self, config: Config) -> anyhow::Result<()> {
        let program = self.program();
        let Some(server) = self.start(move || Server::start_in(config, program)).await? else {
            return Ok(());
        };
        let admin = server.admin_addr().context("it has no admin port")?;
        said_to_serve(server.local_addr(), admin, server.tls_addr(), server.resp_addrs()).await;
        self.signals.stop(|| server.reload()).await;
        let unfinished = server.unfinished();
        self.stop(move || server.shutdown(), unfinished, Duration::ZERO)
            .await
    }

    /// The parent of several processes.
    async fn several(mut self, arguments: &Serve, config: &Config) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let (file, set) = (arguments.config.clone(), arguments.source.set.clone());
        let count = config.server.processes.to_string();
        let launch = move |number: usize| {
            let mut command = std::process::Command::new(&program);
            command.arg("serve");
            if let Some(file) = &file {
                command.arg("--config").arg(file);
            }
            set.iter().for_each(|pair| {
                command.args(["--set", pair]);
            });
            command.args(["--processes", &count, "--process", &number.to_string()]);
            command
        };
        let started = Supervisor::start(config, Some(self.log.clone()), launch);
        let supervisor = started.map_err(|error| self.not_started(error.into()))?;
        let (stop, reload) = (supervisor.stopper(), supervisor.reloader());
        let mut ready = on_a_thread(move || supervisor.wait_ready().map(|()| supervisor));
        let supervisor = tokio::select! {
            ready = &mut ready => {
                let ready = ready.context("the start failed")?;
                ready.map_err(|error| self.not_started(error.into()))?
            }
            () = self.signals.stop(&reload) => {
                end_within(self.stop_max);
                stop(false);
                // It comes when none of them is left, and a second signal ends them at once.
                tokio::select! {
                    _ = &mut ready => {}
                    () = self.signals.stop(&reload) => {
                        stop(true);
                        drop(ready.await);
                    }
                }
                return Ok(());
            }
        };
        let tls = config.server.tls.as_ref().map(|tls| tls.listen);
        let resp = RespAddrs::named(config);
        said_to_serve(supervisor.local_addr(), supervisor.admin_addr(), tls, resp).await;
        self.signals.stop(reload).await;
        self.stop(move || supervisor.shutdown(), move || stop(true), KILLED_MAX)
            .await
    }

    /// One of several processes: it prints nothing, because its parent reads what it prints.
    async fn member(mut self, config: Config, number: usize) -> anyhow::Result<()> {
        anyhow::ensure!(
            number < config.server.processes,
            "--process is for serve itself, which starts its processes with it; use --processes N"
        );
        let member = Member::join(number)?;
        let program = Program {
            member: Some(member),
            ..self.program()
        };
        let start = move || Server::start_in(config, program);
        let Some(server) = self.start(start).await? else {
            return Ok(());
        };
        // Its parent ends it by SIGTERM, and the system may do so once more when the parent is gone: one stop.
        self.signals.stop(|| server.reload()).await;
        end_within(self.stop_max);
        finished(&server.shutdown())
    }

    fn program(&self) -> Program {
        Program {
            log: Some(self.log.clone()),
            allocator: crate::allocator::NAME,
            member: None,
        }
    }

    /// Starts; nothing when a signal came first. Nothing is accepted before it is ready, so nothing is left.
    async fn start<T: Send + 'static>(
        &mut self,
        start: impl FnOnce() -> Result<T, millpond_server::Error> + Send + 'static,
    ) -> anyhow::Result<Option<T>> {
        tokio::select! {
            started = on_a_thread(start) => {
                let started = started.context("the start failed").and_then(|started| Ok(started?));
                started.map(Some).map_err(|error| self.not_started(error))
            }
            () = self.signals.stop(|| {}) => {
                end_within(self.stop_max);
                Ok(None)
            }
        }
    }

    /// Stops. A further signal ends that: `at_once` then ends what else takes part, says what is left, and is waited for that long.
    async fn stop(
        mut self,
        stop: impl FnOnce() -> Stopped + Send + 'static,
        at_once: impl FnOnce() -> Vec<String>,
        patience: Duration,
    ) -> anyhow::Result<()> {
        end_within(self.stop_max);
        let mut stopped = on_a_thread(stop);
        tokio::select! {
            stopped = &mut stopped => finished(&stopped.context("the stop failed")?),
            () = self.signals.stop(|| {}) => {
                let left = at_once().join(", ");
                let _ = tokio::time::timeout(patience, stopped).await;
                tracing::error!(left, "{AT_ONCE}");
                anyhow::bail!(AT_ONCE)
            }
        }
    }

    /// Logs why the start failed; the same error.
    fn not_started(&self, error: anyhow::Error) -> anyhow::Error {
        let why = crate::told(&error);
        self.log.note_failure(&format!("the start failed: {why}"));
        error
    }
}

/// Does some work on a thread that the end of the process does not wait for.
fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (done, result) = oneshot::channel();
    std::thread::spawn(move || {
        // Nobody waits for it any more when a signal came first.
        let _ = done.send(work());
    });
    result
}

async fn said_to_serve(address: SocketAddr, admin: SocketAddr, tls: Option<SocketAddr>, resp: RespAddrs) {
    let mut line = format!("millpond serves on {address}, health and metrics on {admin}");
    for (what, addr) in [("TLS", tls), ("RESP", resp.plain), ("RESP by TLS", resp.tls)] {
        if let Some(addr) = addr {
            line.push_str(&format!(", {what} on {addr}"));
        }
    }
    // A standard output that nobody reads must not keep this thread from the signals.
    let _ = tokio::time::timeout(READER_MAX, on_a_thread(move || crate::print(&line))).await;
}

fn finished(stopped: &Stopped) -> anyhow::Result<()> {
    anyhow::ensure!(
        stopped.is_clean(),
        "stopped, and not all of it ended in order: {}; see the log",
        stopped.left.join(", ")
    );
    Ok(())
}

/// Ends the process within that time, whatever its threads wait for: a log or a standard error that nobody reads, a lock.
#[allow(clippy::disallowed_methods)] // Destructors are what may hang here, and `main` may be what waits.
fn end_within(stop_max: Duration) {
    let at = Instant::now() + stop_max;
    let limit = std::thread::Builder::new()
        .name("stop-limit".into())
        .spawn(move || {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            say_within(
                "millpond: the stop has taken too long; the process ends without it",
                LAST_WORDS_MAX,
            );
            std::process::exit(1)
        });
    if let Err(error) = limit {
        say_within(
            &format!("millpond: nobody limits the time of the stop: {error}"),
            LAST_WORDS_MAX,
        );
    }
}

/// SIGTERM, Ctrl-C, and SIGHUP, which has certificates read again and ends nothing: accepted calls would be lost.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Until the process is to stop; calls `reload` whenever it is to read files again.
    async fn stop(&mut self, reload: impl Fn()) {
        let hangup = async {
            while self.hangup.recv().await.is_some() {
                reload();
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = hangup => {}
        }
    }
}

pub(crate) fn check(arguments: &CheckConfig) -> anyhow::Result<()> {
    let config = arguments.source.load(Some(arguments.file.clone()), None)?;
    let warnings = millpond_server::dry_open(&config)?;
    let names = |what: &str, names: Vec<&str>| match names.as_slice() {
        [] => format!("\n  no {what}"),
        names => format!("\n  {what}: {}", names.join(", ")),
    };
    let tls = config.server.tls.as_ref();
    let parts = [
        names("models", config.models.keys().map(String::as_str).collect()),
        names(
            "feature tables",
            config.features.keys().map(String::as_str).collect(),
        ),
        names(
            "ordered stores",
            config.ordered.keys().map(String::as_str).collect(),
        ),
        names("pipelines", config.pipelines.keys().map(String::as_str).collect()),
        names(
            "methods of its own",
            config.methods.keys().map(String::as_str).collect(),
        ),
    ];
    let resp = RespAddrs::named(&config);
    crate::print(&format!(
        "{}: good\n  listens on {}, admin on {}{}{}{}",
        arguments.file.display(),
        config.server.listen,
        config.admin.listen,
        tls.map_or(String::new(), |tls| format!(", TLS on {}", tls.listen)),
        resp.plain
            .map_or(String::new(), |addr| format!(", RESP on {addr}")),
        parts.concat(),
    ));
    for warning in warnings {
        crate::print(&format!("  but: {warning}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What is released has no encryption, and says so instead of serving in clear; the tests' build has it.
    #[test]
    fn encryption_is_refused_by_a_build_without_it() {
        let key = "server.fpnn_encryption={ curve = \"secp256k1\", private_key = \"no-such.key\" }";
        let config = load(&Origin {
            file: None,
            environment: Vec::new(),
            flags: vec![
                key.to_owned(),
                "server.listen=127.0.0.1:0".to_owned(),
                "admin.listen=127.0.0.1:0".to_owned(),
            ],
        })
        .unwrap();
        let refused = Server::start(config).err().unwrap().to_string();
        let expected = match cfg!(feature = "fpnn-encryption") {
            true => "no-such.key",
            false => "this build has no encryption",
        };
        assert!(refused.contains(expected), "{refused}");
    }
}
