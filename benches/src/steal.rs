//! Points that a hypervisor disturbed are measured again: nothing counts while somebody else has the processor.
//!
//! Its invariant: how often that was is told, and after [`TRIES`] the last one counts, whatever it is.

use crate::report::Report;
use crate::setup::Setup;
use millpond_press_report::Point;
use millpond_press_verdict::Conditions;

/// Share of the machine's time, in percent of one processor, that the hypervisor may have had on average.
const TAKEN_PERCENT_MAX: f64 = 2.0;
/// Measurements of one point.
const TRIES: usize = 8;

/// Measures until it is undisturbed; `measure` gets a name of its own for each try.
pub(crate) fn undisturbed(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    mut measure: impl FnMut(&str) -> anyhow::Result<Point>,
) -> anyhow::Result<Point> {
    let mut point = measure(name)?;
    for again in 2..=setup.pick(TRIES, 1) {
        let taken = Conditions::steal_percent(&point);
        if taken <= TAKEN_PERCENT_MAX {
            break;
        }
        report.say(&format!(
            "note: {name}: {taken:.0} % was taken by the hypervisor; measured again"
        ));
        point = measure(&format!("{name}-again-{again}"))?;
    }
    Ok(point)
}
