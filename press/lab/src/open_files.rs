//! Whether a load has files enough: a connection is one, and so is each pipe to a process of the load generator.
//!
//! Its invariant: what is advised would do.

use crate::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files a process needs beside its connections.
const BESIDE: usize = 64;
/// More processes than anybody starts.
const PROCESSES_MAX: usize = 256;

/// Whether every process may open the files it needs; its own limit is raised to that, which other processes inherit.
pub(crate) fn check_open_files(connections: usize, processes: usize, targets: usize) -> Result<(), Error> {
    let needed = needed(connections, processes, targets) as u64;
    let allowed = raise_open_files(needed);
    if allowed < needed {
        return Err(too_few(connections, processes, targets, allowed));
    }
    Ok(())
}

/// Raises the soft limit of open files to `needed` if the hard limit allows; gives the limit that now holds.
fn raise_open_files(needed: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let now = current.unwrap_or(u64::MAX);
    let raised = needed.min(maximum.unwrap_or(u64::MAX));
    if now >= raised {
        return now;
    }
    let new = Rlimit {
        current: Some(raised),
        maximum,
    };
    setrlimit(Resource::Nofile, new).map_or(now, |()| raised)
}

/// Files that the one process needs which needs most: connections of all targets where there is one, else those of one
/// target, or in the press the two pipes to each of the others.
fn needed(connections: usize, processes: usize, targets: usize) -> usize {
    let most = match processes {
        1 => connections * targets,
        _ => connections.div_ceil(processes).max(pipes(processes, targets)),
    };
    most + BESIDE
}

fn pipes(processes: usize, targets: usize) -> usize {
    2 * processes * targets
}

fn too_few(connections: usize, processes: usize, targets: usize, allowed: u64) -> Error {
    let needed_by = |processes| needed(connections, processes, targets) as u64;
    let enough = (1..=PROCESSES_MAX.min(connections)).find(|&processes| needed_by(processes) <= allowed);
    let held = connections.div_ceil(processes);
    let need = if processes == 1 {
        let each = if targets > 1 {
            format!(" to each of {targets} targets")
        } else {
            String::new()
        };
        format!("{connections} connections{each}")
    } else if pipes(processes, targets) > held {
        format!("the pipes to {processes} processes for each target")
    } else {
        format!("{held} connections in each of {processes} processes")
    };
    Error::OpenFiles {
        need,
        needed: needed_by(processes),
        allowed,
        enough,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_known() {
        assert!(raise_open_files(16) >= 16);
    }

    fn check(connections: usize, processes: usize, targets: usize, allowed: u64, words: &[&str]) {
        let said = too_few(connections, processes, targets, allowed).to_string();
        for words in words {
            assert!(said.contains(words), "{words:?}: {said}");
        }
    }

    #[test]
    fn what_is_advised_would_do() {
        check(
            2_000,
            1,
            1,
            1_024,
            &[
                "2000 connections need 2064 open files",
                "limit here is 1024",
                "set load.processes = 3",
            ],
        );
        check(
            2_000,
            1,
            2,
            1_024,
            &[
                "2000 connections to each of 2 targets need 4064",
                "set load.processes = 3",
            ],
        );
        check(
            9_000,
            4,
            1,
            1_024,
            &[
                "2250 connections in each of 4 processes",
                "set load.processes = 10",
            ],
        );
        // Fewer would do here: it is not the connections that need them.
        check(
            600,
            200,
            3,
            1_024,
            &[
                "the pipes to 200 processes for each target need 1264",
                "set load.processes = 2",
            ],
        );
        check(1_000_000, 16, 1, 1_024, &["or lower load.connections"]);
        for (connections, targets, allowed) in [(5_000, 1, 256), (70_000, 2, 1_024), (300, 1, 100)] {
            if let Error::OpenFiles {
                enough: Some(enough), ..
            } = too_few(connections, 1, targets, allowed)
            {
                assert!(needed(connections, enough, targets) as u64 <= allowed);
            }
        }
    }
}
