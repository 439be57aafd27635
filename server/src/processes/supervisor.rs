//! The parent of several processes, as whoever starts it sees it.
//!
//! Its invariant: when it has been stopped or dropped, no process is left and the admin port is closed.

use super::admin::{State, Together};
use super::folder::Folder;
use super::parent::{Beginning, Event, Parent};
use crate::admin::Admin;
use crate::config::{Config, Listen};
use crate::ports::admin_port;
use crate::stop::{GONE_LATE, Stopped};
use crate::{Error, LogHandle};
use millpond_calls::access::AllowList;
use millpond_fleet::Stopper;
use millpond_net::{Listener, Transport, raise_file_limit};
use millpond_threads::join_by;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Events that wait for the parent's thread; whoever has one more waits, but for those who ask for metrics.
const EVENTS_MAX: usize = 256;

/// How long the parent's thread may take to make room for an event of a signal.
const TELL_MAX: Duration = Duration::from_millis(50);
/// What the parent's thread may take to end beside its processes.
const PARENT_END: Duration = Duration::from_millis(20);

/// The parent.
pub struct Supervisor {
    admin: Option<Transport>,
    listen: SocketAddr,
    admin_addr: SocketAddr,
    events: SyncSender<Event>,
    /// Stops the processes even where the parent's thread stands still.
    stopper: Stopper,
    first: Receiver<Result<(), Error>>,
    thread: Option<JoinHandle<Vec<String>>>,
    drain_max: Duration,
}

impl Supervisor {
    /// Binds the admin port, looks whether the data ports are free, and begins to start `server.processes` processes;
    /// `launch` makes the command of each, whose input and output are taken for the talk with it ([`super::Member`]).
    ///
    /// # Errors
    /// [`Error`]: a port that cannot be had, a thread.
    pub fn start(
        config: &Config,
        log: Option<LogHandle>,
        launch: impl Fn(usize) -> Command + Send + 'static,
    ) -> Result<Supervisor, Error> {
        raise_file_limit();
        look_whether_free(config)?;
        let listener = Listener::bind(config.admin.listen, "admin.listen")?;
        let (events, heard) = sync_channel(EVENTS_MAX);
        let (first, told) = sync_channel(1);
        let state = Arc::new(State::new());
        let view = Together {
            state: Arc::clone(&state),
            events: events.clone(),
        };
        let admin = admin_port(&config.admin).start(listener, "admin", Admin { view })?;
        let beginning = Beginning {
            drain_max: Duration::from_millis(config.server.drain_ms_max),
            launch: Box::new(launch),
            events: events.clone(),
            heard,
            state,
            admin: admin.pulses(),
            configured: AllowList::of(&config.access.ip_allow),
            first: Some(first),
            log,
            stores: (!config.ordered.is_empty()).then(Folder::make).transpose()?,
        };
        let parent = Parent::new(config.server.processes, beginning);
        let stopper = parent.stopper();
        // The thread lives as long as the processes: the system tells them of the end of the thread that started them.
        let thread = std::thread::Builder::new()
            .name("processes".into())
            .spawn(move || parent.run())
            .map_err(|error| Error::Process(format!("the processes' thread cannot be started: {error}")))?;
        Ok(Supervisor {
            admin_addr: admin.local_addr(),
            admin: Some(admin),
            listen: config.server.listen,
            events,
            stopper,
            first: told,
            thread: Some(thread),
            drain_max: Duration::from_millis(config.server.drain_ms_max),
        })
    }

    /// Waits until every process has been ready once.
    ///
    /// # Errors
    /// [`Error::Process`]: one ended before it was; by then all are being stopped.
    pub fn wait_ready(&self) -> Result<(), Error> {
        let gone = |_| {
            Err(Error::Process(
                "the processes were stopped before they were ready".into(),
            ))
        };
        self.first.recv().unwrap_or_else(gone)
    }

    /// Where calls are answered, by the processes.
    pub fn local_addr(&self) -> SocketAddr {
        self.listen
    }

    /// Where health and metrics are.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Stops it while another thread waits for it: `at_once` kills the processes, whatever they do. Returns those that ran.
    pub fn stopper(&self) -> impl Fn(bool) -> Vec<String> + Send + 'static {
        let (events, stopper) = (self.events.clone(), self.stopper.clone());
        move |at_once| {
            let left = stopper.left();
            tell(&events, Event::Stop);
            stopper.stop(at_once);
            left
        }
    }

    /// Has every process read the files of `server.tls` again, those that start by then too.
    pub fn reloader(&self) -> impl Fn() + Send + 'static {
        let events = self.events.clone();
        move || tell(&events, Event::Reload)
    }

    /// Stops every process as a lone one would be (`server.drain_ms_max`), then the admin port; returns less than a second
    /// after that. What was not finished or has not ended is named.
    pub fn shutdown(mut self) -> Stopped {
        self.end()
    }

    fn end(&mut self) -> Stopped {
        let Some(thread) = self.thread.take() else {
            return Stopped::default();
        };
        let until = Instant::now() + self.drain_max + GONE_LATE + PARENT_END;
        self.stopper()(false);
        let mut left = match join_by(thread, until) {
            Ok(Ok(left)) => left,
            Ok(Err(_)) | Err(_) => {
                // Left to themselves they would hear of the parent's end, and drain once more.
                self.stopper.stop(true);
                vec!["the parent's thread, and the processes with it".to_owned()]
            }
        };
        let admin = self.admin.take();
        let close = move || admin.map_or(Vec::new(), |admin| admin.close(Duration::ZERO));
        if left.is_empty() {
            left = close();
        } else {
            // The time is up.
            let closing = std::thread::Builder::new().name("stop".into());
            let _ = closing.spawn(close);
        }
        match left.is_empty() {
            true => tracing::info!("stopped"),
            false => tracing::error!(left = left.join(", "), "stopped"),
        }
        Stopped { left }
    }
}

/// Tells the parent's thread something; one that has not taken anything for that long is told nothing more.
fn tell(events: &SyncSender<Event>, event: Event) {
    let until = Instant::now() + TELL_MAX;
    let mut offered = events.try_send(event);
    while let Err(TrySendError::Full(event)) = offered {
        if Instant::now() >= until {
            return tracing::error!("the parent's thread of the processes hears nothing");
        }
        std::thread::sleep(Duration::from_millis(1));
        offered = events.try_send(event);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Whoever wants to know how it ended calls `shutdown`.
        let _ = self.end();
    }
}

/// Binds each address without sharing it, which fails where another process of this user already shares it.
fn look_whether_free(config: &Config) -> Result<(), Error> {
    for (key, listen) in config.server.listens() {
        if let Listen::Inet(addr) = listen {
            Listener::bind(addr, &key)?;
        }
    }
    Ok(())
}
