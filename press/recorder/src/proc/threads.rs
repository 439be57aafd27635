//! The threads of both sides: what each used since the start, and what it was doing when looked at.
//!
//! Its invariant: what a thread used is never taken back, not when it ends and not when its number is used again.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use super::reader::Reader;
use super::state;
use super::text;
use crate::process::{cpu_time, memory_bytes};
use crate::{Side, ThreadUse, Used};

/// Threads of a side that are looked at for what they do.
const LOOKED_AT_MAX: usize = 64;

/// Threads kept in all, ended ones included; a server that starts one for each connection must not fill the memory.
const KEPT_MAX: usize = 4_096;

/// Processes of a side, children included.
const PROCESSES_MAX: usize = 256;

/// The largest file about a thread.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Figures of a thread that only grow.
#[derive(Debug, Clone, Copy, Default)]
struct Growing {
    cpu_ns: u64,
    wait_ns: u64,
    voluntary: u64,
    involuntary: u64,
}

impl Growing {
    /// What was added since `last`; all of it when a new thread has the number of an old one.
    fn since(&self, last: &Growing) -> Growing {
        if self.cpu_ns < last.cpu_ns || self.voluntary < last.voluntary {
            return *self;
        }
        Growing {
            cpu_ns: self.cpu_ns - last.cpu_ns,
            wait_ns: self.wait_ns.saturating_sub(last.wait_ns),
            voluntary: self.voluntary - last.voluntary,
            involuntary: self.involuntary.saturating_sub(last.involuntary),
        }
    }

    fn add(&mut self, more: &Growing) {
        self.cpu_ns += more.cpu_ns;
        self.wait_ns += more.wait_ns;
        self.voluntary += more.voluntary;
        self.involuntary += more.involuntary;
    }
}

#[derive(Debug)]
struct Thread {
    side: Side,
    name: String,
    /// What the files said last.
    last: Growing,
    /// Used within the last interval.
    interval: Growing,
    /// Used since the start.
    total: Growing,
    /// How often it was seen at each activity.
    looks: BTreeMap<&'static str, u32>,
    /// `stat`, and `syscall` if it may be read, kept open while it is looked at.
    files: Option<(File, Option<File>)>,
    /// Whether the latest scan saw it.
    is_present: bool,
}

#[derive(Debug)]
struct Process {
    side: Side,
    last: Option<Duration>,
    /// By the process's clock, which counts threads that ended too; nothing when it could not be read twice.
    interval_ns: Option<u64>,
    is_present: bool,
}

/// Every thread seen so far, by process and number.
#[derive(Debug, Default)]
pub(super) struct Threads {
    threads: BTreeMap<(u32, u32), Thread>,
    processes: BTreeMap<u32, Process>,
}

impl Threads {
    /// Reads every thread of both sides and of the server's descendants. With `is_start`, counting begins here.
    pub(super) fn scan(&mut self, server: &[u32], client: &[u32], is_start: bool, reader: &mut Reader) {
        for thread in self.threads.values_mut() {
            thread.is_present = false;
        }
        for process in self.processes.values_mut() {
            process.is_present = false;
        }
        let mut server = server.to_vec();
        let mut next = 0;
        while let Some(&pid) = server.get(next) {
            next += 1;
            for child in self.process(pid, Side::Server, is_start, reader) {
                if server.len() < PROCESSES_MAX && !server.contains(&child) && !client.contains(&child) {
                    server.push(child);
                }
            }
        }
        for &pid in client {
            self.process(pid, Side::Client, is_start, reader);
        }
        self.settle(is_start);
        self.choose(Side::Server, reader);
        self.choose(Side::Client, reader);
    }

    /// Reads one process and gives its children.
    fn process(&mut self, pid: u32, side: Side, is_start: bool, reader: &mut Reader) -> Vec<u32> {
        let mut children = Vec::new();
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            return children;
        };
        let now = cpu_time(pid);
        let process = self.processes.entry(pid).or_insert(Process {
            side,
            last: Some(Duration::ZERO),
            interval_ns: None,
            is_present: true,
        });
        process.is_present = true;
        let used = now
            .zip(process.last)
            .map(|(now, last)| now.checked_sub(last).unwrap_or(now));
        process.interval_ns = used.and_then(|used| u64::try_from(used.as_nanos()).ok());
        process.last = now;
        for task in tasks.flatten() {
            if let Some(tid) = task.file_name().to_str().and_then(|tid| tid.parse().ok()) {
                self.thread(pid, tid, side, is_start, reader);
                if side == Side::Server
                    && let Some(text) =
                        reader.read(format_args!("/proc/{pid}/task/{tid}/children"), FILE_BYTES_MAX)
                {
                    children.extend(text::children(&text));
                }
            }
        }
        children
    }

    fn thread(&mut self, pid: u32, tid: u32, side: Side, is_start: bool, reader: &mut Reader) {
        let Some((name, now)) = read_thread(pid, tid, reader) else {
            return;
        };
        if self.threads.len() >= KEPT_MAX && !self.threads.contains_key(&(pid, tid)) {
            return;
        }
        let thread = self.threads.entry((pid, tid)).or_insert_with(|| Thread {
            side,
            name: String::new(),
            last: Growing::default(),
            interval: Growing::default(),
            total: Growing::default(),
            looks: Default::default(),
            files: None,
            is_present: true,
        });
        thread.is_present = true;
        thread.name = name;
        if !is_start {
            thread.interval = now.since(&thread.last);
            thread.total.add(&thread.interval);
        }
        thread.last = now;
    }

    /// What is gone uses nothing more; at the start it is forgotten.
    fn settle(&mut self, is_start: bool) {
        if is_start {
            self.threads.retain(|_, thread| thread.is_present);
        }
        for thread in self.threads.values_mut() {
            if is_start {
                thread.looks = Default::default();
                thread.total = Growing::default();
            }
            if !thread.is_present {
                thread.interval = Growing::default();
                thread.files = None;
            }
        }
        self.processes.retain(|_, process| process.is_present);
    }

    /// Opens the files of threads that are not looked at yet, as far as the number allows.
    fn choose(&mut self, side: Side, reader: &mut Reader) {
        let is_looked_at = |thread: &&mut Thread| thread.side == side && thread.files.is_some();
        let mut budget = LOOKED_AT_MAX.saturating_sub(self.threads.values_mut().filter(is_looked_at).count());
        for (&(pid, tid), thread) in &mut self.threads {
            if budget == 0 {
                break;
            }
            if thread.side != side || thread.files.is_some() || !thread.is_present {
                continue;
            }
            if let Some(stat) = reader.open(format_args!("/proc/{pid}/task/{tid}/stat")) {
                let syscall = reader.open(format_args!("/proc/{pid}/task/{tid}/syscall"));
                thread.files = Some((stat, syscall));
                budget -= 1;
            }
        }
    }

    /// Looks once at what each thread does.
    pub(super) fn look(&mut self) {
        for thread in self.threads.values_mut() {
            if let Some(activity) = thread.files.as_ref().and_then(activity) {
                *thread.looks.entry(activity).or_default() += 1;
            }
        }
    }

    /// What a side used within the last interval of `seconds`; nothing when no process of it was found.
    pub(super) fn used(&self, side: Side, seconds: f64) -> Option<Used> {
        let mut used = Used::default();
        let mut sum = Growing::default();
        let mut cpu_ns = 0;
        for (&pid, process) in self.processes.iter().filter(|(_, process)| process.side == side) {
            used.memory_bytes += memory_bytes(pid).unwrap_or(0);
            let of_threads = || {
                let threads = self.threads.range((pid, 0)..=(pid, u32::MAX));
                threads.map(|(_, thread)| thread.interval.cpu_ns).sum()
            };
            cpu_ns += process.interval_ns.unwrap_or_else(of_threads);
        }
        let mut cpu_ns_max = 0;
        for thread in self.threads.values().filter(|thread| thread.side == side) {
            sum.add(&thread.interval);
            cpu_ns_max = cpu_ns_max.max(thread.interval.cpu_ns);
        }
        used.cpu_percent = percent(cpu_ns, seconds);
        used.cpu_percent_thread_max = percent(cpu_ns_max, seconds);
        used.wait_percent = percent(sum.wait_ns, seconds);
        used.switches_voluntary = sum.voluntary as f64 / seconds;
        used.switches_involuntary = sum.involuntary as f64 / seconds;
        let is_known = self.processes.values().any(|process| process.side == side);
        is_known.then_some(used)
    }

    /// The threads that did anything within the `seconds` since the start, busiest first, at most `count`.
    pub(super) fn uses(&self, seconds: f64, count: usize) -> Vec<ThreadUse> {
        let mut busiest: Vec<(&(u32, u32), &Thread)> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.total.cpu_ns > 0 || thread.total.voluntary > 0)
            .collect();
        busiest.sort_by_key(|(_, thread)| std::cmp::Reverse(thread.total.cpu_ns));
        busiest.truncate(count);
        let thread_use = |(&(pid, tid), thread): (&(u32, u32), &Thread)| ThreadUse {
            side: thread.side,
            pid,
            tid,
            name: thread.name.clone(),
            cpu_percent: percent(thread.total.cpu_ns, seconds),
            wait_percent: percent(thread.total.wait_ns, seconds),
            switches_voluntary: thread.total.voluntary,
            switches_involuntary: thread.total.involuntary,
            states: shares(&thread.looks),
        };
        busiest.into_iter().map(thread_use).collect()
    }
}

fn read_thread(pid: u32, tid: u32, reader: &mut Reader) -> Option<(String, Growing)> {
    let text = reader.read(format_args!("/proc/{pid}/task/{tid}/stat"), FILE_BYTES_MAX)?;
    let stat = text::stat(&text)?;
    let (name, ticks_ns) = (stat.name.to_owned(), stat.cpu_ns);
    let schedstat = reader
        .read(format_args!("/proc/{pid}/task/{tid}/schedstat"), FILE_BYTES_MAX)
        .and_then(|text| text::schedstat(&text));
    let switches = reader
        .read(format_args!("/proc/{pid}/task/{tid}/status"), FILE_BYTES_MAX)
        .and_then(|text| text::switches(&text));
    let (cpu_ns, wait_ns) = schedstat.unwrap_or((ticks_ns, 0));
    let (voluntary, involuntary) = switches.unwrap_or((0, 0));
    let now = Growing {
        cpu_ns,
        wait_ns,
        voluntary,
        involuntary,
    };
    Some((name, now))
}

/// What the thread behind `stat` and `syscall` does now; nothing when it has ended.
fn activity((stat, syscall): &(File, Option<File>)) -> Option<&'static str> {
    let mut bytes = [0; 128];
    let read = stat.read_at(&mut bytes, 0).ok()?;
    let state = text::state(bytes.get(..read)?)?;
    let number = syscall.as_ref().filter(|_| state != 'R').and_then(|file| {
        let read = file.read_at(&mut bytes, 0).ok()?;
        text::syscall(std::str::from_utf8(bytes.get(..read)?).ok()?)
    });
    Some(state::activity(state, number))
}

fn percent(ns: u64, seconds: f64) -> f64 {
    ns as f64 / 1e7 / seconds
}

fn shares(looks: &BTreeMap<&'static str, u32>) -> BTreeMap<String, f64> {
    let all: u32 = looks.values().sum();
    let share = |(&activity, &count): (&&str, &u32)| (activity.to_owned(), f64::from(count) / f64::from(all));
    looks.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_used_again_counts_from_nothing() {
        let of = |cpu_ns, voluntary| Growing {
            cpu_ns,
            wait_ns: 5,
            voluntary,
            involuntary: 1,
        };
        let more = of(70, 9).since(&of(50, 3));
        assert_eq!(
            (more.cpu_ns, more.wait_ns, more.voluntary, more.involuntary),
            (20, 0, 6, 0)
        );
        let again = of(10, 9).since(&of(50, 3));
        assert_eq!((again.cpu_ns, again.wait_ns, again.voluntary), (10, 5, 9));
    }

    #[test]
    fn shares_add_up_to_one() {
        assert!(shares(&BTreeMap::new()).is_empty());
        let looks = BTreeMap::from([("futex", 3), ("running", 1)]);
        let expected = [("futex".to_owned(), 0.75), ("running".to_owned(), 0.25)];
        assert_eq!(shares(&looks), BTreeMap::from(expected));
    }
}
