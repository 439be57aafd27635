//! What every bar needs to know: where things are, how thorough to be, and whether to stop.
//!
//! Its invariant: once it is found, the program runs in the repository's root and the server's binary exists.

use crate::Arguments;
use crate::stop::Stop;
use anyhow::{Context as _, bail};
use millpond_press_lab::RunOptions;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Found before anything is measured.
pub(crate) struct Setup {
    pub(crate) quick: bool,
    /// Whether to measure on a machine that nobody has seen idle.
    pub(crate) anyway: bool,
    /// Whether the cores are kept from sleeping.
    pub(crate) keep_awake: bool,
    /// How often what is noisy is measured at most.
    pub(crate) tries: usize,
    /// Keys of ordered maps, where a number was given.
    pub(crate) keys: Option<usize>,
    /// The server's binary.
    pub(crate) millpond: PathBuf,
    /// The build before.
    pub(crate) beside: Option<PathBuf>,
    /// The result folder of this try: that of the first, and `try-N` within it for later ones.
    pub(crate) out: PathBuf,
    pub(crate) stop: Stop,
}

/// A file that stands in the repository and nowhere else.
const MARK: &str = "press/scenarios/r1-recommand.toml";

impl Setup {
    pub(crate) fn find(arguments: &Arguments) -> anyhow::Result<Setup> {
        if !Path::new(MARK).is_file() {
            bail!("{MARK} is not here; run the bench in the root of the repository");
        }
        let millpond = match &arguments.millpond {
            Some(path) => path.clone(),
            None => std::env::current_exe()
                .context("cannot find this program's folder")?
                .with_file_name("millpond"),
        };
        let millpond = millpond.canonicalize().with_context(|| {
            let build = "build it with `cargo build --release -p millpond-cli`, or name one with --millpond";
            format!("the server {} is not there; {build}", millpond.display())
        })?;
        let area = format!("{:?}", arguments.area).to_lowercase();
        let now = millpond_press_report::compact_utc(SystemTime::now());
        let out = arguments
            .out
            .clone()
            .unwrap_or_else(|| format!("bench-results/{area}-{now}").into());
        std::fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
        let out = out.canonicalize()?;
        if out.read_dir()?.next().is_some() {
            bail!("{} is not empty; give another --out", out.display());
        }
        Ok(Setup {
            quick: arguments.quick,
            anyway: arguments.anyway,
            keep_awake: arguments.keep_awake,
            tries: usize::from(if arguments.quick { 1 } else { arguments.tries }),
            keys: arguments.keys,
            millpond,
            beside: arguments.beside.clone(),
            out,
            stop: Stop::listen()?,
        })
    }

    /// Lets the next try write to a folder of its own.
    pub(crate) fn next_try(&mut self, folder: &Path, number: usize) -> anyhow::Result<()> {
        let out = folder.join(format!("try-{number}"));
        std::fs::create_dir(&out).with_context(|| format!("cannot create {}", out.display()))?;
        self.out = out;
        Ok(())
    }

    /// What the press is asked for with a scenario; the result folder is `press-NAME`.
    pub(crate) fn press(&self, scenario: &Path, name: &str) -> RunOptions {
        let mut options = RunOptions::new(scenario);
        options.out = Some(self.out.join(format!("press-{name}")));
        options.millpond = self.millpond.clone();
        options.progress = false;
        options
    }

    /// The build before.
    pub(crate) fn before(&self) -> anyhow::Result<&Path> {
        let missing =
            "name the build before with --beside FILE: its millpond, built in release as this one is";
        self.beside.as_deref().context(missing)
    }

    /// What makes the tables that servers open: the build before, where there is one, because an earlier build opens no later
    /// format.
    pub(crate) fn builder(&self) -> &Path {
        self.beside.as_deref().unwrap_or(&self.millpond)
    }

    /// One of two values: the thorough one, or the quick one.
    pub(crate) fn pick<T>(&self, thorough: T, quick: T) -> T {
        if self.quick { quick } else { thorough }
    }

    /// Sleeps, but ends early when a stop is asked for.
    pub(crate) fn pause(&self, span: Duration) -> anyhow::Result<()> {
        let end = std::time::Instant::now() + span;
        loop {
            self.stop.check()?;
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}
