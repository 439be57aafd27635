//! `*infos`: what is running and what it has counted, in the places where FPNN's tools look, and more under "millpond".
//! Its invariant: it names no file of this machine, no peer and no token.

use crate::Shared;
use crate::log::LogHandle;
use millpond_calls::{Admission, Host as _, Split};
use millpond_catalog::Catalog;
use millpond_engines_batcher::Stats;
use millpond_engines_features::Table;
use millpond_engines_ordered::Store;
use millpond_metrics::{Metric, Octaves, Times};
use millpond_net::Counters;
use millpond_pipelines::{Pipeline, StageStats};
use millpond_wire_payload::{Map, Value};
use millpond_wire_schema::system::AllInfos;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

pub(crate) fn infos(shared: &Shared) -> AllInfos<'static> {
    let none = Counters::default();
    let connections = shared.data_counted.get().map_or(&none, |counted| &counted.net);
    let live = connections.live.load(Ordering::Relaxed);
    let (fpnn, methods) = methods(shared);
    let mut millpond = vec![
        text("version", env!("CARGO_PKG_VERSION")),
        text("build", if cfg!(debug_assertions) { "dev" } else { "release" }),
        text("allocator", shared.program.allocator),
        count("pid", u64::from(std::process::id())),
        count("uptime_s", shared.started.elapsed().as_secs()),
        text("ready", if shared.is_ready() { "yes" } else { "no" }),
    ];
    millpond.extend(counts(Admission::METRICS, &shared.calls.admission));
    millpond.extend(counts(Counters::METRICS, connections));
    millpond.extend(counts(LogHandle::METRICS, &shared.program.log));
    millpond.push(group("methods", methods));
    if let Some(member) = &shared.program.member {
        millpond.push(count("process", member.number() as u64));
    }
    if let Some(engines) = shared.calls.state() {
        millpond.extend(served(&engines));
    }
    let server = fpnn_server(shared, live, fpnn);
    AllInfos {
        fpnn: Map(vec![group("server", server)]),
        app: Map::default(),
        millpond: Map(millpond),
    }
}

type Info = (Cow<'static, str>, Value<'static>);
type Infos = Vec<Info>;

/// FPNN's "server": the names that it has and this server has a figure for.
fn fpnn_server(shared: &Shared, live: u64, stat: Infos) -> Infos {
    let server = &shared.config.server;
    let level = shared.program.log.as_ref().map_or("", |log| log.level().name());
    vec![
        group(
            "base",
            vec![
                text("name", "millpond"),
                text("frameworkVersion", env!("CARGO_PKG_VERSION")),
                ("stat".into(), Value::Bool(shared.calls.statistics.is_on())),
            ],
        ),
        group(
            "tcp",
            vec![
                count("maxConnection", server.connections_max as u64),
                ("httpSupported".into(), Value::Bool(true)),
            ],
        ),
        group(
            "log",
            vec![text("level", level), count("slow", shared.calls.slow.ms())],
        ),
        group("stat", stat),
        group(
            "status",
            vec![
                count("currentConnections", live),
                group("tcp", vec![count("currentConnections", live)]),
            ],
        ),
    ]
}

/// Every method's counts, with FPNN's names; and Millpond's counts and times.
fn methods(shared: &Shared) -> (Infos, Infos) {
    let (mut fpnn, mut millpond) = (Vec::new(), Vec::new());
    for (method, name) in shared.calls.methods.all() {
        let totals = shared.calls.statistics.totals(method);
        let (answered, failed) = (totals.answered, totals.failed());
        fpnn.push(group(
            name,
            vec![
                count("quest", answered + failed),
                count("answer", answered + failed),
                count("errorAnswer", failed),
            ],
        ));
        let mut infos = vec![count("answered", answered), count("failed", failed)];
        infos.extend(quantiles(&totals.times));
        for (split, times) in Split::NAMES.iter().zip(&totals.split) {
            let part = quantiles(times);
            if !part.is_empty() {
                infos.push(group(split, part));
            }
        }
        millpond.push(group(name, infos));
    }
    (fpnn, millpond)
}

/// Nothing where there were no calls.
fn quantiles(times: &Times) -> Infos {
    let shares = [
        ("us_p50", 0.5),
        ("us_p90", 0.9),
        ("us_p99", 0.99),
        ("us_p999", 0.999),
    ];
    let quantile = |(name, share): (&'static str, f64)| {
        let us = times.quantile_us(share)?;
        Some((name.into(), Value::Float(us)))
    };
    shares.into_iter().filter_map(quantile).collect()
}

fn group(name: &str, infos: Infos) -> Info {
    (name.to_owned().into(), Value::Map(Map(infos)))
}

fn count(name: &'static str, value: u64) -> Info {
    (name.into(), Value::UInt(value))
}

/// What a part declares for it.
fn counts<P>(list: &'static [Metric<P>], part: &P) -> Infos {
    let infos = Metric::infos(list, part);
    infos.map(|(name, value)| count(name, value as u64)).collect()
}

fn text(name: &'static str, value: &str) -> Info {
    (name.into(), Value::Text(value.to_owned().into()))
}

/// What each stage of a pipeline has done.
fn stages(pipeline: &Pipeline) -> Infos {
    let us_mean = |times: &Octaves| times.sum() as f64 / 1e3 / times.count().max(1) as f64;
    let stage = |stage: StageStats<'_>| {
        let mut infos = vec![
            count("answered", stage.work.count()),
            count("failed", stage.failed),
            count("skipped", stage.skipped),
        ];
        if stage.work.count() > 0 {
            infos.push(("work_us_mean".into(), Value::Float(us_mean(&stage.work))));
            let wait = stage.wait.iter().map(us_mean).map(Value::Float);
            infos.extend(wait.map(|us| ("wait_us_mean".into(), us)));
        }
        group(stage.name, infos)
    };
    pipeline.stage_stats().map(stage).collect()
}

/// What each table, store, model and pipeline is and has done.
fn served(engines: &Catalog) -> [Info; 4] {
    let tables = engines.tables.iter().map(|(name, table)| {
        // Exact, which a number of a page is not.
        let mut infos = vec![count("version", table.version())];
        infos.extend(counts(Table::METRICS, table));
        infos.push(count("dim", table.dim() as u64));
        if let Some(overlay) = table.overlay() {
            infos.push(group(
                "overlay",
                vec![
                    count("entries", overlay.len()),
                    count("sequence", overlay.sequence()),
                ],
            ));
        }
        group(name, infos)
    });
    let stores = engines.stores.iter().map(|(name, store)| {
        let mut infos = counts(Store::METRICS, store);
        infos.extend(counts(Store::REPLICATION_METRICS, store));
        infos.push(text("durability", store.durability().as_str()));
        group(name, infos)
    });
    let models = engines.models.iter().map(|(name, model)| {
        let mut infos = vec![count("version", model.version)];
        let stats = model.batcher.stats();
        infos.extend(counts(Stats::METRICS, &stats));
        infos.extend(counts(Stats::SUMS, &stats));
        let section = engines.sections().models.get(name);
        let provider = section.and_then(|section| section.provider());
        infos.extend(provider.map(|provider| text("provider", provider)));
        group(name, infos)
    });
    let pipelines = engines.pipelines.iter().map(|(name, pipeline)| {
        let stages = group("stages", stages(pipeline));
        group(name, vec![stages])
    });
    [
        group("features", tables.collect()),
        group("ordered", stores.collect()),
        group("models", models.collect()),
        group("pipelines", pipelines.collect()),
    ]
}
