//! Runs other programs, such as the demo: their output in a file of the result folder, a sign of life every few seconds.
//!
//! Its invariant: when [`run`] returns, the program has ended.

use crate::setup::Setup;
use anyhow::{Context as _, bail};
use millpond_fleet::Process;
use millpond_press_lab::tail;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);
const SIGN_OF_LIFE: Duration = Duration::from_secs(4);

/// The private environment's interpreter, made where it is not there yet.
pub(crate) fn python_of_demo(setup: &Setup) -> anyhow::Result<PathBuf> {
    let mut fetch = Command::new(std::env::var("PYTHON").unwrap_or_else(|_| "python3".into()));
    fetch.args(["-u", "examples/movielens/fetch.py"]);
    run(setup, "fetch", fetch)?;
    // Not made canonical: the link itself is what makes it the environment.
    Ok(PathBuf::from(".demo/venv/bin/python"))
}

/// Runs `millpond-bare` with these words; the figures that it prints, a line each: `NAME VALUE`.
pub(crate) fn bare(setup: &Setup, name: &str, words: &[&str]) -> anyhow::Result<BTreeMap<String, f64>> {
    let program = std::env::current_exe()
        .context("cannot find this program's folder")?
        .with_file_name("millpond-bare");
    let mut command = Command::new(program);
    command.args(words);
    run(setup, name, command)?;
    let log = setup.out.join(format!("{name}.log"));
    let text = std::fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let line = |line: &str| {
        let (figure, value) = line.split_once(' ')?;
        Some((figure.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Runs `command` to its end. `name` is its log's: NAME.log.
///
/// # Errors
/// With the end of its output, when it failed.
pub(crate) fn run(setup: &Setup, name: &str, mut command: Command) -> anyhow::Result<()> {
    let log = setup.out.join(format!("{name}.log"));
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let words: Vec<&OsStr> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .collect();
    println!("{}", words.join(OsStr::new(" ")).display());
    let started = Instant::now();
    command
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output);
    let process = Process::start(&mut command).with_context(|| format!("cannot start {name}"))?;
    let mut told = started;
    let mut is_told_to_stop = false;
    let status = loop {
        if let Some(status) = process.ended() {
            break status;
        }
        if setup.stop.is_asked() && !is_told_to_stop {
            is_told_to_stop = true;
            process.terminate();
        }
        if told.elapsed() >= SIGN_OF_LIFE {
            told = Instant::now();
            println!("  {name}: {} s", started.elapsed().as_secs());
        }
        std::thread::sleep(POLL);
    };
    setup.stop.check()?;
    if status.success() {
        return Ok(());
    }
    let (tail, log) = (tail(&log), log.display());
    bail!("it ended with {status}; the end of {log}:\n{tail}")
}
