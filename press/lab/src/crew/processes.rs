//! The threads of a load generator that are in other processes: this program again, with a share of the threads each.
//!
//! A process may hold only so many files, so several hold more connections. Its invariant: what is dropped leaves no process,
//! and each has a while to end by itself.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_fleet::{Fleet, Heard};
use millpond_press_recorder::Live;
use tokio::sync::mpsc::Sender;

use super::message::{Order, Said, Task, lay_down};
use crate::Error;
use millpond_press_load::Report;

/// Set for a process, so that a program which is no press does not start itself again and again.
const MARK: &str = "MILLPOND_PRESS_WORKER";
/// How long a process has to end after its input did, before it is killed.
const END_MAX: Duration = Duration::from_secs(5);
/// A process that said nothing in so many looks, of at least 50 ms each, is stuck. Looks are counted and not time, so that a
/// press that was stopped itself for a while does not blame its processes.
const SILENT_LOOKS_MAX: u32 = 200;
/// The same once it was told to stop: somebody waits at a terminal.
const STOPPED_LOOKS_MAX: u32 = 60;

/// The processes, in the order of their parts.
pub(super) struct Processes(Fleet<Order>);

impl Processes {
    /// Starts `program` once for each task; each of the `lives` is that of a thread, in the order of their numbers.
    pub(super) fn start(
        program: &Path,
        tasks: &[Task],
        reports: &Sender<Report>,
        lives: &[Arc<Live>],
    ) -> Result<Processes, Error> {
        let program_name = program.display();
        if std::env::var_os(MARK).is_some() {
            return Err(Error::ClientProcess(format!(
                "{program_name} is no millpond; set RunOptions::millpond to one"
            )));
        }
        let mut fleet = Fleet::new(tasks.len());
        for (at, task) in tasks.iter().enumerate() {
            let lives: Vec<_> = task
                .part
                .threads(lives.len())
                .map(|index| lives[index].clone())
                .collect();
            let reports = reports.clone();
            let mut command = Command::new(program);
            command.args(["press", "worker"]).env(MARK, "1");
            let started = fleet.start(at, command, move |_, heard| {
                if let Some(report) = report(at, heard, &lives) {
                    // Nobody needs it any more where it fails.
                    let _ = reports.try_send(report);
                }
            });
            let worker = started.map_err(|error| {
                Error::ClientProcess(format!("cannot start `{program_name} press worker`: {error}"))
            })?;
            worker.tell(Order::Take(Box::new(task.clone())));
        }
        Ok(Processes(fleet))
    }

    /// Tells all of them; one that is gone is reported so.
    pub(super) fn tell(&self, order: &Order) {
        for (_, worker) in self.0.workers() {
            worker.tell(order.clone());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.workers().count()
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.0.workers().map(|(_, worker)| worker.process().pid())
    }

    /// The error of a stuck process: it has said nothing between [`SILENT_LOOKS_MAX`] calls of this, or [`STOPPED_LOOKS_MAX`] while
    /// `stopping`. The caller calls at most twenty times a second.
    pub(super) fn check_alive(&self, stopping: bool) -> Result<(), Error> {
        let (looks_max, and) = match stopping {
            true => (
                STOPPED_LOOKS_MAX,
                ", and did not stop: what it did is in no figure",
            ),
            false => (SILENT_LOOKS_MAX, ""),
        };
        // All of them are looked at, so that each is counted.
        let looked = self.0.workers().map(|(at, worker)| (at, worker.count_silence()));
        let silent: Vec<(usize, u32)> = looked.collect();
        match silent.iter().find(|(_, looks)| *looks >= looks_max) {
            Some((at, _)) => {
                let name = self.name(*at);
                Err(Error::ClientProcess(format!("{name} says nothing any more{and}")))
            }
            None => Ok(()),
        }
    }

    /// Why the process at this place is gone: what it said, or else how it ended.
    pub(super) fn lost(&self, at: usize, said: Option<String>) -> Error {
        let name = self.name(at);
        let Some(worker) = self.0.worker(at) else {
            return Error::ClientProcess(said.unwrap_or_default());
        };
        Error::ClientProcess(match said {
            Some(said) => format!("{name}: {said}"),
            None => match worker.process().ended_by(Instant::now() + END_MAX) {
                Some(status) => format!("{name} ended by itself ({status})"),
                None => format!("{name} closed its output and did not end"),
            },
        })
    }

    /// Such as `process 2 of 3 (pid 4711)`.
    fn name(&self, at: usize) -> String {
        let pid = self.0.worker(at).map_or(0, |worker| worker.process().pid());
        format!("process {} of {} (pid {pid})", at + 1, self.len())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, worker) in self.0.workers() {
            // One that is stuck, or was stopped itself, sees no end of its input.
            if worker.count_silence() >= STOPPED_LOOKS_MAX {
                worker.process().kill();
            }
        }
        self.0.close(Instant::now() + END_MAX);
    }
}

/// What is to be reported of something that the process at this place said, whose threads have these `lives`.
fn report(at: usize, heard: Heard<Said>, lives: &[Arc<Live>]) -> Option<Report> {
    Some(match heard {
        Heard::Said(Said::Live(figures)) => {
            for (live, told) in lives.iter().zip(figures) {
                lay_down(live, told);
            }
            return None;
        }
        Heard::Said(Said::Ready { opened, failure }) => Report::Ready { opened, failure },
        Heard::Said(Said::Prepared) => Report::Prepared,
        Heard::Said(Said::Done(handed)) => Report::Done(handed),
        Heard::Said(Said::Broken(why)) => Report::Lost { at, said: Some(why) },
        Heard::Gone(said) => Report::Lost { at, said },
    })
}
