//! `*infos`: what is running and what it has counted, for people and for press.
//! Its invariant: it names no file of this machine and no peer.

use crate::Shared;
use crate::engines::Engines;
use millpond_wire_schema::infos::{self, Info};
use millpond_wire_transport::Reply;
use std::sync::atomic::Ordering;

pub(crate) fn answer(shared: &Shared, reply: Reply<'_>) {
    let connections = shared.data_counters.get();
    let of = |read: fn(&millpond_wire_transport::Counters) -> u64| {
        connections.map_or(0, |counters| read(counters))
    };
    let live = of(|counters| counters.live.load(Ordering::Relaxed));
    let accepted = of(|counters| counters.accepted.load(Ordering::Relaxed));
    let refused = of(|counters| counters.refused.load(Ordering::Relaxed));
    let methods = shared.methods.all().map(|(method, name)| {
        let (answered, failed) = shared.metrics.totals(method);
        (
            name.to_owned(),
            Info::Group(vec![count("answered", answered), count("failed", failed)]),
        )
    });
    let fpnn = [
        count("server.currentConnections", live),
        count(
            "server.maxConnections",
            shared.config.server.connections_max as u64,
        ),
    ];
    let mut millpond = vec![
        text("version", env!("CARGO_PKG_VERSION")),
        text("build", if cfg!(debug_assertions) { "dev" } else { "release" }),
        count("pid", u64::from(std::process::id())),
        count("uptime_s", shared.started.elapsed().as_secs()),
        text("ready", if shared.is_ready() { "yes" } else { "no" }),
        count("in_flight", shared.admission.in_flight() as u64),
        count("connections_live", live),
        count("connections_accepted", accepted),
        count("connections_refused", refused),
        count("log_lines_dropped", shared.log_lines_dropped()),
        ("methods".to_owned(), Info::Group(methods.collect())),
    ];
    if let Some(engines) = shared.ready_engines() {
        millpond.extend(served(engines));
    }
    reply.ok(|out| infos::encode_answer(out, &fpnn, &millpond));
}

fn count(name: &str, value: u64) -> (String, Info) {
    (name.to_owned(), Info::Count(value))
}

fn text(name: &str, value: &str) -> (String, Info) {
    (name.to_owned(), Info::Text(value.to_owned()))
}

/// What each table, store and model is and has done.
fn served(engines: &Engines) -> [(String, Info); 3] {
    let tables = engines.tables.iter().map(|(name, handle)| {
        let table = handle.pin();
        let infos = vec![
            count("version", table.version()),
            count("rows", table.rows()),
            count("dim", table.dim() as u64),
        ];
        (name.clone(), Info::Group(infos))
    });
    let stores = engines.stores.iter().map(|(name, store)| {
        let infos = vec![
            count("keys", store.len() as u64),
            text("durability", store.durability().as_str()),
        ];
        (name.clone(), Info::Group(infos))
    });
    let models = engines.models.iter().map(|(name, model)| {
        let stats = model.batcher.stats();
        let infos = vec![
            count("version", model.version),
            count("answered", stats.answered),
            count("refused", stats.refused),
            count("queue_full", stats.queue_full),
            count("too_late", stats.too_late),
            count("evicted", stats.evicted),
            count("expired", stats.expired),
            count("abandoned", stats.abandoned),
            count("batches", stats.batches),
            count("rows", stats.rows),
        ];
        (name.clone(), Info::Group(infos))
    });
    let group = |name: &str, infos| (name.to_owned(), Info::Group(infos));
    [
        group("features", tables.collect()),
        group("ordered", stores.collect()),
        group("models", models.collect()),
    ]
}
