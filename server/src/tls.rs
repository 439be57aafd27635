//! The certificate of the TLS port: read at the start, and again when its files change or somebody asks.
//!
//! It decides about no connection. Its invariant: files that are wrong keep a server from starting, and change nothing
//! but the log and a counter of one that runs.

use crate::{Error, config};
use millpond_metrics::{Count as _, Kind, Metric};
use millpond_net::{Listener, OutwardTls, Tls, Validity};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the files are looked at; they are not read for it.
const LOOK: Duration = Duration::from_secs(2);
/// A certificate with fewer days left is worth a word.
const DAYS_LEFT_MIN: i64 = 14;

/// Something that should change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Warning {
    /// Whether clients are refused because of it already.
    pub(crate) hurts: bool,
    pub(crate) text: String,
}

/// Reads the files, where the configuration names some.
pub(crate) fn read(server: &config::Server) -> Result<Option<Tls>, Error> {
    let files = server.tls.as_ref().map(config::Tls::files);
    Ok(files.map(Tls::read).transpose()?)
}

/// What is allowed, and should not stay as it is.
pub(crate) fn warnings(tls: &Tls) -> Vec<Warning> {
    let validity = Some(tls.validity());
    warnings_of("server.tls", "clients", validity, tls.open_private_key())
}

/// The same of what this server shows to nodes.
pub(crate) fn outward_warnings(tls: &OutwardTls) -> Vec<Warning> {
    warnings_of("nodes.tls", "nodes", tls.validity(), tls.open_private_key())
}

fn warnings_of(section: &str, others: &str, validity: Option<Validity>, open: Option<&Path>) -> Vec<Warning> {
    let left = validity.map(|validity| validity.days_left());
    let dates = match left {
        Some(None) => Some(format!(
            "does not hold yet: {others} refuse it; wait, or set this machine's clock"
        )),
        Some(Some(..0)) => Some(format!("has run out: {others} refuse it; renew it")),
        Some(Some(days @ ..DAYS_LEFT_MIN)) => Some(format!("holds for {days} more days; renew it")),
        Some(Some(_)) | None => None,
    };
    let dates = dates.map(|what| Warning {
        hurts: left.flatten().is_none_or(|days| days < 0),
        text: format!("{section}.certificate {what}"),
    });
    let open = open.map(|path| Warning {
        hurts: false,
        text: format!(
            "{section}.private_key: everybody on this machine may read {}; chmod 600 it",
            path.display()
        ),
    });
    dates.into_iter().chain(open).collect()
}

/// The certificate in use, and what became of its files' changes.
#[derive(Debug)]
pub(crate) struct Certificate {
    tls: Arc<Tls>,
    reloaded: AtomicU64,
    kept: AtomicU64,
    /// A panic has ended the thread that watches the files, in a program that does not end by one.
    watch_died: AtomicBool,
}

/// A thread that watches, whose panic is to be known.
struct Watching<'a>(&'a AtomicBool);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Certificate {
    /// What a page has of it.
    pub(crate) const METRICS: &'static [Metric<Certificate>] = &[
        // The one that ends first is the one to know of: each process reads the files for itself.
        Metric::gauge(
            "millpond_tls_certificate_not_after_seconds",
            "The last second in which the certificate in use holds, since 1970.",
            |certificate: &Certificate| certificate.tls.validity().not_after_s as f64,
        )
        .min(),
        Metric::samples(
            "millpond_tls_reloads_total",
            Kind::Counter,
            "How often the files of the certificate were read again.",
            |certificate: &Certificate, samples| {
                for (result, count) in [("replaced", &certificate.reloaded), ("kept", &certificate.kept)] {
                    samples.add(&[("certificate", result)], count.now());
                }
            },
        ),
    ];

    /// Whether nobody looks at its files any more, although it is served.
    pub(crate) fn has_watch_died(&self) -> bool {
        self.watch_died.load(Ordering::Relaxed)
    }

    fn warn(&self) {
        for Warning { text, .. } in warnings(&self.tls) {
            tracing::warn!("{text}");
        }
    }

    fn reload(&self) {
        let counter = match self.tls.reload() {
            Ok(validity) => {
                let days_left = validity.days_left();
                tracing::info!(
                    days_left,
                    "the certificate was read again; new connections begin with it"
                );
                self.warn();
                &self.reloaded
            }
            Err(error) => {
                tracing::error!(%error, "the certificate was not replaced; connections begin with the one before");
                &self.kept
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Until nobody can ask any more.
    fn watch(&self, asked: &Receiver<()>) {
        let _watching = Watching(&self.watch_died);
        loop {
            match asked.recv_timeout(LOOK) {
                Ok(()) => self.reload(),
                Err(RecvTimeoutError::Timeout) if self.tls.is_stale() => self.reload(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// The TLS port of a running server.
pub(crate) struct Port {
    pub(crate) addr: SocketAddr,
    pub(crate) certificate: Arc<Certificate>,
    ask: SyncSender<()>,
    watch: JoinHandle<()>,
}

impl Port {
    /// Reads the files, binds the port, and watches the files from now on; nothing where the configuration names none.
    pub(crate) fn open(
        server: &config::Server,
        bind: crate::Bind,
    ) -> Result<Option<(Port, Listener)>, Error> {
        let (Some(tls), Some(asked)) = (read(server)?, &server.tls) else {
            return Ok(None);
        };
        let tls = Arc::new(tls);
        let certificate = Arc::new(Certificate {
            tls: Arc::clone(&tls),
            reloaded: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            watch_died: AtomicBool::new(false),
        });
        certificate.warn();
        let listener = bind(asked.listen, "server.tls.listen")?.with_tls(tls);
        let addr = listener.bound().addr().unwrap_or(asked.listen);
        let (ask, requests) = sync_channel(1);
        let watched = Arc::clone(&certificate);
        let watch = std::thread::Builder::new()
            .name("tls-files".into())
            .spawn(move || watched.watch(&requests))
            .map_err(|source| millpond_net::Error::Thread {
                what: "the thread that watches the files of server.tls".into(),
                source,
            })?;
        let port = Port {
            addr,
            certificate,
            ask,
            watch,
        };
        Ok(Some((port, listener)))
    }

    /// What connections begin with, for another port.
    pub(crate) fn begins_with(&self) -> Arc<Tls> {
        Arc::clone(&self.certificate.tls)
    }

    /// Has the files read again soon; a request that waits already is this one too.
    pub(crate) fn reload(&self) {
        let _ = self.ask.try_send(());
    }

    /// Tells its thread to end, which may stand in a read of the files.
    pub(crate) fn close(self) -> JoinHandle<()> {
        drop(self.ask);
        self.watch
    }
}
