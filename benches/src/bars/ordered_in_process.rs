//! The ordered store in one process, beside the crates `ferntree` and `masstree` with the same keys (benches/bare/ordered.rs).
//!
//! Every map and number of threads is a process of its own, in turns that begin with another map each round. Its invariant: a ratio is of two
//! figures of one round.

use crate::bar::{Bar, Group, Measure, Op};
use crate::child;
use crate::idle;
use crate::report::Report;
use crate::setup::Setup;
use millpond_press_verdict::{Conditions, Series};
use std::collections::BTreeMap;

const PUT_1: Bar = Bar::new("ordered-put-1-thread-over-crates", Op::AtLeast, 1.25);
const PUT_2: Bar = Bar::new("ordered-put-2-threads-over-crates", Op::AtLeast, 1.25);
const GET_1: Bar = Bar::new("ordered-get-1-thread-over-crates", Op::AtLeast, 1.25);
const GET_2: Bar = Bar::new("ordered-get-2-threads-over-crates", Op::AtLeast, 1.25);
const TOGETHER: Bar = Bar::new("ordered-get-64-at-once-over-single", Op::AtLeast, 2.0);
const WRITERS: Bar = Bar::new("ordered-put-2-threads-over-1", Op::AtLeast, 1.6);
const SCAN: Bar = Bar::new("ordered-scan-100-over-crates", Op::AtLeast, 1.2);
const RESIDENT: Bar = Bar::new("ordered-bytes-an-entry-resident", Op::AtMost, 40.0);
const COUNTED: Bar = Bar::new("ordered-bytes-an-entry-counted", Op::AtMost, 40.0);

pub(crate) const GROUP: Group = Group {
    name: "ordered-in-process",
    measure: Measure::Code {
        title: "the ordered store in one process beside the crates ferntree and masstree, keys of masstree-beta's rw1",
        bars: &[
            PUT_1, PUT_2, GET_1, GET_2, TOGETHER, WRITERS, SCAN, RESIDENT, COUNTED,
        ],
        run: measure,
    },
};

/// What the bars are about.
const KEYS: usize = 10_000_000;
const ROUNDS: usize = 3;
const STORE: &str = "store";
const MAPS: [&str; 3] = [STORE, "ferntree", "masstree"];
const FIGURES: [&str; 6] = ["put", "get", "together", "scan", "resident", "counted"];
const THREADS: [usize; 2] = [1, 2];

/// What the processes of one round gave, by figure, map and threads.
type Round = BTreeMap<(&'static str, &'static str, usize), f64>;

/// Each with what the hypervisor took in it.
type Rounds = Vec<(Round, f64)>;

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let keys = setup.keys.unwrap_or(setup.pick(KEYS, 200_000));
    if keys != KEYS {
        report.mark(&format!(
            "{keys} keys of an ordered map; its bars are about {KEYS}"
        ));
    }
    let mut rounds = Rounds::new();
    for number in 0..setup.pick(ROUNDS, 1) {
        rounds.push(idle::watched(|| round(setup, keys, number))?);
    }
    report.say(&table(&rounds));
    let over = |figure, threads| {
        ratios(&rounds, |round| {
            round.of(figure, STORE, threads) / round.of_best_crate(figure, threads)
        })
    };
    // No time is in them, so the hypervisor moves none.
    let bytes = |figure| {
        rounds
            .iter()
            .map(|(round, _)| round.of(figure, STORE, 1))
            .collect()
    };
    let together = ratios(&rounds, |round| {
        round.of("together", STORE, 1) / round.of("get", STORE, 1)
    });
    let writers = ratios(&rounds, |round| {
        round.of("put", STORE, 2) / round.of("put", STORE, 1)
    });
    for (bar, series) in [
        (PUT_1, over("put", 1)),
        (PUT_2, over("put", 2)),
        (GET_1, over("get", 1)),
        (GET_2, over("get", 2)),
        (TOGETHER, together),
        (WRITERS, writers),
        (SCAN, over("scan", 1)),
        (RESIDENT, bytes("resident")),
        (COUNTED, bytes("counted")),
    ] {
        report.bar(&bar, series.median(), series);
    }
    Ok(())
}

/// Every map once with each number of threads.
fn round(setup: &Setup, keys: usize, number: usize) -> anyhow::Result<Round> {
    let mut figures = Round::new();
    for threads in THREADS {
        for at in 0..MAPS.len() {
            let map = MAPS[(at + number) % MAPS.len()];
            let printed = run(setup, map, threads, keys, number)?;
            for figure in FIGURES {
                if let Some(value) = printed.get(figure) {
                    figures.insert((figure, map, threads), *value);
                }
            }
        }
    }
    Ok(figures)
}

/// Runs one process; the lines that it printed.
fn run(
    setup: &Setup,
    map: &str,
    threads: usize,
    keys: usize,
    number: usize,
) -> anyhow::Result<BTreeMap<String, f64>> {
    let name = format!("ordered-{map}-{threads}-{}", number + 1);
    child::bare(
        setup,
        &name,
        &["ordered", map, &threads.to_string(), &keys.to_string()],
    )
}

/// Figures of a round.
trait Figures {
    /// No number where the process did not print it, so that its bar is missing.
    fn of(&self, figure: &'static str, map: &'static str, threads: usize) -> f64;

    fn of_best_crate(&self, figure: &'static str, threads: usize) -> f64 {
        let crates = MAPS.into_iter().filter(|map| *map != STORE);
        crates
            .map(|map| self.of(figure, map, threads))
            .fold(f64::NAN, f64::max)
    }
}

impl Figures for Round {
    fn of(&self, figure: &'static str, map: &'static str, threads: usize) -> f64 {
        self.get(&(figure, map, threads)).copied().unwrap_or(f64::NAN)
    }
}

fn ratios(rounds: &Rounds, of: impl Fn(&Round) -> f64) -> Series {
    let mut series = Series::default();
    for (round, stolen) in rounds {
        series.under(of(round), Conditions::without_load(*stolen));
    }
    series
}

/// Medians of each map, with the least and the most of the rounds.
fn table(rounds: &Rounds) -> String {
    let mut text = "| map | threads | puts, M/s | gets, M/s | gets, 64 at once, M/s | scans of 100, k/s | resident, bytes an entry beside key and value | counted |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for threads in THREADS {
        for map in MAPS {
            let cell = |(figure, unit)| {
                let of = ratios(rounds, |round| round.of(figure, map, threads) / unit);
                if of.median().is_nan() {
                    return "".to_owned();
                }
                format!("{:.2} ({:.2} to {:.2})", of.median(), of.min(), of.max())
            };
            let units = [1e6, 1e6, 1e6, 1e3, 1.0, 1.0];
            let cells: Vec<String> = FIGURES.into_iter().zip(units).map(cell).collect();
            text += &format!("| {map} | {threads} | {} |\n", cells.join(" | "));
        }
    }
    text
}
