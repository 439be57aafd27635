//! Targets that are programs: some behave, some lie, hang or crash.

use std::path::Path;

use crate::Case;

/// Two callers for a short while. The program is Python.
const SCENARIO: &str = r#"
[scenario]
name = "program"

[load]
connections = [2]
duration_s = 0.4
warmup_s_max = 0.1

[target]
protocol = "program"
timeout_ms = 5000

[target.program]
command = ["python3", "-c", """
PROGRAM
"""]
env = { PYTHONPATH = "LIBRARY", PYTHONDONTWRITEBYTECODE = "1" }
"#;

/// What a program without the library begins with.
const RAW: &str = r"
import json, os, struct, sys, time
def write(kind, body=b'', caller=0):
    os.write(1, struct.pack('<4sIII', b'mpp1', kind, caller, len(body)) + body)
def times(*ms):
    now = time.monotonic_ns()
    return struct.pack('<%dQ' % len(ms), *(now + at * 1000000 for at in ms))
def order():
    return sys.stdin.readline().strip()
first = json.loads(order())
";

fn of(program: &str, overrides: &[&str]) -> Case {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs");
    let text = SCENARIO
        .replace("LIBRARY", library.to_str().unwrap())
        .replace("PROGRAM", &program.replace('\\', "\\\\"));
    Case::of_text(&text, overrides)
}

/// The error of a program that does not do what is expected.
fn refused(program: &str, overrides: &[&str]) -> String {
    let case = of(&format!("{RAW}{program}"), overrides);
    let error = case.run().unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
    assert!(error.to_string().contains("the program `python3"), "{error}");
    error.to_string()
}

#[test]
fn threads_and_processes_are_callers() {
    for how in ["", ", processes=True"] {
        let program = format!(
            "import callers\nprint('standard output is kept clear')\n\
             def make(caller):\n    return lambda: callers.expect(sum(range(1000)), 499500)\ncallers.run(make{how})"
        );
        let case = of(&program, &["scenario.repeats=2"]);
        let outcome = case.run().unwrap();
        assert_eq!(outcome.exit_code, 0, "{}", outcome.markdown);
        let points = &outcome.result.points;
        assert_eq!(points.len(), 2);
        for point in points {
            assert!(
                point.counters.ok > 0 && point.counters.failed_total() == 0,
                "{point:?}"
            );
            assert_eq!(point.counters.ok, point.latency.count);
            assert_eq!(point.target.protocol, "program");
            assert!(point.client_cpu.is_some_and(|cpu| cpu.seconds > 0.0), "{point:?}");
            assert_eq!((point.server_cpu, point.held), (None, None));
        }
        assert!(case.out().join("program-run.log").is_file());
    }
}

#[test]
fn wrong_answers_and_failed_calls_are_counted() {
    let program = "import callers, time\ndef make(caller):\n    def call():\n        time.sleep(0.001)\n        \
                   if caller:\n            raise OSError('no route')\n        callers.expect('pong', 'ping')\n    return call\n\
                   callers.run(make)";
    let point = of(program, &[]).point();
    let counters = &point.counters;
    assert_eq!(counters.ok, 0);
    assert!(counters.wrong > 0 && counters.errors_total() > 0, "{counters:?}");
    assert!(
        counters.first["wrong"].contains("found \"'pong'\"") || counters.first["wrong"].contains("'pong'")
    );
    assert!(
        counters.first["status"].contains("OSError: no route"),
        "{counters:?}"
    );
}

#[test]
fn a_program_that_does_not_behave_is_named_with_what_it_did() {
    let check = |program: &str, overrides: &[&str], words: &str| {
        let said = refused(program, overrides);
        assert!(said.contains(words), "{said}");
    };
    check(
        "print('hello', flush=True); order()",
        &[],
        "wrote \"hello\\n\" to standard output",
    );
    check(
        "sys.exit('no such library')",
        &[],
        "which ends with \"no such library\"",
    );
    check("sys.exit(3)", &[], "ended (exit status: 3)");
    check("write(6, b'no model')", &[], "cannot go on: no model");
    check("write(5); order()", &[], "said done first, expected ready");
    check(
        "time.sleep(100)",
        &["target.program.ready_timeout_s=0.2"],
        "was not ready after 0.2 s",
    );
    check(
        "write(1); time.sleep(100)",
        &["target.timeout_ms=300"],
        "told nothing for 300ms",
    );
    check(
        "write(1); order(); os.kill(os.getpid(), 9)",
        &[],
        "ended (signal: 9",
    );
    check("write(1); order(); write(5); order()", &[], "said done before");
    check(
        "write(1); order(); write(2, times(-100000, 0)); order()",
        &[],
        "before its last ended, or before `go`",
    );
    check(
        "write(1); order(); write(2, times(0, 100000)); order()",
        &[],
        "CLOCK_MONOTONIC",
    );
    check(
        "write(1); order(); write(2, times(0, 0), 7); order()",
        &[],
        "caller 7, expected 0 to 1",
    );
    let hang = "write(1); order()\nwhile True:\n    write(2, times(0, 0)); time.sleep(0.01)";
    check(
        hang,
        &["target.timeout_ms=300"],
        "did not say done within 300ms of `stop`",
    );
    let absent = of("", &["target.program.command=[\"/no/such\"]"])
        .run()
        .unwrap_err();
    assert!(
        absent.to_string().contains("`/no/such` cannot be started"),
        "{absent}"
    );
}

#[test]
fn a_program_and_what_it_started_end_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let program = format!(
        "import subprocess\nopen({file:?}, 'w').write(str(subprocess.Popen(['sleep', '1000']).pid))\n\
         write(1); order(); time.sleep(1000)"
    );
    refused(&program, &["target.timeout_ms=200"]);
    let pid = std::fs::read_to_string(file).unwrap();
    // Who reaps it may be slow, but a process that has ended has no program.
    while Path::new("/proc").join(&pid).join("exe").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn what_a_program_would_not_follow_is_refused() {
    let check = |set: &str, words: &str| {
        let error = of("", &[set]).run().unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains(words), "{set}: {error}");
    };
    check("load.rate=[100]", "open loop");
    check("load.in_flight=2", "load.in_flight is above 1");
    check("load.think_ms=1", "a pause between calls");
    check("load.processes=2", "load.processes is above 1");
    check("load.connections=[5000]", "above 4096");
    check("target.method=\"infer\"", "requests that press makes");
    check("target.server_pid=1", "needs target.address");
    check("target.files=\"x\"", "target.files is for");
    check("target.tls_ca=\"x\"", "target.tls_ca is for");
    check("target.protocol=\"echo\"", "go together");
    check("target.optional=true", "one of several");
    check("target.program.command=[]", "program.command is empty");
    check("target.program.command=[\"{level}\"]", "{level}");
}

#[test]
fn an_optional_target_is_left_out_by_name() {
    let good =
        "command = [\"python3\", \"-c\", \"import callers; callers.run(lambda caller: lambda: None)\"]\n";
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs");
    let mut text = String::from(
        "[scenario]\nname = \"peers\"\nlayout = \"r4\"\n[grid]\nbatch = [1, 4]\n[load]\nconnections = [1, 2]\nduration_s = 0.2\n\
         warmup_s_max = 0\n",
    );
    for (name, program) in [
        (
            "ours",
            format!("{good}env = {{ PYTHONPATH = {library:?}, BATCH = \"{{batch}}\" }}\n"),
        ),
        (
            "absent",
            format!("{good}prepare = [[\"sh\", \"-c\", \"echo no package of that name; exit 1\"]]\n"),
        ),
        (
            "broken",
            "command = [\"sh\", \"-c\", \"echo no library >&2\"]\n".to_owned(),
        ),
    ] {
        text += &format!(
            "[[targets]]\nname = \"{name}\"\nprotocol = \"program\"\noptional = {}\n[targets.program]\n{program}",
            name != "ours"
        );
    }
    let outcome = Case::of_text(&text, &[]).run().unwrap();
    let names: Vec<&str> = outcome
        .result
        .points
        .iter()
        .map(|point| point.target.name.as_str())
        .collect();
    assert_eq!(names, ["ours"; 4]);
    let left: Vec<&str> = outcome
        .result
        .left_out
        .iter()
        .map(|left| left.target.as_str())
        .collect();
    assert_eq!(left, ["absent", "broken", "absent", "broken"]);
    for words in [
        "absent was left out at batch = 1: the program ended (exit status: 1)",
        "no package of that name",
        "broken was left out",
        "no library",
        "TP50 (ms)",
    ] {
        assert!(outcome.markdown.contains(words), "{words}: {}", outcome.markdown);
    }
}
