//! One server that runs: the binary as anybody starts it, seen through its ports, its signals and /proc.
//!
//! Its invariant: dropping it leaves no process of it behind.

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// A process says whether it serves within this time, on any machine.
const START_MAX: Duration = Duration::from_secs(60);

/// Where a server runs and how.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// The binary.
    pub millpond: &'a Path,
    /// The folder with the configuration.
    pub folder: &'a Path,
    /// 1, or several behind a parent.
    pub processes: u32,
    /// The round: names its log.
    pub round: u64,
    /// Settings beside those of the configuration.
    pub set: &'a [String],
}

/// A running server.
pub struct Server {
    child: Mutex<Child>,
    pid: Pid,
    processes: u32,
    /// The port for frames, HTTP and WebSockets.
    pub plain: SocketAddr,
    /// The same by TLS.
    pub tls: SocketAddr,
    /// Health and metrics.
    pub admin: SocketAddr,
    /// Where its standard error goes.
    pub stderr: PathBuf,
    /// Its log.
    pub log: PathBuf,
}

/// A start that has not said yet whether it serves.
pub struct Starting {
    child: Child,
    processes: u32,
    stderr: PathBuf,
    log: PathBuf,
}

impl Launch<'_> {
    /// Starts the process.
    ///
    /// # Errors
    /// The binary cannot be run.
    pub fn begin(&self) -> anyhow::Result<Starting> {
        let (stderr, log) = (
            self.folder.join(format!("stderr-{}.txt", self.round)),
            self.folder.join(format!("millpond-{}.log", self.round)),
        );
        // Several processes share no port 0.
        let port = || -> anyhow::Result<u16> {
            Ok(match self.processes {
                1 => 0,
                _ => TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
            })
        };
        // Files that may not grow are an error of the write to it, and no signal: whoever limits them has said so.
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(self.millpond)
            .args(["serve", "--config"])
            .arg(self.folder.join("millpond.toml"))
            .args(["--set", &format!("server.listen=127.0.0.1:{}", port()?)])
            .args(["--set", &format!("server.tls.listen=127.0.0.1:{}", port()?)])
            .args(["--set", "admin.listen=127.0.0.1:0"])
            .args(["--set", &format!("log.file=millpond-{}.log", self.round)])
            .args(["--set", &format!("server.processes={}", self.processes)])
            .args(self.set.iter().flat_map(|set| ["--set", set]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&stderr)?);
        let child = command.spawn().context("cannot start the server")?;
        Ok(Starting {
            child,
            processes: self.processes,
            stderr,
            log,
        })
    }
}

impl Starting {
    /// Waits until it says where it serves.
    ///
    /// # Errors
    /// It ended instead; what it said.
    pub fn ready(mut self) -> anyhow::Result<Server> {
        let stdout = self.child.stdout.take().context("no standard output")?;
        let pid = Pid::from_child(&self.child);
        let (told, said) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = told.send(line);
        });
        let line = said.recv_timeout(START_MAX).unwrap_or_default();
        let Some((plain, admin, tls)) = addresses(&line) else {
            let _ = self.child.kill();
            let status = self.child.wait()?;
            let stderr = std::fs::read_to_string(&self.stderr).unwrap_or_default();
            anyhow::bail!("it did not start ({status}): {}", stderr.trim());
        };
        Ok(Server {
            child: Mutex::new(self.child),
            pid,
            processes: self.processes,
            plain,
            tls,
            admin,
            stderr: self.stderr,
            log: self.log,
        })
    }

    /// kill -9; returns how it ended.
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

/// The addresses in the one line that a server prints.
fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr, SocketAddr)> {
    let rest = line.trim().strip_prefix("millpond serves on ")?;
    let (plain, rest) = rest.split_once(", health and metrics on ")?;
    let (admin, tls) = rest.split_once(", TLS on ")?;
    Some((plain.parse().ok()?, admin.parse().ok()?, tls.parse().ok()?))
}

impl Server {
    /// The process that was started: the server, or the parent of several.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// How many processes serve.
    pub fn processes(&self) -> u32 {
        self.processes
    }

    /// Sends a signal to the process that was started.
    pub fn signal(&self, signal: Signal) {
        // It may have ended by itself, which another check tells of.
        let _ = kill_process(self.pid, signal);
    }

    /// The status if it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    pub fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            match self.ended() {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                ended => return ended,
            }
        }
    }

    /// The processes that serve: its children where there are several, else itself.
    pub fn members(&self) -> Vec<Pid> {
        match self.processes {
            1 => vec![self.pid],
            _ => children(self.pid),
        }
    }

    /// Resident bytes of it and its processes.
    pub fn resident_bytes(&self) -> u64 {
        let others = if self.processes == 1 {
            Vec::new()
        } else {
            children(self.pid)
        };
        resident_bytes(self.pid) + others.into_iter().map(resident_bytes).sum::<u64>()
    }

    /// Status and body of a GET on the admin port.
    ///
    /// # Errors
    /// It did not answer in this time.
    pub fn admin_get(&self, path: &str, limit: Duration) -> io::Result<(u16, String)> {
        let mut stream = TcpStream::connect_timeout(&self.admin, limit)?;
        stream.set_read_timeout(Some(limit))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.admin
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        match (status, body) {
            (Some(status), Some(body)) => Ok((status, body)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// What it said of panics, on standard error or in the log.
    pub fn panics(&self) -> Vec<String> {
        let mut found = Vec::new();
        for file in [&self.stderr, &self.log] {
            let bytes = std::fs::read(file).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let told = text.lines().filter(|line| line.contains("panicked"));
            found.extend(told.take(5).map(str::to_owned));
        }
        found
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.ended().is_none() {
            for member in self.members() {
                let _ = kill_process(member, Signal::KILL);
            }
            let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether a status is that of the signal.
pub fn ended_by(status: ExitStatus, signal: Signal) -> bool {
    status.signal() == Some(signal.as_raw())
}

/// Whether a process runs; one that has ended and was not waited for does not.
pub fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn children(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_nonzero();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(
            text.split_whitespace()
                .filter_map(|pid| Pid::from_raw(pid.parse().ok()?)),
        );
    }
    found
}

fn resident_bytes(pid: Pid) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
