//! What is overloaded: a server with its method, its requests, and how long they may take.
//!
//! Its invariant: every call of a case brings the same deadline, or gets it from the configuration.

use super::offer::{Before, Offer};
use super::recovery;
use crate::report::Report;
use crate::server::Server;
use crate::setup::Setup;
use crate::steal::undisturbed;
use crate::{cores, practice, r1};
use anyhow::{Context as _, ensure};
use std::path::Path;

/// A server under one kind of load.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Whether its runs need the processor that the net thread needs too.
    pub(super) computes: bool,
    pub(super) deadline_ms: u32,
    /// `[requests]` and `[check]` of a scenario.
    requests: String,
    /// A call over HTTP, for the probe.
    pub(super) probe: String,
    config: String,
    set: Vec<String>,
}

/// Connections of every load, as front ends have them: few enough that one read finds several requests under overload.
const CONNECTIONS: usize = 8;
/// Those of the closed loop that finds the capacity: they keep every instance busy, and none waits for long.
const CONNECTIONS_BUSY: usize = 32;
const DEADLINE_MS: u32 = 100;

impl Case {
    pub(super) fn wait(setup: &Setup) -> anyhow::Result<Case> {
        practice_case(setup, "wait", 8)
    }

    pub(super) fn compute(setup: &Setup) -> anyhow::Result<Case> {
        practice_case(setup, "compute", 1)
    }

    pub(super) fn r1(setup: &Setup) -> anyhow::Result<Case> {
        r1::prepare(setup)?;
        let whole = |path: &str| -> anyhow::Result<String> {
            let whole = Path::new(path).canonicalize();
            Ok(whole
                .with_context(|| format!("{path} is not there"))?
                .display()
                .to_string())
        };
        let (file, expected) = (whole(r1::REQUESTS)?, whole(r1::EXPECTED)?);
        let first =
            std::fs::read_to_string(r1::REQUESTS).with_context(|| format!("cannot read {}", r1::REQUESTS))?;
        let mut set: Vec<String> = r1::ONE_CORE.iter().map(|pair| (*pair).to_owned()).collect();
        set.extend([
            "log.level=5".into(),
            format!("server.deadline_ms_default={DEADLINE_MS}"),
        ]);
        Ok(Case {
            name: "r1",
            computes: false,
            deadline_ms: DEADLINE_MS,
            requests: format!(
                "[requests]\nfile = \"{file}\"\nexpected = \"{expected}\"\n[check]\nfield = \"scores\"\nlength_of = \"samples\"\n"
            ),
            probe: first.lines().next().context("no requests of R1")?.to_owned(),
            config: r1::CONFIG.to_owned(),
            set,
        })
    }

    pub(super) fn deadline_us(&self) -> f64 {
        f64::from(self.deadline_ms) * 1e3
    }

    pub(super) fn start(&self, setup: &Setup, round: usize) -> anyhow::Result<Server> {
        let set: Vec<&str> = self.set.iter().map(String::as_str).collect();
        Server::start(
            setup,
            &format!("overload-{}-{round}", self.name),
            &self.config,
            &set,
        )
    }

    /// Requests a second in a closed loop that keeps every instance busy.
    pub(super) fn capacity(
        &self,
        setup: &Setup,
        report: &mut Report,
        server: &Server,
        round: usize,
    ) -> anyhow::Result<f64> {
        let seconds = setup.pick(4, 1);
        let load = format!(
            "[load]\nconnections = [{CONNECTIONS_BUSY}]\nin_flight = 1\nduration_s = {seconds}\nwarmup_s_max = 1\nclient_cpus = [{}]\n",
            cores::PRESS
        );
        let text = self.scenario(server) + &load;
        let name = format!("{}-capacity-{round}", self.name);
        let point = undisturbed(setup, report, &name, |name| practice::point(setup, name, &text))?;
        ensure!(
            point.counters.failed_total() == 0 && point.qps > 0.0,
            "{name}: {:?}",
            point.counters
        );
        Ok(point.qps)
    }

    /// Offers so many requests a second, whatever comes of them.
    pub(super) fn offer(
        &self,
        setup: &Setup,
        report: &mut Report,
        server: &Server,
        name: &str,
        rate: f64,
    ) -> anyhow::Result<Offer> {
        // No warm-up: what the server uses is read before and after all of it.
        let load = format!(
            "[load]\nconnections = [{CONNECTIONS}]\nin_flight = 512\nrate = [{rate:.0}]\narrivals = \"poisson\"\nduration_s = {}\n\
             warmup_s_max = 0\nclient_cpus = [{}]\n",
            setup.pick(5, 2),
            cores::PRESS
        );
        let text = self.scenario(server) + &load;
        let mut beside = None;
        let point = undisturbed(setup, report, name, |name| {
            let before = Before::read(server.pid())?;
            let load = || Ok((practice::point(setup, name, &text)?, before.until_now()?));
            let ((point, usage), recovery_s) = recovery::after(self, server, load)?;
            beside = Some((usage, recovery_s));
            Ok(point)
        })?;
        let (usage, recovery_s) = beside.context("no point was measured")?;
        Offer::of(name, &point, usage, recovery_s)
    }

    fn scenario(&self, server: &Server) -> String {
        format!(
            "[scenario]\nname = \"overload-{}\"\n[target]\nname = \"millpond\"\nprotocol = \"native\"\naddress = \"{}\"\nserver_pid = {}\n\
             method = \"infer\"\ntimeout_ms = 10000\n{}",
            self.name,
            server.address,
            server.pid(),
            self.requests
        )
    }
}

/// A model whose runs last a millisecond, one call a run.
fn practice_case(setup: &Setup, behaviour: &'static str, instances: usize) -> anyhow::Result<Case> {
    let config = setup.out.join(format!("overload-{behaviour}.toml"));
    std::fs::write(
        &config,
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nthreads = 1\ncpus = [{}]\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = 5\n\
             [models.stand_in]\nbackend = \"practice\"\nbehaviour = \"{behaviour}\"\nus = 1000\ninstances = {instances}\nbatch_size_max = 1\n",
            cores::SERVER
        ),
    )
    .with_context(|| format!("cannot write {}", config.display()))?;
    let call = format!(
        "{{\"inputs\":{{\"x\":{{\"shape\":[1,1],\"type\":\"f32\",\"data\":[7]}}}},\"_deadline_ms\":{DEADLINE_MS}}}"
    );
    let requests = setup.out.join(format!("overload-{behaviour}.jsonl"));
    std::fs::write(&requests, format!("{call}\n"))
        .with_context(|| format!("cannot write {}", requests.display()))?;
    Ok(Case {
        name: behaviour,
        computes: behaviour == "compute",
        deadline_ms: DEADLINE_MS,
        requests: format!(
            "[requests]\nfile = \"{}\"\n[check]\nsame = true\n",
            requests.display()
        ),
        probe: call,
        config: config.display().to_string(),
        set: Vec::new(),
    })
}
