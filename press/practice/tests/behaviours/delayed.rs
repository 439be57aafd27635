//! Answers that are held back, and what is told of them.
//!
//! Its invariant: the truth holds every answer that was given.

use super::{check_echo, connect, requests, server};
use std::fs;
use std::io::{Read, Write};

#[test]
fn answers_keep_their_order_whatever_was_drawn() {
    for delay in ["constant:1ms", "bimodal:100us:3ms:0.2", "exponential:500us"] {
        check_echo(&server(&format!("--delay {delay} --seed 7")), 6, 50);
    }
    check_echo(&server("--delay exponential:500us --threads 2"), 6, 50);
}

#[test]
fn the_truth_counts_every_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth.json");
    let server = server(&format!("--delay constant:1ms --truth {}", path.display()));
    check_echo(&server, 4, 100);
    server.finish().unwrap();
    let truth = fs::read_to_string(&path).unwrap();
    let drawn = "\"drawn\": { \"count\": 400, \"us_p50\": 1000.000, \"us_p90\": 1000.000, \"us_p95\": 1000.000, \
                 \"us_p99\": 1000.000, \"us_p99_9\": 1000.000, \"us_max\": 1000.000, \"us_mean\": 1000.000 }";
    assert!(truth.contains(drawn), "{truth}");
    assert!(truth.contains("\"achieved\": { \"count\": 400, "), "{truth}");
    assert!(truth.contains("\"left_out\": 0"), "{truth}");
}

#[test]
fn a_truth_that_cannot_be_written_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let words = format!("--listen 127.0.0.1:0 --delay constant:1ms --truth {path}");
    let arguments = millpond_press_practice::Arguments::from_words(words.split_whitespace()).unwrap();
    let refused = millpond_press_practice::start(arguments).err().unwrap();
    assert_eq!(refused.exit_code(), 1);
}

#[test]
fn a_request_in_pieces_is_one_request() {
    let server = server("--delay constant:1us");
    let mut connection = connect(&server);
    connection.set_nodelay(true).unwrap();
    let sent = requests(0, 20);
    for piece in sent.chunks(13) {
        connection.write_all(piece).unwrap();
    }
    let mut answer = vec![0; sent.len()];
    connection.read_exact(&mut answer).unwrap();
    assert!(answer == sent);
}

#[test]
fn a_request_may_be_longer_than_the_buffer() {
    let server = server("--delay constant:1us --request-bytes 700000");
    let sent: Vec<u8> = (0..1_400_000_u32).map(|at| (at % 249) as u8).collect();
    assert!(super::exchange(&server, &sent) == sent);
}
