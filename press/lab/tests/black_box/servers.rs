//! Servers that the runner starts itself: one a value of the grid, waited for, stopped, their output kept.
//!
//! The server is a few lines of Python, which is there wherever the demo is.

use millpond_press_lab::Error;
use millpond_press_report::{State, read};

use crate::{Case, SCENARIO};

/// Answers every POST with three times its level over ten, prints a line a request, ends on SIGTERM.
const PYTHON: &str = r#"
import http.server, os, sys
level, port = sys.argv[1], int(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def say(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.say(200 if self.path == "/readyz" else 404, b"")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if os.environ.get("DIES") == level: os._exit(7)
        os.write(1, f"served at level {level} {os.environ['NOTE']}\n".encode())
        s = b"0." + level.encode()
        self.say(200, b'{"scores":[' + b",".join([s] * 3) + b"]}")
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer.request_queue_size = 64
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"#;

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn case(more: &str) -> Case {
    case_at(free_port(), more)
}

fn case_at(port: u16, more: &str) -> Case {
    let scripts = tempfile::tempdir().unwrap().keep();
    let script = scripts.join("server.py");
    std::fs::write(&script, PYTHON).unwrap();
    let text = format!(
        "{SCENARIO}\n[target]\naddress = \"127.0.0.1:{port}\"\nmethod = \"infer\"\n\
         [grid]\nlevel = [2, 5]\n\
         [server]\ncommand = [\"{{millpond}}\", \"{{config}}\", \"{{level}}\", \"{port}\"]\nconfig = \"{}\"\n\
         ready = \"http://127.0.0.1:{port}/readyz\"\nenv = {{ NOTE = \"note-{{level}}\" }}\n{more}",
        script.display()
    );
    let mut case = Case::of_text(&text, &["load.connections=[1, 2]"]);
    case.options.millpond = "python3".into();
    case
}

#[test]
fn a_grid_restarts_its_server() {
    let case = case("");
    let outcome = case.run().unwrap();
    assert_eq!(outcome.exit_code, 0, "{}", outcome.markdown);
    let points: Vec<(String, usize)> = outcome
        .result
        .points
        .iter()
        .map(|point| (point.grid["level"].clone(), point.offered.connections))
        .collect();
    assert_eq!(
        points,
        [("2".into(), 1), ("2".into(), 2), ("5".into(), 1), ("5".into(), 2)]
    );
    let pids: Vec<u32> = outcome
        .result
        .points
        .iter()
        .map(|point| point.server.as_ref().unwrap().pid.unwrap())
        .collect();
    assert!(
        pids[0] == pids[1] && pids[1] != pids[2] && pids[2] == pids[3],
        "{pids:?}"
    );
    assert!(
        outcome
            .result
            .points
            .iter()
            .all(|point| point.server_cpu.is_some())
    );
    for level in ["2", "5"] {
        let log = std::fs::read_to_string(case.out().join(format!("server-level-{level}.log"))).unwrap();
        assert_eq!(
            log.matches(&format!("served at level {level} note-{level}"))
                .count(),
            15,
            "{log}"
        );
    }
    // Both servers are gone.
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn a_server_that_dies_is_told_with_its_last_words() {
    let mut case = case("");
    case.options.set.push("server.env.DIES=\"5\"".into());
    let error = case.run().expect_err("it dies");
    assert_eq!(error.exit_code(), 3);
    assert!(matches!(error, Error::ServerEnded { .. }), "{error}");
    assert!(error.to_string().contains("exit status: 7"), "{error}");
    let result = read(&case.out()).unwrap();
    assert_eq!(result.state, State::Failed);
    // The points before it are kept, and the one it died in.
    assert_eq!(result.points.len(), 3);
    assert_eq!(result.points[1].counters.ok, 10);
}

#[test]
fn a_server_that_cannot_start_or_get_ready_is_told() {
    let mut absent = case("");
    absent.options.millpond = "/no/such/program".into();
    let error = absent.run().expect_err("absent");
    assert!(matches!(error, Error::ServerStart { .. }), "{error}");
    assert!(error.to_string().contains("/no/such/program"), "{error}");

    let mut ends = case("");
    ends.options
        .set
        .push("server.command=[\"python3\", \"-c\", \"print('no licence'); '{config}{level}'\"]".into());
    let error = ends.run().expect_err("ends").to_string();
    assert!(
        error.contains("while it was getting ready") && error.contains("no licence"),
        "{error}"
    );

    let mut never = case("ready_timeout_s = 0.2\n");
    never
        .options
        .set
        .push("server.ready=http://127.0.0.1:1/readyz".into());
    let error = never.run().expect_err("never ready").to_string();
    assert!(
        error.contains("not ready after 0.2 s") && error.contains("refused"),
        "{error}"
    );
}

#[test]
fn another_server_in_its_place_is_not_taken_for_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ready = format!("server.ready=tcp://{}", listener.local_addr().unwrap());
    let mut taken = case("");
    taken.options.set.push(ready);
    let error = taken.run().expect_err("somebody listens").to_string();
    assert!(
        error.contains("before the server was started") && error.contains("another port"),
        "{error}"
    );
}

#[test]
fn what_a_server_started_ends_with_it() {
    let port = free_port();
    let mut shell = case_at(port, "");
    // A shell does not hand the signal on.
    shell.options.set.push(format!(
        "server.command=[\"sh\", \"-c\", \"python3 '{{config}}' {{level}} {port}; true\"]"
    ));
    let outcome = shell.run().unwrap();
    assert_eq!(outcome.exit_code, 0, "{}", outcome.markdown);
    assert!(
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err(),
        "somebody still listens"
    );
}
