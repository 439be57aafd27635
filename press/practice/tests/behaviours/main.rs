//! The practice server over real sockets: what bytes come back, and how many.
//!
//! Its invariant: no test asserts a time; a time limit only keeps a failed test from hanging.
#![allow(clippy::unwrap_used)]

mod delayed;
mod faults;
mod plain;
mod queued;

use millpond_press_practice::{Arguments, Running, start};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

const REQUEST_BYTES: usize = 32;
/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server on a free port; `words` are divided at spaces.
fn server(words: &str) -> Running {
    let listen = ["--listen", "127.0.0.1:0"];
    start(Arguments::from_words(listen.into_iter().chain(words.split_whitespace())).unwrap()).unwrap()
}

fn connect(server: &Running) -> TcpStream {
    let connection = TcpStream::connect(server.address()).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.set_write_timeout(Some(PATIENCE)).unwrap();
    connection
}

/// `count` different requests of connection `connection`.
fn requests(connection: usize, count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|number| {
            let mut request = [0xa5; REQUEST_BYTES];
            request[..8].copy_from_slice(&(connection as u64).to_le_bytes());
            request[8..16].copy_from_slice(&(number as u64).to_le_bytes());
            request
        })
        .collect()
}

/// Sends everything at once and gives as many bytes of answer.
fn exchange(server: &Running, sent: &[u8]) -> Vec<u8> {
    let mut connection = connect(server);
    connection.write_all(sent).unwrap();
    let mut answer = vec![0; sent.len()];
    connection.read_exact(&mut answer).unwrap();
    answer
}

/// Sends everything and gives what comes until the server closes; an error tells that it reset.
fn until_closed(server: &Running, sent: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut connection = connect(server);
    connection.write_all(sent)?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Several connections at once, each with its own requests, all echoed in their order.
fn check_echo(server: &Running, connections: usize, count: usize) {
    thread::scope(|scope| {
        for connection in 0..connections {
            scope.spawn(move || {
                let sent = requests(connection, count);
                assert!(
                    exchange(server, &sent) == sent,
                    "connection {connection} was not echoed"
                );
            });
        }
    });
}
