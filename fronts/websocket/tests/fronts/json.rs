//! Answers in JSON, whatever number their call has: the number stands right before the text, and is no part of it.

use crate::probe::{connect, start};
use crate::websocket::{MASK, upgrade};
use millpond_wire_frame::websocket::{Event, Progress, Role, WebSocket, write_message};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::decode_map;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn quest(method: &str, seq: u32) -> Vec<u8> {
    let (mut bytes, kind) = (Vec::new(), FrameKind::Twoway { method, seq });
    write_frame(&mut bytes, Encoding::Json, kind, b"{}").unwrap();
    bytes
}

/// The frame at the front of `bytes`, as its number, its status and its text, and the bytes it takes.
fn read_frame(bytes: &[u8]) -> Option<((u32, u8, String), usize)> {
    match parse_frame(bytes, Limits::default()).unwrap() {
        Parsed::Whole { message, len } => {
            let FrameKind::Answer { status, seq } = message.kind else {
                panic!("not an answer: {:?}", message.kind)
            };
            let text = String::from_utf8_lossy(message.payload).into_owned();
            let decoded = decode_map(message.encoding, message.payload);
            assert!(
                decoded.is_ok(),
                "the answer to {seq:#010x} is {text:?}: {decoded:?}"
            );
            Some(((seq, status, text), len))
        }
        Parsed::Partial { .. } => None,
    }
}

/// What `next` finds at the front of what the server sends, until there are so many.
fn read_answers(
    stream: &mut TcpStream,
    count: usize,
    mut next: impl FnMut(&[u8]) -> Option<((u32, u8, String), usize)>,
) -> Vec<(u32, u8, String)> {
    let (mut bytes, mut found, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
    while found.len() < count {
        if let Some((answer, used)) = next(&bytes) {
            found.push(answer);
            bytes.drain(..used);
            continue;
        }
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0, "closed after {found:?}");
        bytes.extend_from_slice(&chunk[..read]);
    }
    assert!(bytes.is_empty());
    found
}

#[test]
fn no_number_of_a_call_gets_into_the_text_of_its_answer() {
    let (transport, tickets) = start(10, 16);
    let (mut plain, mut messages) = (connect(&transport), connect(&transport));
    upgrade(&mut messages);
    for seq in (0..=u32::from(u8::MAX)).map(|high| high << 24 | 7) {
        // A result and an error at once, and both later.
        let calls = ["echo", "none", "later", "later"].map(|method| quest(method, seq));
        plain.write_all(&calls.concat()).unwrap();
        let mut in_messages = Vec::new();
        for call in &calls {
            write_message(&mut in_messages, call, Some(MASK));
        }
        messages.write_all(&in_messages).unwrap();
        let received: Vec<_> = (0..4).map(|_| tickets.recv().unwrap()).collect();
        for (ticket, is_error) in received.into_iter().zip([false, true, true, false]) {
            if !is_error {
                ticket.ok(|out| {
                    out.map(|out| {
                        out.key("later");
                        out.block(&[1_u32, 2]);
                    });
                });
            }
        }
        let of_plain = read_answers(&mut plain, 4, read_frame);
        let mut socket = WebSocket::new(Role::Client, Limits::default());
        let of_messages = read_answers(&mut messages, 4, |bytes| {
            match socket.read(bytes, &mut Vec::new()).unwrap() {
                Progress::Event { event, used } => {
                    let Event::Message { bytes, text: false } = event else {
                        panic!("{event:?}")
                    };
                    Some((read_frame(bytes)?.0, used))
                }
                Progress::Partial { .. } => None,
            }
        });
        for found in [of_plain, of_messages] {
            assert!(found.iter().all(|answer| answer.0 == seq), "{found:?}");
            let of_status = |status| found.iter().filter(|answer| answer.1 == status).count();
            assert!(of_status(0) >= 1 && of_status(1) >= 1 && of_status(0) + of_status(1) == 4);
            assert!(found.iter().all(|answer| answer.2.starts_with('{')), "{found:?}");
        }
    }
    transport.close(Duration::from_secs(5));
}
