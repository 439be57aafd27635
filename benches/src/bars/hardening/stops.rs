//! How long a server takes to end after SIGTERM, in the states that can be reached from outside.
//!
//! Busy, with a model that is stuck, with a full queue, with ten thousand connections that read nothing or finish nothing, with puts
//! on their way to the disk; as one process and as three, one of them stopped. A full queue of connections, a net thread that is
//! stuck, threads that die and a sync that hangs are reached by the tests alone. Its invariants: the clock runs from the signal to
//! the end of the process that was told, and /metrics has shown the state before.

use super::crowd;
use super::hostile::{Crowd, calls, frame};
use crate::bar::{Bar, Group, Measure, Op};
use crate::cores;
use crate::report::Report;
use crate::rpc;
use crate::server::Server;
use crate::setup::Setup;
use anyhow::{Context as _, ensure};
use millpond_press_recorder::process_tree;
use millpond_press_verdict::Series;
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

const OVER: Bar = Bar::new("hardening-stop-s-over-drain", Op::AtMost, 1.0);

pub(crate) const GROUP: Group = Group {
    name: "stops",
    measure: Measure::Code {
        title: "seconds from SIGTERM to the end, beyond server.drain_ms_max, in the worst state that callers can bring about \
                (a full queue of connections, a net thread that is stuck and a sync that hangs: by tests alone)",
        bars: &[OVER],
        run: measure,
    },
};

/// `server.drain_ms_max` of every server here: see [`crowd::config`].
const DRAIN: Duration = Duration::from_secs(2);
/// A call to the stuck model: one row of one number, in msgpack. `{"inputs": {"x": {"shape": [1, 1], "type": "f32", "data": [7]}}}`
const STUCK: &[u8] = b"\x81\xa6inputs\x81\xa1x\x83\xa5shape\x92\x01\x01\xa4type\xa3f32\xa4data\x91\x07";
/// Bytes of the value of a put: more than an answer takes.
const VALUE_BYTES: u8 = 250;
/// Connections of a caller that does not stop calling, as when it puts.
const CALLERS: usize = 100;
/// How long what was sent may take to come to where it waits.
const REACHED_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// Fewer than models.stuck.queue_max (4,096), since the queue gives a call up now and then.
const QUEUED: f64 = 4_000.0;

/// What the server is doing when it is told to end.
#[derive(Debug, Clone, Copy)]
enum State {
    Idle,
    Busy,
    StuckModel,
    FullQueue,
    Crowd,
    Puts,
    OneStopped,
}

/// Each with the number of the server's processes.
const STATES: [(State, usize); 9] = [
    (State::Idle, 1),
    (State::Busy, 1),
    (State::StuckModel, 1),
    (State::FullQueue, 1),
    (State::Crowd, 1),
    (State::Puts, 1),
    (State::Busy, 3),
    (State::StuckModel, 3),
    (State::OneStopped, 3),
];

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let config = crowd::config(setup)?;
    let mut over = Series::default();
    report.say("| round | state | s from SIGTERM to the end | beyond the drain | exit status |\n|---:|---|---:|---:|---|");
    for round in 1..=setup.pick(5, 1) {
        for (state, processes) in STATES {
            setup.stop.check()?;
            let name = format!("stop-{state:?}-{processes}-{round}").to_lowercase();
            let server = start(setup, &config, &name, (state, processes))?;
            let (status, took) = end(setup, report, &name, server, state)?;
            ensure!(status.code().is_some(), "{name}: ended by a signal, {status}");
            let beyond = took.as_secs_f64() - DRAIN.as_secs_f64();
            report.say(&format!(
                "| {round} | {state:?}, processes: {processes} | {:.2} | {beyond:.2} | {} |",
                took.as_secs_f64(),
                status.code().unwrap_or_default()
            ));
            over.push(beyond);
        }
    }
    report.bar(&OVER, over.max(), over);
    Ok(())
}

fn start(
    setup: &Setup,
    config: &str,
    name: &str,
    (state, processes): (State, usize),
) -> anyhow::Result<Server> {
    let mut set = vec!["server.connections_max=11000".to_owned()];
    match state {
        State::StuckModel | State::FullQueue => {
            // The longest run there is: ten seconds, which no drain of two waits for.
            let model = [
                "backend=practice",
                "behaviour=wait",
                "us=10000000",
                "batch_size_max=1",
                "warm_up=[]",
            ];
            set.extend(model.map(|pair| format!("models.stuck.{pair}")));
            set.push("server.deadline_ms_default=60000".to_owned());
        }
        State::Puts => set.push(format!(
            "ordered.events.path={:?}",
            setup.out.join(format!("{name}-events"))
        )),
        _ => {}
    }
    if processes > 1 {
        // Several processes share a port, so the system cannot choose one for each.
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr())?;
        set.push(format!("server.listen=\"{free}\""));
        set.push(format!("server.processes={processes}"));
    }
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    Server::start(setup, name, config, &set)
}

/// Brings the server into its state, and ends it.
fn end(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    server: Server,
    state: State,
) -> anyhow::Result<(ExitStatus, Duration)> {
    let address = server.address.clone();
    let crowd = |count| cores::on(cores::PRESS, || Crowd::gather(&address, count));
    let asked = |connections, each, method, payload| {
        cores::on(cores::PRESS, || {
            calls(&address, connections, each, method, payload)
        })
    };
    match state {
        State::Idle => server.end(),
        State::Busy => busy(setup, report, name, server),
        State::StuckModel => {
            let _calls = asked(16, 4, "infer", STUCK)?;
            reached(
                setup,
                &server,
                "millpond_model_busy{model=\"stuck\",version=\"1\"}",
                1.0,
            )?;
            server.end()
        }
        State::FullQueue => {
            // Beyond models.stuck.queue_max.
            let _calls = asked(50, 100, "infer", STUCK)?;
            reached(
                setup,
                &server,
                "millpond_model_busy{model=\"stuck\",version=\"1\"}",
                1.0,
            )?;
            reached(
                setup,
                &server,
                "millpond_model_queued{model=\"stuck\",version=\"1\"}",
                QUEUED,
            )?;
            server.end()
        }
        State::Crowd => {
            let count = setup.pick(10_000, 500);
            let _crowd = crowd(count)?;
            // Some may not be accepted yet, or be about to be closed.
            wait(setup, "a crowd is there", || {
                Ok(crowd::still_there(&server, count).is_ok())
            })?;
            server.end()
        }
        State::Puts => {
            let first = [
                ("millpond_store_keys{store=\"events\"}", 1.0),
                // One put at least, which takes its value and more.
                ("millpond_in_flight_bytes", f64::from(VALUE_BYTES)),
            ];
            flooded(setup, server, put(), &first)
        }
        State::OneStopped => {
            // A parent stands first.
            let child = process_tree(server.pid()).get(1).copied();
            let child = child.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
            let child = child.context("the server has no other process")?;
            kill_process(child, Signal::STOP).context("cannot stop a process")?;
            wait(setup, "a process is stopped", || is_stopped(child))?;
            server.end()
        }
    }
}

/// Waits until a sample of /metrics is at least so large.
fn reached(setup: &Setup, server: &Server, sample: &str, least: f64) -> anyhow::Result<()> {
    wait(setup, &format!("{sample} is {least} at least"), || {
        Ok(server.metrics()?.value(sample)? >= least)
    })
}

/// Waits until it is so.
fn wait(setup: &Setup, what: &str, is_so: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let until = Instant::now() + REACHED_MAX;
    while !is_so()? {
        ensure!(
            Instant::now() < until,
            "the state was not reached in {} s: {what}",
            REACHED_MAX.as_secs()
        );
        setup.pause(POLL)?;
    }
    Ok(())
}

/// A put of a value under a key of one byte: `{"entries": [[key, value]]}`
fn put() -> Vec<u8> {
    let value = [b"\xc4".as_slice(), &[VALUE_BYTES], &[b'v'; VALUE_BYTES as usize]].concat();
    let payload = [b"\x81\xa7entries\x91\x92\xc4\x01k".as_slice(), &value].concat();
    frame("ordered.put", &payload, payload.len() as u32, 1)
}

/// Ends it in the middle of a load, whose own result is of no interest.
fn busy(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    server: Server,
) -> anyhow::Result<(ExitStatus, Duration)> {
    let load = format!(
        "[load]\nconnections = [{CALLERS}]\nin_flight = 16\nduration_s = 1\nwarmup_s_max = 1\nclient_cpus = [{}]\n",
        cores::PRESS
    );
    // A first load to its end shows that it serves; then there is one that it does not see the end of.
    rpc::echo(setup, report, name, &server, &load)?;
    let echo = frame("echo", b"\x81\xa1a\x01", 4, 1);
    flooded(setup, server, echo, &[("millpond_connections", CALLERS as f64)])
}

/// Ends it while callers go on with the same call, once samples of /metrics are at least so large.
fn flooded(
    setup: &Setup,
    server: Server,
    once: Vec<u8>,
    first: &[(&str, f64)],
) -> anyhow::Result<(ExitStatus, Duration)> {
    let address = server.address.clone();
    std::thread::scope(|scope| {
        let caller =
            scope.spawn(move || cores::on(cores::PRESS, || super::hostile::flood(&address, CALLERS, &once)));
        for (sample, least) in first {
            reached(setup, &server, sample, *least)?;
        }
        let ended = server.end();
        caller
            .join()
            .map_err(|_| anyhow::anyhow!("the load panicked"))??;
        ended
    })
}

/// Whether SIGSTOP has come to a process.
fn is_stopped(process: Pid) -> anyhow::Result<bool> {
    let file = format!("/proc/{}/stat", process.as_raw_nonzero());
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    // The state stands behind the name, which may hold anything.
    Ok(text
        .rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('T')))
}
