//! Cores that do not go to sleep: a loop of idle priority on each, as `idle=poll` would have it.
//!
//! A virtual core that sleeps is given to somebody else, and comes back late; on a shared machine that moves every latency
//! and most rates. Whatever is measured takes a core from such a loop at once. Its invariant: the loops end with this.

use crate::cores;
use anyhow::Context as _;
use millpond_fleet::Process;
use std::process::{Command, Stdio};

/// Runs until it is dropped.
pub(crate) struct Awake(Vec<Process>);

/// It ends with the bench, whatever ends that.
const LOOP: &str = "while [ -d /proc/$PPID ]; do :; done";

impl Awake {
    /// Keeps the cores of a bench awake.
    pub(crate) fn keep() -> anyhow::Result<Awake> {
        let mut awake = Awake(Vec::new());
        for core in [cores::SERVER, cores::PRESS] {
            let mut command = Command::new("chrt");
            command
                .args(["--idle", "0", "sh", "-c", LOOP])
                .stdin(Stdio::null());
            let started = cores::on(core, || {
                let missing = "cannot start chrt (of util-linux), which --keep-awake needs";
                Process::start(&mut command).context(missing)
            });
            awake.0.push(started?);
        }
        Ok(awake)
    }
}
