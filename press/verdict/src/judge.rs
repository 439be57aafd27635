//! Whether a point can be believed, and what bounded it, from what was used while it ran.
//!
//! Each rule is one observation with a threshold that stands below beside its reason. Its invariant: the sentence names only
//! figures that were measured; without evidence the bound is unknown and says so.

mod contention;
mod failing;
mod in_process;
pub(crate) mod observed;
mod told;

use crate::{Bound, Judgement, LoadKind, Point, Second, Verdict};
use millpond_press_recorder::{ThreadUse, is_growing};

use in_process::{full_caller, in_process, waiting_callers};
use observed::Observed;

/// The generator is late when its own lateness makes so much of the latency at the 99th percentile…
const LATE_SHARE: f64 = 0.25;
/// …and is more than this: less is a few wake-ups of a thread.
const LATE_US: f64 = 300.0;
/// A client thread that is runnable but not running for so much of the time is starved, in percent.
const STARVED_PERCENT: f64 = 12.0;
/// A thread that runs for so much of the time does nothing else, in percent of a core.
const BUSY_PERCENT: f64 = 85.0;
/// Time the hypervisor took, or others used, beyond which figures are of another machine; percent of one core.
pub(crate) const STEAL_PERCENT: f64 = 25.0;
const FOREIGN_PERCENT: f64 = 25.0;
/// The part of a thread that must be seen waiting for one thing before that thing is blamed.
const BLOCKED_THREADS: f64 = 0.35;
/// The halves of a stable point differ by less than this share.
const HALVES_DIFFER: f64 = 0.12;
/// Threads are looked at twenty times a second: what is shorter shows nothing of them.
const US_MIN: u64 = 300_000;
/// Requests never sent, as a share of the schedule, beyond which the offered rate was not offered.
const NOT_SENT: f64 = 0.01;
/// The same of connections that were down in the end.
const DOWN: f64 = 0.01;

/// Judges a point.
pub fn judge(point: &Point) -> Verdict {
    let seen = Observed::of(point);
    let (judgement, bound, mut sentence) = ruling(point, &seen);
    for beside in told::beside(point) {
        if !sentence.contains(&beside) {
            sentence += &format!(" {beside}.");
        }
    }
    Verdict {
        judgement,
        bound,
        sentence,
        evidence: seen.in_words().into_iter().chain(told::evidence(point)).collect(),
    }
}

/// Whether a point that missed its SLO says nothing of the server: the load generator was the limit, or something else took part.
pub fn is_doubted(point: &Point) -> bool {
    match point.verdict.judgement {
        Judgement::GeneratorBound | Judgement::EnvDrift => true,
        Judgement::Unstable => was_kept_back(point),
        Judgement::Valid | Judgement::Failing => false,
    }
}

/// Whether what others took may be why less was offered than what names the point. An outage is too long for that.
pub(crate) fn was_kept_back(point: &Point) -> bool {
    shortfall(point).is_some() && outage(point).is_none() && environment(&Observed::of(point)).is_some()
}

/// The first judgement that applies, what bounded the point, and why, as a sentence.
fn ruling(point: &Point, seen: &Observed) -> (Judgement, Bound, String) {
    // What failed is told before what disturbed it: failures are nobody's speed.
    if let Some(why) = failing::why(point) {
        let also = [outage(point), environment(seen)].into_iter().flatten();
        let sentence = also.fold(format!("{why}."), |sentence, also| format!("{sentence} {also}."));
        return (Judgement::Failing, Bound::Unknown, sentence);
    }
    if let Some(why) = outage(point) {
        return (Judgement::Unstable, Bound::Unknown, format!("{why}."));
    }
    if let Some(why) = generator(point, seen) {
        let others = match seen.foreign {
            foreign if foreign >= FOREIGN_PERCENT => {
                format!("; other processes used {foreign:.0} % of a core")
            }
            _ => String::new(),
        };
        let sentence = format!("The load generator was the limit, not the server: {why}{others}.");
        return (Judgement::GeneratorBound, Bound::ClientCpu, sentence);
    }
    let (bound, reason) = bound(point, seen);
    // Others who took part make figures worse, a smaller load makes them better: that is no drift which a met SLO survives.
    let doubt = shortfall(point)
        .map(|why| {
            let also = environment(seen).map_or_else(String::new, |also| format!("; {}", lower_first(&also)));
            (Judgement::Unstable, why + &also)
        })
        .or_else(|| environment(seen).map(|why| (Judgement::EnvDrift, why)))
        .or_else(|| stability(point).map(|why| (Judgement::Unstable, why)));
    match doubt {
        Some((judgement, why)) => (judgement, bound, format!("{why}; {}", lower_first(&reason))),
        None => (Judgement::Valid, bound, reason),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().collect::<String>() + chars.as_str()
    })
}

/// What nobody can be blamed for but the server or the way to it: no answers, at all or for whole seconds.
fn outage(point: &Point) -> Option<String> {
    let counters = &point.counters;
    if counters.answers() == 0 {
        let first = counters
            .first
            .values()
            .next()
            .cloned()
            .unwrap_or_else(|| "nothing was sent".into());
        return Some(format!("No request got an answer that counts ({first})"));
    }
    let whole = whole_seconds(point);
    let silent = whole.iter().filter(|second| second.answers == 0).count();
    // At a few requests a second an empty second is chance.
    (silent > 0 && point.qps >= 20.0).then(|| {
        format!(
            "In {silent} of {} seconds no answer came: the server stood still or was away",
            whole.len()
        )
    })
}

/// Why the figures are the load generator's own, if they are.
fn generator(point: &Point, seen: &Observed) -> Option<String> {
    // In process the engine waits with its caller; beside an antagonist on its core that is what was to be seen.
    let is_meant = point.target.address.is_empty() && contention::is_meant(point);
    let starved = seen.client_wait >= STARVED_PERCENT && !is_meant;
    if let (Some(late), Some(latency)) = (point.lateness.us_p99, point.latency.us_p99)
        && late > LATE_US
        && late > LATE_SHARE * latency
    {
        return Some(format!(
            "it sent 1 % of the requests {late:.0} us late or more, where 1 % took {latency:.0} us or more; \
             its threads ran {:.0} % and waited for a core {:.0} % of the time",
            seen.client_thread, seen.client_wait
        ));
    }
    if starved {
        return Some(format!(
            "its threads were ready to run but waited for a core {:.0} % of the time",
            seen.client_wait
        ));
    }
    let is_closed = point.offered.kind == LoadKind::Closed;
    let server_is_free = seen.server_thread < BUSY_PERCENT && !seen.server_is_full();
    // In process the caller does the server's work.
    let over_network = !point.target.address.is_empty();
    (is_closed && over_network && seen.client_busy >= 95.0 && server_is_free).then(|| {
        format!(
            "its threads used {:.0} % of a core each, while the server's busiest thread used {:.0} %",
            seen.client_busy, seen.server_thread
        )
    })
}

/// What else took part, if it did.
fn environment(seen: &Observed) -> Option<String> {
    if seen.steal >= STEAL_PERCENT {
        return Some(format!("The hypervisor took {:.0} % of a core away", seen.steal));
    }
    (seen.foreign >= FOREIGN_PERCENT).then(|| {
        format!(
            "Other processes of the machine used {:.0} % of a core meanwhile",
            seen.foreign
        )
    })
}

/// How much less was offered than what names the point, if it was.
fn shortfall(point: &Point) -> Option<String> {
    let counters = &point.counters;
    let offered = counters.offered().max(1);
    if point.offered.kind == LoadKind::Open && counters.not_sent as f64 > NOT_SENT * offered as f64 {
        let why = if counters.connections_down > 0 {
            "because connections were lost and could not be made again"
        } else {
            "because every connection waited for answers: the offered rate is above what the server answers"
        };
        return Some(format!(
            "{:.1} % of the schedule was never sent, {why}",
            100.0 * counters.not_sent as f64 / offered as f64
        ));
    }
    // A schedule is played on the connections that are up; without one, those that are down offer nothing.
    let down = counters.connections_down as f64;
    if point.offered.kind == LoadKind::Closed && down > DOWN * point.offered.connections as f64 {
        return told::connections_down(point);
    }
    None
}

/// What did not settle, if anything.
fn stability(point: &Point) -> Option<String> {
    let whole = whole_seconds(point);
    let outstanding: Vec<f64> = whole.iter().map(|second| second.outstanding as f64).collect();
    if point.offered.kind == LoadKind::Open && is_growing(&outstanding) {
        return Some(format!(
            "Requests without an answer grew from {:.0} to {:.0}: the offered rate is above what the server answers",
            outstanding[0],
            outstanding[outstanding.len() - 1]
        ));
    }
    if let Some(why) = told::outage(point) {
        return Some(why);
    }
    let answers: Vec<f64> = whole.iter().map(|second| second.answers as f64).collect();
    if answers.len() < 6 {
        return None;
    }
    let (first, second) = answers.split_at(answers.len() / 2);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (first, second) = (mean(first), mean(second));
    let differ = (first - second).abs() / first.max(second).max(1e-9);
    (differ > HALVES_DIFFER).then(|| {
        format!("The rate did not settle: {first:.0}/s in the first half of the point, {second:.0}/s in the second")
    })
}

/// The seconds that were whole: the last one may be a part.
fn whole_seconds(point: &Point) -> &[Second] {
    let count = (point.us_total / 1_000_000) as usize;
    &point.series[..count.min(point.series.len())]
}

/// One observation: the sentence, if it holds.
type Rule = fn(&Point, &Observed) -> Option<String>;

/// What the observations speak for; the first that holds decides.
const RULES: [(Bound, Rule); 16] = [
    (Bound::ServerCpu, contention::contended),
    (Bound::ServerCpu, in_process),
    (Bound::ServerCpu, full_caller),
    (Bound::Queueing, waiting_callers),
    (Bound::Queueing, accept_queue),
    (Bound::Disk, disk),
    (Bound::Lock, lock),
    (Bound::ServerCpu, server_cpu),
    (Bound::Wire, wire),
    (Bound::Timer, sleeping_threads),
    (Bound::Offered, offered),
    (Bound::Queueing, unread),
    (Bound::Queueing, waiting_stage),
    (Bound::Timer, wake_ups),
    (Bound::ServerCpu, mostly_server_cpu),
    (Bound::Timer, polling),
];

/// What made the rate or the latency, with its evidence.
fn bound(point: &Point, seen: &Observed) -> (Bound, String) {
    if point.us_total < US_MIN {
        let sentence = format!(
            "What bounded it is not known: {} ms are too short to watch threads.",
            point.us_total / 1_000
        );
        return (Bound::Unknown, sentence);
    }
    let found = RULES
        .iter()
        .find_map(|(bound, rule)| Some((*bound, rule(point, seen)?)));
    found.unwrap_or_else(|| {
        let sentence = if seen.knows_server {
            "What bounded it is not known: no core was full, and no thread was seen waiting for one thing."
        } else {
            "What bounded it is not known: the server's process was not watched (set target.server_pid or start it in \
             [server])."
        };
        (Bound::Unknown, sentence.to_owned())
    })
}

fn accept_queue(point: &Point, seen: &Observed) -> Option<String> {
    let troubled = point.counters.connections_failed > 0 || seen.overflows > 0.0;
    (troubled && (seen.overflows > 0.5 || seen.accept_queue >= 1.0)).then(|| {
        format!(
            "Queueing: the server accepts connections too slowly; its accept queue held {:.0} and turned {:.1} away a second.",
            seen.accept_queue, seen.overflows
        )
    })
}

fn disk(_: &Point, seen: &Observed) -> Option<String> {
    (seen.server_disk >= BLOCKED_THREADS).then(|| {
        let threads = seen.words_of_threads(&["fsync", "disk"]);
        format!(
            "Disk: at any moment {:.1} of the server's threads waited for it ({threads}).",
            seen.server_disk
        )
    })
}

/// Threads in a futex are idle workers unless there are requests for them.
fn lock(_: &Point, seen: &Observed) -> Option<String> {
    let (waiting, outstanding) = (seen.server_futex, seen.outstanding);
    let has_work = outstanding >= 2.0 && outstanding + 1.0 >= waiting;
    // By processor time: a thread that is seen runnable may wait for a core.
    let active = seen.server_total / 100.0 + seen.server_sleep;
    let is_alone = active <= 1.6;
    let has_room = seen.server_thread < BUSY_PERCENT && seen.server_total < BUSY_PERCENT * seen.cores;
    (waiting >= 1.2 && has_work && is_alone && has_room).then(|| {
        format!(
            "Lock: {waiting:.1} of the server's threads waited for each other (futex) while {active:.1} ran or slept and \
             {outstanding:.0} requests were on their way."
        )
    })
}

fn server_cpu(point: &Point, seen: &Observed) -> Option<String> {
    if seen.server_thread >= BUSY_PERCENT || seen.server_is_full() {
        let answers = point.counters.answers();
        let cpu = point.server_cpu.filter(|_| answers > 0);
        let each = cpu.map(|cpu| format!(", {:.1} us a request", cpu.seconds * 1e6 / answers as f64));
        return Some(format!(
            "Server CPU: its busiest thread `{}` used {:.0} % of a core, the server {:.0} % in all{}.",
            seen.server_thread_name,
            seen.server_thread,
            seen.server_total,
            each.unwrap_or_default()
        ));
    }
    (seen.server_wait >= 50.0).then(|| {
        format!(
            "Server CPU: its threads were ready to run but waited for a core {:.0} % of the time; give it more cores.",
            seen.server_wait
        )
    })
}

/// On loopback nothing is slower than memory, and bytes stay unacknowledged until the other side answers.
fn wire(point: &Point, seen: &Observed) -> Option<String> {
    let host = point.target.address.rsplit_once(':').map_or("", |(host, _)| host);
    if host.starts_with("127.") || matches!(host, "localhost" | "[::1]") {
        // The counters are the whole machine's; on loopback they are somebody else's.
        return None;
    }
    if seen.retransmits >= 10.0 {
        return Some(format!(
            "Wire: TCP sent {:.0} segments a second again.",
            seen.retransmits
        ));
    }
    (seen.send_queue_share >= 0.7 && seen.send_queue >= 512.0).then(|| {
        format!(
            "Wire: {:.0} bytes on average were sent but not acknowledged or not yet taken by the network, in {:.0} % of the \
             looks; it carried {:.2} MB a second.",
            seen.send_queue,
            seen.send_queue_share * 100.0,
            seen.bytes / 1e6
        )
    })
}

fn sleeping_threads(_: &Point, seen: &Observed) -> Option<String> {
    (seen.server_sleep >= BLOCKED_THREADS && seen.outstanding >= 0.5).then(|| {
        format!(
            "Timer: at any moment {:.1} of the server's threads slept in a timer ({}) while {:.0} requests were on their way.",
            seen.server_sleep,
            seen.words_of_threads(&["sleep"]),
            seen.outstanding
        )
    })
}

fn offered(point: &Point, seen: &Observed) -> Option<String> {
    let rate = point
        .offered
        .rate
        .filter(|_| point.offered.kind == LoadKind::Open)?;
    let latency = point.latency.us_p50?;
    // A latency of milliseconds at a low load has another reason than the load.
    // Of what was sent: a Poisson process sends a little more or less than its rate.
    let is_met = point.qps >= 0.98 * point.sent_per_s && (latency < 1_000.0 || !seen.knows_server);
    is_met.then(|| {
        let cpu = match seen.knows_server {
            true => format!(", with {:.0} % of a core used by the server", seen.server_total),
            false => String::new(),
        };
        format!(
            "The offered load was met: {:.0}/s of {rate:.0}/s{cpu}.",
            point.qps
        )
    })
}

/// The median latency of a server that was watched. The rules that need it stand last: nothing ran, and nothing was seen waiting
/// for one thing, so time passed somewhere else.
fn watched_latency(point: &Point, seen: &Observed) -> Option<f64> {
    point.service.us_p50.filter(|_| seen.knows_server)
}

fn unread(point: &Point, seen: &Observed) -> Option<String> {
    watched_latency(point, seen).filter(|_| seen.receive_queue >= 1024.0)?;
    Some(format!(
        "Queueing: {:.0} bytes of requests waited unread in the server's sockets.",
        seen.receive_queue
    ))
}

fn waiting_stage(point: &Point, seen: &Observed) -> Option<String> {
    let latency = watched_latency(point, seen)?;
    let mut stages = point.stages.iter();
    let stage = stages.find(|stage| stage.name.contains("queue") || stage.name.contains("wait"))?;
    (stage.us_mean > 0.4 * latency).then(|| {
        format!(
            "Queueing: requests waited {:.0} us on average in the server's stage `{}`.",
            stage.us_mean, stage.name
        )
    })
}

/// Every request wakes a sleeping thread, and that is most of its time.
fn wake_ups(point: &Point, seen: &Observed) -> Option<String> {
    // Beside what wants the same core, a thread that does not run need not sleep.
    let is_short = watched_latency(point, seen)? < 500.0 && !contention::is_meant(point);
    (is_short && seen.server_thread < 60.0 && seen.outstanding < 4.0).then(|| {
        format!(
            "Timer: each request waits for a sleeping core to wake, on either side; the server ran {:.0} % of the time, \
             the load generator {:.0} %.",
            seen.server_total, seen.client_thread
        )
    })
}

fn mostly_server_cpu(point: &Point, seen: &Observed) -> Option<String> {
    watched_latency(point, seen)?;
    (seen.server_thread >= 60.0 && seen.server_thread >= seen.client_busy).then(|| {
        format!(
            "Server CPU, for the most part: its busiest thread `{}` used {:.0} % of a core.",
            seen.server_thread_name, seen.server_thread
        )
    })
}

fn polling(point: &Point, seen: &Observed) -> Option<String> {
    watched_latency(point, seen).filter(|_| !contention::is_meant(point))?;
    (seen.server_total < 50.0 && seen.server_poll >= 0.5).then(|| {
        format!(
            "Timer: the server's threads waited in poll with {:.0} requests on their way, for a timer or for something \
             behind the server; it used {:.0} % of a core.",
            seen.outstanding, seen.server_total
        )
    })
}

/// The threads that spent most in these states, in words.
fn in_states(threads: &[&ThreadUse], states: &[&str]) -> String {
    let share =
        |thread: &ThreadUse| -> f64 { states.iter().filter_map(|state| thread.states.get(*state)).sum() };
    let mut found: Vec<(f64, &str)> = threads
        .iter()
        .map(|thread| (share(thread), thread.name.as_str()))
        .filter(|(share, _)| *share >= 0.05)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words: Vec<String> = found
        .iter()
        .take(3)
        .map(|(share, name)| format!("`{name}` {:.0} %", share * 100.0))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests;
