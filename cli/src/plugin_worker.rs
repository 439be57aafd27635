//! The worker process of a plugin with `isolate = true`: a server starts it, nobody else.
//!
//! Its invariant: no signal that is meant for the server ends it; it ends with the server.

use anyhow::Context as _;
use std::io::IsTerminal as _;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) fn run() -> anyhow::Result<()> {
    anyhow::ensure!(
        !std::io::stdin().is_terminal(),
        "this is for a server, which starts it for plugins with isolate = true (docs/plugins.md)"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    // A service manager sends its signal to every process of the service, and the server finishes what it has accepted.
    let caught = runtime.block_on(async {
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
        ];
        kinds.into_iter().map(signal).collect::<std::io::Result<Vec<_>>>()
    });
    let _caught = caught.context("cannot catch signals")?;
    millpond_backends_plugin::serve_worker().context("the worker cannot go on")
}
