//! Redis's own programs against the real binary: redis-cli and redis-benchmark.

use crate::commands::needed;
use crate::harness::Millpond;
use crate::serving::resp::folder;
use std::io::Write as _;
use std::process::Command;

const CONFIG: &str = "[server]\nlisten = \"127.0.0.1:0\"\nthreads = 1\n[server.resp]\nlisten = \"127.0.0.1:0\"\n\
                      [admin]\nlisten = \"127.0.0.1:0\"\n[log]\nfile = \"millpond.log\"\n\
                      [features.films]\npath = \"tables/films\"\nresp_database = 2\n\
                      [ordered.events]\npath = \"events\"\ndurability = \"logged\"\nresp_database = 0\n";

/// Whether the programs are here; else the test says that it was left out, as cargo prints an ignored one.
fn are_here(test: &str) -> bool {
    let here = needed::program("redis-tools", "redis-cli");
    if !here {
        let line = format!("\ntest serving::redis::{test} ... ignored, needs redis-cli, which is not here\n");
        let _ = std::io::stdout().write_all(line.as_bytes());
    }
    here
}

/// What a program says of database 2, its errors too.
fn run(server: &Millpond, program: &str, words: &[&str]) -> String {
    let (host, port) = server.resp.as_ref().unwrap().split_once(':').unwrap();
    let mut command = Command::new(program);
    command.args(["-h", host, "-p", port]).args(words);
    let output = command.output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?}: {text}");
    text
}

#[test]
fn redis_cli_reads_tables() {
    if !are_here("redis_cli_reads_tables") {
        return;
    }
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    for (words, expected) in [
        (&["-n", "2", "strlen", "7"][..], "8\n"),
        (&["-n", "2", "exists", "7", "1000"], "1\n"),
        (&["-n", "2", "-3", "type", "7"], "string\n"),
        (&["-n", "2", "dbsize"], "100\n"),
        (
            &["-n", "2", "--no-raw", "get", "7"],
            "\"\\x00\\x00\\xe0@\\x00\\x00\\x00?\"\n",
        ),
        (&["-n", "2", "--no-raw", "get", "1000"], "(nil)\n"),
        (&["ping"], "PONG\n"),
    ] {
        assert_eq!(run(&server, "redis-cli", words), expected, "{words:?}");
    }
    let keys = run(&server, "redis-cli", &["-n", "2", "--scan", "--pattern", "9?"]);
    assert_eq!(keys.lines().count(), 10, "{keys}");
    let info = run(&server, "redis-cli", &["info"]);
    assert!(info.contains("db2:keys=100"), "{info}");
    let written = run(&server, "redis-cli", &["-n", "2", "set", "7", "x"]);
    assert!(written.starts_with("READONLY You can't write"), "{written}");
}

#[test]
fn redis_cli_uses_a_store() {
    if !are_here("redis_cli_uses_a_store") {
        return;
    }
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    for (words, expected) in [
        (&["set", "visits", "1", "ex", "100"][..], "OK\n"),
        (&["incrby", "visits", "41"], "42\n"),
        (&["--no-raw", "get", "visits"], "\"42\"\n"),
        (&["lpush", "recent", "a", "b", "c"], "3\n"),
        (&["ltrim", "recent", "0", "1"], "OK\n"),
        (&["lrange", "recent", "0", "-1"], "c\nb\n"),
        (&["--scan", "--pattern", "v*"], "visits\n"),
        (&["dbsize"], "2\n"),
        (&["ordered.scan", "a", "s"], "\nrecent\n\n"),
    ] {
        assert_eq!(run(&server, "redis-cli", words), expected, "{words:?}");
    }
    let keys = run(&server, "redis-cli", &["--bigkeys"]);
    assert!(keys.contains("recent") && keys.contains("has 2 items"), "{keys}");
}

#[test]
fn redis_benchmark_measures_a_store() {
    if !are_here("redis_benchmark_measures_a_store") {
        return;
    }
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    // Lists of many items are written anew with each push: few of those.
    for (tests, count) in [
        ("set,get,incr,mset", "4000"),
        ("lpush", "600"),
        ("lrange_100", "200"),
    ] {
        let words = [
            "-t", tests, "-n", count, "-r", "100", "-P", "16", "-c", "8", "--csv",
        ];
        let said = run(&server, "redis-benchmark", &words);
        let lines = said.lines().count();
        assert!(
            !said.to_lowercase().contains("error") && lines > tests.split(',').count(),
            "{said}"
        );
    }
    let keys = run(&server, "redis-cli", &["dbsize"]);
    assert!(keys.trim().parse::<u32>().unwrap() > 50, "{keys}");
}

#[test]
fn redis_benchmark_measures_it() {
    if !are_here("redis_benchmark_measures_it") {
        return;
    }
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let shape = [
        "--dbnum", "2", "-n", "2000", "-r", "100", "-P", "64", "-c", "8", "--csv",
    ];
    for command in [
        &["get", "__rand_int__"][..],
        &["mget", "1", "__rand_int__", "3"],
        &["ping"],
    ] {
        let words: Vec<&str> = shape.iter().chain(command).copied().collect();
        let said = run(&server, "redis-benchmark", &words);
        assert!(
            !said.to_lowercase().contains("error") && said.contains(command[0]),
            "{said}"
        );
    }
}
