//! A process that was started here, with whatever it starts in its group.
//!
//! The invariants: when a [`Process`] is dropped, nothing of its group is left, unless it was left behind on purpose; and no
//! group is signalled whose process was waited for, because its number may belong to another by then.

use millpond_threads::ends_by;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The status of a process whose own went to another: exit status 255.
const STATUS_LOST: i32 = 255 << 8;

/// A process, and how it ended once it was waited for.
#[derive(Debug)]
struct Watched {
    child: Child,
    ended: Option<ExitStatus>,
}

/// A process.
#[derive(Debug)]
pub struct Process {
    watched: Mutex<Watched>,
    pid: Pid,
    is_left: AtomicBool,
}

impl Process {
    /// Starts it, in a group of its own: signals from a terminal are for the parent, which stops it in order.
    ///
    /// # Errors
    /// The system's.
    pub fn start(command: &mut Command) -> io::Result<Process> {
        let child = command.process_group(0).spawn()?;
        Ok(Process {
            pid: Pid::from_child(&child),
            watched: Mutex::new(Watched { child, ended: None }),
            is_left: AtomicBool::new(false),
        })
    }

    /// Starts it on a thread of its own that `bind` has bound to some cores, which the process inherits.
    ///
    /// # Errors
    /// The system's, and those of `bind`.
    pub fn start_bound(
        command: &mut Command,
        bind: impl FnOnce() -> io::Result<()> + Send,
    ) -> io::Result<Process> {
        std::thread::scope(|scope| {
            let starting = scope.spawn(|| {
                bind()?;
                Process::start(command)
            });
            let broken = |_| Err(io::Error::other("the starting thread panicked"));
            starting.join().unwrap_or_else(broken)
        })
    }

    /// Its number to the system, and that of its group.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Its input, once, where the command piped that.
    pub fn take_input(&self) -> Option<ChildStdin> {
        self.watched().child.stdin.take()
    }

    /// Its output, once, where the command piped that.
    pub fn take_output(&self) -> Option<ChildStdout> {
        self.watched().child.stdout.take()
    }

    /// How it ended, if it has; what it has started and left behind in its group ends with it.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.look(&mut self.watched())
    }

    fn look(&self, watched: &mut Watched) -> Option<ExitStatus> {
        // The number is its own until it is waited for.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if watched.ended.is_none() {
            match waitid(WaitId::Pid(self.pid), options) {
                Ok(Some(_)) => {
                    let _ = kill_process_group(self.pid, Signal::KILL);
                    watched.ended = watched.child.wait().ok();
                }
                // Another waited for it, or the program ignores SIGCHLD: it has ended, and its number may be another's.
                Err(Errno::CHILD) => watched.ended = Some(ExitStatus::from_raw(STATUS_LOST)),
                Ok(None) | Err(_) => {}
            }
        }
        watched.ended
    }

    /// How it ended, waiting until then for that.
    pub fn ended_by(&self, until: Instant) -> Option<ExitStatus> {
        let mut ended = None;
        ends_by(until, || {
            ended = self.ended();
            ended.is_some()
        });
        ended
    }

    /// Asks it to end: SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it at once: SIGKILL.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Signals it while it runs.
    pub(crate) fn signal(&self, signal: Signal) {
        let mut watched = self.watched();
        if self.look(&mut watched).is_none() {
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Lets go of a process that cannot be ended: its drop does not wait for it.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut watched = self.watched();
        if self.look(&mut watched).is_none() && !self.is_left.load(Ordering::Relaxed) {
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = watched.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    use std::time::Duration;

    #[test]
    fn a_process_that_another_waited_for_has_ended() {
        let process = Process::start(&mut Command::new("true")).unwrap();
        let options = rustix::process::WaitOptions::empty();
        rustix::process::waitpid(Some(process.pid), options).unwrap();
        assert_eq!(process.ended().and_then(|status| status.code()), Some(255));
    }

    #[test]
    fn what_a_process_started_ends_with_it() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 100 & echo $!; trap '' TERM; wait"]);
        let process = Process::start(shell.stdout(Stdio::piped())).unwrap();
        let mut output = BufReader::new(process.take_output().unwrap());
        let mut child = String::new();
        output.read_line(&mut child).unwrap();
        assert_eq!(process.ended(), None);
        assert!(std::path::Path::new("/proc").join(child.trim()).exists());
        drop(process);
        // Both had it, so it ends with the last of them.
        assert_eq!(output.read_line(&mut child).unwrap(), 0);
    }

    #[test]
    fn what_a_process_left_behind_ends_when_its_end_is_seen() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 100 & echo $!"]);
        let process = Process::start(shell.stdout(Stdio::piped())).unwrap();
        let mut output = BufReader::new(process.take_output().unwrap());
        assert!(
            process
                .ended_by(Instant::now() + Duration::from_secs(60))
                .is_some()
        );
        // The sleeper had it too.
        let mut said = String::new();
        while output.read_line(&mut said).unwrap() > 0 {}
        assert!(said.ends_with('\n'), "{said}");
    }

    #[test]
    fn a_process_that_has_ended_says_how() {
        let process = Process::start(Command::new("sh").args(["-c", "exit 3"])).unwrap();
        let ended = process.ended_by(Instant::now() + Duration::from_secs(60));
        assert_eq!(ended.unwrap().code(), Some(3));
        process.kill();
        assert_eq!(process.ended().unwrap().code(), Some(3));
    }
}
