//! Points of load on `echo` of a server that a bar started, by a scenario of its own.
//!
//! The server runs on its core, the press on the client's. Its invariant: a point that comes back had no wrong answer and no error.

use crate::report::Report;
use crate::server::Server;
use crate::setup::Setup;
use anyhow::{Context as _, ensure};
use millpond_press_lab::run_until;
use millpond_press_report::Point;
use millpond_press_verdict::Conditions;

/// Share of the machine's time, in percent of one processor, that the hypervisor may have had on average.
const TAKEN_PERCENT_MAX: f64 = 2.0;
/// Measurements of one point that the hypervisor disturbed; the last one counts, whatever it is.
const TRIES: usize = 8;

/// A load on `echo`: `load` is the section of the scenario.
pub(crate) fn echo(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    server: &Server,
    load: &str,
) -> anyhow::Result<Point> {
    let file = setup.out.join(format!("{name}.toml"));
    let text = format!(
        "[scenario]\nname = \"echo\"\n[target]\nname = \"millpond\"\nprotocol = \"native\"\naddress = \"{}\"\nserver_pid = {}\n\
         operations = [{{ method = \"echo\", body = '{{\"payload\":\"abcdefghijklmnopqrstuv\"}}' }}]\n\
         [requests]\ncount = 100\n[check]\nsame = true\n{load}",
        server.address,
        server.pid(),
    );
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    for again in 1.. {
        let options = setup.press(&file, &format!("{name}-{again}"));
        let outcome = run_until(options, setup.stop.watch()).with_context(|| format!("press, {name}"))?;
        setup.stop.check()?;
        let point = outcome.result.points.into_iter().next();
        let point = point.with_context(|| format!("{name} gave no point"))?;
        let taken = Conditions::steal_percent(&point);
        if taken > TAKEN_PERCENT_MAX && again < setup.pick(TRIES, 1) {
            report.say(&format!(
                "note: {name}: {taken:.0} % was taken by the hypervisor; measured again"
            ));
            continue;
        }
        let counters = &point.counters;
        ensure!(
            counters.failed_total() == 0 && counters.answers() > 0 && !point.interrupted,
            "{name}: {counters:?}"
        );
        return Ok(point);
    }
    anyhow::bail!("{name} was not measured")
}
