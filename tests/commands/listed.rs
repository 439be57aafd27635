//! Commands that no test runs, by their beginning, each with the reason.

/// The explicit list. What is not on it must run.
pub const LISTED: &[(&str, &str)] = &[
    (
        "make ",
        "a recipe of the task file: .ci/run runs test and lint, a person the others",
    ),
    (".ci/run", "the tests, and so this one"),
    (
        "python3 examples/movielens/fetch.py",
        "fetches an environment and a data set from other hosts; `make demo` runs it",
    ),
    (
        ".demo/venv/bin/python",
        "needs the environment that fetch.py makes",
    ),
    (
        "python3.11 examples/r4/make_r4.py",
        "fetches an environment and photographs from other hosts; a person runs it before the scenarios of report R4",
    ),
    (
        "millpond features build --input",
        "needs Parquet that Python makes in that environment; the builder's tests make their own",
    ),
    (
        "millpond features build --compact",
        "needs the table of the commands before it; the builder's tests fold their own",
    ),
    (
        "millpond features activate embeddings",
        "needs a server's token; tests/serving/version_commands.rs runs it",
    ),
    ("millpond features rollback embeddings", "the same"),
    (
        "curl -s localhost:13500/service/features.lookup -d '{\"table\": \"items\"",
        "needs a server of the table that is built before it; tests/serving/upserts.rs makes such calls",
    ),
    ("curl -s localhost:13500/service/features.upsert", "the same"),
    (
        "millpond features fold",
        "needs the log of a server that took upserts; tests/serving/upserts.rs and tests/nodes/folding.rs run it",
    ),
    (
        "millpond serve --config examples/plugin/plugin.toml",
        "needs the library that make builds before; the tests of plugins build and serve it",
    ),
    (
        "millpond call infer '{\"inputs\": {\"user\": {\"shape\": [1]",
        "a call of that server; the tests of plugins make it",
    ),
    (
        "millpond serve --config examples/python/python.toml",
        "needs the Python package; client/python/tests/local serves it",
    ),
    ("millpond serve --config examples/python/words.toml", "the same"),
    (
        "millpond call infer '{\"inputs\": {\"user\": {\"shape\": [1, 4]",
        "a call of that server; client/python/tests/local makes it",
    ),
    (
        "millpond call infer '{\"inputs\": {\"text\": {\"shape\": []",
        "the same",
    ),
    ("podman ", "needs a container engine and a registry's base image"),
    (
        "millpond press run SCENARIO",
        "a form and no command: SCENARIO stands for a file",
    ),
    (
        "millpond press search SCENARIO",
        "a form and no command: SCENARIO stands for a file",
    ),
    (
        "millpond press report FOLDER",
        "a form and no command: FOLDER stands for folders",
    ),
    (
        "millpond press practice            #",
        "a server that runs until it is stopped; the recipes start it",
    ),
    (
        "millpond call '*ping' --addr tls://millpond.example",
        "a host of documentation (RFC 2606); the tests of TLS make the call",
    ),
];

/// Why a command is not run, if it is not.
pub fn reason(command: &str) -> Option<&'static str> {
    let mut listed = LISTED.iter();
    listed
        .find(|(start, _)| command.starts_with(start))
        .map(|(_, why)| *why)
}
