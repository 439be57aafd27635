//! What callers can make a server hold at worst, part by part, from its configuration.
//!
//! Tables, models and the entries of stores are not in it, nor is the kernel's memory of sockets; what models hold of calls that wait for
//! them is told apart, and puts that wait for stores are in it. Its invariant: each part is a bound that the server keeps.

use super::{Facts, Finding, better, good, net_threads};
use crate::config::{Admin, Config};
use crate::ports::{Port, admin_port, data_bounds};
use crate::stores;
use millpond_fronts_native::{CHANNEL_BYTES, PUSH_BYTES_MAX};
use millpond_fronts_resp::STATE_BYTES;
use millpond_fronts_websocket as websocket;
use millpond_methods::{KNOWN_BYTES_MAX, Kind};
use millpond_net::{MemoryPart, MemoryUse};

/// A call that another thread works on: its ticket, what answers it, and its trace.
const CALL_BYTES: u64 = 2 << 10;
/// The end of a line in the log's queue, beside its bytes.
const LINE_BYTES: u64 = 16;

/// What a process with the defaults and two net threads stays below.
const DEFAULT_MAX: u64 = 1 << 30;
/// The part that grows with the number of net threads.
const AT_WORK: &str = "net threads at work";

/// The parts of one process.
pub(super) fn of_process(config: &Config, threads: u64) -> Vec<MemoryPart> {
    let server = &config.server;
    let mut port = data_bounds(config);
    port.options.threads = usize::try_from(threads).unwrap_or(usize::MAX);
    let (tls, encryption) = (server.tls.as_ref(), server.fpnn_encryption.is_some());
    let pushes = config
        .methods
        .values()
        .any(|method| method.kind == Some(Kind::Duplex));
    let plain = plain(&port);
    let mut parts = port.options.memory_max(MemoryUse {
        tls: tls.is_some(),
        tls_certificates: tls.is_some_and(|tls| tls.client_certificates.is_some()),
        session_bytes: plain.session_bytes + if encryption { CHANNEL_BYTES } else { 0 },
        push_bytes: if pushes { PUSH_BYTES_MAX } else { 0 },
        ..plain
    });
    parts.push(MemoryPart {
        what: "calls in flight",
        bytes: (server.in_flight_max as u64).saturating_mul(CALL_BYTES),
    });
    let has_overlays = config.features.values().any(|table| table.overlay.is_some());
    let puts = match (config.ordered.is_empty() && !has_overlays, server.processes) {
        (true, _) => 0,
        (false, 1) => of_puts(config),
        // One process has the stores, and is told apart; the others send puts on, each joined in what is to be sent.
        (false, _) => server.in_flight_bytes_max as u64,
    };
    parts.push(MemoryPart {
        what: "puts that wait for their stores",
        bytes: puts,
    });
    let knows = config.nodes.is_none() && !config.features.is_empty();
    parts.push(MemoryPart {
        what: "lookups that net threads know again",
        bytes: if knows {
            threads.saturating_mul(KNOWN_BYTES_MAX as u64)
        } else {
            0
        },
    });
    parts.push(MemoryPart {
        what: "the log's queue",
        bytes: (crate::log::QUEUE_LINES_MAX as u64)
            .saturating_mul(LINE_BYTES)
            .saturating_add(config.log.queue_bytes_max as u64),
    });
    parts
}

/// A group of them is joined once more for the log.
fn of_puts(config: &Config) -> u64 {
    (config.server.in_flight_bytes_max as u64).saturating_mul(2)
}

/// What the process that has the stores of several holds beside what each of them does: puts that wait for the log, and the calls of the
/// others.
fn of_stores(config: &Config) -> u64 {
    let Some(options) = stores::of_process_0(config) else {
        return 0;
    };
    let parts = options.memory_max(MemoryUse {
        tls: false,
        tls_certificates: false,
        session_bytes: 0,
        message_bytes_max: stores::limits(config).frame_bytes_max as u64,
        push_bytes: 0,
    });
    sum(&parts).saturating_add(of_puts(config))
}

/// What a port's connections use in clear, and without calls to peers.
fn plain(port: &Port) -> MemoryUse {
    MemoryUse {
        tls: false,
        tls_certificates: false,
        session_bytes: websocket::SESSION_BYTES.max(port.resp.as_ref().map_or(0, |_| STATE_BYTES)),
        message_bytes_max: port.native.limits.frame_bytes_max as u64,
        push_bytes: 0,
    }
}

/// What the admin port adds, once however many processes there are.
pub(super) fn of_admin() -> u64 {
    let port = admin_port(&Admin::default());
    let parts = port.options.memory_max(plain(&port));
    parts.iter().map(|part| part.bytes).sum()
}

/// What waits for models, and runs: each joins the rows of a run once more.
fn of_models(config: &Config) -> u64 {
    let models = config.models.values().map(|model| {
        let calls = (model.batcher.queue_max as u64).saturating_mul(CALL_BYTES);
        (model.batcher.queue_bytes_max as u64)
            .saturating_mul(2)
            .saturating_add(calls)
    });
    models.fold(0, u64::saturating_add)
}

fn sum(parts: &[MemoryPart]) -> u64 {
    parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add)
}

/// Holds it against the memory that there is.
pub(super) fn at_worst(facts: &Facts, config: &Config) -> Option<Finding> {
    let available = facts.memory_available_bytes?;
    let processes = config.server.processes as u64;
    let parts = of_process(config, net_threads(facts, config));
    let of_stores = of_stores(config);
    let most = sum(&parts).saturating_mul(processes);
    let most = most.saturating_add(of_stores).saturating_add(of_admin());
    let models = of_models(config).saturating_mul(processes);
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let each: Vec<String> = parts
        .iter()
        .filter(|part| part.bytes > 0)
        .map(|part| format!("{} {}", part.what, mib(part.bytes)))
        .collect();
    let of = match processes {
        1 => String::new(),
        _ => format!(" in {processes} processes, each of them"),
    };
    let beside = match of_stores {
        0 => String::new(),
        _ => format!(
            "; the process that has the ordered stores {} more",
            mib(of_stores)
        ),
    };
    let waits = match models {
        0 => String::new(),
        _ => format!(", and {} for calls that wait for models", mib(models)),
    };
    let kernel = facts.tcp_memory_bytes.map_or(String::new(), |bytes| {
        format!(
            "; the kernel's buffers of all TCP sockets may take {} besides (net.ipv4.tcp_mem)",
            mib(bytes)
        )
    });
    let text = format!(
        "callers can make the server hold {} MiB beside tables, models and stores{waits}; {} are available{kernel}. It is{of} {}{beside}; the \
         admin port {}",
        mib(most),
        mib(available),
        each.join(", "),
        mib(of_admin())
    );
    let all = most.saturating_add(models);
    let found = if all > available {
        better(format!(
            "{text}. Lower server.connections_max, server.frame_bytes_max, server.unfinished_bytes_max, \
             server.write_buffers_total_bytes_max or models.NAME.queue_bytes_max where strangers connect, or add memory"
        ))
    } else if passes_by_threads(&parts) {
        better(format!(
            "{text}. That is more than 1 GiB, most of it by the number of net threads: lower server.frame_bytes_max (the part of \
             net threads falls with it) or server.threads where strangers connect"
        ))
    } else {
        good(text)
    };
    found.map(|found| Finding {
        bytes_max: Some(all),
        ..found
    })
}

/// Whether one process can hold more than the default totals allow because it has many net threads. Whoever has raised a
/// total has decided so; the number of net threads comes from the machine.
fn passes_by_threads(parts: &[MemoryPart]) -> bool {
    let largest = parts.iter().max_by_key(|part| part.bytes);
    sum(parts).saturating_add(of_admin()) > DEFAULT_MAX && largest.is_some_and(|part| part.what == AT_WORK)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::doctor::Standing;

    /// What connections can hold with the shipped defaults, and the whole on a machine of two processors.
    #[test]
    fn the_defaults_stay_within_a_gibibyte() {
        let most = |threads| sum(&of_process(&Config::default(), threads)) + of_admin();
        let held = most(0) >> 20;
        assert!((600..=850).contains(&held), "{held} MiB");
        let most = most(2) >> 20;
        assert!(most <= 1024, "{most} MiB");
    }

    #[test]
    fn more_than_a_gibibyte_by_the_net_threads_is_no_good_finding() {
        let standing = |text: &str| {
            let facts = Facts {
                processors: Some(32),
                memory_available_bytes: Some(1 << 40),
                ..Facts::default()
            };
            let found = at_worst(&facts, &toml::from_str(text).unwrap()).unwrap();
            let says_what = found.text.contains("lower server.frame_bytes_max");
            assert_eq!(says_what, found.standing == Standing::Better, "{}", found.text);
            found.standing
        };
        for text in ["", "[server]\nthreads = 3", "[server]\nthreads = 8"] {
            assert_eq!(standing(text), Standing::Better, "{text}");
        }
        for text in [
            "[server]\nthreads = 2",
            "[server]\nthreads = 32\nframe_bytes_max = 262144",
            // It was asked for.
            "[server]\nthreads = 2\nunfinished_bytes_max = 8589934592",
        ] {
            assert_eq!(standing(text), Standing::Good, "{text}");
        }
    }

    /// The column of docs/operations.md, and the sum above it.
    #[test]
    fn the_page_on_running_says_what_is_computed() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (_, section) = page
            .split_once("\n## What hostile connections can hold\n")
            .unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let default = of_process(&Config::default(), 1);
        let used = "[ordered.a]\ndurability = \"memory\"\n[methods.m]\nkind = \"duplex\"\npush = \"p\"\n[features.f]\npath = \"f\"";
        let used = of_process(&toml::from_str(used).unwrap(), 1);
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let part = |what: &str| {
            let of = |parts: &[MemoryPart]| {
                let found = parts.iter().find(|part| part.what == what);
                mib(found.unwrap_or_else(|| panic!("no part {what:?}")).bytes)
            };
            match (of(&default), of(&used)) {
                (0, bytes) => format!("0 ({bytes})"),
                (bytes, _) => bytes.to_string(),
            }
        };
        let work = part(AT_WORK);
        // How each row begins, and what it says in the end.
        let rows = [
            ("records of connections", part("connections")),
            (
                "requests that are",
                part("requests that are not complete or not served yet"),
            ),
            ("answers that wait", part("answers that wait for their peers")),
            ("calls to peers", part("calls to peers that wait for an answer")),
            ("calls that other threads", part("calls in flight")),
            ("puts that wait", part("puts that wait for their stores")),
            (
                "lookups that net threads know",
                part("lookups that net threads know again"),
            ),
            ("the log's queue", part("the log's queue")),
            ("the admin port", mib(of_admin()).to_string()),
            (AT_WORK, format!("{work} each")),
            ("calls that wait for a model", "with the model".to_owned()),
        ];
        let (whats, computed): (Vec<&str>, Vec<String>) = rows.into_iter().unzip();
        let lines = section.lines().filter(|line| line.starts_with("| ")).skip(1);
        let cells = lines.map(|line| line.trim_matches(['|', ' ']).split(" | "));
        let (begins, column): (Vec<&str>, Vec<&str>) = cells
            .filter_map(|mut cells| cells.next().zip(cells.last()))
            .unzip();
        assert_eq!(column, computed, "{begins:#?}");
        let mut rows = begins.iter().zip(whats);
        assert!(rows.all(|(begins, what)| begins.starts_with(what)), "{begins:#?}");
        let all = mib(sum(&default) + of_admin());
        let said = format!("{all} MiB with one net thread, and {work} more with each further one");
        assert!(section.contains(&said), "it does not say: {said}");
    }

    #[test]
    fn what_is_configured_is_counted() {
        let bytes = |text: &str| {
            let config: Config = toml::from_str(text).unwrap_or_default();
            sum(&of_process(&config, 1))
        };
        let default = bytes("");
        for (text, more) in [
            ("[server]\nunfinished_bytes_max = 368435456", 100_000_000),
            ("[server]\nwrite_buffers_total_bytes_max = 368435456", 100_000_000),
            ("[server]\nconnections_max = 20000", 10_000 * (8 << 10)),
            ("[log]\nqueue_bytes_max = 116777216", 100_000_000),
            ("[ordered.a]\ndurability = \"memory\"", 2 * 67_108_864),
            ("[methods.m]\nkind = \"duplex\"\npush = \"p\"", 65_536 << 10),
            ("[features.f]\npath = \"f\"", KNOWN_BYTES_MAX as u64),
            (
                "[server.tls]\ncertificate = \"c\"\nprivate_key = \"k\"\nclient_certificates = \"r\"",
                10_000 * (64 << 10),
            ),
        ] {
            let found = bytes(text);
            assert!(found >= default + more, "{text}: {found} beside {default}");
        }
    }
}
