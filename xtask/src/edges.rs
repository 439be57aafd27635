//! Which of our crates may use which.
//!
//! The table below is the whole rule: an edge that is not in it is refused, whatever the reason. An engine
//! never sees a socket or a wire type, wire never sees an engine, and engines meet in pipelines alone.

use crate::finding::Finding;
use crate::workspace::Member;

/// Folder → folders it may use. `*` stands for one path segment, or for everything where it is alone.
const ALLOWED: &[(&str, &[&str])] = &[
    ("calls", &["wire/schema", "wire/payload", "nodes"]),
    ("metrics", &[]),
    ("nodes", &[]),
    ("membership", &["nodes"]),
    ("wire/channel", &[]),
    ("wire/payload", &[]),
    // A frame's flags say how its payload is encoded.
    ("wire/frame", &["wire/payload"]),
    ("wire/schema", &["tensor", "wire/payload"]),
    ("threads", &[]),
    // The log of every engine that keeps one.
    ("prefetch", &[]),
    ("wal", &["threads"]),
    ("fleet", &["threads"]),
    ("tensor", &[]),
    // It knows no protocol, and no call.
    ("net", &["threads"]),
    ("fronts/answer", &["calls", "net", "wire/payload", "wire/schema"]),
    (
        "fronts/websocket",
        &[
            "calls",
            "net",
            "wire/*",
            "fronts/answer",
            "fronts/http",
            "fronts/native",
        ],
    ),
    (
        "fronts/*",
        &["calls", "net", "nodes", "threads", "wire/*", "fronts/answer"],
    ),
    ("engines/features", &["prefetch", "wal"]),
    ("engines/features/build", &["engines/features"]),
    // What asks object stores needs a runtime, and lookups have none.
    ("engines/features/fetch", &["engines/features"]),
    ("engines/ordered", &["prefetch", "wal"]),
    ("engines/batcher", &["tensor", "threads", "backends/interface"]),
    ("pipelines", &["tensor", "engines/*", "backends/interface"]),
    ("backends/interface", &["tensor"]),
    ("backends/elf", &[]),
    // Worker processes, for every backend that may run in them: each would else write its own.
    (
        "backends/worker",
        &["tensor", "threads", "fleet", "backends/interface"],
    ),
    (
        "backends/*",
        &[
            "tensor",
            "threads",
            "backends/interface",
            "backends/elf",
            "backends/worker",
        ],
    ),
    // The one list of backends is there.
    (
        "catalog",
        &["tensor", "threads", "engines/*", "pipelines", "backends/*"],
    ),
    (
        "methods",
        &[
            "calls",
            "catalog",
            "nodes",
            "wire/payload",
            "wire/schema",
            "engines/*",
            "pipelines",
            "backends/interface",
            "tensor",
        ],
    ),
    (
        "server",
        &[
            "calls",
            "threads",
            "fleet",
            "net",
            "fronts/*",
            "wire/*",
            "engines/*",
            "engines/features/fetch",
            "catalog",
            "methods",
            "pipelines",
            "nodes",
            "membership",
        ],
    ),
    ("client/rust", &["wire/*", "nodes", "tensor", "membership"]),
    (
        "client/python",
        &[
            "client/rust",
            "server",
            "catalog",
            "pipelines",
            "engines/*",
            "engines/features/build",
            "backends/interface",
            // Its worker processes end with their server, and its interpreter runs those of plugins.
            "backends/worker",
            "backends/plugin",
            "calls",
            "methods",
            "metrics",
            "tensor",
        ],
    ),
    ("press/workload", &[]),
    ("press/recorder", &[]),
    ("press/verdict", &["press/recorder"]),
    ("press/report", &["press/recorder", "press/verdict"]),
    ("press/practice", &[]),
    (
        "press/load",
        &[
            // The programs that make calls end with it.
            "fleet",
            "tensor",
            "press/workload",
            "press/recorder",
            "wire/payload",
            "wire/schema",
            "engines/*",
            "calls",
            "catalog",
            "methods",
            "pipelines",
        ],
    ),
    (
        "press/lab",
        &[
            "press/workload",
            "press/recorder",
            "press/verdict",
            "press/report",
            "press/load",
            "fleet",
        ],
    ),
    (
        "cli",
        &[
            "server",
            "client/rust",
            "press/lab",
            "press/practice",
            "engines/features/build",
            "engines/ordered",
            // It draws them.
            "pipelines",
            // Its worker processes are this program.
            "backends/plugin",
        ],
    ),
    ("benches", &["*"]),
    // It feeds bytes to everything that reads them from a network: images in pipelines too, files of tables, which an
    // object store may send, and a store's records, which its leader does.
    (
        "fuzz",
        &[
            "calls",
            "net",
            "fronts/*",
            "wire/*",
            "client/rust",
            "engines/features",
            "engines/features/build",
            "engines/ordered",
            "nodes",
            "pipelines",
            "tensor",
        ],
    ),
    // It sees the server from outside, and shares what reads and writes its wire alone.
    ("tests/chaos", &["wire/frame", "wire/payload", "wire/schema"]),
    ("xtask", &[]),
];

/// What any crate may use besides: a part declares what it counts wherever it is.
const ALLOWED_TO_ALL: &str = "metrics";

/// What any crate's tests may use besides.
const ALLOWED_IN_TESTS: &[&str] = &["press/workload", "press/practice", "client/rust"];

/// The crate whose tests are the black-box test binary and may use everything.
const BLACK_BOX: &str = "cli";

/// Refuses every edge that is not in the table, crates without a line in it, and names that are not the folder's path.
pub fn check(members: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in members {
        let named = format!("millpond-{}", member.folder.replace('/', "-"));
        if member.name != named {
            let message = format!(
                "the package in {}/ is called {}: call it {named}",
                member.folder, member.name
            );
            findings.push(Finding::refused(&member.name, message));
        }
        let Some(allowed) = allowed_for(&member.folder) else {
            let message = format!(
                "{}/ has no line in the table of allowed edges (xtask/src/edges.rs)",
                member.folder
            );
            findings.push(Finding::refused(&member.name, message));
            continue;
        };
        for dependency in member.dependencies.iter().filter(|dependency| dependency.ours) {
            let Some(target) = members.iter().find(|other| other.name == dependency.name) else {
                let message = format!("{} is a path outside the workspace", dependency.name);
                findings.push(Finding::refused(&member.name, message));
                continue;
            };
            let for_tests = dependency.dev
                && (member.folder == BLACK_BOX || ALLOWED_IN_TESTS.contains(&target.folder.as_str()));
            let for_all = target.folder == ALLOWED_TO_ALL;
            if !for_all && !for_tests && !allowed.iter().any(|pattern| matches(pattern, &target.folder)) {
                findings.push(Finding::refused(
                    &member.name,
                    not_allowed(&member.folder, &target.folder, allowed),
                ));
            }
        }
    }
    findings
}

/// The first line of the table whose folder matches; an exact name stands before its pattern.
fn allowed_for(folder: &str) -> Option<&'static [&'static str]> {
    ALLOWED
        .iter()
        .find(|(pattern, _)| matches(pattern, folder))
        .map(|(_, allowed)| *allowed)
}

fn matches(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some("") => true,
        Some(parent) => folder
            .strip_prefix(parent)
            .is_some_and(|rest| !rest.is_empty() && !rest.contains('/')),
        None => pattern == folder,
    }
}

fn not_allowed(from: &str, to: &str, allowed: &[&str]) -> String {
    let list = if allowed.is_empty() {
        "no crate of ours".to_owned()
    } else {
        allowed.join(", ")
    };
    format!("{from} may not use {to}; it may use {list}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn member(folder: &str, dependencies: &[(&str, bool)]) -> Member {
        let name = |folder: &str| format!("millpond-{}", folder.replace('/', "-"));
        let depend = |&(folder, dev): &(&str, bool)| Dependency {
            name: name(folder),
            rename: None,
            dev,
            ours: true,
        };
        Member {
            name: name(folder),
            folder: folder.to_owned(),
            dependencies: dependencies.iter().map(depend).collect(),
        }
    }

    /// Checks one crate beside crates for everything it uses; `expected` is what each refusal contains.
    fn check_one(folder: &str, dependencies: &[(&str, bool)], expected: &[&str]) {
        let mut members = vec![member(folder, dependencies)];
        members.extend(dependencies.iter().map(|(target, _)| member(target, &[])));
        let found = check(&members);
        assert_eq!(found.len(), expected.len(), "{folder}: {found:?}");
        for (finding, expected) in found.iter().zip(expected) {
            assert!(finding.message.contains(expected), "{folder}: {finding}");
        }
    }

    #[test]
    fn the_edges_of_the_table_pass() {
        check_one("fronts/native", &[("wire/frame", false), ("net", false)], &[]);
        check_one("backends/onnxruntime", &[("backends/interface", false)], &[]);
        check_one("engines/ordered", &[("metrics", false)], &[]);
        check_one(
            "server",
            &[
                ("engines/ordered", false),
                ("wire/frame", false),
                ("catalog", false),
            ],
            &[],
        );
        check_one(
            "benches",
            &[("server", false), ("engines/features/build", false)],
            &[],
        );
        check_one("fuzz", &[("fronts/http", false), ("client/rust", false)], &[]);
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_refused() {
        check_one(
            "engines/batcher",
            &[("wire/frame", false)],
            &["engines/batcher may not use wire/frame"],
        );
        check_one(
            "wire/frame",
            &[("wire/schema", false)],
            &["wire/frame may not use wire/schema; it may use wire/payload"],
        );
        check_one(
            "backends/interface",
            &[("backends/onnxruntime", false)],
            &["may not use backends/onnxruntime"],
        );
        check_one(
            "client/rust",
            &[("server", false)],
            &["client/rust may not use server"],
        );
        check_one(
            "server",
            &[("engines/features/build", false)],
            &["server may not use engines/features/build"],
        );
        check_one(
            "xtask",
            &[("wire/frame", false)],
            &["xtask may not use wire/frame"],
        );
        check_one(
            "net",
            &[("wire/frame", false), ("fronts/http", false)],
            &["net may not use wire/frame", "net may not use fronts/http"],
        );
        check_one(
            "fronts/http",
            &[("engines/ordered", false), ("fronts/native", false)],
            &["may not use engines/ordered", "may not use fronts/native"],
        );
        check_one(
            "fuzz",
            &[("engines/batcher", false)],
            &["fuzz may not use engines/batcher"],
        );
    }

    #[test]
    fn tests_may_use_the_workload_and_the_client_and_the_black_box_everything() {
        check_one(
            "wire/frame",
            &[("press/workload", true), ("client/rust", true)],
            &[],
        );
        check_one(
            "wire/frame",
            &[("press/workload", false)],
            &["may not use press/workload"],
        );
        check_one("net", &[("server", true)], &["may not use server"]);
        check_one("cli", &[("wire/frame", true), ("engines/ordered", true)], &[]);
        check_one("cli", &[("wire/frame", false)], &["cli may not use wire/frame"]);
    }

    #[test]
    fn a_crate_without_a_line_and_a_wrong_name_are_refused() {
        check_one("wire/quic", &[], &["wire/quic/ has no line"]);
        let misnamed = Member {
            name: "millpond-frames".into(),
            folder: "wire/frame".into(),
            ..Member::default()
        };
        assert!(
            check(&[misnamed])[0]
                .message
                .contains("call it millpond-wire-frame")
        );
        let mut stray = member("server", &[("wire/frame", false)]);
        stray.dependencies[0].name = "elsewhere".into();
        assert!(check(&[stray])[0].message.contains("outside the workspace"));
    }
}
