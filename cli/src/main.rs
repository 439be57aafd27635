//! `millpond`, the one binary: it parses, calls the library that does the work, and prints.
//!
//! Nothing is decided here. Its invariant: exit codes are 0 done, 1 failed, 2 usage, 3 no valid result of a measurement.

mod allocator;
mod call;
mod connect;
mod doctor;
mod features;
mod ordered;
mod pipeline;
mod plugin_worker;
mod press;
mod serve;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// One online prediction server, and the lab that proves its numbers.
#[derive(Parser)]
#[command(version = allocator::VERSION, about, long_about = LONG, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const LONG: &str = "One online prediction server, and the lab that proves its numbers.\n\n\
It accepts requests, fetches features, runs the model in batches and answers in about a millisecond; \
`press` measures it.\n\n\
Start with:  millpond serve --config config/millpond.toml\n\
Then:        millpond call '*ping' '{}'";

#[derive(Subcommand)]
enum Command {
    /// Serve models, features and ordered data until SIGTERM.
    Serve(serve::Serve),
    /// Read and check a configuration file, and say what it would serve.
    CheckConfig(serve::CheckConfig),
    /// Build, inspect, verify, compare and export feature tables, fold upserts into them, and switch the versions that serve.
    #[command(subcommand)]
    Features(features::Features),
    /// Dump, load, verify, back up, restore and promote ordered stores.
    #[command(subcommand)]
    Ordered(ordered::Ordered),
    /// Draw pipelines, and translate those of torchpipe.
    #[command(subcommand)]
    Pipeline(pipeline::Pipeline),
    /// Measure a server.
    #[command(subcommand)]
    Press(press::Press),
    /// Call one method of a running server and print its answer.
    Call(call::Call),
    /// Read this machine's limits and say what to change for a configuration.
    Doctor(doctor::Doctor),
    /// What a server starts for plugins with `isolate = true`.
    #[command(name = millpond_backends_plugin::WORKER, hide = true)]
    PluginWorker,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        // Whoever stops a server does not wait for those who read what it says.
        Command::Serve(serve) => return ended(serve::serve(&serve), millpond_server::say),
        Command::CheckConfig(check) => serve::check(&check),
        Command::Features(features) => features::run(features),
        Command::Ordered(ordered) => ordered::run(&ordered),
        Command::Pipeline(pipeline) => pipeline::run(&pipeline),
        Command::Press(press) => return press::run(press),
        Command::Call(call) => call::run(&call),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::PluginWorker => plugin_worker::run(),
    };
    ended(done, |text| eprintln!("{text}"))
}

/// The exit code, and what went wrong, said.
fn ended(done: anyhow::Result<()>, say: impl FnOnce(&str)) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("millpond: {}", told(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes, less those whose words it has said already.
fn told(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| {
        let words = cause.to_string();
        match told.as_str() {
            "" => words,
            _ if told.contains(&words) => told,
            _ => format!("{told}: {words}"),
        }
    })
}

/// Prints a line of result to standard output.
fn print(text: &str) {
    is_printed(text);
}

/// Prints; false when it could not be written, which is said. A reader that went away is no failure.
fn is_printed(text: &str) -> bool {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("millpond: cannot write to standard output: {error}");
            false
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
