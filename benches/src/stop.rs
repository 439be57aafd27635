//! Ctrl-C and SIGTERM: seen once, for the whole bench.
//!
//! Its invariant: whoever waits looks here at least every few hundred milliseconds, so that a stop leaves no child behind.

use anyhow::{Context as _, bail};
use tokio::sync::watch;

/// Whether someone asked the bench to stop.
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens from now on.
    pub(crate) fn listen() -> anyhow::Result<Stop> {
        let (tell, told) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime for signals")?;
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                runtime.block_on(async {
                    use tokio::signal::unix::{SignalKind, signal};
                    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
                        return;
                    };
                    tokio::select! {
                        _ = terminate.recv() => {}
                        _ = tokio::signal::ctrl_c() => {}
                    }
                    tell.send_replace(true);
                    // The press waits on this channel, and takes its end for a channel that can tell no more.
                    tell.closed().await;
                });
            })
            .context("cannot start a thread for signals")?;
        Ok(Stop(told))
    }

    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// # Errors
    /// When a stop was asked for.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.is_asked() {
            bail!("stopped by a signal; the bars that were measured stand above")
        }
        Ok(())
    }

    /// For the press, which watches it too.
    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }
}
