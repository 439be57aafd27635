//! The four requests by which builds are compared: an echo at depth 1 and 16, a lookup of 100 keys, R1's request.
//!
//! Its invariant: both builds get the same bytes, by the same connections.

use crate::rpc::PAYLOAD;
use crate::server::{Server, Start};
use crate::setup::Setup;
use crate::{cores, r1};
use anyhow::Context as _;
use std::path::Path;
use std::process::Command;

/// Rows of the table that is looked up, whose keys are their numbers.
const ROWS: u64 = 100_000;
const KEYS: u64 = 100;
/// Far from a number that divides [`ROWS`], so that keys lie apart.
const STRIDE: u64 = 7_919;

/// One kind of request.
pub(super) struct Kind {
    pub(super) name: &'static str,
    method: &'static str,
    /// The only request; R1's are those of its files, whose answers are compared with the expected ones.
    payload: String,
    pub(super) in_flight: usize,
    pub(super) of_r1: bool,
}

/// All four, in the order of the bars.
pub(super) fn all() -> [Kind; 4] {
    let keys: Vec<String> = (0..KEYS).map(|key| (key * STRIDE % ROWS).to_string()).collect();
    let kind = |name, method, payload: &str, in_flight, of_r1| Kind {
        name,
        method,
        payload: payload.to_owned(),
        in_flight,
        of_r1,
    };
    let lookup = format!(
        "{{\"table\":\"items\",\"keys\":{{\"$u64\":[{}]}}}}",
        keys.join(",")
    );
    [
        kind("echo-d1", "echo", PAYLOAD, 1, false),
        kind("echo-d16", "echo", PAYLOAD, 16, false),
        kind("lookup-100", "features.lookup", &lookup, 1, false),
        kind("r1", "infer", "", 1, true),
    ]
}

impl Kind {
    /// A scenario against a server that runs; `load` is what `[load]` holds besides the number in flight and the press' core.
    pub(super) fn scenario(
        &self,
        setup: &Setup,
        server: &Server,
        name: &str,
        load: &str,
    ) -> anyhow::Result<String> {
        let whole = |path: &str| std::fs::canonicalize(path).with_context(|| format!("{path} is not there"));
        let requests = match self.of_r1 {
            true => format!(
                "[requests]\nfile = {:?}\nexpected = {:?}\n[check]\nfield = \"scores\"\nlength_of = \"samples\"\n",
                whole(r1::REQUESTS)?,
                whole(r1::EXPECTED)?
            ),
            false => {
                let file = setup.out.join(format!("{name}.jsonl"));
                std::fs::write(&file, format!("{}\n", self.payload))
                    .with_context(|| format!("cannot write {}", file.display()))?;
                format!("[requests]\nfile = {file:?}\n[check]\nsame = true\n")
            }
        };
        Ok(format!(
            "[scenario]\nname = \"builds\"\n[target]\nname = \"millpond\"\nprotocol = \"native\"\naddress = \"{}\"\n\
             server_pid = {}\nmethod = \"{}\"\ntimeout_ms = 60000\n{requests}[load]\nin_flight = {}\nclient_cpus = [{}]\n{load}",
            server.address,
            server.pid(),
            self.method,
            self.in_flight,
            cores::PRESS
        ))
    }
}

/// Makes the files of R1, and the table that is looked up; the configuration of the server that has neither model nor pipeline.
pub(super) fn prepare(setup: &Setup) -> anyhow::Result<String> {
    r1::prepare(setup)?;
    let tables = setup.out.join("tables");
    let mut random = Command::new(&setup.millpond);
    let rows = ROWS.to_string();
    random.args(["features", "random", "--name", "items", "--rows", &rows]);
    random.args(["--dim", "10", "--seed", "7", "--out"]).arg(&tables);
    crate::child::run(setup, "features-random", random)?.succeeded()?;
    let config = setup.out.join("hardening.toml");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nthreads = 1\ncpus = [0]\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = 5\n\
         [methods.echo]\nkind = \"echo\"\n[features.items]\npath = \"{}\"\n",
        tables.join("items").display()
    );
    std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    Ok(config.display().to_string())
}

/// Starts a build for a kind of request; `before` is put in front of its command, such as valgrind.
pub(super) fn start(
    setup: &Setup,
    (build, config): (&Path, &str),
    name: &str,
    of_r1: bool,
    before: &[String],
) -> anyhow::Result<Server> {
    // A slow tool may stand in front of it.
    let mut set = vec!["server.deadline_ms_default=60000"];
    let config = match of_r1 {
        true => {
            set.extend(r1::ONE_CORE);
            set.push("log.level=5");
            r1::CONFIG
        }
        false => config,
    };
    Server::launch(
        setup,
        &Start {
            build,
            before,
            name,
            config,
            set: &set,
        },
    )
}
