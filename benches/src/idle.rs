//! Waits until the machine has nothing else to do.
//!
//! Its invariant: it ends, and where the machine was not idle the report says so.

use crate::report::Report;
use crate::setup::Setup;
use millpond_press_recorder::Load;
use std::time::{Duration, Instant};

/// The average number of busy or waiting threads over a minute, below which the machine counts as idle.
const LOAD_MAX: f64 = 0.2;
const PATIENCE: Duration = Duration::from_secs(180);
const BETWEEN: Duration = Duration::from_secs(5);

pub(crate) fn wait(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let Some(load) = Load::read() else {
            report.say(
                "note: this machine does not tell its load; the figures may not be those of an idle one",
            );
            return Ok(());
        };
        let load = load.minute_1;
        if load < LOAD_MAX {
            report.say(&format!(
                "the machine is idle: load {load:.2} over the last minute"
            ));
            return Ok(());
        }
        if started.elapsed() >= PATIENCE {
            report.say(&format!(
                "note: the load is still {load:.2} after {} s; THE FIGURES BELOW ARE NOT THOSE OF AN IDLE MACHINE",
                PATIENCE.as_secs()
            ));
            return Ok(());
        }
        println!("waiting for an idle machine: load {load:.2}, wanted below {LOAD_MAX}");
        setup.pause(BETWEEN)?;
    }
}
