//! The demo's five seeds: what the server answers is what was trained, and what was trained is worth something.
//!
//! The demo trains, serves and compares; here its figures are held against the bars. Its invariant: the figures are those
//! of this run, never of an earlier one.

use crate::bar::{Bar, Group, Op};
use crate::child;
use crate::report::Report;
use crate::setup::Setup;
use anyhow::{Context as _, ensure};
use millpond_press_verdict::Series;
use serde::Deserialize;
use std::process::Command;

const DIFFERENCE: Bar = Bar::new("auc-served-minus-offline", Op::AtMost, 1e-4);
const ABOVE_ITEM_MEAN: Bar = Bar::new("auc-above-item-mean", Op::AtLeast, 0.04);

pub(crate) const GROUP: Group = Group {
    name: "auc",
    title: "AUC through the server and offline",
    bars: &[DIFFERENCE, ABOVE_ITEM_MEAN],
    measure,
};

const SERVED: &str = ".demo/movielens/served.json";

/// One seed, as the demo writes it.
#[derive(Debug, Deserialize)]
struct Seed {
    seed: u64,
    served: f64,
    offline: f64,
    difference: f64,
    item_mean: f64,
    above_item_mean: f64,
}

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let seeds = setup.pick(5, 1);
    if std::fs::exists(SERVED)? {
        std::fs::remove_file(SERVED).with_context(|| format!("cannot remove {SERVED}"))?;
    }
    let mut demo = Command::new(child::python());
    demo.args([
        "-u",
        "examples/movielens/demo.py",
        "--no-press",
        "--seeds",
        &seeds.to_string(),
    ]);
    demo.arg("--millpond").arg(&setup.millpond);
    let ended = child::run(setup, "demo-seeds", demo)?;
    // It fails by itself when the difference is too large; the figures are there all the same.
    let Ok(text) = std::fs::read_to_string(SERVED) else {
        ended.succeeded()?;
        anyhow::bail!("the demo ended well, but left no {SERVED}");
    };
    report.write("served.json", &text)?;
    let found: Vec<Seed> =
        serde_json::from_str(&text).with_context(|| format!("{SERVED} is not as expected"))?;
    ensure!(
        found.len() == seeds,
        "{SERVED} holds {} seeds, expected {seeds}",
        found.len()
    );

    report.say("| seed | served | offline | difference | item mean | above it |");
    report.say("|---:|---:|---:|---:|---:|---:|");
    for one in &found {
        report.say(&format!(
            "| {} | {:.6} | {:.6} | {:.1e} | {:.6} | {:+.5} |",
            one.seed, one.served, one.offline, one.difference, one.item_mean, one.above_item_mean
        ));
    }
    let differences: Series = found.iter().map(|one| (one.served - one.offline).abs()).collect();
    let above: Series = found.iter().map(|one| one.above_item_mean).collect();
    let mean = above.mean();
    report.say(&format!(
        "\nworst difference of {seeds} seeds; above the item mean: mean {mean:.5} ({:.5}..{:.5})\n",
        above.min(),
        above.max()
    ));
    if DIFFERENCE.passes(differences.max()) {
        ended.succeeded()?;
    }
    report.bar(&DIFFERENCE, differences.max(), differences);
    report.bar(&ABOVE_ITEM_MEAN, mean, above);
    Ok(())
}
