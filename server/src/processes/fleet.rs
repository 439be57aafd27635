//! The thread that has the processes: starts them, starts those again that died, adds their figures up, stops them.
//!
//! Everything that happens comes to it as an event, so it takes no lock. Its invariant: at any time a number has at most one
//! process, and when the thread ends none is left.

mod beat;
mod stopping;

use super::admin::State;
use super::message::{Order, Said};
use super::running::{Event, Running, Who};
use super::settings::Settings;
use crate::Error;
use crate::access::AllowList;
use crate::admin::page::{self, Condition};
use crate::handlers::tune::{Asked, Setting};
use crate::log::LogHandle;
use crate::watch::BEAT;
use millpond_metrics::{Family, Metric, Page};
use millpond_wire_transport::{Body, Pulses, Ticket};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};
use stopping::Stopping;

/// Pauses before a process is started again: the first, and the longest that they double up to.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(10);
/// A process that was ready for so long has shown that it can live: its next end is a first one.
const SOUND: Duration = Duration::from_secs(30);
/// How long processes have to tell their metrics; of one that does not, the last known ones count.
const PAGES_MAX: Duration = Duration::from_secs(1);

/// Makes the command of the process of this number.
pub(super) type Launch = Box<dyn Fn(usize) -> Command + Send>;

/// What the thread begins with.
pub(super) struct Beginning {
    pub(super) processes: usize,
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
    /// How the start went, told once.
    pub(super) first: SyncSender<Result<(), Error>>,
    pub(super) log: Option<LogHandle>,
}

/// What is known of a number.
#[derive(Default)]
struct Member {
    running: Option<Running>,
    lives: u64,
    /// Ends in a row without a sound life between them.
    failures: u32,
    again_at: Option<Instant>,
    /// What it said last that it has counted.
    page: Option<Page>,
}

pub(super) struct Fleet {
    beginning: Beginning,
    started: Instant,
    members: Vec<Member>,
    /// What processes that have ended had counted.
    ended: Page,
    restarts: u64,
    tuned: Settings,
    round: Round,
    /// All were ready once.
    has_begun: bool,
    /// The stop under way.
    stopping: Option<Stopping>,
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

/// Who asked for the metrics, and who has not told them yet.
#[derive(Default)]
struct Round {
    number: u64,
    tickets: Vec<Ticket>,
    missing: Vec<usize>,
    until: Option<Instant>,
}

impl Fleet {
    pub(super) fn new(beginning: Beginning) -> Fleet {
        let members = std::iter::repeat_with(Member::default).take(beginning.processes);
        Fleet {
            started: Instant::now(),
            members: members.collect(),
            ended: Page::default(),
            restarts: 0,
            tuned: Settings::new(beginning.configured.clone()),
            round: Round::default(),
            has_begun: false,
            stopping: None,
            beat_at: Instant::now() + BEAT,
            beats: 0,
            stuck: Vec::new(),
            left: Vec::new(),
            families: page::families(),
            beginning,
        }
    }

    /// Runs until every process has ended, or a stop is over; what was not finished.
    pub(super) fn run(mut self) -> Vec<String> {
        // The first one alone: what is wrong is said once, and what it reads is in memory for the others.
        self.start(0);
        while !self.is_over() {
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
        let again = self.members.iter().filter_map(|member| member.again_at);
        // A drain may take long: this thread turns all the while, or the admin port would say that it does not.
        let turn = |stopping: &Stopping| stopping.next().min(Instant::now() + BEAT);
        let always = self.stopping.as_ref().map_or(self.beat_at, turn);
        let due = again.chain(self.round.until).fold(always, Instant::min);
        due.saturating_duration_since(Instant::now())
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Said { who, said } if self.is_current(who) => self.said(who, said),
            Event::Gone(who) if self.is_current(who) => self.gone(who),
            Event::Said { .. } | Event::Gone(_) => {}
            Event::Page(ticket) => {
                self.round.tickets.push(ticket);
                if self.round.until.is_none() {
                    self.ask_for_pages();
                }
            }
            Event::Reload => self.reload(),
            Event::Stop => self.stop(),
            Event::Kill => self.stop_at_once(),
        }
    }

    fn is_current(&self, who: Who) -> bool {
        let member = &self.members[who.number];
        member.running.is_some() && member.lives == who.life
    }

    fn on_time(&mut self, now: Instant) {
        self.beat_on_time(now);
        if self.round.until.is_some_and(|until| now >= until) {
            self.end_round();
        }
        self.stop_on_time(now);
        for number in 0..self.members.len() {
            if self.members[number].again_at.is_some_and(|at| now >= at) {
                self.members[number].again_at = None;
                self.start(number);
            }
        }
    }

    fn start(&mut self, number: usize) {
        let member = &mut self.members[number];
        member.lives += 1;
        let who = Who {
            number,
            life: member.lives,
        };
        let command = (self.beginning.launch)(number);
        match Running::start(command, who, &self.beginning.events) {
            Ok(running) => {
                tracing::info!(process = number, pid = running.pid(), "started");
                member.running = Some(running);
            }
            Err(error) => self.failed(number, error),
        }
    }

    fn said(&mut self, who: Who, said: Said) {
        self.heard_of(who.number);
        match said {
            Said::Warm => self.warm(who.number),
            Said::Ready => self.ready(who.number),
            Said::Beats { why_not_ready } => self.has_beaten(who.number, why_not_ready.as_deref()),
            Said::Metrics { round, values } => {
                self.members[who.number].page = Some(Page::from_values(values, &self.families));
                if round == self.round.number {
                    self.told(who.number);
                }
            }
            Said::Tune {
                asked,
                key,
                value,
                keeps,
            } => self.tune(who, asked, Asked::read(&key, &value, keeps)),
        }
    }

    /// Decides what a call at one process asks for, and tells all of them: calls that cross have one order, which is this one's.
    fn tune(&mut self, who: Who, asked: u64, call: Result<Asked, String>) {
        let changed =
            call.and_then(|call| self.tuned.change(&call).map_err(|problem| call.refusal(&problem)));
        for (number, member) in self.members.iter_mut().enumerate() {
            let running = member.running.as_mut();
            let Some(running) = running.filter(|running| running.is_warm) else {
                continue;
            };
            let asked = Some(asked).filter(|_| number == who.number);
            match (&changed, asked) {
                (Ok(setting), asked) => must_hear(running, set(setting, asked)),
                (Err(problem), Some(asked)) => {
                    let problem = problem.clone();
                    must_hear(running, Order::Refuse { asked, problem });
                }
                (Err(_), None) => {}
            }
        }
    }

    /// A process may accept when it is as the others are.
    fn warm(&mut self, number: usize) {
        let Some(running) = &mut self.members[number].running else {
            return;
        };
        running.is_warm = true;
        for setting in self.tuned.iter() {
            must_hear(running, set(setting, None));
        }
        must_hear(running, Order::Serve);
    }

    fn ready(&mut self, number: usize) {
        let member = &mut self.members[number];
        let Some(running) = &mut member.running else {
            return;
        };
        running.ready_since = Some(Instant::now());
        if self.stopping.is_some() {
            running.tell(Order::Stop);
        }
        tracing::info!(process = number, pid = running.pid(), "ready");
        if !self.has_begun && number == 0 && self.stopping.is_none() {
            for other in 1..self.members.len() {
                self.start(other);
            }
        }
        self.publish();
    }

    /// Tells whoever looks whether all are ready.
    fn publish(&mut self) {
        let all = self.stopping.is_none() && self.members.iter().all(Member::is_ready);
        self.beginning.state.set_ready(all);
        if all && !self.has_begun {
            self.has_begun = true;
            let _ = self.beginning.first.try_send(Ok(()));
        }
    }

    fn gone(&mut self, who: Who) {
        let member = &mut self.members[who.number];
        if let Some(page) = member.page.take() {
            self.ended.merge(&page.without_gauges());
        }
        let Some(running) = member.running.take() else {
            return;
        };
        let (pid, ready_since) = (running.pid(), running.ready_since);
        let status = match running.end() {
            Ok(status) => status,
            Err(error) => return self.failed(who.number, Error::Process(format!("process {pid}: {error}"))),
        };
        if self.stopping.is_some() {
            if !status.success() {
                self.left
                    .push(format!("process {} (pid {pid}) ended with {status}", who.number));
            }
            self.told(who.number);
            return self.publish();
        }
        if ready_since.is_some_and(|since| since.elapsed() >= SOUND) {
            member.failures = 0;
        }
        let when = match ready_since {
            Some(_) => "while it served",
            None => "before it was ready; what it said of it stands above",
        };
        let number = who.number;
        self.failed(
            number,
            Error::Process(format!("process {number} (pid {pid}) ended with {status} {when}")),
        );
    }

    /// A process is not there: at the start that is the end of all, later it is started again.
    fn failed(&mut self, number: usize, error: Error) {
        self.told(number);
        if !self.has_begun {
            self.left.push(format!("process {number}"));
            let _ = self.beginning.first.try_send(Err(error));
            self.stop();
            return;
        }
        if self.stopping.is_none() {
            let member = &mut self.members[number];
            let pause = (AGAIN_FIRST * 2_u32.saturating_pow(member.failures.min(16))).min(AGAIN_MAX);
            member.failures += 1;
            member.again_at = Some(Instant::now() + pause);
            self.restarts += 1;
            let pause_ms = pause.as_millis() as u64;
            tracing::error!(process = number, pause_ms, "{error}; it is started again");
        }
        self.publish();
    }

    fn reload(&mut self) {
        tracing::info!("the processes read their files again");
        for member in &mut self.members {
            if let Some(running) = &mut member.running {
                must_hear(running, Order::Reload);
            }
        }
    }

    fn ask_for_pages(&mut self) {
        self.round.number += 1;
        self.round.until = Some(Instant::now() + PAGES_MAX);
        let round = self.round.number;
        self.round.missing = (0..self.members.len())
            .filter(|&number| {
                let member = &self.members[number];
                let running = member.running.as_ref().filter(|_| member.answers());
                running.is_some_and(|running| running.tell(Order::Metrics { round }))
            })
            .collect();
        if self.round.missing.is_empty() {
            self.end_round();
        }
    }

    /// The process has told its metrics of this round, or will not.
    fn told(&mut self, number: usize) {
        if self.round.until.is_none() {
            return;
        }
        self.round.missing.retain(|missing| *missing != number);
        if self.round.missing.is_empty() {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        self.round.until = None;
        let tickets = std::mem::take(&mut self.round.tickets);
        let page = self.page().text();
        for ticket in tickets {
            ticket.body(&Body {
                status: 200,
                content_type: crate::admin::METRICS_TYPE,
                bytes: page.as_bytes(),
            });
        }
    }

    /// What is known here, what all processes told last, and what those had counted that are no more.
    fn page(&self) -> Page {
        let condition = Condition {
            ready: self.beginning.state.is_ready(),
            threads_stuck: self.stuck.len(),
            uptime_s: self.started.elapsed().as_secs_f64(),
        };
        let mut page = Page::default();
        page.part(Fleet::METRICS, self);
        let members = self.members.iter().enumerate();
        let members = members.map(|(number, member)| (number.to_string(), member));
        page.parts(Member::METRICS, "process", members);
        page.part(LogHandle::METRICS, &self.beginning.log);
        page.part(Condition::METRICS, &condition);
        let told = self.members.iter().filter_map(|member| member.page.as_ref());
        told.chain([&self.ended]).for_each(|told| page.merge(told));
        page
    }

    const METRICS: &'static [Metric<Fleet>] = &[
        Metric::gauge("millpond_processes", "server.processes.", |fleet: &Fleet| {
            fleet.members.len() as f64
        }),
        Metric::counter(
            "millpond_process_restarts_total",
            "Processes that ended by themselves.",
            |fleet: &Fleet| fleet.restarts as f64,
        ),
    ];
}

impl Member {
    const METRICS: &'static [Metric<Member>] = &[
        Metric::gauge(
            "millpond_process_ready",
            "1 while the process is warm and serves.",
            |member: &Member| f64::from(member.is_ready()),
        ),
        Metric::gauge(
            "millpond_process_pid",
            "Its number to the system.",
            |member: &Member| member.running.as_ref().map_or(0, Running::pid).into(),
        ),
        Metric::gauge(
            "millpond_process_connections",
            "Its connections.",
            |member: &Member| {
                let told = member.page.as_ref();
                told.and_then(|page| page.value("millpond_connections"))
                    .unwrap_or(0.0)
            },
        ),
    ];
}

fn set(setting: &Setting, asked: Option<u64>) -> Order {
    let setting = setting.clone();
    Order::Set { setting, asked }
}

/// Tells a process what it must not miss. One that has not read for so long is ended: it would differ from the others for
/// good, and does not when it has started again.
fn must_hear(running: &mut Running, order: Order) {
    if !running.tell(order) {
        tracing::error!(
            pid = running.pid(),
            "a process does not read what all are told; it is killed"
        );
        running.kill();
    }
}

#[cfg(test)]
mod tests;
