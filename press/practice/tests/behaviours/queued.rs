//! Servers with one queue: of a rate, of work, of workers.
//!
//! Its invariant: a queue loses nothing and keeps each connection's order.

use super::{REQUEST_BYTES, check_echo, exchange, requests, server, until_closed};
use std::fs;

#[test]
fn a_limited_rate_answers_everything() {
    check_echo(&server("--rate 20000"), 5, 200);
}

#[test]
fn beyond_its_queue_a_connection_is_closed() {
    let server = server("--rate 0.01 --queue-max 3");
    // The first may leave at once; the next is due after a hundred seconds.
    let answer = until_closed(&server, &requests(0, 10)).unwrap();
    assert!(
        answer.len() <= REQUEST_BYTES && answer.len().is_multiple_of(REQUEST_BYTES),
        "{} bytes",
        answer.len()
    );
}

#[test]
fn every_kind_of_work_answers_everything() {
    for work in [
        "--work 20us",
        "--work 20us --threads 2",
        "--sleep 200us",
        "--sleep 200us --workers 1",
        "--lock 20us",
        "--lock 50us --lock-sleep --workers 8",
    ] {
        check_echo(&server(work), 4, 50);
    }
}

#[test]
fn what_was_answered_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests");
    let server = server(&format!("--disk {}", path.display()));
    let sent = requests(0, 60);
    assert!(exchange(&server, &sent) == sent);
    let file = fs::read(&path).unwrap();
    let sorted = |bytes: &[u8]| {
        let mut found: Vec<Vec<u8>> = bytes.chunks(REQUEST_BYTES).map(<[u8]>::to_vec).collect();
        found.sort();
        found
    };
    assert_eq!(sorted(&file), sorted(&sent));
}

#[test]
fn a_server_with_work_left_ends() {
    // Half an hour of work lies in the queue; dropping the server does not wait for it.
    let server = server("--sleep 20ms --workers 1");
    exchange(&server, &requests(0, 1));
    let mut connection = super::connect(&server);
    std::io::Write::write_all(&mut connection, &requests(1, 100_000)).unwrap();
    drop(server);
}
