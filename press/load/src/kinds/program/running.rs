//! The process of a client program: started, told something, heard, ended.
//!
//! Its invariant: when a [`Running`] is gone, so is its process, and at most one frame of what it said is kept.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use millpond_fleet::Process;
use rustix::fs::{OFlags, fcntl_setfl};

use super::ProgramStart;
use super::frame::{self, Frame};

/// How long a program has to end after its input did, before it is killed.
const END_MAX: Duration = Duration::from_secs(2);
/// What is read at a time.
const READ_BYTES: usize = 64 << 10;
/// What of its standard error is kept at the end, and what a message looks at.
const LOG_BYTES_MAX: u64 = 16 << 20;
const TAIL_BYTES: u64 = 4 << 10;

/// A program that runs.
pub(super) struct Running {
    process: Process,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    /// What was read, and how much of it was taken.
    bytes: Vec<u8>,
    taken: usize,
    name: String,
    log: PathBuf,
}

impl Running {
    pub(super) fn start(start: &ProgramStart) -> Result<Running, String> {
        let name = start.words.join(" ");
        let failed = |error: io::Error| {
            format!("the program `{name}` cannot be started: {error}; check target.program.command")
        };
        let log = File::options().create(true).append(true).open(&start.log);
        let mut command = Command::new(start.words.first().map_or("", String::as_str));
        command
            .args(start.words.iter().skip(1))
            .envs(start.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.map_err(failed)?);
        let process = Process::start_bound(&mut command, || start.cores.bind()).map_err(failed)?;
        let (input, output) = (process.take_input(), process.take_output());
        if let Some(output) = &output {
            fcntl_setfl(output, OFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
        }
        Ok(Running {
            process,
            input,
            output,
            bytes: Vec::new(),
            taken: 0,
            log: start.log.clone(),
            name,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Writes an order, which the pipe has room for unless the program reads none.
    pub(super) fn tell(&mut self, order: &str) -> Result<(), String> {
        let told = self.input.as_mut().map(|input| input.write_all(order.as_bytes()));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(self.how_it_ended(&format!("it was to be told {order:?}"))),
        }
    }

    /// Reads what is there; an error where it has closed its output.
    pub(super) fn hear(&mut self) -> Result<(), String> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        let kept = self.bytes.len();
        self.bytes.resize(kept + READ_BYTES, 0);
        let read = match &mut self.output {
            Some(output) => output.read(&mut self.bytes[kept..]),
            None => Ok(0),
        };
        self.bytes.truncate(kept + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(0) => Err(self.how_it_ended("press still wanted calls")),
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(format!("cannot be read: {error}")),
        }
    }

    /// The next frame of what was read.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, String> {
        let Some((frame, length)) = frame::read(&self.bytes[self.taken..])? else {
            return Ok(None);
        };
        self.taken += length;
        match frame {
            Frame::Broken(why) => Err(format!("cannot go on: {why}")),
            frame => Ok(Some(frame)),
        }
    }

    fn how_it_ended(&self, when: &str) -> String {
        match self.process.ended_by(Instant::now() + END_MAX) {
            Some(status) => format!("ended ({status}) while {when}"),
            None => format!("closed its standard input or output while {when}"),
        }
    }

    /// Ends a program that did not do what was expected: the whole message.
    pub(super) fn blame(&self, why: &str) -> String {
        self.process.kill();
        let last =
            last_line(&self.log).map_or_else(String::new, |line| format!(", which ends with {line:?}"));
        format!(
            "the program `{}` {why}; see {}{last}",
            self.name,
            self.log.display()
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A program that writes, and is no longer read, would not see the end of its input.
        drop((self.input.take(), self.output.take()));
        let _ = self.process.ended_by(Instant::now() + END_MAX);
        // Failing to shorten a log does no harm.
        if let Ok(log) = File::options().write(true).open(&self.log)
            && log
                .metadata()
                .is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX)
        {
            let _ = log.set_len(LOG_BYTES_MAX);
        }
    }
}

fn last_line(log: &PathBuf) -> Option<String> {
    let mut log = File::open(log).ok()?;
    let length = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
        .ok()?;
    let mut bytes = Vec::new();
    log.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    last.map(|line| line.trim().to_owned())
}
