//! Syncs that fail or take long: strace changes what the kernel answers, and leaves the server when it is stopped.

use super::disk::begin;
use crate::invariant::ready;
use crate::scene::Scene;
use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time for strace to have taken hold of every thread.
const ATTACH: Duration = Duration::from_millis(300);
/// Time for it to let go of them.
const LET_GO: Duration = Duration::from_secs(1);

/// Every data sync fails.
pub(super) fn fail(scene: &Scene<'_>, lasts: Duration) -> anyhow::Result<()> {
    begin(scene);
    trace(scene, "fdatasync:error=EIO", lasts)?;
    ready::after_disk(scene);
    Ok(())
}

/// Every data sync takes 150 ms more.
pub(super) fn slow(scene: &Scene<'_>, lasts: Duration) -> anyhow::Result<()> {
    trace(scene, "fdatasync:delay_enter=150000", lasts)
}

fn trace(scene: &Scene<'_>, inject: &str, lasts: Duration) -> anyhow::Result<()> {
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fdatasync", "-e", "signal=none"])
        .args(["-e", &format!("inject={inject}"), "-o", "/dev/null"])
        .args(["-p", &scene.server.pid().as_raw_nonzero().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run strace")?;
    scene.sleep(ATTACH + lasts);
    // It lets go of the server before it ends. Sometimes it turns for ever instead: its death lets go as well.
    let _ = kill_process(Pid::from_child(&strace), Signal::INT);
    let until = Instant::now() + LET_GO;
    while Instant::now() < until {
        if strace.try_wait().context("cannot wait for strace")?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    strace.kill().context("cannot kill strace")?;
    strace.wait().context("strace does not end").map(drop)
}
