//! Waits until the machine has nothing else to do.
//!
//! What is looked at is processor time as it passes, so that a build which ended is forgotten at once, and no constant serves for it.
//! Its invariant: it ends; and what is measured on a machine that was not seen to be idle is marked, or not measured at all.

use crate::report::Report;
use crate::setup::Setup;
use crate::ticks::{Share, Ticks};
use std::time::{Duration, Instant};

/// Processor time of everything else, in percent of one core, below which the machine counts as idle.
const BUSY_PERCENT_MAX: f64 = 10.0;
/// How long it is looked at.
const WINDOW: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(300);

/// Whether a window saw an idle machine, and in words.
fn seen(share: Option<Share>) -> (bool, String) {
    let Some(Share {
        busy_percent,
        steal_percent,
    }) = share
    else {
        return (
            false,
            "this machine does not tell what its processors do".to_owned(),
        );
    };
    (
        busy_percent < BUSY_PERCENT_MAX,
        format!(
            "{busy_percent:.1} % of a core in use and {steal_percent:.1} % taken by the hypervisor over {} s",
            WINDOW.as_secs()
        ),
    )
}

/// Waits. With `--anyway` nobody waits, and the report is marked.
///
/// # Errors
/// When it is not idle after a while.
pub(crate) fn wait(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    if setup.anyway {
        report.mark("--anyway: NOBODY SAW WHETHER THE MACHINE WAS IDLE");
        return Ok(());
    }
    let started = Instant::now();
    loop {
        let before = Ticks::read();
        setup.pause(WINDOW)?;
        let (is_idle, words) = seen(before.and_then(|before| before.until_now()));
        if is_idle {
            report.say(&format!("the machine is idle: {words}"));
            return Ok(());
        }
        if started.elapsed() >= PATIENCE {
            anyhow::bail!(
                "the machine is not idle after {} s: {words}; end what else runs, or measure with --anyway, which marks the result",
                PATIENCE.as_secs()
            );
        }
        println!("waiting for an idle machine: {words}, wanted below {BUSY_PERCENT_MAX} % in use");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_machine_is_seen_to_be_one() {
        let check = |busy_percent, expected| {
            let share = Share {
                busy_percent,
                // What others of the host take is not this machine's work.
                steal_percent: 40.0,
            };
            assert_eq!(seen(Some(share)).0, expected, "{busy_percent}");
        };
        check(0.0, true);
        check(9.9, true);
        check(10.0, false);
        check(150.0, false);
        assert!(!seen(None).0);
    }
}
