//! Builds with other allocators beside each other: what a call costs, and what memory the server keeps.
//!
//! It has no bar and builds nothing: it compares the server with the builds named with `--beside`, each of which says which
//! allocator it has. Two loads: an echo, which allocates nothing, and a call to a model that does nothing, which allocates for
//! its tensors, its ticket and its answer. Its invariant: the builds take turns, and no two of them have the same allocator.

use crate::bar::Group;
use crate::report::Report;
use crate::rpc::{Load, PAYLOAD, call, demo_config};
use crate::server::Server;
use crate::setup::Setup;
use anyhow::{Context as _, bail, ensure};
use millpond_press_verdict::Series;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const GROUP: Group = Group {
    name: "allocators",
    title: "builds with other allocators (--beside FILE, see docs/performance.md)",
    bars: &[],
    measure,
};

/// A model that does nothing, beside the server's methods.
const MODEL: [&str; 5] = [
    "models.stand_in.backend=practice",
    "models.stand_in.behaviour=wait",
    "models.stand_in.us=0",
    "models.stand_in.width=16",
    "models.stand_in.batch_size_max=64",
];

/// One row of sixteen numbers.
const INFER: &str = "{\"inputs\":{\"x\":{\"shape\":[1,16],\"type\":\"f32\",\"data\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}}}";

/// One build, over the rounds.
struct Build {
    path: PathBuf,
    allocator: String,
    echo: Series,
    infer: Series,
    /// Resident memory after both loads, in MB.
    memory: Series,
}

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    if setup.beside.is_empty() {
        report.say("left out: no other build was named with --beside");
        return Ok(());
    }
    let paths = std::iter::once(&setup.millpond).chain(&setup.beside);
    let mut builds: Vec<Build> = paths.map(|path| describe(path)).collect::<anyhow::Result<_>>()?;
    let names: BTreeSet<&str> = builds.iter().map(|build| build.allocator.as_str()).collect();
    ensure!(
        names.len() == builds.len(),
        "several builds have the same allocator; those given have {names:?}"
    );
    report.say("| round | allocator | echo/s | infer/s | server, MB |\n|---:|---|---:|---:|---:|");
    for round in 1..=setup.pick(5, 1) {
        for build in &mut builds {
            setup.stop.check()?;
            build.take_turn(setup, report, round)?;
        }
        // Each is first in turn.
        builds.rotate_left(1);
    }
    builds.sort_by(|a, b| a.allocator.cmp(&b.allocator));
    let system = builds
        .iter()
        .position(|build| build.allocator == "system")
        .unwrap_or(0);
    for build in &builds {
        let base = &builds[system];
        report.say(&format!(
            "{}: over {}, round by round: echo {:.3}, infer {:.3}, memory {:.3}",
            build.allocator,
            base.allocator,
            build.echo.over(&base.echo).median(),
            build.infer.over(&base.infer).median(),
            build.memory.over(&base.memory).median(),
        ));
    }
    Ok(())
}

/// Asks a build what it allocates with.
fn describe(path: &Path) -> anyhow::Result<Build> {
    let output = Command::new(path)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {}", path.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let allocator = said
        .split_once("allocator: ")
        .and_then(|(_, rest)| rest.split_once(')'));
    let Some((allocator, _)) = allocator else {
        bail!(
            "{} --version does not say its allocator, but {said:?}",
            path.display()
        );
    };
    Ok(Build {
        path: path.to_owned(),
        allocator: allocator.to_owned(),
        echo: Series::default(),
        infer: Series::default(),
        memory: Series::default(),
    })
}

impl Build {
    fn take_turn(&mut self, setup: &Setup, report: &mut Report, round: usize) -> anyhow::Result<()> {
        let name = |what: &str| format!("{what}-{}-{round}", self.allocator);
        let server = Server::start_build(setup, &self.path, &name("server"), &demo_config(setup)?, &MODEL)?;
        let load = Load {
            connections: 100,
            in_flight: 16,
            seconds: setup.pick(4, 1),
        };
        let echo = call(setup, report, &name("echo"), &server, ("echo", PAYLOAD), load)?;
        // Fewer in flight: nothing may be refused.
        let load = Load { in_flight: 2, ..load };
        let infer = call(setup, report, &name("infer"), &server, ("infer", INFER), load)?;
        let memory = infer
            .server_memory_bytes
            .map_or(f64::NAN, |bytes| bytes as f64 / 1e6);
        server.stop()?;
        report.say(&format!(
            "| {round} | {} | {:.0} | {:.0} | {memory:.1} |",
            self.allocator, echo.qps, infer.qps
        ));
        self.echo.measured(echo.qps, &echo);
        self.infer.measured(infer.qps, &infer);
        self.memory.measured(memory, &infer);
        Ok(())
    }
}
