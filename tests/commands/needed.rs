//! What scenarios need that is not of this repository, or is built before. Its invariant: what is missing is named, and nothing but packages of
//! the system is installed.

use std::path::Path;
use std::sync::Mutex;

use super::place::bash;
use super::root;

/// Programs of other packages, by the scenario that starts them.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("peer-redis.toml", "redis-server", "redis-server"),
    ("peer-memcached.toml", "memcached", "memcached"),
    ("r2-single.toml", "redis-server", "redis-server"),
    ("r2-single.toml", "memcached", "memcached"),
    ("r2-batch.toml", "redis-server", "redis-server"),
    ("r2-batch.toml", "memcached", "memcached"),
];

/// What is built before, by the scenario that uses it.
const BUILT: &[(&str, &str, &str)] = &[
    ("r4-local.toml", NATIVE, PYTHON),
    ("r4-batch.toml", NATIVE, PYTHON),
    ("r4-gil.toml", NATIVE, PYTHON),
    ("r4-gil.toml", ".demo/venv", DEMO),
    ("r4-decode.toml", NATIVE, PYTHON),
    ("r4-decode.toml", ".demo/venv", DEMO),
    ("r4-resnet.toml", NATIVE, PYTHON),
    ("r4-resnet.toml", ".demo/venv", DEMO),
    ("r4-resnet-gpu.toml", NATIVE, PYTHON),
    ("r4-resnet-gpu.toml", ".demo/venv", DEMO),
];
const PYTHON: &str = "what `make python` builds";
const DEMO: &str = "the demo's environment";
const NATIVE: &str = "client/python/millpond/_native.abi3.so";

/// The programs a scenario needs that are not here and cannot be installed, and what was not built.
pub fn missing_programs(scenario: &str) -> Vec<&'static str> {
    let needed = PROGRAMS.iter().filter(|(name, _, _)| *name == scenario);
    let programs = needed
        .filter(|(_, program, package)| !is_there(program) && !install(package, program))
        .map(|(_, program, _)| *program);
    let built = BUILT
        .iter()
        .filter(|(name, path, _)| *name == scenario && !root().join(path).exists())
        .map(|(_, _, words)| *words);
    programs.chain(built).collect()
}

/// Whether a program is here, or could be installed with its package.
pub(crate) fn program(package: &str, program: &str) -> bool {
    is_there(program) || install(package, program)
}

fn is_there(program: &str) -> bool {
    bash(Path::new("/"), &format!("command -v {program}"))
        .status()
        .unwrap()
        .success()
}

/// Root on Debian gets it installed; nobody else is asked for anything.
fn install(package: &str, program: &str) -> bool {
    // Two scenarios at once would find the package lists locked; a peer that starts by itself would take a port.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    let install = format!(
        "[ $(id -u) = 0 ] && command -v apt-get && export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 && \
         get='apt-get -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends {package}' && \
         ($get || (apt-get update && $get))"
    );
    let _ = bash(Path::new("/"), &install).output();
    is_there(program)
}
