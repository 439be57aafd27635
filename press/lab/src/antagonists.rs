//! Programs that are run beside a load so that they disturb it: one on each of some cores, for as long as the load lasts.
//!
//! Its invariant: what was started is ended when press ends, on an error or a signal too. What kills press outright (SIGKILL) leaves them
//! running until the bound that `{seconds}` in their command gives them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use millpond_fleet::Process;
use millpond_press_load::Cores;

use crate::Error;
use crate::scenario::AntagonistKeys;
use crate::server_process::tail;

/// How long one has to take its memory before the load begins.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);
/// How long one may take to end when it is asked to.
const END_MAX: Duration = Duration::from_secs(5);

/// What stands in a command for how long it has to run at most, in whole seconds.
pub(crate) const SECONDS: &str = "{seconds}";
/// What is added to that bound for what is not of the load: threads that start and hand over.
const SPARE: Duration = Duration::from_secs(10);

/// Those of one target, while they run.
pub(crate) struct Antagonists {
    processes: Vec<Process>,
    log: PathBuf,
}

/// Why they cannot be run here, if they cannot.
pub(crate) fn absent(keys: &AntagonistKeys) -> Option<String> {
    let program = keys.command.first().map_or("", String::as_str);
    if is_there(program, &std::env::var_os("PATH").unwrap_or_default()) {
        return None;
    }
    let how = match &keys.install {
        Some(how) => format!("install it by `{how}`"),
        None => "install it, or check targets.antagonists.command".to_owned(),
    };
    Some(format!("the program `{program}` is not here: {how}"))
}

/// Whether a shell would find the program.
fn is_there(program: &str, path: &std::ffi::OsStr) -> bool {
    match program.contains('/') {
        true => Path::new(program).is_file(),
        false => std::env::split_paths(path).any(|folder| folder.join(program).is_file()),
    }
}

impl Antagonists {
    /// Starts one on each core, for a load that takes `longest` at most; what they print goes to `log`.
    pub(crate) fn start(keys: &AntagonistKeys, longest: Duration, log: &Path) -> Result<Antagonists, Error> {
        let failed = |source| Error::ServerStart {
            what: "antagonists",
            command: keys.command.join(" "),
            source,
        };
        let output = File::create(log).map_err(failed)?;
        let mut antagonists = Antagonists {
            processes: Vec::new(),
            log: log.to_owned(),
        };
        let bound = (SETTLE + longest + SPARE).as_secs_f64().ceil();
        for &core in &keys.cpus {
            let mut command = Command::new(keys.command.first().map_or("", String::as_str));
            let words = keys.command.iter().skip(1);
            command
                .args(words.map(|word| word.replace(SECONDS, &bound.to_string())))
                .stdin(Stdio::null())
                .stdout(output.try_clone().map_err(failed)?)
                .stderr(output.try_clone().map_err(failed)?);
            let process = Process::start_bound(&mut command, || Cores::of(&[core])?.bind());
            antagonists.processes.push(process.map_err(failed)?);
        }
        Ok(antagonists)
    }

    /// Their processes, without what these have started.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::pid).collect()
    }

    /// An error if one has ended: the load was disturbed by less than it says.
    pub(crate) fn still_run(&self) -> Result<(), Error> {
        match self.processes.iter().find_map(Process::ended) {
            None => Ok(()),
            Some(status) => Err(Error::ServerEnded {
                status: status.to_string(),
                what: "antagonist",
                doing: "it was to disturb a load",
                log: self.log.clone(),
                tail: tail(&self.log),
            }),
        }
    }
}

impl Drop for Antagonists {
    fn drop(&mut self) {
        self.processes.iter().for_each(Process::terminate);
        let until = Instant::now() + END_MAX;
        for process in &self.processes {
            // One that does not end is killed with all that it has started, when it is dropped.
            let _ = process.ended_by(until);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn keys(words: &[&str], install: Option<&str>) -> AntagonistKeys {
        AntagonistKeys {
            command: words.iter().map(|&word| word.to_owned()).collect(),
            cpus: vec![0],
            install: install.map(str::to_owned),
        }
    }

    #[test]
    fn a_program_that_is_not_here_is_said_with_its_package() {
        assert_eq!(absent(&keys(&["sleep", "1"], None)), None);
        let said = absent(&keys(&["no-such-program"], Some("apt install nothing"))).unwrap();
        assert!(
            said.contains("`no-such-program` is not here: install it by `apt install nothing`"),
            "{said}"
        );
        assert!(absent(&keys(&["/no/such/program"], None)).is_some());
    }

    const LONGEST: Duration = Duration::from_millis(3_200);

    #[test]
    fn they_are_told_how_long_they_run_at_most() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let command = keys(&["sh", "-c", "echo bound {seconds} s"], None);
        let running = Antagonists::start(&command, LONGEST, &log).unwrap();
        while running.processes[0].ended().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "bound 14 s\n");
    }

    #[test]
    fn they_run_until_they_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let running =
            Antagonists::start(&keys(&["sleep", "1000"], None), LONGEST, &dir.path().join("log")).unwrap();
        running.still_run().unwrap();
        let pid = running.pids()[0];
        drop(running);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn one_that_ends_is_an_error_with_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let command = keys(&["sh", "-c", "echo out of memory; exit 3"], None);
        let running = Antagonists::start(&command, LONGEST, &dir.path().join("log")).unwrap();
        while running.processes[0].ended().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = running.still_run().unwrap_err().to_string();
        assert!(
            said.contains("exit status: 3") && said.contains("out of memory"),
            "{said}"
        );
    }
}
