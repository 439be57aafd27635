//! The repository's own checks: which crate may use which, tidy sources, licences and banned crates.
//!
//! Not a build tool and not part of the product. Each check is a pure function from what was read
//! (`cargo metadata`, the tracked files) to findings; reading and printing happen here alone.
#![allow(clippy::print_stdout)] // Findings on standard output are what this program is for.

mod edges;
mod finding;
mod licences;
mod lines;
mod tidy;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

use finding::{Finding, Level};
use workspace::Workspace;

const USAGE: &str = "usage: cargo run -p millpond-xtask -- CHECK...
  edges     every dependency between our crates is in the allowed table (xtask/src/edges.rs)
  tidy      headers, names, leftovers, lengths, unsafe code, and the documents that list crates and dependencies
  licences  every package the Linux build resolves is under an allowed licence and none is banned
  lines     prints how many lines of production code each folder has";

fn main() -> anyhow::Result<ExitCode> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty()
        || names
            .iter()
            .any(|name| !["edges", "tidy", "licences", "lines"].contains(&name.as_str()))
    {
        println!("{USAGE}");
        return Ok(ExitCode::from(2));
    }
    let workspace = workspace::read()?;
    let mut refused = 0;
    for name in &names {
        if name == "lines" {
            println!("{}", lines::table(Path::new(&workspace.root))?);
            continue;
        }
        refused += report(name, &run(name, &workspace)?);
    }
    Ok(if refused == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run(name: &str, workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    match name {
        "edges" => Ok(edges::check(&workspace.members)),
        "licences" => Ok(licences::check(&workspace.packages)),
        _ => tidy::check(workspace),
    }
}

/// Prints the findings, the refusals last, and returns how many refuse.
fn report(name: &str, findings: &[Finding]) -> usize {
    let (refused, warned): (Vec<_>, Vec<_>) = findings.iter().partition(|f| f.level == Level::Refused);
    for finding in warned.iter().chain(&refused) {
        println!("{finding}");
    }
    match refused.len() {
        0 => println!("{name}: ok ({} to think about)", warned.len()),
        count => println!("{name}: {count} refused"),
    }
    refused.len()
}
