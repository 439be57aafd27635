//! The threads of a load generator that are in this process.
//!
//! Its invariant: threads that are dropped have ended.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread::JoinHandle;

use millpond_press_recorder::{Live, process_tree};
use tokio::sync::mpsc::Sender;

use crate::plan::{Command, Control, Line, Phase, Plan, Report};
use crate::{Cores, Error, Offer, Part};

/// The threads and the way to tell them something.
pub struct Threads {
    handles: Vec<JoinHandle<()>>,
    commands: Vec<mpsc::SyncSender<Command>>,
    control: Arc<Control>,
    part: Part,
    /// Threads of the whole load generator.
    all: usize,
    /// What is offered next, a phase a thread.
    prepared: Vec<Phase>,
}

impl Threads {
    /// Starts those threads of a plan that are in `part`; each gets one of `lives`, and reports why its `body` ended early.
    pub(crate) fn start(
        plan: Plan,
        part: Part,
        body: impl Fn(&Arc<Plan>, Line) -> Result<(), String> + Clone + Send + 'static,
        reports: &Sender<Report>,
        lives: &[Arc<Live>],
    ) -> Result<Threads, Error> {
        let mut threads = Threads {
            handles: Vec::new(),
            commands: Vec::new(),
            control: Arc::default(),
            part,
            all: plan.client_threads,
            prepared: Vec::new(),
        };
        let plan = Arc::new(plan);
        for (index, live) in part.threads(plan.client_threads).zip(lives) {
            // One load and the farewell.
            let (commands, received) = mpsc::sync_channel(2);
            let line = Line {
                index,
                commands: received,
                reports: reports.clone(),
                control: threads.control.clone(),
                live: live.clone(),
            };
            let (plan, body) = (plan.clone(), body.clone());
            let thread = std::thread::Builder::new()
                .name(format!("press-client-{index}"))
                .spawn(move || {
                    let reports = line.reports.clone();
                    if let Err(why) = settle(&plan, index).and_then(|()| body(&plan, line)) {
                        let _ = reports.try_send(Report::Broken(why));
                    }
                });
            let handle = thread.map_err(|error| Error::Thread(error.to_string()))?;
            threads.handles.push(handle);
            threads.commands.push(commands);
        }
        Ok(threads)
    }

    /// Makes the part of each thread in a load.
    ///
    /// # Errors
    /// No schedule can be made of it.
    pub fn prepare(&mut self, offer: &Offer) -> Result<(), Error> {
        self.prepared = offer.phases(self.part.threads(self.all), self.all)?;
        Ok(())
    }

    /// Offers what was prepared. `measure_from` 0 means that the measurement begins later.
    ///
    /// # Errors
    /// A thread has ended.
    pub fn begin(&mut self, begin: u64, measure_from: u64) -> Result<(), Error> {
        self.measure_from(measure_from);
        for (commands, phase) in self.commands.iter().zip(self.prepared.drain(..)) {
            let phase = Phase { begin, ..phase };
            if commands.try_send(Command::Offer(phase)).is_err() {
                return Err(Error::ended());
            }
        }
        self.control.commands.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Tells when the measurement begins.
    pub fn measure_from(&self, from: u64) {
        self.control.measure_from.store(from, Relaxed);
    }

    /// Tells all of them to drop what they do and hand over.
    pub fn stop(&self) {
        self.control.stop.store(true, Relaxed);
    }

    /// The processes that make the calls, where those are not this one's threads.
    pub fn program_pids(&self) -> Vec<u32> {
        match self.control.program.load(Relaxed) {
            0 => Vec::new(),
            pid => process_tree(pid),
        }
    }

    /// Whether all of them run.
    ///
    /// # Errors
    /// One has ended.
    pub fn check_alive(&self) -> Result<(), Error> {
        if self.handles.iter().any(JoinHandle::is_finished) {
            return Err(Error::ended());
        }
        Ok(())
    }
}

/// Binds the calling thread, number `index`, to its core, and lets its timed waits end as soon as the kernel can.
fn settle(plan: &Plan, index: usize) -> Result<(), String> {
    if !plan.client_cpus.is_empty() {
        let core = plan.client_cpus[index % plan.client_cpus.len()];
        let bound = Cores::of(&[core]).and_then(|cores| cores.bind());
        bound.map_err(|error| error.to_string())?;
    }
    // A kernel that refuses leaves the default, up to 50 µs later.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    Ok(())
}

impl Error {
    /// A thread is gone that nobody told to end.
    pub fn ended() -> Error {
        Error::Thread("it ended by itself, which is a defect of press".into())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
        for commands in &self.commands {
            let _ = commands.try_send(Command::Leave);
        }
        self.control.commands.fetch_add(1, Relaxed);
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
    }
}
