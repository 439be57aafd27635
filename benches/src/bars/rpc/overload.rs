//! More than the server can do: once, twice, five and ten times its capacity, in an open loop.
//!
//! Server on core 0, press on core 1. The capacity is found first, on the same server, in a closed loop. Three cases: runs that
//! wait, of which eight go on at a time; runs that compute on the core that the net thread needs too; and R1's request, over the
//! native protocol, which can carry ten times its capacity on few connections. Its invariant: a call that was let in and not
//! answered in time is in a figure: as an answer that came late, or as one that expired.

mod case;
mod offer;
mod recovery;

use crate::bar::{Bar, Group, Measure, Op};
use crate::report::Report;
use crate::setup::Setup;
use anyhow::Context as _;
use case::Case;
use millpond_press_verdict::{Conditions, Series};
use offer::Offer;

const WAIT: [Bar; 6] = [
    Bar::new("rpc-overload-wait-goodput-10x-over-best", Op::AtLeast, 0.95),
    Bar::new("rpc-overload-wait-accepted-p99-over-deadline", Op::AtMost, 1.0),
    Bar::new("rpc-overload-wait-expired-share", Op::AtMost, 0.01),
    Bar::new("rpc-overload-wait-memory-10x-over-1x", Op::AtMost, 1.1),
    Bar::new("rpc-overload-wait-recovery-s", Op::AtMost, 1.0),
    Bar::new("rpc-overload-wait-refusal-us-p99", Op::AtMost, 1000.0),
];
const COMPUTE: [Bar; 6] = [
    Bar::new("rpc-overload-compute-goodput-10x-over-left", Op::AtLeast, 0.95),
    Bar::new("rpc-overload-compute-accepted-p99-over-deadline", Op::AtMost, 1.0),
    Bar::new("rpc-overload-compute-expired-share", Op::AtMost, 0.01),
    Bar::new("rpc-overload-compute-memory-10x-over-1x", Op::AtMost, 1.1),
    Bar::new("rpc-overload-compute-recovery-s", Op::AtMost, 1.0),
    Bar::new("rpc-overload-compute-refusal-us-cpu", Op::AtMost, 4.0),
];
const R1: [Bar; 5] = [
    Bar::new("rpc-overload-r1-goodput-10x-over-best", Op::AtLeast, 0.85),
    Bar::new("rpc-overload-r1-accepted-p99-over-deadline", Op::AtMost, 1.0),
    Bar::new("rpc-overload-r1-expired-share", Op::AtMost, 0.01),
    Bar::new("rpc-overload-r1-memory-10x-over-1x", Op::AtMost, 1.1),
    Bar::new("rpc-overload-r1-recovery-s", Op::AtMost, 1.0),
];

pub(crate) const WAITING: Group = Group {
    name: "overload-wait",
    title: "calls that wait 1 ms without the processor, on eight instances",
    bars: &WAIT,
    measure: Measure::Code(|setup, report| measure(&Case::wait(setup)?, &WAIT, setup, report)),
};

pub(crate) const COMPUTING: Group = Group {
    name: "overload-compute",
    title: "calls that compute 1 ms, on the net thread's core",
    bars: &COMPUTE,
    measure: Measure::Code(|setup, report| measure(&Case::compute(setup)?, &COMPUTE, setup, report)),
};

pub(crate) const OF_R1: Group = Group {
    name: "overload-r1",
    title: "R1's request, over the native protocol",
    bars: &R1,
    measure: Measure::Code(|setup, report| measure(&Case::r1(setup)?, &R1, setup, report)),
};

/// Times the capacity.
const LOADS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

fn measure(case: &Case, bars: &[Bar], setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let mut found: [Series; 6] = Default::default();
    report.say(
        "| round | load | offered/s | answered in time/s | refused/s | expired | answered p99 us | refused p99 us | refusal, CPU us | net thread | server MB, before, peak, after | good again after, s | verdict |",
    );
    report.say("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    for round in 1..=setup.pick(3, 1) {
        // A fresh process each round: where memory lies is a part of the spread.
        let server = case.start(setup, round)?;
        let capacity = case.capacity(setup, report, &server, round)?;
        let mut offers = Vec::new();
        for load in LOADS {
            setup.stop.check()?;
            let rate = load * capacity;
            let name = format!("{}-{load}x-{round}", case.name);
            offers.push(case.offer(setup, report, &server, &name, rate)?);
        }
        print(report, case, round, capacity, &offers);
        let worst = offers
            .iter()
            .map(|offer| offer.conditions)
            .reduce(Conditions::and);
        let conditions = worst.context("nothing was offered")?;
        for (series, figure) in found.iter_mut().zip(figures(case, &offers)) {
            series.under(figure, conditions);
        }
        server.stop()?;
    }
    for (bar, series) in bars.iter().zip(found) {
        report.bar(bar, series.median(), series);
    }
    Ok(())
}

/// A round's figures, in the order of the bars: the last is none of R1's.
fn figures(case: &Case, offers: &[Offer]) -> [f64; 6] {
    let best = offers.iter().map(|offer| offer.goodput).fold(0.0, f64::max);
    let (first, last) = match (offers.first(), offers.last()) {
        (Some(first), Some(last)) => (first, last),
        _ => return [f64::NAN; 6],
    };
    let refusal_us = offer::refusal_us(first, last);
    let (goodput, refusal) = if case.computes {
        // What the core has left when the refusals' own time is taken off it.
        let left = best * (1.0 - refusal_us / 1e6 * last.refused_per_s);
        (last.goodput / left, refusal_us)
    } else {
        (last.goodput / best, last.refused_us_p99)
    };
    [
        goodput,
        worst(offers, |offer| offer.answered_us_p99) / case.deadline_us(),
        worst(offers, Offer::expired_share),
        last.memory.peak / first.memory.peak,
        worst(offers, |offer| offer.recovery_s),
        refusal,
    ]
}

fn worst(offers: &[Offer], of: impl Fn(&Offer) -> f64) -> f64 {
    // A figure that is no number passes no bar.
    offers.iter().map(of).fold(0.0, |worst, figure| {
        if worst.is_nan() || figure.is_nan() {
            f64::NAN
        } else {
            worst.max(figure)
        }
    })
}

fn print(report: &mut Report, case: &Case, round: usize, capacity: f64, offers: &[Offer]) {
    for (load, offer) in LOADS.iter().zip(offers) {
        let refusal_us = offers
            .first()
            .map_or(f64::NAN, |first| offer::refusal_us(first, offer));
        report.say(&format!(
            "| {round} | {load} | {:.0} | {:.0} | {:.0} | {} | {:.0} | {:.0} | {refusal_us:.2} | {:.0} % | {:.1}, {:.1}, {:.1} | {:.2} | {} |",
            offer.offered,
            offer.goodput,
            offer.refused_per_s,
            offer.expired,
            offer.answered_us_p99,
            offer.refused_us_p99,
            100.0 * offer.net_s / offer.lasted_s,
            offer.memory.before / 1e6,
            offer.memory.peak / 1e6,
            offer.memory.after / 1e6,
            offer.recovery_s,
            offer.verdict,
        ));
    }
    report.say(&format!(
        "round {round}: capacity {capacity:.0}/s; calls have {} ms\n",
        case.deadline_ms
    ));
}
