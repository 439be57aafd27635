//! A program of the user's own that makes the calls itself, in any language: docs/formats/press-program.md.
//!
//! So a library without a network, or a peer's own client, is pressed beside everything else. A thread of press speaks with the
//! program and counts what it tells. Its invariant: what is counted is what as many callers can do in a closed loop; a program
//! that tells anything else, or nothing any more, ends the run.

mod counted;
mod frame;
mod running;

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millpond_press_recorder::Live;
use tokio::sync::mpsc::Sender;

use crate::kind::{Given, Takes, Target, TargetKind};
use crate::plan::{Amount, Command, Line, Phase, Plan, Report};
use crate::{Cores, Error, Part, Threads};
use counted::Counted;
use frame::Frame;
use running::Running;

pub(super) const KIND: TargetKind = TargetKind {
    verified: |_| ", and right as the program says",
    ..TargetKind::new(&["program"], TAKES, |_| {
        Ok(Arc::new(Arc::new(Program::default())))
    })
};

const TAKES: Takes = Takes {
    program: true,
    ..Takes::NONE
};

/// The thread sleeps so long where the program has said nothing: it wakes seldom, and the pipe is not full by then.
const NAP: Duration = Duration::from_millis(2);
/// How long a program may take to end its calls when somebody waits at a terminal.
const STOP_MAX: Duration = Duration::from_secs(2);

/// What a program is started with: a scenario's words with their placeholders filled.
#[derive(Debug, Clone)]
pub struct ProgramStart {
    /// The command.
    pub words: Vec<String>,
    /// What is added to its environment.
    pub env: Vec<(String, String)>,
    /// The cores that it is bound to.
    pub cores: Cores,
    /// Where its standard error goes.
    pub log: PathBuf,
    /// How long it may take to get ready.
    pub ready_max: Duration,
}

/// A program that is started when its callers are wanted.
#[derive(Default)]
struct Program(Mutex<Option<ProgramStart>>);

impl Target for Arc<Program> {
    fn open(&self, program: Option<&ProgramStart>) -> Result<(), String> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = program.cloned();
        Ok(())
    }

    fn fill(&self, _: &Given<'_>, _: Option<std::net::SocketAddr>, _: Duration) -> Result<(), String> {
        Err("a program takes no writes".into())
    }

    fn drive(
        &self,
        plan: Plan,
        part: Part,
        reports: &Sender<Report>,
        lives: &[Arc<Live>],
    ) -> Result<Threads, Error> {
        let start = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let start = start.ok_or_else(|| Error::Thread("the program was not opened".into()))?;
        let body = move |plan: &Arc<Plan>, line| run(&start, plan, line);
        Threads::start(plan, part, body, reports, lives)
    }
}

/// The body of the thread: starts the program, offers what it is told, and ends both.
fn run(start: &ProgramStart, plan: &Arc<Plan>, line: Line) -> Result<(), String> {
    // It is no generator of load, so how it fares is no evidence; a system that refuses leaves its name.
    let _ = rustix::thread::set_name(c"press-program");
    let mut running = Running::start(start)?;
    line.control.program.store(running.pid(), Relaxed);
    let spoken = speak(&mut running, start, plan, &line);
    line.control.program.store(0, Relaxed);
    spoken.map_err(|why| running.blame(&why))
}

fn speak(running: &mut Running, start: &ProgramStart, plan: &Arc<Plan>, line: &Line) -> Result<(), String> {
    let callers = plan.connections;
    running.tell(&format!("{{\"press\": 1, \"callers\": {callers}}}\n"))?;
    if !ready(running, start.ready_max, line)? {
        return Ok(());
    }
    line.live.connected.store(callers as u64, Relaxed);
    let _ = line.reports.try_send(Report::Ready {
        opened: callers as u64,
        failure: None,
    });
    let mut counted = Counted::new(plan, &line.live)?;
    while let Ok(Command::Offer(phase)) = line.commands.recv() {
        offer(running, &mut counted, plan, line, &phase)?;
        let handed = counted.hand_over();
        let _ = line.reports.try_send(Report::Done(Box::new(handed)));
    }
    Ok(())
}

/// Waits until the program is ready; false if somebody stopped it meanwhile.
fn ready(running: &mut Running, ready_max: Duration, line: &Line) -> Result<bool, String> {
    let deadline = Instant::now() + ready_max;
    while !line.control.stop.load(Relaxed) {
        running.hear()?;
        match running.next()? {
            Some(Frame::Ready) => return Ok(true),
            Some(other) => return Err(format!("said {} first, expected ready", other.name())),
            None if Instant::now() >= deadline => {
                return Err(format!("was not ready after {} s", ready_max.as_secs_f64()));
            }
            None => std::thread::sleep(NAP),
        }
    }
    Ok(false)
}

/// One load, from `go` to done.
fn offer(
    running: &mut Running,
    counted: &mut Counted,
    plan: &Plan,
    line: &Line,
    phase: &Phase,
) -> Result<(), String> {
    let Amount::For(span) = phase.amount else {
        return Err("takes no fixed number of requests".into());
    };
    let wait = phase.begin.saturating_sub(plan.clock.now());
    std::thread::sleep(Duration::from_nanos(wait));
    counted.begin(plan.clock.now());
    running.tell("go\n")?;
    let mut said = Instant::now();
    let mut stopped: Option<(Instant, Duration)> = None;
    loop {
        running.hear()?;
        // After what was read: what it tells had ended before the measurement was known of.
        let from = line.control.measure_from.load(Relaxed);
        counted.measure((from != 0).then_some(from), span);
        let (mut is_done, mut is_silent) = (false, true);
        while let Some(frame) = running.next()? {
            is_silent = false;
            is_done |= counted.take(frame)?;
        }
        match is_silent {
            true => std::thread::sleep(NAP),
            false => said = Instant::now(),
        }
        let now = plan.clock.now();
        counted.roll(now);
        match stopped {
            Some(_) if is_done => return Ok(()),
            Some((at, max)) if at.elapsed() >= max => {
                return Err(format!("did not say done within {max:?} of `stop`"));
            }
            None if is_done => return Err("said done before it was told to stop".into()),
            None if counted.is_over(now) || line.control.stop.load(Relaxed) => {
                running.tell("stop\n")?;
                let max = match counted.is_over(now) {
                    true => plan.timeout,
                    false => STOP_MAX.min(plan.timeout),
                };
                stopped = Some((Instant::now(), max));
            }
            None if said.elapsed() >= plan.timeout => {
                let timeout = plan.timeout;
                return Err(format!("told nothing for {timeout:?} (target.timeout_ms)"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
