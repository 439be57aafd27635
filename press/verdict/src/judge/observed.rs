//! The figures of a point that verdicts are made from, each a mean over its seconds or a sum over its threads.
//!
//! Its invariant: a figure that was not measured is 0, and `knows_server` says whether the server's could be.

use crate::Point;
use millpond_press_recorder::{ResourceSecond, Side, ThreadUse};

use super::in_states;

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(super) knows_server: bool,
    /// Percent of one core, whole server.
    pub(super) server_total: f64,
    /// Its busiest thread.
    pub(super) server_thread: f64,
    pub(super) server_thread_name: String,
    /// Runnable but not running, summed over its threads, in percent of the time.
    pub(super) server_wait: f64,
    /// How many of its threads were in a state at any moment.
    pub(super) server_running: f64,
    pub(super) server_futex: f64,
    pub(super) server_sleep: f64,
    pub(super) server_disk: f64,
    pub(super) server_poll: f64,
    /// The busiest client thread, and the one that waited most, in percent.
    pub(super) client_thread: f64,
    pub(super) client_wait: f64,
    /// Processor time of the client threads without idle looking, in percent of a core each.
    pub(super) client_busy: f64,
    pub(crate) steal: f64,
    pub(super) foreign: f64,
    pub(super) machine: f64,
    pub(super) cores: f64,
    pub(super) overflows: f64,
    pub(super) accept_queue: f64,
    pub(super) send_queue: f64,
    /// The share of the looks at which something was in the send queues.
    pub(super) send_queue_share: f64,
    pub(super) receive_queue: f64,
    pub(super) retransmits: f64,
    pub(super) bytes: f64,
    /// Requests on their way, on average.
    pub(super) outstanding: f64,
    server_threads: Vec<ThreadUse>,
}

impl Observed {
    pub(crate) fn of(point: &Point) -> Observed {
        let seconds = &point.resources.seconds;
        let mean = |figure: &dyn Fn(&ResourceSecond) -> Option<f64>| mean(seconds.iter().filter_map(figure));
        let mut seen = Observed {
            knows_server: seconds.iter().any(|second| second.server.is_some()),
            server_total: mean(&|second| Some(second.server?.cpu_percent)),
            server_wait: mean(&|second| Some(second.server?.wait_percent)),
            steal: mean(&|second| second.steal_percent),
            foreign: mean(&|second| second.foreign_percent),
            machine: mean(&|second| second.machine_percent),
            overflows: mean(&|second| second.listen_overflows),
            accept_queue: mean(&|second| second.accept_queue.map(|count| count as f64)),
            send_queue: mean(&|second| second.send_queue_bytes.map(|bytes| bytes as f64)),
            send_queue_share: mean(&|second| {
                second
                    .send_queue_bytes
                    .map(|bytes| f64::from(u8::from(bytes > 0)))
            }),
            receive_queue: mean(&|second| second.server_receive_queue_bytes.map(|bytes| bytes as f64)),
            retransmits: mean(&|second| second.retransmits),
            bytes: mean(&|second| Some(second.rx_bytes?.max(second.tx_bytes?))),
            cores: std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
            ..Observed::default()
        };
        seen.outstanding = outstanding(point);
        // What was run beside it on purpose is no drift.
        let antagonists = point.antagonists_cpu.map_or(0.0, |cpu| cpu.percent);
        seen.foreign = (seen.foreign - antagonists).max(0.0);
        seen.read_threads(point);
        if let Some(cpu) = point.client_cpu {
            seen.client_busy = cpu.percent / point.client_threads.max(1) as f64;
        }
        seen
    }

    fn read_threads(&mut self, point: &Point) {
        let is_program = point.target.protocol == "program";
        // Of a program that calls no server they are the engine's: waiting for cores is its work's share of them.
        let are_callers = !is_program || !point.target.address.is_empty();
        for thread in &point.resources.threads {
            let state = |name: &str| thread.states.get(name).copied().unwrap_or(0.0);
            if thread.side == Side::Client {
                let is_press = thread.name.starts_with("press");
                if thread.name.starts_with("press-client") || (is_program && !is_press) {
                    self.client_thread = self.client_thread.max(thread.cpu_percent);
                    if are_callers {
                        self.client_wait = self.client_wait.max(thread.wait_percent);
                    }
                }
                continue;
            }
            self.server_running += state("running");
            // A thread that never ran is no worker that waits for another, but one without work.
            if thread.cpu_percent >= 0.5 || thread.switches_voluntary > 100 {
                self.server_futex += state("futex");
            }
            self.server_sleep += state("sleep");
            self.server_disk += state("disk") + state("fsync");
            self.server_poll += state("poll");
            if thread.cpu_percent > self.server_thread {
                self.server_thread = thread.cpu_percent;
                self.server_thread_name.clone_from(&thread.name);
            }
            self.server_threads.push(thread.clone());
        }
    }

    /// Whether the server used all cores it could get, spread over threads: half of its time was spent waiting for more.
    pub(super) fn server_is_full(&self) -> bool {
        let all = 100.0 * self.cores;
        self.server_total >= 0.85 * all || (self.server_total >= 85.0 && self.server_wait >= 40.0)
    }

    /// The server's threads that were most in these states.
    pub(super) fn words_of_threads(&self, states: &[&str]) -> String {
        let threads: Vec<&ThreadUse> = self.server_threads.iter().collect();
        in_states(&threads, states)
    }

    /// The evidence, one observation a line.
    pub(super) fn in_words(&self) -> Vec<String> {
        let server = if self.knows_server {
            format!(
                "server: {:.0} % of a core in all, busiest thread {:.0} %, waited for a core {:.0} %; threads at any moment: \
                 {:.1} running, {:.1} in futex, {:.1} asleep, {:.1} at the disk, {:.1} in poll",
                self.server_total,
                self.server_thread,
                self.server_wait,
                self.server_running,
                self.server_futex,
                self.server_sleep,
                self.server_disk,
                self.server_poll
            )
        } else {
            "server: its process was not watched".into()
        };
        vec![
            server,
            format!(
                "client: busiest thread {:.0} % of a core, {:.0} % without idle looking, waited for a core {:.0} %",
                self.client_thread, self.client_busy, self.client_wait
            ),
            format!(
                "machine: {:.0} % of {:.0} % busy, {:.0} % others, {:.0} % taken by the hypervisor",
                self.machine,
                100.0 * self.cores,
                self.foreign,
                self.steal
            ),
            format!(
                "network: {:.2} MB/s, {:.1} segments a second sent again, {:.0} bytes in send queues, {:.0} unread by the \
                 server, accept queue {:.1}, {:.1} connections a second turned away",
                self.bytes / 1e6,
                self.retransmits,
                self.send_queue,
                self.receive_queue,
                self.accept_queue,
                self.overflows
            ),
            format!("{:.1} requests on their way on average", self.outstanding),
        ]
    }
}

/// By Little's law from the answers and their latency; from the seconds where there were no answers.
fn outstanding(point: &Point) -> f64 {
    match point.service.us_mean {
        Some(us) => point.qps * us / 1e6,
        None => mean(point.series.iter().map(|second| second.outstanding as f64)),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0f64);
    for value in values {
        sum += value;
        count += 1.0;
    }
    sum / count.max(1.0)
}
