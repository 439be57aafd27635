//! The threads of a load generator that are in other processes: this program again, with a share of the threads each.
//!
//! A process may hold only so many files, so several hold more connections. Each has a thread here that hears what it says.
//! Its invariant: a process ends when its input does, so none outlives the press, however that ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond_press_recorder::Live;
use tokio::sync::mpsc::Sender;

use super::message::{Order, Said, Task, hear};
use crate::Error;
use millpond_press_load::{Part, Report};

/// Set for a process, so that a program which is no press does not start itself again and again.
const MARK: &str = "MILLPOND_PRESS_WORKER";
/// How long a process has to end after its input did, before it is killed.
const END_MAX: Duration = Duration::from_secs(5);
/// A process that said nothing in so many looks, of at least 50 ms each, is stuck. Looks are counted and not time, so that a
/// press that was stopped itself for a while does not blame its processes.
const SILENT_LOOKS_MAX: u32 = 200;
/// The same once it was told to stop: somebody waits at a terminal.
const STOPPED_LOOKS_MAX: u32 = 60;
/// How often it is looked whether it has ended.
const POLL: Duration = Duration::from_millis(2);

/// The processes, in the order of their parts.
pub(super) struct Processes {
    workers: Vec<Worker>,
    listeners: Vec<JoinHandle<()>>,
}

struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    /// Such as `process 2 of 3 (pid 4711)`.
    name: String,
    /// Looks since it was last heard.
    silent: Arc<AtomicU32>,
}

impl Processes {
    /// Starts `program` once for each task; each of the `lives` is that of a thread, in the order of their numbers.
    pub(super) fn start(
        program: &Path,
        tasks: &[Task],
        reports: &Sender<Report>,
        lives: &[Arc<Live>],
    ) -> Result<Processes, Error> {
        if std::env::var_os(MARK).is_some() {
            return Err(Error::ClientProcess(format!(
                "{} is no millpond; set RunOptions::millpond to one",
                program.display()
            )));
        }
        let mut processes = Processes {
            workers: Vec::new(),
            listeners: Vec::new(),
        };
        for (at, task) in tasks.iter().enumerate() {
            let (mut worker, output) = Worker::start(program, task.part)?;
            let lives = task.part.threads(lives.len()).map(|index| lives[index].clone());
            let (silent, reports) = (worker.silent.clone(), reports.clone());
            let ears = Ears {
                at,
                lives: lives.collect(),
                silent,
                reports,
            };
            let told = worker.tell(task);
            processes.workers.push(worker);
            let listener = std::thread::Builder::new()
                .name(format!("press-worker-{at}"))
                .spawn(move || ears.hear(output));
            let listener = listener.map_err(|error| Error::ClientThread(error.to_string()))?;
            processes.listeners.push(listener);
            if told.is_err() {
                return Err(processes.lost(at, None));
            }
        }
        Ok(processes)
    }

    /// Tells all of them; one that is gone is told of by its listener.
    pub(super) fn tell(&mut self, order: &Order) {
        for worker in &mut self.workers {
            let _ = worker.tell(order);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.workers.len()
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.workers.iter().map(|worker| worker.child.id())
    }

    /// An error if one of them is stuck, sooner where they are `stopping`; it is looked so at most twenty times a second.
    pub(super) fn check_alive(&self, stopping: bool) -> Result<(), Error> {
        let (looks_max, and) = match stopping {
            true => (
                STOPPED_LOOKS_MAX,
                ", and did not stop: what it did is in no figure",
            ),
            false => (SILENT_LOOKS_MAX, ""),
        };
        // All of them are looked at, so that each is counted.
        let stuck = |worker: &&Worker| worker.silent.fetch_add(1, Relaxed) >= looks_max;
        let stuck: Vec<&Worker> = self.workers.iter().filter(stuck).collect();
        match stuck.first() {
            Some(worker) => Err(Error::ClientProcess(format!(
                "{} says nothing any more{and}",
                worker.name
            ))),
            None => Ok(()),
        }
    }

    /// Why the process at this place is gone: what it said, or else how it ended.
    pub(super) fn lost(&mut self, at: usize, said: Option<String>) -> Error {
        let Some(worker) = self.workers.get_mut(at) else {
            return Error::ClientProcess(said.unwrap_or_default());
        };
        let name = worker.name.clone();
        Error::ClientProcess(match said {
            Some(said) => format!("{name}: {said}"),
            None => match worker.ended_by(Instant::now() + END_MAX) {
                Some(status) => format!("{name} ended by itself ({status})"),
                None => format!("{name} closed its output and did not end"),
            },
        })
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.input = None;
        }
        let deadline = Instant::now() + END_MAX;
        for worker in &mut self.workers {
            // One that is stuck, or was stopped itself, sees no end of its input.
            if worker.silent.load(Relaxed) >= STOPPED_LOOKS_MAX {
                let _ = worker.child.kill();
            }
            if worker.ended_by(deadline).is_none() {
                let _ = worker.child.kill();
                let _ = worker.child.wait();
            }
        }
        for listener in self.listeners.drain(..) {
            let _ = listener.join();
        }
    }
}

impl Worker {
    fn start(program: &Path, part: Part) -> Result<(Worker, ChildStdout), Error> {
        let failed = |why: String| {
            let program = program.display();
            Error::ClientProcess(format!("cannot start `{program} press worker`: {why}"))
        };
        let mut child = Command::new(program)
            .args(["press", "worker"])
            .env(MARK, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own: Ctrl-C is for the press, which then stops the processes in order.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let output = child.stdout.take().ok_or_else(|| failed("no output".into()))?;
        let name = format!("process {} of {} (pid {})", part.index + 1, part.of, child.id());
        let input = child.stdin.take();
        let worker = Worker {
            child,
            input,
            name,
            silent: Arc::default(),
        };
        Ok((worker, output))
    }

    fn tell(&mut self, message: &impl serde::Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        match &mut self.input {
            Some(input) => input.write_all(&line),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// How it ended; nothing if it has not by then.
    fn ended_by(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// What hears one process.
struct Ears {
    at: usize,
    /// Those of its threads.
    lives: Vec<Arc<Live>>,
    silent: Arc<AtomicU32>,
    reports: Sender<Report>,
}

impl Ears {
    /// Hears it to the end of its output.
    fn hear(self, output: ChildStdout) {
        let mut last_words = None;
        for line in BufReader::new(output).lines() {
            // An output that cannot be read is one that ended.
            let Ok(line) = line else { break };
            self.silent.store(0, Relaxed);
            let report = match serde_json::from_str(&line) {
                Ok(Said::Live(figures)) => {
                    for (live, told) in self.lives.iter().zip(figures) {
                        hear(live, told);
                    }
                    continue;
                }
                Ok(Said::Ready { opened, failure }) => Report::Ready { opened, failure },
                Ok(Said::Prepared) => Report::Prepared,
                Ok(Said::Done(handed)) => Report::Done(handed),
                Ok(Said::Broken(why)) => {
                    last_words = Some(why);
                    break;
                }
                Err(error) => {
                    let line: String = line.chars().take(80).collect();
                    last_words = Some(format!("it said {line:?}, which is not for a press: {error}"));
                    break;
                }
            };
            if self.reports.try_send(report).is_err() {
                return;
            }
        }
        let said = last_words;
        let _ = self.reports.try_send(Report::Lost { at: self.at, said });
    }
}
