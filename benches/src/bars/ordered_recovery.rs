//! What a start of an ordered store takes, beside how fast the same keys are put by one thread (benches/bare/ordered/recovery.rs).
//!
//! Its invariant: a ratio is of two figures of one process.

use crate::bar::{Bar, Group, Measure, Op};
use crate::child;
use crate::idle;
use crate::report::Report;
use crate::setup::Setup;
use millpond_press_verdict::{Conditions, Series};

const CHECKPOINT: Bar = Bar::new("ordered-checkpoint-load-over-put", Op::AtLeast, 2.0);
const REPLAY: Bar = Bar::new("ordered-log-replay-over-put", Op::AtLeast, 0.7);

pub(crate) const GROUP: Group = Group {
    name: "ordered-recovery",
    measure: Measure::Code {
        title: "starts of the ordered store, over single puts of one thread",
        bars: &[CHECKPOINT, REPLAY],
        run: measure,
    },
};

const KEYS: usize = 10_000_000;
const ROUNDS: usize = 3;

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let keys = setup.keys.unwrap_or(setup.pick(KEYS, 200_000));
    if keys != KEYS {
        report.mark(&format!(
            "{keys} keys of an ordered store; its bars are about {KEYS}"
        ));
    }
    let (mut checkpoint, mut replay) = (Series::default(), Series::default());
    let mut table =
        "| keys put, M/s | read back from the log | loaded from a checkpoint |\n|---:|---:|---:|\n"
            .to_owned();
    for number in 0..setup.pick(ROUNDS, 1) {
        let folder = setup.out.join("recovery");
        let words = [
            "ordered-recovery",
            &folder.display().to_string(),
            &keys.to_string(),
        ];
        let name = format!("ordered-recovery-{}", number + 1);
        let (printed, stolen) = idle::watched(|| child::bare(setup, &name, &words))?;
        // No number where the process did not print it, so that its bar is missing.
        let of = |figure: &str| printed.get(figure).copied().unwrap_or(f64::NAN);
        let (put, conditions) = (of("put"), Conditions::without_load(stolen));
        checkpoint.under(of("checkpoint") / put, conditions);
        replay.under(of("replay") / put, Conditions::without_load(stolen));
        let cells = ["put", "replay", "checkpoint"].map(|figure| format!("{:.2}", of(figure) / 1e6));
        table += &format!("| {} |\n", cells.join(" | "));
    }
    report.say(&table);
    for (bar, series) in [(CHECKPOINT, checkpoint), (REPLAY, replay)] {
        report.bar(&bar, series.median(), series);
    }
    Ok(())
}
