//! Every command of the README, the docs, the examples and the heads of the scenarios is run as it stands, only shorter, on ports
//! and data of its own; or it is on the list of those that cannot be, with the reason.
//!
//! A command is a line of a code block, or of a comment that is set in, whose first word is a program that is known here. What a block
//! prints is none; a line of an `sh` block, or one behind a `$ `, that begins with no such program fails.

mod listed;
pub(crate) mod needed;
mod place;
mod r4;
mod short;
mod written;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use listed::reason;
use place::Place;
use written::{Written, strange, written};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

/// Files below a folder whose names end so.
fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(end) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn scenarios() -> Vec<PathBuf> {
    let all = files("press/scenarios", ".toml");
    let is_scenario = |path: &PathBuf| !path.to_str().unwrap().ends_with(".config.toml");
    all.into_iter().filter(is_scenario).collect()
}

/// The names and texts of all files that say commands.
fn texts() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    for (folder, end) in [
        ("docs", ".md"),
        ("examples", ".md"),
        ("examples", ".toml"),
        ("config", ".toml"),
        ("config", ".service"),
        ("press/scenarios", ".toml"),
    ] {
        paths.extend(files(folder, end));
    }
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            (name, text)
        })
        .collect()
}

/// What each file says to run.
fn documents() -> Vec<(String, Vec<Written>)> {
    let texts = texts().into_iter();
    texts
        .map(|(name, text)| (name, written(&text)))
        .filter(|(_, written)| !written.is_empty())
        .collect()
}

/// The line of .ci/skips.py for what was left out, as cargo prints an ignored test. What cargo has begun to print stays above it.
fn ignored(name: &str, reason: &str) -> String {
    format!("\ntest commands::{name} ... ignored, {reason}\n")
}

#[test]
fn what_is_left_out_is_seen_by_the_list_of_skips() {
    let skips = |ci: &str| {
        let line = ignored("some.toml", "needs redis-server, which is not here");
        let program = root().join(".ci/skips.py");
        let mut command = std::process::Command::new("python3");
        command.arg(program).args(["printf", "%s", &line]).env("CI", ci);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let named = "commands::some.toml: needs redis-server, which is not here";
    let (may_be, said) = skips("");
    assert!(
        may_be && said.contains(&format!("skipped, which would fail in CI: {named}")),
        "{said}"
    );
    let (may_be, said) = skips("1");
    assert!(
        !may_be && said.contains("SKIPPED") && said.contains(named),
        "{said}"
    );
}

/// A scenario that says no command of its own is run once all the same.
#[test]
fn every_shipped_scenario_runs_as_its_head_says() {
    std::thread::scope(|scope| {
        for path in scenarios() {
            scope.spawn(move || {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let missing = needed::missing_programs(&name);
                if !missing.is_empty() {
                    let reason = format!("needs {}, which is not here", missing.join(" and "));
                    // Whether that may be is for .ci/skips.py to say, which reads this.
                    // Not by println!, which shows nothing of a test that passes.
                    let _ = std::io::stdout().write_all(ignored(&name, &reason).as_bytes());
                    return;
                }
                let place = Place::new(&name);
                let head = written(&std::fs::read_to_string(&path).unwrap());
                let mut commands: Vec<&str> = head.iter().map(|written| written.command.as_str()).collect();
                commands.retain(|command| reason(command).is_none());
                let plain = format!("millpond press run press/scenarios/{name}");
                if !commands.iter().any(|command| command.contains(&name)) {
                    commands.push(&plain);
                }
                place.serve_for(&name);
                for command in commands {
                    place.run(command);
                }
                place.check_results();
            });
        }
    });
}

#[test]
fn every_command_of_the_documents_is_run_or_listed() {
    let in_heads: BTreeSet<String> = scenarios()
        .iter()
        .flat_map(|path| written(&std::fs::read_to_string(path).unwrap()))
        .map(|written| written.command)
        .collect();
    std::thread::scope(|scope| {
        for (name, commands) in documents() {
            if name.starts_with("press/scenarios/") {
                continue;
            }
            let in_heads = &in_heads;
            scope.spawn(move || {
                // What stands behind a # is for people.
                let is_run_there = |command: &str| {
                    let command = command.split("  #").next().unwrap_or_default().trim_end();
                    in_heads.contains(command) && !command.contains("echo-floor")
                };
                let mine: Vec<&Written> = commands
                    .iter()
                    .filter(|written| reason(&written.command).is_none() && !is_run_there(&written.command))
                    .collect();
                if mine.is_empty() {
                    return;
                }
                let place = Place::new(&name);
                place.write_tables(&std::fs::read_to_string(root().join(&name)).unwrap());
                let mut blocks: Vec<(usize, String)> = Vec::new();
                for written in mine {
                    match blocks.last_mut() {
                        // What a shell block says is said to one shell.
                        Some((block, script)) if written.is_shell && *block == written.block => {
                            *script += &format!("\n{}", written.command);
                        }
                        _ => blocks.push((written.block, written.command.clone())),
                    }
                }
                for (_, script) in &blocks {
                    place.run(script);
                }
                place.check_results();
            });
        }
    });
}

/// A command that nobody knows would be taken for what another one prints, and run by nobody.
#[test]
fn every_line_for_a_shell_begins_with_a_program() {
    for (name, text) in texts() {
        let mut strange = strange(&text);
        strange.retain(|line| reason(line).is_none());
        assert!(
            strange.is_empty(),
            "{name}: add the programs to PROGRAMS, or the lines to the list with the reason: {strange:#?}"
        );
    }
}

/// A line of the list that no command begins with is a line too many.
#[test]
fn the_list_holds_nothing_that_is_not_written() {
    let commands: Vec<String> = texts()
        .iter()
        .flat_map(|(_, text)| {
            let written = written(text).into_iter().map(|written| written.command);
            written.chain(strange(text))
        })
        .collect();
    assert!(commands.len() > 50, "only {} commands were found", commands.len());
    for (start, why) in listed::LISTED {
        assert!(
            commands.iter().any(|command| command.starts_with(start)),
            "no command begins with {start:?} any more ({why})"
        );
    }
}

/// The rows of a table are held against those that were made, in process as over a network.
#[test]
fn rows_that_are_not_those_that_were_made_are_failures() {
    let place = Place::new("rows");
    place.run("millpond features random --out tables --name items --rows 500 --dim 10 --seed 7");
    let scenario = "[scenario]\nname = \"rows\"\n[keys]\ncount = 500\n[requests]\ncount = 50\n\
        [check]\nrows = { seed = 7, dim = 10 }\n[load]\nconnections = [1]\nrequests_per_connection = 100\n\
        [target]\nprotocol = \"features\"\nfiles = \"tables/items\"\noperations = [{ command = \"{keys 20}\" }]\n";
    std::fs::write(place.path("rows.toml"), scenario).unwrap();
    let right = place.press("run rows.toml --out right");
    assert_eq!(right.code, 0, "{right:?}");
    let point = &right.result["points"][0];
    assert_eq!(point["counters"]["ok"], 100);
    assert!(
        right.result["requests"][0]["check"]
            .to_string()
            .contains("every row is the one that was made"),
        "{right:?}"
    );
    for wrong in ["check.rows.seed=8", "check.rows.dim=9"] {
        let out = wrong.replace(['.', '='], "-");
        let run = place.press(&format!("run rows.toml --out {out} --set {wrong}"));
        assert_eq!(run.code, 1, "{run:?}");
        let point = &run.result["points"][0];
        assert_eq!(
            (&point["counters"]["wrong"], &point["verdict"]["judgement"]),
            (&100.into(), &"FAILING".into()),
            "{run:?}"
        );
    }
    let refused = place.press("run rows.toml --out refused --set load.in_flight=4");
    assert!(
        refused.code == 2 && refused.stderr.contains("load.in_flight"),
        "{refused:?}"
    );
}
