//! Results for tests: a run as it might have been, and one made to do harm.
//!
//! Its invariant: the same result on every call.

mod hostile;

pub(crate) use hostile::hostile;

use std::collections::BTreeMap;

use millpond_press_recorder::{
    ErrorKind, Interval, LatencySummary, LoadAverage, ResourceSecond, Side, ThreadUse, Used,
};

use crate::{
    Bound, Build, Comparison, Cpu, Held, Judgement, Layout, Point, Requests, RunResult, SCHEMA, Second,
    Server, SloOutcome, Stage, State, TargetName, Verdict, WarmUp,
};

/// What a target can do in this story.
struct Kind {
    name: &'static str,
    protocol: &'static str,
    us_service: f64,
    qps_max: f64,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "millpond native",
        protocol: "native",
        us_service: 58.0,
        qps_max: 62_000.0,
    },
    Kind {
        name: "millpond http",
        protocol: "http",
        us_service: 96.0,
        qps_max: 38_500.0,
    },
    Kind {
        name: "python baseline",
        protocol: "http",
        us_service: 610.0,
        qps_max: 4_900.0,
    },
];

/// A number between 0 and 1 that looks drawn.
fn noise(seed: usize) -> f64 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f64 / (1u64 << 24) as f64
}

/// Three targets under three loads, three repeats each.
pub(crate) fn run() -> RunResult {
    let mut points = Vec::new();
    for repeat in 1..=3 {
        for connections in [1usize, 4, 256] {
            for kind in &KINDS {
                points.push(point(points.len() + 1, repeat, connections, kind));
            }
        }
    }
    spoil_some(&mut points);
    let comparisons = comparisons(&points);
    RunResult {
        schema: SCHEMA,
        state: State::Complete,
        name: "rank-peers".into(),
        title: "Ranking 15 items: native, HTTP and a Python baseline".into(),
        layout: Layout::General,
        started_at: "2026-11-22T07:31:05Z".into(),
        wall_s: 341.7,
        command: ["millpond", "press", "run", "press/scenarios/rank-peers.toml"]
            .map(String::from)
            .to_vec(),
        set: vec!["load.connections=[1,4,256]".into()],
        seed: 20_261_122,
        press: Build {
            version: Some("0.4.0".into()),
            build: Some("release".into()),
        },
        machine: millpond_press_recorder::Machine {
            cpu_model: Some("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz".into()),
            cores: Some(8),
            memory_bytes: Some(33_554_432_000),
            kernel: Some("6.8.0-45-generic".into()),
            open_files_max: Some(1_048_576),
            smt: Some("off".into()),
            c_states: Some(vec!["POLL".into(), "C1".into()]),
            governor: Some("performance".into()),
            mhz: Some(3_400.0),
            mhz_bounds: Some((3_400.0, 3_400.0)),
            virtualisation: Some("none".into()),
        },
        load_before: Some(LoadAverage {
            minute_1: 0.12,
            minutes_5: 0.3,
        }),
        load_after: Some(LoadAverage {
            minute_1: 3.9,
            minutes_5: 2.1,
        }),
        requests: vec![Requests {
            target: String::new(),
            source: "drawn from the seed".into(),
            count: 20_000,
            distinct: 20_000,
            bytes: 9_400_000,
            keys: None,
            check: "15 scores between 0 and 1, as computed before".into(),
            check_share: 1.0,
        }],
        pinning: vec!["server: cores 0 to 3".into(), "client: cores 4 and 5".into()],
        points,
        comparisons,
        ..RunResult::default()
    }
}

/// Three points whose figures are not to be trusted, one for each reason.
fn spoil_some(points: &mut [Point]) {
    points[8].verdict = Verdict {
        judgement: Judgement::Unstable,
        bound: Bound::Queueing,
        sentence: "The queue of the server grew by 38 requests a second until the end.".into(),
        evidence: vec![
            "outstanding rose from 210 to 256".into(),
            "p99 of the last third is 1.8 times that of the first".into(),
        ],
    };
    points[15].verdict.judgement = Judgement::GeneratorBound;
    points[15].verdict.bound = Bound::ClientCpu;
    points[15].verdict.sentence =
        "The load generator used 99 % of its one core and sent 4 % of the requests late.".into();
    points[22].verdict.judgement = Judgement::EnvDrift;
    points[22].verdict.sentence = "Other processes took 37 % of a core while it ran.".into();
}

fn point(number: usize, repeat: usize, connections: usize, kind: &Kind) -> Point {
    let drift = 1.0 + 0.04 * (noise(number) - 0.5);
    let alone = connections as f64 * 1e6 / kind.us_service;
    let qps = alone / (1.0 + (alone / kind.qps_max).powi(2)).sqrt() * drift;
    let us = connections as f64 * 1e6 / qps;
    let busy = (qps / kind.qps_max).min(1.0);
    let count = (qps * 12.0) as u64;
    let mut point = Point {
        number,
        repeat,
        target: TargetName {
            name: kind.name.into(),
            protocol: kind.protocol.into(),
            address: "127.0.0.1:13500".into(),
            path: "/service/infer".into(),
        },
        server: Some(Server {
            pid: Some(4_711),
            version: Some("0.4.0".into()),
            build: Some("release".into()),
            providers: vec!["cpu".into()],
        }),
        client_threads: 2,
        warm_up: WarmUp {
            seconds: 2.1,
            answers: count / 6,
            failed: 0,
            stationary: true,
        },
        us_total: 12_000_000,
        started_unix_s: 1_795_332_665.0 + 15.0 * number as f64,
        held: Some(held(connections, count)),
        qps,
        sent_per_s: qps * 1.0001,
        latency: latency(count, us, 1.0),
        service: latency(count, us * 0.93, 0.8),
        lateness: latency(count, 1.4, 0.6),
        server_cpu: Some(Cpu {
            seconds: 47.0 * busy,
            percent: 392.0 * busy,
        }),
        client_cpu: Some(Cpu {
            seconds: 14.0 * busy,
            percent: 118.0 * busy,
        }),
        server_memory_bytes: Some(412 << 20),
        client_memory_bytes: Some(38 << 20),
        stages: stages(count, us),
        verdict: verdict(busy),
        ..Point::default()
    };
    point.offered.connections = connections;
    point.offered.in_flight = 1;
    point.offered.duration_s = Some(12.0);
    point.counters.ok = count;
    if connections == 256 {
        overload(&mut point);
    }
    point.slo = Some(slo(us));
    point.curve = curve(&point.latency, us);
    series(&mut point, us, busy);
    point.resources.threads = threads(busy);
    point
}

/// What so many connections cost both sides, and so many calls over them.
fn held(connections: usize, count: u64) -> Held {
    Held {
        opened: connections as u64,
        opening_s: 0.25,
        server_bytes: Some(240 * connections as u64),
        kernel_bytes: Some(7_600 * connections as u64),
        server_connections: Some(connections as u64),
        server_calls: Some(count),
        connect_us_min: Some(84.0),
        server_call_us_mean: None,
        server_queue_us_mean: None,
    }
}

/// Refusals and failures of a server that has too much to do.
fn overload(point: &mut Point) {
    point.counters.refused.insert(30_101, 220 + point.number as u64);
    point.counters.errors.insert(ErrorKind::Timeout, 3);
    point
        .counters
        .first
        .insert("timeout".into(), "no answer within 10 s".into());
    point.latency_refused = latency(220, 30.0, 0.5);
}

/// Whether answers after `us` on average were soon enough.
fn slo(us: f64) -> SloOutcome {
    let met = us < 2_500.0;
    SloOutcome {
        slo: "p99 <= 5ms and errors <= 0.1%".into(),
        met,
        failures: if met {
            vec![]
        } else {
            vec![format!("p99 {:.1} ms", us * 2.4 / 1e3)]
        },
    }
}

/// Response times with a tail that `spread` makes long.
fn latency(count: u64, us: f64, spread: f64) -> LatencySummary {
    let at = |percentile: f64| {
        let beyond = (1.0 - percentile / 100.0) * count as f64;
        (beyond >= 10.0).then(|| quantile(percentile, us, spread))
    };
    LatencySummary {
        count,
        us_mean: Some(us),
        us_p50: at(50.0),
        us_p70: at(70.0),
        us_p75: at(75.0),
        us_p80: at(80.0),
        us_p90: at(90.0),
        us_p95: at(95.0),
        us_p97: at(97.0),
        us_p99: at(99.0),
        us_p99_9: at(99.9),
        us_p99_99: at(99.99),
        us_max: Some(quantile(99.999, us, spread) * 1.3),
    }
}

fn quantile(percentile: f64, us: f64, spread: f64) -> f64 {
    let nines = -(1.0 - percentile / 100.0).log10();
    us * (0.82 + 0.3 * spread * nines + 0.16 * spread * nines.powi(3) * nines / 4.0)
}

fn curve(latency: &LatencySummary, us: f64) -> Vec<(f64, f64)> {
    let mut curve = Vec::new();
    let mut beyond = 1.0f64;
    while beyond * latency.count as f64 >= 10.0 {
        let percentile = 100.0 - beyond * 100.0;
        curve.push((
            percentile,
            quantile(percentile, us, 1.0) * (1.0 + 0.02 * noise(curve.len())),
        ));
        beyond /= 1.15;
    }
    curve
}

fn series(point: &mut Point, us: f64, busy: f64) {
    for second in 0..12usize {
        let seed = point.number * 100 + second;
        let dip = if second == 7 { 0.8 } else { 1.0 };
        let s = second as f64 + 1.0;
        point.series.push(Second {
            s,
            answers: (point.qps * dip * (1.0 + 0.03 * (noise(seed) - 0.5))) as u64,
            refused: point.counters.refused.values().sum::<u64>() / 12,
            failed: u64::from(second == 7 && !point.counters.errors.is_empty()) * 3,
            outstanding: point.offered.connections as u64,
            us_mean: Some(us),
            us_p50: Some(us * (0.92 + 0.04 * noise(seed + 1))),
            us_p99: Some(us * (2.2 + 0.5 * noise(seed + 2)) / dip),
            us_max: Some(us * (6.0 + 9.0 * noise(seed + 3)) / dip / dip),
        });
        let used = |percent: f64, memory: u64| Used {
            cpu_percent: percent * dip * (1.0 + 0.04 * (noise(seed + 4) - 0.5)),
            cpu_percent_thread_max: percent / 4.0,
            wait_percent: 3.0 * noise(seed + 5),
            switches_voluntary: 12_000.0 * noise(seed + 6),
            switches_involuntary: 80.0 * noise(seed + 7),
            memory_bytes: memory,
        };
        point.resources.seconds.push(ResourceSecond {
            s: s + 0.02,
            server: Some(used(392.0 * busy, 412 << 20)),
            client: Some(used(118.0 * busy, 38 << 20)),
            machine_percent: Some(530.0 * busy),
            load_minute_1: Some(3.2 * busy),
            foreign_percent: Some(if second == 7 { 37.0 } else { 2.0 }),
            steal_percent: Some(0.0),
            rx_bytes: Some(point.qps * 470.0),
            tx_bytes: Some(point.qps * 180.0),
            retransmits: Some(0.0),
            listen_overflows: Some(0.0),
            accept_queue: Some(0),
            server_receive_queue_bytes: Some(1_880),
            send_queue_bytes: Some(0),
            ..ResourceSecond::default()
        });
    }
}

fn threads(busy: f64) -> Vec<ThreadUse> {
    let thread = |side, tid, name: &str, percent: f64, states: &[(&str, f64)]| ThreadUse {
        side,
        pid: 4_711,
        tid,
        name: name.into(),
        cpu_percent: percent * busy,
        wait_percent: 2.5 * busy,
        switches_voluntary: 140_000,
        switches_involuntary: 900,
        states: states
            .iter()
            .map(|&(state, share)| (state.to_owned(), share))
            .collect::<BTreeMap<_, _>>(),
    };
    vec![
        thread(
            Side::Server,
            4_713,
            "net-0",
            97.1,
            &[("running", 0.93), ("poll", 0.07)],
        ),
        thread(
            Side::Server,
            4_714,
            "net-1",
            96.4,
            &[("running", 0.91), ("poll", 0.09)],
        ),
        thread(
            Side::Server,
            4_716,
            "model-rank-0",
            88.0,
            &[("running", 0.84), ("futex", 0.16)],
        ),
        thread(
            Side::Client,
            4_802,
            "press-0",
            60.3,
            &[("running", 0.58), ("poll", 0.42)],
        ),
        thread(
            Side::Client,
            4_803,
            "press-1",
            57.7,
            &[("running", 0.55), ("poll", 0.45)],
        ),
        thread(Side::Server, 4_711, "millpond", 0.2, &[("sleep", 1.0)]),
    ]
}

fn stages(count: u64, us: f64) -> Vec<Stage> {
    let stage = |name: &str, share: f64| Stage {
        name: name.into(),
        count,
        us_mean: us * share,
    };
    vec![
        stage("queue", 0.31),
        stage("batch_wait", 0.08),
        stage("compute", 0.44),
        stage("write", 0.05),
    ]
}

fn verdict(busy: f64) -> Verdict {
    let (bound, sentence) = if busy > 0.9 {
        (
            Bound::ServerCpu,
            "The server used 98 % of its four cores; the load generator had 82 % of its two to spare.",
        )
    } else {
        (
            Bound::Offered,
            "Connections wait for their answers: the server had cores to spare.",
        )
    };
    Verdict {
        judgement: Judgement::Valid,
        bound,
        sentence: sentence.into(),
        evidence: vec![
            format!("server CPU {:.0} % of 400 %", 392.0 * busy),
            "lateness p99 3 µs".into(),
            "rate of the last third within 0.4 % of the first".into(),
        ],
    }
}

fn comparisons(points: &[Point]) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for point in points.iter().filter(|point| point.repeat == 1) {
        let first = points.iter().find(|other| other.offered == point.offered);
        let Some(first) = first.filter(|first| first.target != point.target) else {
            continue;
        };
        for (figure, mean) in [
            ("qps", point.qps / first.qps),
            (
                "latency p99",
                point.latency.us_p99.unwrap_or(1.0) / first.latency.us_p99.unwrap_or(1.0),
            ),
        ] {
            comparisons.push(Comparison {
                target: point.target.name.clone(),
                baseline: first.target.name.clone(),
                load: crate::describe::point_in_words(point),
                figure: figure.into(),
                ratio: Interval {
                    mean,
                    low: mean * 0.97,
                    high: mean * 1.03,
                    n: 3,
                },
                left_out: 0,
            });
        }
    }
    comparisons
}
