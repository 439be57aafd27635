//! Black-box tests: the real binary, real sockets, real files. One behaviour a module.
//! No test here asserts a time; waits are bounded only so that a hang fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

mod access;
mod bad_input;
mod call;
mod commands;
mod configuration;
mod drain;
mod duplex;
mod failing_disk;
mod harness;
mod infer;
mod logging;
mod methods;
mod ordered;
mod overload;
mod placement;
mod press;
mod press_processes;
mod press_recipes;
mod processes;
mod rank;
mod slow_reader;
mod stopping;
mod tls;
