//! Points of load on a method of a server that a bar started.
//!
//! The server runs on its core, the press on the client's. Its invariant: a point that comes back had no wrong answer and no error.

use crate::practice;
use crate::report::Report;
use crate::server::Server;
use crate::setup::Setup;
use crate::steal::undisturbed;
use anyhow::ensure;
use millpond_press_report::Point;

/// The server's configuration: one net thread, `echo`, and FPNN's "two way demo" with its answer.
pub(crate) const CONFIG: &str = "benches/scenarios/rpc.config.toml";
/// A payload of 32 bytes as msgpack.
pub(crate) const PAYLOAD: &str = "{\"payload\":\"abcdefghijklmnopqrstuv\"}";

/// Any load on a method of the server.
pub(crate) fn point(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    server: &Server,
    (method, payload): (&str, &str),
    load: &str,
) -> anyhow::Result<Point> {
    let requests = setup.out.join(format!("{name}.jsonl"));
    std::fs::write(&requests, format!("{payload}\n"))?;
    let text = format!(
        "[scenario]\nname = \"call\"\n[target]\nname = \"millpond\"\nprotocol = \"native\"\naddress = \"{}\"\nserver_pid = {}\n\
         method = \"{method}\"\n[requests]\nfile = {requests:?}\n[check]\nsame = true\n{load}",
        server.address,
        server.pid(),
    );
    let point = undisturbed(setup, report, name, |name| practice::point(setup, name, &text))?;
    let counters = &point.counters;
    ensure!(
        counters.failed_total() == 0 && counters.answers() > 0 && !point.interrupted,
        "{name}: {counters:?}"
    );
    Ok(point)
}
