//! Callers that send no more and wait for their answers, and those that have gone: the one is not taken for the other.

use crate::authority::usual;
use crate::probe::{answers, connect, quest, start};
use crate::websocket::{MASK, upgrade};
use millpond_calls::Ticket;
use millpond_wire_frame::websocket::write_message;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The next call's ticket.
fn next(tickets: &Receiver<Ticket>) -> Ticket {
    tickets.recv_timeout(Duration::from_secs(20)).unwrap()
}

/// Answers after a moment in which the end of the stream is read.
fn answer_late(ticket: Ticket) {
    std::thread::sleep(Duration::from_millis(50));
    assert!(
        !ticket.gone().load(Ordering::Relaxed),
        "a caller that sends no more has not gone"
    );
    ticket.ok(|out| {
        out.map(|_| ());
    });
}

fn wait_until_gone(ticket: &Ticket) {
    while !ticket.gone().load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
}

#[test]
fn frames_are_answered_after_the_end_of_the_stream() {
    let (transport, tickets) = start(10, 2);
    let mut stream = connect(&transport);
    // Two are worked on, and one waits for its turn.
    let calls: Vec<u8> = (1..=3).flat_map(|seq| quest("later", seq, &[0x80])).collect();
    stream.write_all(&calls).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let first = next(&tickets);
    let second = next(&tickets);
    answer_late(first);
    answer_late(second);
    answer_late(next(&tickets));
    assert_eq!(answers(&mut stream, 3), [(0, 1), (0, 2), (0, 3)]);
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    transport.close(Duration::from_secs(5));
}

#[test]
fn http_requests_are_answered_after_the_end_of_the_stream() {
    let (transport, tickets) = start(10, 16);
    let mut stream = connect(&transport);
    let call = "POST /service/later HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(call.repeat(2).as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    answer_late(next(&tickets));
    answer_late(next(&tickets));
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said.matches("HTTP/1.1 200").count(), 2, "{said}");
    transport.close(Duration::from_secs(5));
}

#[test]
fn the_word_of_tls_that_no_more_comes_is_no_departure() {
    let (port, client, tickets) = usual();
    let mut stream = port.connect(&client);
    stream.write_all(&quest("later", 1, &[0x80])).unwrap();
    stream.flush().unwrap();
    let ticket = next(&tickets);
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    stream.sock.shutdown(Shutdown::Write).unwrap();
    answer_late(ticket);
    assert_eq!(answers(&mut stream, 1), [(0, 1)]);
    port.close();
}

#[test]
fn the_end_of_a_websockets_stream_is_a_departure() {
    let (transport, tickets) = start(10, 1);
    let mut stream = connect(&transport);
    upgrade(&mut stream);
    let mut calls = Vec::new();
    (1..=2).for_each(|seq| write_message(&mut calls, &quest("later", seq, &[0x80]), Some(MASK)));
    stream.write_all(&calls).unwrap();
    let ticket = next(&tickets);
    // Also where a call waits behind it.
    stream.shutdown(Shutdown::Write).unwrap();
    wait_until_gone(&ticket);
    drop(ticket);
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_reset_is_a_departure_whenever_it_comes() {
    let (transport, tickets) = start(10, 2);
    let calls: Vec<u8> = (1..=3).flat_map(|seq| quest("later", seq, &[0x80])).collect();
    for has_ended in [false, true] {
        let mut stream = connect(&transport);
        stream.write_all(&calls).unwrap();
        let held = [next(&tickets), next(&tickets)];
        if has_ended {
            stream.shutdown(Shutdown::Write).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        reset(stream);
        held.iter().for_each(wait_until_gone);
        drop(held);
        // What was read with them is worked on by nobody either.
        while let Ok(ticket) = tickets.recv_timeout(Duration::from_millis(50)) {
            wait_until_gone(&ticket);
        }
    }
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_caller_that_gave_up_is_found_by_the_first_answer() {
    let (transport, tickets) = start(10, 4);
    let mut stream = connect(&transport);
    let calls: Vec<u8> = (1..=3).flat_map(|seq| quest("later", seq, &[0x80])).collect();
    stream.write_all(&calls).unwrap();
    let (first, second, third) = (next(&tickets), next(&tickets), next(&tickets));
    drop(stream);
    answer_late(first);
    wait_until_gone(&second);
    wait_until_gone(&third);
    drop((second, third));
    transport.close(Duration::from_secs(5));
}
