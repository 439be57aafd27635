//! The practice server for bars of the press: started on its core, asked to end, its truth read; and scenarios against it.
//!
//! Its invariant: when a [`Practice`] is gone, so is its process.

use crate::cores;
use crate::server::terminate;
use crate::setup::Setup;
use anyhow::{Context as _, bail, ensure};
use millpond_press_lab::{Outcome, RunOptions, run_until, search_until};
use millpond_press_report::Point;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const STOP_MAX: Duration = Duration::from_secs(10);

/// A running practice server.
pub(crate) struct Practice {
    child: Child,
    /// Host and port.
    pub(crate) address: String,
}

/// Where it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum On {
    /// The server's core alone.
    ServerCore,
    AnyCore,
}

impl Practice {
    /// Starts `millpond press practice WORDS` on a free port; `before` is put in front, such as `ip netns exec NAME`.
    pub(crate) fn start(setup: &Setup, on: On, before: &[&str], words: &[&str]) -> anyhow::Result<Practice> {
        let millpond = setup.millpond.display().to_string();
        let mut all: Vec<&str> = before.to_vec();
        all.extend([millpond.as_str(), "press", "practice"]);
        if !words.contains(&"--listen") {
            all.extend(["--listen", "127.0.0.1:0"]);
        }
        all.extend(words);
        let mut command = Command::new(all[0]);
        let log = File::options()
            .create(true)
            .append(true)
            .open(setup.out.join("practice.log"))?;
        command
            .args(&all[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut spawn = || command.spawn().context("cannot start the practice server");
        let mut child = match on {
            On::ServerCore => cores::on(cores::SERVER, spawn)?,
            On::AnyCore => spawn()?,
        };
        let output = child.stdout.take().context("its output is not there")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        match line.trim().rsplit_once(" on ") {
            Some((_, address)) => Ok(Practice {
                child,
                address: address.to_owned(),
            }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                bail!("the practice server said {line:?}; see practice.log")
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end and waits for it.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        terminate(&self.child)?;
        let deadline = Instant::now() + STOP_MAX;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < deadline, "the practice server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The head of a scenario against it, up to `[load]`.
    pub(crate) fn scenario(&self, name: &str) -> String {
        format!(
            "[scenario]\nname = \"{name}\"\n[target]\nname = \"practice\"\nprotocol = \"echo\"\naddress = \"{}\"\nserver_pid = {}\n\
             [requests]\nbytes = 32\n",
            self.address,
            self.pid()
        )
    }
}

impl Drop for Practice {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs a scenario's text; the result folder is `press-NAME`.
pub(crate) fn run(setup: &Setup, name: &str, text: &str) -> anyhow::Result<Outcome> {
    let options = options(setup, name, text)?;
    let outcome = run_until(options, setup.stop.watch()).with_context(|| format!("press, {name}"))?;
    setup.stop.check()?;
    Ok(outcome)
}

/// Searches with a scenario's text; the result folder is `press-NAME`.
pub(crate) fn search(setup: &Setup, name: &str, text: &str) -> anyhow::Result<Outcome> {
    let options = options(setup, name, text)?;
    let outcome = search_until(options, setup.stop.watch()).with_context(|| format!("press, {name}"))?;
    setup.stop.check()?;
    Ok(outcome)
}

/// The only point of a scenario.
pub(crate) fn point(setup: &Setup, name: &str, text: &str) -> anyhow::Result<Point> {
    let outcome = run(setup, name, text)?;
    let point = outcome.result.points.into_iter().next();
    point.with_context(|| format!("{name} gave no point"))
}

fn options(setup: &Setup, name: &str, text: &str) -> anyhow::Result<RunOptions> {
    let file = setup.out.join(format!("{name}.toml"));
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let mut options = RunOptions::new(file);
    options.out = Some(setup.out.join(format!("press-{name}")));
    options.millpond = setup.millpond.clone();
    options.progress = false;
    Ok(options)
}
