//! What is printed, and kept: `report.txt` as it was printed, `bars.json` and `run.json` for programs.
//!
//! Raw results of single measurements lie beside them, each in a file or folder of its own. Its invariant: after
//! [`Report::close`] every bar of the group has exactly one line.

use crate::bar::{Bar, Group};
use crate::series::Series;
use crate::setup::Setup;
use anyhow::Context as _;
use millpond_press_recorder::{Load, Machine};
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

/// One bar's outcome.
#[derive(Serialize)]
struct Outcome {
    name: &'static str,
    /// `null` where it could not be measured.
    value: Option<f64>,
    op: String,
    limit: f64,
    pass: bool,
    /// What the value was made of, run by run.
    runs: Series,
}

/// The report being written.
pub(crate) struct Report {
    folder: PathBuf,
    text: File,
    started: Instant,
    outcomes: Vec<Outcome>,
    /// The lines of all bars, for the end.
    lines: Vec<String>,
}

impl Report {
    pub(crate) fn create(setup: &Setup) -> anyhow::Result<Report> {
        let folder = setup.out.clone();
        let text = File::create(folder.join("report.txt"))
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        let mut report = Report {
            folder,
            text,
            started: Instant::now(),
            outcomes: Vec::new(),
            lines: Vec::new(),
        };
        report.describe(setup)?;
        Ok(report)
    }

    fn describe(&mut self, setup: &Setup) -> anyhow::Result<()> {
        let machine = Machine::read();
        let said = |program: &PathBuf, argument: &str| {
            let output = std::process::Command::new(program).arg(argument).output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let (server, rust) = (
            said(&setup.millpond, "--version"),
            said(&"rustc".into(), "--version"),
        );
        let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
        let run = json!({
            "command": std::env::args().collect::<Vec<_>>(),
            "started_at": millpond_press_report::rfc3339_utc(SystemTime::now()),
            "quick": setup.quick,
            "millpond": setup.millpond,
            "millpond_version": server,
            "rustc": rust,
            "bench_profile": profile,
            "machine": machine,
            "load": Load::read(),
        });
        self.write("run.json", &serde_json::to_string_pretty(&run)?)?;
        let unknown = || "?".to_owned();
        self.say(&format!(
            "machine: {}, {} cores, {:.1} GiB, Linux {}\nserver:  {} ({}), bench: {profile} profile, {}",
            machine.cpu_model.unwrap_or_else(unknown),
            machine.cores.unwrap_or_default(),
            machine.memory_bytes.unwrap_or_default() as f64 / (1u64 << 30) as f64,
            machine.kernel.unwrap_or_else(unknown),
            setup.millpond.display(),
            server.unwrap_or_else(unknown),
            rust.unwrap_or_else(unknown),
        ));
        Ok(())
    }

    /// Prints lines for people. A report that cannot be kept is found out at the end.
    pub(crate) fn say(&mut self, text: &str) {
        println!("{text}");
        let _ = writeln!(self.text, "{text}");
    }

    /// Keeps a file beside the report.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Keeps a bar's line for the end, and shows what it will say; `runs` are the figures its value was made of.
    pub(crate) fn bar(&mut self, bar: &Bar, value: f64, runs: Series) {
        let line = bar.line(value);
        self.say(&format!("  = {}", line.trim_start_matches("bar ")));
        self.lines.push(line);
        self.outcomes.push(Outcome {
            name: bar.name,
            value: value.is_finite().then_some(value),
            op: bar.op.to_string(),
            limit: bar.limit,
            pass: bar.passes(value),
            runs,
        });
    }

    /// Gives the bars of a group that got no line one that says so.
    pub(crate) fn close(&mut self, group: &Group) -> anyhow::Result<()> {
        for bar in group.bars {
            if !self.outcomes.iter().any(|outcome| outcome.name == bar.name) {
                self.bar(bar, f64::NAN, Series::default());
            }
        }
        self.write("bars.json", &serde_json::to_string_pretty(&self.outcomes)?)
    }

    /// Prints the lines of all bars, which nothing follows; whether all of them passed.
    pub(crate) fn finish(mut self) -> anyhow::Result<bool> {
        let minutes = self.started.elapsed().as_secs_f64() / 60.0;
        let (folder, lines) = (self.folder.display().to_string(), self.lines.join("\n"));
        self.say(&format!(
            "\n## All bars, after {minutes:.1} minutes; raw results in {folder}\n\n{lines}"
        ));
        self.text.sync_all()?;
        Ok(self.outcomes.iter().all(|outcome| outcome.pass))
    }
}
