//! Runs other programs, such as the demo: their output in a file of the result folder, a sign of life every few seconds.
//!
//! Its invariant: when [`run`] returns, the program has ended.

use crate::setup::Setup;
use anyhow::Context as _;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);
const BEAT: Duration = Duration::from_secs(4);
const TAIL_LINES: usize = 12;

/// How a program ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    log: PathBuf,
}

/// The interpreter that needs no private environment.
pub(crate) fn python() -> String {
    std::env::var("PYTHON").unwrap_or_else(|_| "python3".into())
}

/// The private environment's interpreter, made where it is not there yet.
pub(crate) fn python_of_demo(setup: &Setup) -> anyhow::Result<PathBuf> {
    let mut fetch = Command::new(python());
    fetch.args(["-u", "examples/movielens/fetch.py"]);
    run(setup, "fetch", fetch)?.succeeded()?;
    // Not made canonical: the link itself is what makes it the environment.
    Ok(PathBuf::from(".demo/venv/bin/python"))
}

/// Runs `command` to its end. `name` is its log's: NAME.log.
pub(crate) fn run(setup: &Setup, name: &str, mut command: Command) -> anyhow::Result<Ended> {
    let log = setup.out.join(format!("{name}.log"));
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let words: Vec<&OsStr> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .collect();
    println!("{}", words.join(OsStr::new(" ")).display());
    forget_callers(&mut command);
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let mut told = started;
    let mut is_told_to_stop = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if setup.stop.is_asked() && !is_told_to_stop {
            is_told_to_stop = true;
            crate::server::terminate(&child)?;
        }
        if told.elapsed() >= BEAT {
            told = Instant::now();
            println!("  {name}: {} s", started.elapsed().as_secs());
        }
        std::thread::sleep(POLL);
    };
    setup.stop.check()?;
    Ok(Ended { status, log })
}

/// Takes away what cargo and make set for this program: it would make a cargo or make below behave differently, and
/// build again what is built.
fn forget_callers(command: &mut Command) {
    let kept = ["CARGO_HOME", "CARGO_TARGET_DIR"];
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let of_cargo = text == "CARGO" || text.starts_with("CARGO_") || text == "LD_LIBRARY_PATH";
        let of_make = ["MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES", "STAY"].contains(&text);
        let is_setting = text.starts_with("CARGO_NET_") || text.starts_with("CARGO_REGISTR");
        if (of_cargo || of_make) && !is_setting && !kept.contains(&text) {
            command.env_remove(&name);
        }
    }
}

impl Ended {
    /// # Errors
    /// With the end of its output, when it failed.
    pub(crate) fn succeeded(&self) -> anyhow::Result<()> {
        if self.status.success() {
            return Ok(());
        }
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        anyhow::bail!(
            "it ended with {}; the end of {}:\n{tail}",
            self.status,
            self.log.display()
        )
    }
}
