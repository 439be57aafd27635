//! Servers that are absent, hang, break off, or talk nonsense: counted by kind, and the run goes on.

use std::time::Duration;

use millpond_press_lab::Error;
use millpond_press_recorder::ErrorKind;

use crate::Case;
use crate::fake::{Act, Fake, answer, right};

fn errors(case: &Case) -> Vec<(ErrorKind, u64)> {
    let outcome = case.run().unwrap();
    assert_eq!(outcome.exit_code, 1);
    let counters = &outcome.result.points[0].counters;
    assert_eq!(counters.offered(), 20, "{counters:?}");
    for kind in counters.errors.keys() {
        assert!(counters.first.contains_key(kind.as_str()), "{counters:?}");
    }
    counters.errors.clone().into_iter().collect()
}

#[test]
fn an_absent_server_is_named_with_the_hint() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let case = Case::new(&address, &[]);
    let error = case.run().expect_err("nothing listens");
    assert!(matches!(error, Error::Absent { .. }), "{error}");
    assert_eq!(error.exit_code(), 3);
    let said = error.to_string();
    assert!(
        said.contains(&address) && said.contains("refused") && said.contains("start the server"),
        "{said}"
    );
    let result = millpond_press_report::read(&case.out()).unwrap();
    assert_eq!(result.failure.unwrap(), said);
}

#[test]
fn a_hanging_server_is_timed_out() {
    let fake = Fake::start(|seen| {
        if seen.request == 2 {
            vec![Act::Hang]
        } else {
            vec![right()]
        }
    });
    let case = Case::new(&fake.address, &["target.timeout_ms=60"]);
    // Requests 1, 2 and the hanging one on the first connection, the last two on the second.
    assert_eq!(errors(&case), [(ErrorKind::Timeout, 4)]);
}

#[test]
fn a_server_that_only_hangs_ends_the_run_all_the_same() {
    let fake = Fake::start(|_| vec![Act::Hang]);
    let outcome = Case::new(
        &fake.address,
        &["target.timeout_ms=20", "load.requests_per_connection=50"],
    )
    .run()
    .unwrap();
    let counters = &outcome.result.points[0].counters;
    assert_eq!(
        (
            counters.errors[&ErrorKind::Timeout],
            counters.not_sent,
            counters.ok
        ),
        (20, 180, 0)
    );
    assert_eq!(outcome.exit_code, 1);
}

#[test]
fn broken_connections_are_counted_by_kind() {
    let on_third = |act: Vec<Act>| {
        let fake = Fake::start(move |seen| {
            if seen.request == 2 {
                act.clone()
            } else {
                vec![right()]
            }
        });
        let case = Case::new(&fake.address, &[]);
        errors(&case)
    };
    assert_eq!(on_third(vec![Act::Close]), [(ErrorKind::Closed, 4)]);
    assert_eq!(on_third(vec![Act::Reset]), [(ErrorKind::Reset, 4)]);
    let half = Act::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"sc".to_vec());
    assert_eq!(on_third(vec![half, Act::Close]), [(ErrorKind::Closed, 4)]);
    let garbage = Act::Write(b"\x00\x01\x02 what is this\r\n\r\n".to_vec());
    assert_eq!(on_third(vec![garbage, Act::Hang]), [(ErrorKind::Garbage, 4)]);
    let two = Act::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".repeat(2));
    assert_eq!(on_third(vec![two]), [(ErrorKind::Unexpected, 4)]);
    let huge = Act::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n".to_vec());
    assert_eq!(on_third(vec![huge, Act::Hang]), [(ErrorKind::TooLarge, 4)]);
    assert_eq!(on_third(vec![answer(500, "", "oops")]), [(ErrorKind::Status, 4)]);
}

#[test]
fn a_server_that_goes_away_ends_a_fixed_number() {
    // Everyone is served once; then the listener is gone and every connection with it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut streams: Vec<_> = (0..4).map(|_| listener.accept().unwrap().0).collect();
        drop(listener);
        for stream in &mut streams {
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"scores\":[1,0,0.5]}")
                .unwrap();
        }
    });
    let outcome = Case::new(&address, &[]).run().unwrap();
    server.join().unwrap();
    let counters = &outcome.result.points[0].counters;
    assert_eq!((counters.ok, counters.offered()), (4, 20));
    assert!(
        counters.connections_failed > 0 && counters.not_sent > 0,
        "{counters:?}"
    );
    assert!(
        counters.first["not_connected"].contains("refused"),
        "{counters:?}"
    );
    assert_eq!(outcome.exit_code, 1);
}

#[test]
fn too_few_open_files_are_noticed_before_the_start() {
    let error = Case::new("127.0.0.1:1", &["load.connections=[1000000]"]).run();
    match error {
        Err(error @ Error::OpenFiles { .. }) => {
            assert_eq!(error.exit_code(), 2);
            assert!(
                error
                    .to_string()
                    .contains("1000000 connections need 1000064 open files"),
                "{error}"
            );
        }
        // A machine may allow a million files; then nothing listens on port 1.
        other => assert!(matches!(other, Err(Error::Absent { .. })), "{other:?}"),
    }
}

#[test]
fn a_slow_answer_is_waited_for() {
    let fake = Fake::start(|seen| match seen.request {
        0 => vec![Act::Wait(Duration::from_millis(80)), right()],
        _ => vec![right()],
    });
    let point = Case::new(&fake.address, &[]).point();
    assert_eq!(point.counters.ok, 20);
    assert!(point.latency.us_max.unwrap() >= 80_000.0);
}
