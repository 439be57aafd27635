//! Every fault does what its name says, and nothing else.
//!
//! Its invariant: what comes back is counted to the byte.

use super::{REQUEST_BYTES, connect, exchange, requests, server, until_closed};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

/// The requests of a stream of answers.
fn divided(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.chunks(REQUEST_BYTES).collect()
}

#[test]
fn hang_never_answers() {
    let server = server("--fault hang");
    let mut connection = connect(&server);
    connection.write_all(&requests(0, 100)).unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    assert!(answer.is_empty());
}

#[test]
fn reset_resets_after_a_request() {
    let server = server("--fault reset");
    let answer = until_closed(&server, &requests(0, 1));
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn garbage_is_as_long_and_other() {
    let sent = requests(0, 50);
    let answer = exchange(&server("--fault garbage --seed 3"), &sent);
    let (answers, asked) = (divided(&answer), divided(&sent));
    assert!(answers.iter().zip(&asked).all(|(answer, asked)| answer != asked));
    assert!(
        answer == exchange(&server("--fault garbage --seed 3"), &sent),
        "the seed decides"
    );
}

#[test]
fn twice_answers_twice() {
    let server = server("--fault twice");
    let sent = requests(0, 40);
    let mut connection = connect(&server);
    connection.write_all(&sent).unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    let expected: Vec<&[u8]> = divided(&sent)
        .into_iter()
        .flat_map(|request| [request, request])
        .collect();
    assert_eq!(divided(&answer), expected);
}

#[test]
fn reorder_swaps_pairs() {
    let sent = requests(0, 40);
    let answer = exchange(&server("--fault reorder"), &sent);
    let expected: Vec<&[u8]> = divided(&sent)
        .chunks(2)
        .flat_map(|pair| [pair[1], pair[0]])
        .collect();
    assert_eq!(divided(&answer), expected);
}

#[test]
fn short_answers_half_and_closes() {
    let server = server("--fault short");
    let sent = requests(0, 5);
    assert_eq!(until_closed(&server, &sent).unwrap(), &sent[..REQUEST_BYTES / 2]);
}

#[test]
fn close_after_closes_cleanly_after_its_answers() {
    let server = server("--fault close-after:3");
    let sent = requests(0, 3_000);
    for _ in 0..3 {
        assert_eq!(until_closed(&server, &sent).unwrap(), &sent[..3 * REQUEST_BYTES]);
    }
}
