//! `millpond-chaos`: runs a campaign, prints what it did and found, and the bars.
#![allow(clippy::print_stdout)]

use anyhow::Context as _;
use clap::Parser;
use millpond_tests_chaos::campaign::{self, Outcome};
use millpond_tests_chaos::finding::Broken;
use millpond_tests_chaos::settings::{Length, Settings};
use millpond_tests_chaos::{followers, means};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Loads and hurts a millpond server in every way this machine allows, and checks its promises from outside.
#[derive(Parser)]
struct Arguments {
    /// The binary to run.
    #[arg(long)]
    millpond: PathBuf,
    /// What everything is planned from; chosen and printed when left out.
    #[arg(long, value_parser = parse_seed)]
    seed: Option<u64>,
    /// Rounds are begun for so many seconds.
    #[arg(long, default_value_t = 600, conflicts_with_all = ["rounds", "kills", "followers"])]
    seconds: u64,
    /// So many rounds instead.
    #[arg(long, conflicts_with = "kills")]
    rounds: Option<u64>,
    /// So many kill -9 instead, in rounds that do nothing else.
    #[arg(long)]
    kills: Option<u64>,
    /// So many promotions of followers instead: two servers keep the same stores, and either is killed again and again.
    #[arg(long, conflicts_with_all = ["rounds", "kills"])]
    followers: Option<u64>,
    /// With --followers: writes wait for a follower (acknowledge = "follower"), and a promotion loses none that was acknowledged.
    #[arg(long, requires = "followers", conflicts_with_all = ["seconds", "rounds", "kills"])]
    acknowledge: bool,
    /// Times that something may take are so many times as long, for machines that are busy.
    #[arg(long, default_value_t = 1)]
    generosity: u32,
    /// Prints a line for each round, with its plan, when it begins.
    #[arg(long)]
    verbose: bool,
    /// Where the folders of rounds with findings stay.
    #[arg(long, default_value = "target/chaos")]
    keep: PathBuf,
}

fn parse_seed(text: &str) -> Result<u64, std::num::ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    means::be_alone();
    let millpond = arguments.millpond.canonicalize();
    let millpond = millpond.with_context(|| format!("no binary at {}", arguments.millpond.display()))?;
    std::fs::create_dir_all(&arguments.keep)
        .with_context(|| format!("cannot make {}", arguments.keep.display()))?;
    let keep = arguments.keep.canonicalize()?;
    let chosen = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let settings = Settings {
        can_mount: means::can_mount(tempfile::tempdir()?.path()),
        can_trace: means::can_trace(),
        millpond,
        seed: arguments.seed.unwrap_or(chosen),
        length: match (arguments.rounds, arguments.kills) {
            (Some(rounds), _) => Length::Rounds(rounds),
            (_, Some(kills)) => Length::Kills(kills),
            _ => Length::Time(Duration::from_secs(arguments.seconds)),
        },
        keep,
        generosity: arguments.generosity,
        is_verbose: arguments.verbose,
    };
    println!("seed: {:#x}", settings.seed);
    // As cargo prints a test that is left out, for whoever counts these.
    if !settings.can_mount {
        println!(
            "test chaos::mounts ... ignored, nobody may mount here (unshare --mount), so disks are not full and not read-only"
        );
    }
    if !settings.can_trace {
        println!("test chaos::syncs ... ignored, strace is not here or may not trace, so syncs do not fail");
    }
    let began = Instant::now();
    let say = &mut |line: &str| println!("{line}");
    let outcome = match arguments.followers {
        Some(promotions) => followers::run(&settings, promotions, arguments.acknowledge, say)?,
        None => campaign::run(&settings, say)?,
    };
    println!("{} rounds in {} s", outcome.rounds, began.elapsed().as_secs());
    print!("{}", outcome.tally.summary());
    let passes = bars(settings.length, arguments.followers, &outcome);
    Ok(if passes {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints the bars; whether all of them pass.
fn bars(length: Length, promotions_wanted: Option<u64>, outcome: &Outcome) -> bool {
    let kills = outcome.tally.kills();
    let of = |broken| {
        outcome
            .findings
            .iter()
            .filter(|finding| finding.broken == broken)
            .count() as u64
    };
    let mut passes = true;
    let mut bar = |name: &str, value: u64, op: &str, limit: u64| {
        let is_met = if op == ">=" {
            value >= limit
        } else {
            value == limit
        };
        let verdict = if is_met { "pass" } else { "fail" };
        println!("bar {name} {value} {op} {limit} {verdict}");
        passes &= is_met;
    };
    if let Length::Kills(wanted) = length {
        bar("chaos-kills", kills, ">=", wanted);
    }
    if let Some(wanted) = promotions_wanted {
        let promotions = outcome.tally.promotions.load(Ordering::Relaxed);
        bar("chaos-promotions", promotions, ">=", wanted);
    }
    bar("chaos-puts-lost", of(Broken::PutLost), "==", 0);
    bar("chaos-upserts-lost", of(Broken::UpsertLost), "==", 0);
    bar("chaos-broken", outcome.findings.len() as u64, "==", 0);
    passes
}
