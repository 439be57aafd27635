//! A process that was started here, with whatever it starts in its group.
//!
//! The invariant: when a [`Process`] is dropped, nothing of its group is left, unless it was left behind on purpose.

use millpond_threads::ends_by;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A process.
#[derive(Debug)]
pub struct Process {
    child: Mutex<Child>,
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
            child: Mutex::new(child),
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
        self.child().id()
    }

    /// Its input, once, where the command piped that.
    pub fn take_input(&self) -> Option<ChildStdin> {
        self.child().stdin.take()
    }

    /// Its output, once, where the command piped that.
    pub fn take_output(&self) -> Option<ChildStdout> {
        self.child().stdout.take()
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
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

    /// Signals it while it runs: it is not waited for yet, so its number cannot belong to another.
    pub(crate) fn signal(&self, signal: Signal) {
        let mut child = self.child();
        if matches!(child.try_wait(), Ok(None)) {
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Lets go of a process that cannot be ended: its drop does not wait for it.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_left.load(Ordering::Relaxed) {
            // A shell's children need not end with it. Mostly nobody is left, which is an error to the kernel.
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = self.child().wait();
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
    fn a_process_that_has_ended_says_how() {
        let process = Process::start(Command::new("sh").args(["-c", "exit 3"])).unwrap();
        let ended = process.ended_by(Instant::now() + Duration::from_secs(60));
        assert_eq!(ended.unwrap().code(), Some(3));
        process.kill();
        assert_eq!(process.ended().unwrap().code(), Some(3));
    }
}
