//! The page of metrics of several processes: what each has told, what those had counted that are no more, and the parent's own.
//!
//! Its invariant: who asks is answered in time, whichever process does not tell.

use super::{Member, Order, Parent};
use crate::admin::METRICS_TYPE;
use crate::admin::page::Condition;
use crate::log::LogHandle;
use millpond_calls::Ticket;
use millpond_metrics::{Metric, Page};
use std::time::{Duration, Instant};

/// How long processes have to tell their metrics; of one that does not, the last known ones count.
const PAGES_MAX: Duration = Duration::from_secs(1);

/// Who asked for the metrics, and who has not told them yet.
#[derive(Default)]
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) tickets: Vec<Ticket>,
    missing: Vec<usize>,
    pub(super) until: Option<Instant>,
}

impl Parent {
    pub(super) fn ask_for_pages(&mut self) {
        self.round.number += 1;
        self.round.until = Some(Instant::now() + PAGES_MAX);
        let round = self.round.number;
        let asked = self.fleet.workers().filter(|(number, worker)| {
            self.members[*number].life.answers() && worker.tell(Order::Metrics { round })
        });
        self.round.missing = asked.map(|(number, _)| number).collect();
        if self.round.missing.is_empty() {
            self.end_round();
        }
    }

    /// The process has told its metrics of this round, or will not.
    pub(super) fn told(&mut self, number: usize) {
        if self.round.until.is_none() {
            return;
        }
        self.round.missing.retain(|missing| *missing != number);
        if self.round.missing.is_empty() {
            self.end_round();
        }
    }

    pub(super) fn end_round(&mut self) {
        self.round.until = None;
        let tickets = std::mem::take(&mut self.round.tickets);
        let page = self.page().text();
        for ticket in tickets {
            ticket.body(200, METRICS_TYPE, page.as_bytes());
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
        page.part(Parent::METRICS, Some(self));
        let members = self.members.iter().enumerate();
        let members = members.map(|(number, member)| (number.to_string(), member));
        page.parts(Member::METRICS, "process", Some(members));
        page.part(LogHandle::METRICS, Some(&self.beginning.log));
        page.part(Condition::METRICS, Some(&condition));
        let told = self.members.iter().filter_map(|member| member.page.as_ref());
        told.chain([&self.ended]).for_each(|told| page.merge(told));
        page
    }

    const METRICS: &'static [Metric<Parent>] = &[
        Metric::gauge("millpond_processes", "server.processes.", |parent: &Parent| {
            parent.members.len() as f64
        }),
        Metric::counter(
            "millpond_process_restarts_total",
            "Processes that ended by themselves.",
            |parent: &Parent| parent.restarts as f64,
        ),
    ];
}

impl Member {
    const METRICS: &'static [Metric<Member>] = &[
        Metric::gauge(
            "millpond_process_ready",
            "1 while the process is warm and serves.",
            |member: &Member| f64::from(member.life.is_ready()),
        ),
        Metric::gauge(
            "millpond_process_pid",
            "Its number to the system.",
            |member: &Member| member.life.pid.into(),
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
