//! Echo as fast as it goes, with and without pauses.
//!
//! Its invariant: whatever is sent comes back, byte for byte.

use super::{check_echo, connect, exchange, requests, server};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

#[test]
fn bytes_come_back_as_they_went() {
    let server = server("");
    assert_eq!(exchange(&server, b"no whole request"), b"no whole request");
    check_echo(&server, 8, 1_000);
}

#[test]
fn several_threads_share_the_connections() {
    check_echo(&server("--threads 3"), 10, 500);
}

#[test]
fn what_is_due_comes_after_the_far_end_has_ended() {
    let server = server("--delay constant:20ms");
    let mut connection = connect(&server);
    let sent = requests(0, 50);
    connection.write_all(&sent).unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    assert!(answer == sent);
}

#[test]
fn a_client_that_does_not_read_is_not_read_either_and_loses_nothing() {
    let server = server("");
    let mut connection = connect(&server);
    connection
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let block: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
    let mut written = 0_usize;
    let blocked = loop {
        match connection.write(&block[written % block.len()..]) {
            Ok(count) => written += count,
            Err(error) => break error.kind(),
        }
        // The system's buffers and the server's own are far smaller.
        assert!(written < 256 * 1024 * 1024, "the server holds without bound");
    };
    assert_eq!(blocked, ErrorKind::WouldBlock);
    let mut other_end = connection.try_clone().unwrap();
    let rest = thread::spawn(move || connection.write_all(b"the end").unwrap());
    let mut answer = vec![0; written + 7];
    other_end.read_exact(&mut answer).unwrap();
    rest.join().unwrap();
    let (body, end) = answer.split_at(written);
    assert!(
        body.chunks(block.len())
            .all(|chunk| chunk == &block[..chunk.len()])
    );
    assert_eq!(end, b"the end");
}

#[test]
fn a_stalling_server_echoes_everything() {
    let server = server("--stall every:20ms:5ms");
    for _ in 0..20 {
        check_echo(&server, 2, 100);
    }
}

#[test]
fn a_slow_acceptor_serves_everybody_in_the_end() {
    let server = server("--accept-pause --accept-every 5ms");
    check_echo(&server, 3, 10);
}

#[test]
fn a_dropped_server_is_gone() {
    let server = server("--threads 2");
    let mut connection = connect(&server);
    connection.write_all(b"x").unwrap();
    connection.read_exact(&mut [0]).unwrap();
    drop(server);
    assert!(!matches!(connection.read(&mut [0]), Ok(count) if count > 0));
}
