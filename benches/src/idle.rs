//! Waits until the machine has nothing else to do.
//!
//! What is looked at is processor time as it passes, so that a build which ended is forgotten at once, and no constant serves for it.
//! Its invariant: it ends; and what is measured on a machine that was not seen to be idle is marked, or not measured at all.

use crate::report::Report;
use crate::setup::Setup;
use millpond_press_recorder::{ResourceSecond, Sampler};
use std::time::{Duration, Instant};

/// Processor time of everything else, in percent of one core, below which the machine counts as idle.
const BUSY_PERCENT_MAX: f64 = 10.0;
/// How long it is looked at.
const WINDOW: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(300);

/// Whether a window saw an idle machine, and in words. Ticks that stand still, as some containers' do, are no reading.
fn seen(window: &ResourceSecond) -> (bool, String) {
    let (Some(busy), Some(steal)) = (
        window.machine_percent.filter(|busy| *busy > 0.0),
        window.steal_percent,
    ) else {
        return (
            false,
            "this machine does not tell what its processors do".to_owned(),
        );
    };
    (
        busy < BUSY_PERCENT_MAX,
        format!(
            "{busy:.1} % of a core in use and {steal:.1} % taken by the hypervisor over {} s",
            WINDOW.as_secs()
        ),
    )
}

/// Runs `work`; what the hypervisor took meanwhile, in percent of one core, is zero where the machine does not tell.
pub(crate) fn watched<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64)> {
    let mut sampler = Sampler::new(Vec::new(), Vec::new(), None);
    let done = work()?;
    Ok((done, sampler.second(0.0).steal_percent.unwrap_or(0.0)))
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
        let mut sampler = Sampler::new(Vec::new(), Vec::new(), None);
        setup.pause(WINDOW)?;
        let (is_idle, words) = seen(&sampler.second(0.0));
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
        let check = |machine_percent, expected| {
            let window = ResourceSecond {
                machine_percent,
                // What others of the host take is not this machine's work.
                steal_percent: Some(40.0),
                ..ResourceSecond::default()
            };
            assert_eq!(seen(&window).0, expected, "{machine_percent:?}");
        };
        check(Some(0.1), true);
        check(Some(9.9), true);
        check(Some(10.0), false);
        check(Some(150.0), false);
        // They stand still, or are not there.
        check(Some(0.0), false);
        check(None, false);
    }
}
