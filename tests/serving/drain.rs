//! A stop finishes what was accepted and says so.

use crate::harness::{Http, Millpond, r1_folder};
use serde_json::json;
use std::io::Write;

#[test]
fn accepted_calls_are_answered_and_the_exit_is_clean() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut clients: Vec<Http> = (0..8).map(|_| Http::connect(&server.addr)).collect();
    let samples: Vec<[&str; 2]> = vec![["v1", "v2"]; 2000];
    let body = json!({"samples": samples}).to_string();
    for http in &mut clients {
        http.call("*ping", &json!({}));
    }
    for http in &mut clients {
        let request = format!(
            "POST /service/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        http.stream.write_all(request.as_bytes()).unwrap();
    }
    // Answers arrive, or the one word that the server is stopping: nobody is left without either.
    server.signal("TERM");
    let statuses: Vec<u16> = clients
        .iter_mut()
        .map(|http| http.answer().expect("an answer, not a closed connection").0)
        .collect();
    assert!(
        statuses.iter().all(|status| *status == 200 || *status == 503),
        "{statuses:?}"
    );
    assert!(server.terminate_sent().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(log.contains("draining") && log.contains("stopped"), "{log}");
}

/// It has certificates read again where there are some, and nobody's call is lost where there are none.
#[test]
fn a_hangup_ends_nothing() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let log = folder.path().join("millpond.log");
    server.signal("HUP");
    let said = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("nothing to read again"));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !said() {
        assert!(std::time::Instant::now() < until, "the log says nothing of it");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(http.call("*ping", &json!({})).0, 200);
    assert!(server.terminate().success());
}

#[test]
fn callers_that_go_on_hear_that_it_stops() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let called = std::sync::Barrier::new(9);
    let last: Vec<String> = std::thread::scope(|scope| {
        let caller = || {
            let mut http = Http::connect(&server.addr);
            http.call("*ping", &json!({}));
            called.wait();
            let body = json!({"samples": [["v1", "v2"]]}).to_string();
            let request = format!(
                "POST /service/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            loop {
                http.stream.write_all(request.as_bytes()).unwrap();
                // Each call is answered, and the one that is refused is the last.
                let (status, body) = http.answer().expect("an answer, not a closed connection");
                if status != 200 {
                    assert!(http.answer().is_none(), "Connection: close, and closed");
                    return body;
                }
            }
        };
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(caller)).collect();
        called.wait();
        server.signal("TERM");
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert!(last.iter().all(|body| body.contains("20014")), "{last:?}");
    assert!(server.terminate_sent().success());
}

impl Millpond {
    /// Waits for the end of a server that was signalled already.
    fn terminate_sent(mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }
}
