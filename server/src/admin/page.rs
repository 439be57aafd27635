//! Collects every part's figures into one page of metrics.
//! Its invariant: reading them stops nothing.

use crate::Shared;
use crate::engines::Engines;
use crate::metrics::Page;
use crate::tls::Certificate;
use millpond_engines_batcher::Stats;
use millpond_wire_transport::Counters;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) fn metrics(shared: &Shared) -> String {
    let mut page = Page::default();
    let counters = shared.data_counters.get();
    let unfinished = counters.map_or(0, |counters| counters.unfinished_refused.load(Ordering::Relaxed));
    shared.metrics.print(&shared.methods, unfinished, &mut page);
    page.single(
        "millpond_in_flight",
        "gauge",
        "Calls being worked on.",
        shared.admission.in_flight() as f64,
    );
    page.single(
        "millpond_in_flight_bytes",
        "gauge",
        "Bytes that they hold, beside those that wait for models.",
        shared.admission.held_bytes() as f64,
    );
    page.single(
        "millpond_awaiting_callers",
        "gauge",
        "Calls that wait for their callers to answer what they were asked.",
        shared.admission.awaiting_callers() as f64,
    );
    page.single(
        "millpond_ready",
        "gauge",
        "1 once warm and until draining.",
        f64::from(u8::from(shared.is_ready())),
    );
    page.single(
        "millpond_threads_stuck",
        "gauge",
        "Net threads and acceptors that have not turned for about a second.",
        f64::from(shared.health.stuck()),
    );
    page.single(
        "millpond_uptime_seconds",
        "gauge",
        "Since the start.",
        shared.started.elapsed().as_secs_f64(),
    );
    let dropped = shared.log_lines_dropped() as f64;
    page.single(
        "millpond_log_lines_dropped_total",
        "counter",
        "Log lines that found the queue full.",
        dropped,
    );
    if let Some(counters) = counters {
        connections(&mut page, counters);
        if let Some(certificate) = shared.certificate.get() {
            tls(&mut page, counters, certificate);
        }
    }
    if let Some(engines) = shared.ready_engines() {
        models(&mut page, engines);
        tables(&mut page, engines);
        stores(&mut page, engines);
    }
    page.into_text()
}

/// What became of the data port's connections.
fn connections(page: &mut Page, counters: &Counters) {
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
    page.single(
        "millpond_connections",
        "gauge",
        "Connections served now.",
        load(&counters.live),
    );
    let name = "millpond_connections_beside";
    page.family(
        name,
        "gauge",
        "Connections that are not served: over the limit and being refused, or over and held until their peers have read it.",
    );
    page.sample(name, &[("state", "refused")], load(&counters.refusing));
    page.sample(name, &[("state", "lingering")], load(&counters.lingering));
    page.single(
        "millpond_connections_accepted_total",
        "counter",
        "Connections accepted, refused ones included.",
        load(&counters.accepted),
    );
    page.single(
        "millpond_connections_refused_total",
        "counter",
        "Connections over the limit.",
        load(&counters.refused),
    );
    page.single(
        "millpond_connections_malformed_total",
        "counter",
        "Connections closed for bytes that are no request, or only a part of one.",
        load(&counters.malformed),
    );
    let name = "millpond_connections_overdue_total";
    page.family(
        name,
        "counter",
        "Connections closed because their peer let the server wait.",
    );
    page.sample(name, &[("for", "request")], load(&counters.idle));
    page.sample(name, &[("for", "rest_of_request")], load(&counters.slow_requests));
    page.sample(name, &[("for", "reader")], load(&counters.slow_readers));
    write_buffers(page, counters);
    page.single(
        "millpond_connections_panicked_total",
        "counter",
        "Connections closed because serving them panicked: a fault of this server, told in the log.",
        load(&counters.panics),
    );
    page.single(
        "millpond_net_lulls_total",
        "counter",
        "Moments in which a net thread that refused most calls left its sockets alone, so that requests gathered.",
        load(&counters.lulls),
    );
    page.single(
        "millpond_unfinished_bytes",
        "gauge",
        "Bytes held of requests that have not come whole, beyond 8 KiB of each.",
        load(&counters.unfinished_bytes),
    );
    page.single(
        "millpond_answers_undelivered_total",
        "counter",
        "Answers whose connection was gone.",
        load(&counters.undelivered),
    );
    page.single(
        "millpond_hosts_refused_total",
        "counter",
        "HTTP requests refused on a loopback address for the name they called by (server.hosts).",
        load(&counters.hosts_refused),
    );
    pushes(page, counters);
}

/// What waits for peers that do not read, and who was closed for it.
fn write_buffers(page: &mut Page, counters: &Counters) {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let name = "millpond_connections_cut_total";
    page.family(
        name,
        "counter",
        "Connections closed because more waited for their peer than it may be owed, or most where too much waited for all.",
    );
    page.sample(name, &[("kind", "slow_reader")], load(&counters.overfull_readers));
    page.sample(
        name,
        &[("kind", "write_buffers")],
        load(&counters.write_buffers_cut),
    );
    page.single(
        "millpond_write_buffer_bytes",
        "gauge",
        "Bytes of answers and of calls to peers that wait for their peers, and that lie in mailboxes.",
        load(&counters.write_buffer_bytes),
    );
}

/// What became of the server's calls to its peers.
fn pushes(page: &mut Page, counters: &Counters) {
    let mut total = |name: &str, help: &str, counter: &AtomicU64| {
        page.single(name, "counter", help, counter.load(Ordering::Relaxed) as f64);
    };
    total(
        "millpond_pushes_total",
        "Calls sent to peers, with and without an answer.",
        &counters.pushes,
    );
    total(
        "millpond_push_answers_total",
        "Answers of peers that came in time.",
        &counters.push_answers,
    );
    total(
        "millpond_push_timeouts_total",
        "Calls to peers that were given up.",
        &counters.push_timeouts,
    );
    total(
        "millpond_push_answers_late_total",
        "Answers of peers that nobody waited for any more.",
        &counters.push_answers_late,
    );
    total(
        "millpond_calls_refused_duplex_total",
        "Calls refused (30101) because their connection had too many in flight and held back while its peer's answers were awaited; \
         counted in millpond_errors_total besides.",
        &counters.calls_refused,
    );
}

/// What became of the TLS port's connections, and of its certificate.
fn tls(page: &mut Page, counters: &Counters, certificate: &Certificate) {
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
    page.single(
        "millpond_tls_handshakes_total",
        "counter",
        "TLS handshakes done.",
        load(&counters.handshakes),
    );
    page.single(
        "millpond_tls_handshakes_failed_total",
        "counter",
        "TLS handshakes that began and were not done.",
        load(&counters.handshakes_failed),
    );
    page.single(
        "millpond_tls_certificate_not_after_seconds",
        "gauge",
        "The last second in which the certificate in use holds, since 1970.",
        certificate.not_after_s() as f64,
    );
    let name = "millpond_tls_reloads_total";
    page.family(
        name,
        "counter",
        "How often the files of the certificate were read again.",
    );
    for (result, count) in ["replaced", "kept"].into_iter().zip(certificate.reloads()) {
        page.sample(name, &[("certificate", result)], count as f64);
    }
}

fn models(page: &mut Page, engines: &Engines) {
    let stats: Vec<(&str, Stats)> = engines
        .models
        .iter()
        .map(|(name, model)| (name.as_str(), model.batcher.stats()))
        .collect();
    let mut family = |name: &str, kind: &str, help: &str, read: fn(&Stats) -> f64| {
        page.family(name, kind, help);
        for (model, stats) in &stats {
            page.sample(name, &[("model", model)], read(stats));
        }
    };
    family(
        "millpond_model_requests_total",
        "counter",
        "Requests answered with outputs.",
        |s| s.answered as f64,
    );
    family(
        "millpond_model_refused_total",
        "counter",
        "Requests refused when they came, for whatever reason.",
        |s| s.refused as f64,
    );
    refusals(&mut family);
    family(
        "millpond_model_expired_total",
        "counter",
        "Requests dropped unrun: deadline passed.",
        |s| s.expired as f64,
    );
    family(
        "millpond_model_abandoned_total",
        "counter",
        "Requests dropped unrun: client gone.",
        |s| s.abandoned as f64,
    );
    family(
        "millpond_model_failed_total",
        "counter",
        "Requests the model failed on.",
        |s| s.failed as f64,
    );
    family(
        "millpond_model_panics_total",
        "counter",
        "Runs that panicked.",
        |s| s.panics as f64,
    );
    family("millpond_model_batches_total", "counter", "Runs.", |s| {
        s.batches as f64
    });
    family("millpond_model_rows_total", "counter", "Rows of all runs.", |s| {
        s.rows as f64
    });
    family(
        "millpond_model_queue_seconds_total",
        "counter",
        "Waiting for a run, summed over requests.",
        |s| s.queue_us_sum as f64 / 1e6,
    );
    family(
        "millpond_model_compute_seconds_total",
        "counter",
        "Running, summed over runs.",
        |s| s.compute_us_sum as f64 / 1e6,
    );
    family("millpond_model_queued", "gauge", "Requests waiting now.", |s| {
        s.queued as f64
    });
    family("millpond_model_busy", "gauge", "Instances running now.", |s| {
        s.busy as f64
    });
}

/// Why requests were refused or gave way.
fn refusals(family: &mut impl FnMut(&str, &str, &str, fn(&Stats) -> f64)) {
    family(
        "millpond_model_queue_full_total",
        "counter",
        "Of these: the queue was full.",
        |s| s.queue_full as f64,
    );
    family(
        "millpond_model_queue_bytes_total",
        "counter",
        "Of these: what waited and ran held too many bytes, or would have with this one alone.",
        |s| s.queue_bytes as f64,
    );
    family(
        "millpond_model_too_late_total",
        "counter",
        "Of these: the predicted wait and the run were longer than the deadline allowed.",
        |s| s.too_late as f64,
    );
    family(
        "millpond_model_evicted_total",
        "counter",
        "Accepted requests that gave way to another connection's.",
        |s| s.evicted as f64,
    );
}

fn tables(page: &mut Page, engines: &Engines) {
    page.family("millpond_table_version", "gauge", "The version served.");
    for (name, handle) in &engines.tables {
        page.sample(
            "millpond_table_version",
            &[("table", name)],
            handle.pin().version() as f64,
        );
    }
    page.family("millpond_table_rows", "gauge", "Rows of it.");
    for (name, handle) in &engines.tables {
        page.sample(
            "millpond_table_rows",
            &[("table", name)],
            handle.pin().rows() as f64,
        );
    }
}

fn stores(page: &mut Page, engines: &Engines) {
    page.family("millpond_store_keys", "gauge", "Keys in the store.");
    for (name, store) in &engines.stores {
        page.sample("millpond_store_keys", &[("store", name)], store.len() as f64);
    }
    page.family(
        "millpond_store_bytes",
        "gauge",
        "Memory that the store's entries take: keys, values and 160 bytes each.",
    );
    for (name, store) in &engines.stores {
        page.sample(
            "millpond_store_bytes",
            &[("store", name)],
            store.memory_bytes() as f64,
        );
    }
    page.family(
        "millpond_store_read_only",
        "gauge",
        "1 once its log failed: reads go on, puts are refused until a restart.",
    );
    for (name, store) in &engines.stores {
        let is_read_only = f64::from(u8::from(store.read_only().is_some()));
        page.sample("millpond_store_read_only", &[("store", name)], is_read_only);
    }
}
