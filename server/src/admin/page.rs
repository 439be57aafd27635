//! The parts whose counts are on the page of metrics: a line a part, which declares its counts itself.
//! Its invariant: reading them stops nothing.

use crate::Shared;
use crate::log::LogHandle;
use crate::stores::SentOn;
use crate::tls::Certificate;
use millpond_calls::{Admission, CallCounts, Fresh, Host as _, MapInUse, NodeCounts};
use millpond_catalog::{LoadedModel, SwitchCounts};
use millpond_engines_batcher::Stats;
use millpond_engines_features::{Overlay, Table};
use millpond_engines_ordered::Store;
use millpond_fronts_http as http;
use millpond_fronts_native as native;
use millpond_metrics::Page;
use millpond_net::Counters;
use millpond_pipelines::Pipeline;
use std::sync::atomic::Ordering;
use std::time::Instant;

millpond_metrics::counters! {
    /// What a process knows of itself.
    pub(crate) struct Condition {
        METRICS {
            pub ready: bool = gauge("millpond_ready", "1 once warm and until draining.").min(),
            pub threads_stuck: usize = gauge("millpond_threads_stuck",
                "Net threads and acceptors that have not turned for about a second."),
            pub uptime_s: f64 = gauge("millpond_uptime_seconds", "Since the start.").max(),
        }
    }
}

/// All that a process has counted: the one list of its parts. Without a process it declares their families ([`Page::declared`]).
pub(crate) fn metrics(shared: Option<&Shared>) -> Page {
    let counted = shared.and_then(|shared| shared.data_counted.get());
    let unfinished = counted.map_or(0, |counted| counted.net.partial_refused.load(Ordering::Relaxed));
    let calls = shared.map(|shared| CallCounts::read(&shared.calls, unfinished));
    let condition = shared.map(|shared| Condition {
        ready: shared.is_ready(),
        threads_stuck: shared.health.stuck() as usize,
        uptime_s: shared.started.elapsed().as_secs_f64(),
    });
    let net = counted.map(|counted| &*counted.net);
    let certificate = shared.and_then(|shared| Some(&**shared.certificate.get()?));
    let engines = shared.and_then(|shared| shared.calls.state());
    let engines = engines.as_ref();
    let models = engines.map(|engines| engines.models.iter());
    let models = models.map(|models| {
        let labelled = |(name, model): (&String, &LoadedModel)| {
            ([name.clone(), model.version.to_string()], model.batcher.stats())
        };
        models.map(labelled).collect::<Vec<_>>()
    });
    let tables = engines.map(|engines| engines.tables.iter());
    let tables = tables.map(|tables| tables.map(|(name, table)| (name, &**table)));
    let versions = engines.map(|engines| {
        let of = |name: &String| {
            let versions = engines.versions(name);
            let labelled = versions.map(|table| ([name.clone(), table.version().to_string()], &**table));
            labelled.collect::<Vec<_>>()
        };
        engines.tables.keys().flat_map(of).collect::<Vec<_>>()
    });
    let overlays = engines.map(|engines| engines.overlays().map(|(name, overlay)| (name, &**overlay)));
    let switches = engines.map(|engines| engines.past.iter().map(|(name, past)| (name, &*past.counts)));
    let pipelines = engines.map(|engines| engines.pipelines.iter());
    let pipelines = pipelines.map(|pipelines| pipelines.map(|(name, pipeline)| (name, &**pipeline)));
    let nodes = shared.and_then(|shared| shared.calls.nodes());
    let map = nodes.map(|nodes| nodes.in_use());
    let fresh = shared
        .zip(nodes)
        .map(|(shared, nodes)| nodes.fresh.read(shared.has_fresh_rows(), Instant::now()));
    let nodes = nodes.map(|nodes| nodes.all_counts());
    let mut page = Page::default();
    page.part(CallCounts::METRICS, calls.as_ref());
    page.part(Admission::METRICS, shared.map(|shared| &*shared.calls.admission));
    page.part(Condition::METRICS, condition.as_ref());
    page.part(LogHandle::METRICS, shared.map(|shared| &shared.program.log));
    page.part(Counters::METRICS, net);
    page.part(http::Counters::METRICS, counted.map(|counted| &*counted.http));
    page.part(native::Counters::METRICS, counted.map(|counted| &*counted.native));
    page.part(Counters::TLS_METRICS, certificate.and(net));
    page.part(Certificate::METRICS, certificate);
    page.labelled(Stats::METRICS, ["model", "version"], models.clone());
    page.labelled(Stats::HISTOGRAMS, ["model", "version"], models);
    page.parts(Pipeline::METRICS, "pipeline", pipelines);
    page.parts(Table::METRICS, "table", tables);
    page.labelled(Table::VERSION_METRICS, ["table", "version"], versions);
    page.parts(Overlay::METRICS, "table", overlays);
    page.parts(SwitchCounts::METRICS, "table", switches);
    page.part(MapInUse::METRICS, map.as_ref());
    page.part(Fresh::METRICS, fresh.as_ref());
    page.parts(
        NodeCounts::METRICS,
        "node",
        nodes
            .iter()
            .map(|nodes| nodes.iter().map(|(name, counts)| (name, &**counts)))
            .next(),
    );
    let sent_on = shared.and_then(|shared| Some(shared.stores.as_ref()?.counts()));
    page.part(SentOn::METRICS, sent_on.as_ref());
    let stores = engines.map(|engines| &engines.stores);
    page.parts(Store::METRICS, "store", stores);
    page.parts(Store::REPLICATION_METRICS, "store", stores);
    page
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Program;
    use crate::config::Config;
    use crate::ports::Counted;
    use millpond_catalog::{Handle, Resources, Sections};
    use millpond_metrics::{Kind, Merge};

    #[test]
    fn the_gauges_that_do_not_add_up_are_known() {
        let gauges = metrics(None)
            .declared()
            .into_iter()
            .filter(|family| family.kind == Kind::Gauge);
        let found: Vec<(&str, Merge)> = gauges
            .filter(|family| family.merge != Merge::Sum)
            .map(|family| (family.name, family.merge))
            .collect();
        let expected = [
            // Ready when all are.
            ("millpond_ready", Merge::Min),
            ("millpond_uptime_seconds", Merge::Max),
            ("millpond_tls_certificate_not_after_seconds", Merge::Min),
            ("millpond_table_version", Merge::Max),
            ("millpond_table_rows", Merge::Max),
            ("millpond_table_cut", Merge::Max),
            ("millpond_table_created_seconds", Merge::Max),
            ("millpond_table_age_seconds", Merge::Max),
            ("millpond_table_bytes", Merge::Max),
            ("millpond_nodes_map_version", Merge::Max),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_is_declared_by_one_part() {
        let mut names: Vec<&str> = metrics(None)
            .declared()
            .iter()
            .map(|family| family.name)
            .collect();
        names.dedup();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
    }

    #[test]
    fn every_metric_is_in_the_documentation() {
        let text = include_str!("../../../docs/metrics.md");
        for family in metrics(None).declared() {
            let quoted = format!("`{}`", family.name);
            assert!(text.contains(&quoted), "docs/metrics.md does not have {quoted}");
        }
    }

    #[test]
    fn what_a_process_counts_reaches_its_parent() {
        let shared = Shared::new(Config::default(), Program::default());
        shared.data_counted.set(Counted::default()).unwrap();
        let engines = Handle::open(Sections::default(), Resources::default()).unwrap();
        shared.calls.open(engines.current());
        let page = metrics(Some(&shared));
        let text = page.text();
        assert_eq!(
            Page::from_values(page.into_values(), &metrics(None).declared()).text(),
            text
        );
        for name in [
            "millpond_refused_total{",
            "millpond_connections ",
            "# TYPE millpond_store_keys",
        ] {
            assert!(text.contains(name), "{name} is not in {text}");
        }
    }
}
