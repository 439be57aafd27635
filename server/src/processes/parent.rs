//! The thread that has the processes: starts them, starts those again that died, adds their figures up, stops them.
//!
//! Everything that happens comes to it as an event, so it takes no lock. Its invariant: when it ends, no process is left
//! that it could end.

mod heartbeat;
mod pages;
mod switches;

use super::admin::State;
use super::folder::Folder;
use super::message::{Order, Report};
use super::settings::Settings;
use crate::Error;
use crate::admin::page;
use crate::log::LogHandle;
use crate::stop::{GONE_LATE, KILL_LATE};
use crate::switch::Refusal;
use crate::tune::{Asked, Setting};
use crate::watch::BEAT;
use millpond_calls::Ticket;
use millpond_calls::access::AllowList;
use millpond_fleet::{Fleet, Heard, Stopper, Who, Worker, ended_in_order};
use millpond_metrics::{Family, Page};
use millpond_net::Pulses;
use pages::Round;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};
use switches::Switches;

/// A process that was ready for so long has shown that it can live: its next end is a first one.
const SOUND: Duration = Duration::from_secs(30);

/// Makes the command of the process of this number.
pub(super) type Launch = Box<dyn Fn(usize) -> Command + Send>;

/// What the parent's thread hears.
pub(super) enum Event {
    /// Of a process.
    Heard(Who, Heard<Report>),
    /// Somebody asks for the metrics.
    Page(Ticket),
    /// The step of the switch of that number that cannot be taken back is taken, or was refused.
    Decided(u64, Result<Option<String>, Refusal>),
    /// Files are to be read again.
    Reload,
    /// Everything is to stop.
    Stop,
}

/// What the thread begins with.
pub(super) struct Beginning {
    pub(super) drain_max: Duration,
    pub(super) launch: Launch,
    pub(super) events: SyncSender<Event>,
    pub(super) heard: Receiver<Event>,
    /// Whether all are ready, and this thread turns.
    pub(super) state: Arc<State>,
    /// The parent's own threads.
    pub(super) admin: Pulses,
    /// Who may call before anything is tuned.
    pub(super) configured: AllowList,
    /// How the start went, told once: when all were ready, or one failed.
    pub(super) first: Option<SyncSender<Result<(), Error>>>,
    pub(super) log: Option<LogHandle>,
    /// Where the process that has the ordered stores listens for the others, where there are any stores.
    pub(super) stores: Option<Folder>,
}

/// What is known of a number beside its process.
#[derive(Default)]
struct Member {
    life: Life,
    /// What it said last that it has counted.
    page: Option<Page>,
}

/// What is known of a process.
#[derive(Default)]
struct Life {
    pid: u32,
    /// It has been told what was tuned until then, and is told what is from then on.
    is_warm: bool,
    /// Since when it accepts.
    ready_since: Option<Instant>,
    /// It has left the last questions unanswered.
    is_silent: bool,
    /// How often in a row it has said that it is not ready, and why.
    unfit: u32,
    why_unfit: String,
    /// It was killed, and its end is still to come.
    is_killed: bool,
}

impl Life {
    /// It accepts, and has said something lately.
    fn answers(&self) -> bool {
        self.ready_since.is_some() && !self.is_silent
    }

    /// It does, and its threads turn.
    fn is_ready(&self) -> bool {
        self.why_not_ready().is_none()
    }

    /// Why no call should go to it, if there is a reason.
    fn why_not_ready(&self) -> Option<&str> {
        match self {
            Life { pid: 0, .. } => Some("is not running"),
            Life {
                ready_since: None, ..
            } => Some("is starting"),
            Life { is_silent: true, .. } => Some("does not answer its parent"),
            Life { unfit: 0, .. } => None,
            _ => Some(&self.why_unfit),
        }
    }
}

pub(super) struct Parent {
    beginning: Beginning,
    started: Instant,
    fleet: Fleet<Order>,
    members: Vec<Member>,
    /// What processes that have ended had counted.
    ended: Page,
    restarts: u64,
    tuned: Settings,
    switches: Switches,
    round: Round,
    /// The parent's own threads that did not turn last.
    stuck: Vec<String>,
    /// When the processes are asked next whether they still answer.
    beat_at: Instant,
    /// Questions that all were asked.
    beats: usize,
    /// What the stop found unfinished.
    left: Vec<String>,
    /// What processes count.
    families: Vec<&'static Family>,
}

impl Parent {
    pub(super) fn new(count: usize, beginning: Beginning) -> Parent {
        Parent {
            started: Instant::now(),
            members: (0..count).map(|_| Member::default()).collect(),
            fleet: Fleet::new(count),
            ended: Page::default(),
            restarts: 0,
            tuned: Settings::new(beginning.configured.clone()),
            switches: Switches::default(),
            round: Round::default(),
            beat_at: Instant::now() + BEAT,
            beats: 0,
            stuck: Vec::new(),
            left: Vec::new(),
            families: page::metrics(None).declared(),
            beginning,
        }
    }

    /// What stops the processes from other threads.
    pub(super) fn stopper(&self) -> Stopper {
        self.fleet.stopper()
    }

    /// Runs until every process has ended, or a stop is over; what was not finished.
    pub(super) fn run(mut self) -> Vec<String> {
        // The first one alone: what is wrong is said once, and what it reads is in memory for the others.
        self.start(0);
        while !self.fleet.has_stopped(&mut self.left) {
            self.beginning.state.beat();
            match self.beginning.heard.recv_timeout(self.wait()) {
                Ok(event) => self.on(event),
                Err(RecvTimeoutError::Timeout) => {}
                // It holds a sender itself, so this does not happen.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.on_time(Instant::now());
        }
        self.publish();
        self.left
    }

    /// How long nothing is due.
    fn wait(&self) -> Duration {
        // A drain may take long: this thread turns all the while, or the admin port would say that it does not.
        let always = match self.fleet.is_stopping() {
            true => Instant::now() + BEAT,
            false => self.beat_at,
        };
        let due = self.fleet.due().into_iter().chain(self.round.until);
        due.fold(always, Instant::min)
            .saturating_duration_since(Instant::now())
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Heard(who, heard) if self.fleet.is_current(who) => match heard {
                Heard::Said(said) => self.said(who, said),
                Heard::Gone(why) => self.gone(who.number, why),
            },
            Event::Heard(..) => {}
            Event::Page(ticket) => {
                self.round.tickets.push(ticket);
                if self.round.until.is_none() {
                    self.ask_for_pages();
                }
            }
            Event::Decided(number, decision) => self.decided(number, decision),
            Event::Reload => {
                tracing::info!("the processes read their files again");
                self.fleet
                    .workers()
                    .for_each(|(_, worker)| must_hear(worker, Order::Reload));
            }
            Event::Stop => self.stop(),
        }
    }

    fn on_time(&mut self, now: Instant) {
        if !self.fleet.is_stopping() && now >= self.beat_at {
            self.beat_at = now + BEAT;
            self.beat();
        }
        if self.round.until.is_some_and(|until| now >= until) {
            self.end_round();
        }
        self.end_late_switch(now);
        while let Some(number) = self.fleet.take_due(now) {
            self.start(number);
        }
    }

    fn start(&mut self, number: usize) {
        let command = (self.beginning.launch)(number);
        let events = self.beginning.events.clone();
        let heard = move |who, heard| {
            // Where it fails, the parent has ended.
            let _ = events.send(Event::Heard(who, heard));
        };
        match self.fleet.start(number, command, heard) {
            Ok(worker) => {
                let pid = worker.process().pid();
                tracing::info!(process = number, pid, "started");
                let serving = self.switches.serving().clone();
                let stores = self.beginning.stores.as_ref().map(Folder::socket);
                must_hear(worker, Order::Begin { serving, stores });
                self.members[number].life = Life {
                    pid,
                    ..Life::default()
                };
            }
            Err(error) => self.failed(
                number,
                false,
                format!("process {number} cannot be started: {error}; see `millpond doctor` for the limits"),
            ),
        }
    }

    fn stop(&mut self) {
        if self.fleet.is_stopping() {
            return;
        }
        tracing::info!("stopping the processes");
        let drained = Instant::now() + self.beginning.drain_max;
        self.fleet.stop(drained + KILL_LATE, drained + GONE_LATE);
        self.publish();
    }

    fn said(&mut self, who: Who, said: Report) {
        let number = who.number;
        self.heard_of(number);
        match said {
            Report::Warm { serving } => {
                self.switches.learn(serving);
                self.warm(number);
            }
            Report::Ready => self.ready(number),
            Report::Beats { why_not_ready } => self.has_beaten(number, why_not_ready.as_deref()),
            Report::Metrics { round, values } => {
                self.members[number].page = Some(Page::from_values(values, &self.families));
                if round == self.round.number {
                    self.told(number);
                }
            }
            Report::Tune {
                asked,
                key,
                value,
                keeps,
            } => self.tune(number, asked, Asked::read(&key, &value, keeps)),
            Report::Switch { asked, plan } => self.switch(number, asked, plan),
            Report::Opened { switch, refusal } => self.opened(number, switch, refusal),
            Report::Closed { switch } => self.closed(number, switch),
        }
    }

    /// Decides what a call at one process asks for, and tells all of them: calls that cross have one order, which is this one's.
    fn tune(&mut self, asks: usize, asked: u64, call: Result<Asked, String>) {
        let changed =
            call.and_then(|call| self.tuned.change(&call).map_err(|problem| call.refusal(&problem)));
        for (number, worker) in self.fleet.workers() {
            if !self.members[number].life.is_warm {
                continue;
            }
            let asked = Some(asked).filter(|_| number == asks);
            match (&changed, asked) {
                (Ok(setting), asked) => must_hear(worker, set(setting, asked)),
                (Err(problem), Some(asked)) => {
                    let problem = problem.clone();
                    must_hear(worker, Order::Refuse { asked, problem });
                }
                (Err(_), None) => {}
            }
        }
    }

    /// A process may accept when it is as the others are.
    fn warm(&mut self, number: usize) {
        if self.switches.waits_for_end(number) {
            return;
        }
        let Some(worker) = self.fleet.worker(number) else {
            return;
        };
        self.members[number].life.is_warm = true;
        for setting in self.tuned.iter() {
            must_hear(worker, set(setting, None));
        }
        let serving = self.switches.serving().clone();
        must_hear(worker, Order::Serve { serving });
    }

    fn ready(&mut self, number: usize) {
        let life = &mut self.members[number].life;
        life.ready_since = Some(Instant::now());
        tracing::info!(process = number, pid = life.pid, "ready");
        if self.beginning.first.is_some() && number == 0 && !self.fleet.is_stopping() {
            for other in 1..self.members.len() {
                self.start(other);
            }
        }
        self.publish();
    }

    /// Says on the admin port which processes are not ready, and why.
    fn publish(&mut self) {
        let members = self.members.iter().enumerate();
        let reasons = members.filter_map(|(number, member)| {
            let why = member.life.why_not_ready()?;
            Some(format!("process {number} {why}"))
        });
        let why_not_ready = match self.fleet.is_stopping() {
            true => "it is stopping".to_owned(),
            false => reasons.collect::<Vec<_>>().join(", "),
        };
        let all = why_not_ready.is_empty();
        self.beginning.state.set((!all).then_some(why_not_ready));
        if let Some(first) = self.beginning.first.take_if(|_| all) {
            let _ = first.try_send(Ok(()));
        }
    }

    fn gone(&mut self, number: usize, why: Option<String>) {
        if let Some(why) = why {
            tracing::error!(process = number, "{why}");
        }
        let member = &mut self.members[number];
        if let Some(page) = member.page.take() {
            self.ended.merge(&page.without_gauges());
        }
        let life = std::mem::take(&mut member.life);
        self.left_switch(number);
        let Some((pid, status)) = self.fleet.take(number) else {
            return;
        };
        let how = match status {
            Some(status) => format!("process {number} (pid {pid}) ended with {status}"),
            None => format!("process {number} (pid {pid}) cannot be ended; it is left behind"),
        };
        if self.fleet.is_stopping() {
            if !status.is_some_and(ended_in_order) {
                self.left.push(how);
            }
            self.told(number);
            return self.publish();
        }
        let (when, was_sound) = match life.ready_since {
            Some(since) => ("while it served", since.elapsed() >= SOUND),
            None => ("before it was ready; what it said of it stands above", false),
        };
        self.failed(number, was_sound, format!("{how} {when}"));
    }

    /// A process is not there: at the start that is the end of all, later it is started again.
    fn failed(&mut self, number: usize, was_sound: bool, error: String) {
        self.told(number);
        if let Some(first) = self.beginning.first.take() {
            self.left.push(format!("process {number}"));
            let _ = first.try_send(Err(Error::Process(error)));
            self.stop();
            return;
        }
        if !self.fleet.is_stopping() {
            let pause_ms = self.fleet.plan(number, was_sound).as_millis() as u64;
            self.restarts += 1;
            tracing::error!(process = number, pause_ms, "{error}; it is started again");
        }
        self.publish();
    }
}

fn set(setting: &Setting, asked: Option<u64>) -> Order {
    let setting = setting.clone();
    Order::Set { setting, asked }
}

/// Tells a process what it must not miss. One that has not read for so long is ended: it would differ from the others for
/// good, and does not when it has started again.
fn must_hear(worker: &Worker<Order>, order: Order) {
    if !worker.tell(order) {
        let pid = worker.process().pid();
        tracing::error!(pid, "a process does not read what all are told; it is killed");
        worker.process().kill();
    }
}

#[cfg(test)]
mod tests;
