//! The signals that stop a run: it then ends what it started and leaves a partial result.
//!
//! Its invariant: a signal that the run was started to ignore, as `nohup` does with SIGHUP, stays ignored.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// The bit of SIGHUP in the masks of /proc.
const HANGUP: u64 = 1;

/// Waits for one of them.
pub(crate) async fn one() -> io::Result<()> {
    // Asked before a handler stands in its place.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut hangup = match ignored(&status) & HANGUP {
        0 => Some(signal(SignalKind::hangup())?),
        _ => None,
    };
    let hung_up = async {
        match &mut hangup {
            Some(hangup) => hangup.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
        _ = quit.recv() => Ok(()),
        _ = hung_up => Ok(()),
    }
}

/// The signals that a process ignores, as a mask whose lowest bit is signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::ignored;

    #[test]
    fn what_is_ignored_is_read_of_the_process() {
        let status = "SigBlk:\t0000000000000003\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert_eq!(ignored(status), 0x1001);
        assert_eq!(ignored("Name:\tpress\n"), 0);
    }
}
