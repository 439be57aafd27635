//! Calls from the server to its peers: by frames, in messages, encrypted; answered, late, never, and at the end.

use crate::probe::{Options, Transport, connect, find, loopback, name, options, quest, started};
use crate::websocket::upgrade;
use millpond_calls::{Call, MethodId, PushAnswer, PushError, Pusher, Reply, Service};
use millpond_fronts_native::Counters;
use millpond_net::Timeouts;
use millpond_wire_frame::websocket::{Event, Progress, Role, WebSocket, write_message};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::Status;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const MASK: [u8; 4] = [9, 8, 7, 6];
/// A bound for tests that hang; what must be waited for comes sooner.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// "duplex" asks its caller and answers what that answers; "early" answers, and tells its caller more from another thread;
/// "pusher" hands the way back to the test; anything else is echoed.
#[derive(Clone)]
struct Duplex {
    pushers: Arc<Mutex<mpsc::SyncSender<Pusher>>>,
    timeout: Option<Duration>,
}

impl Service for Duplex {
    fn find(&self, name: &str) -> Option<MethodId> {
        find(name)
    }

    fn call(&self, call: &Call<'_>, mut reply: Reply<'_>) {
        let payload = call.payload.to_vec();
        let encoding = call.encoding;
        let pusher = match reply.pusher() {
            Ok(pusher) => pusher,
            Err(error) => return reply.error(&Status::from(error)),
        };
        match name(call.method.unwrap()) {
            "duplex" => {
                let ticket = reply.later();
                let on_answer = move |answer: Result<PushAnswer<'_>, PushError>| match answer {
                    Ok(answer) if answer.status == 0 => ticket.ok(|out| out.raw(answer.payload)),
                    Ok(_) => drop(ticket),
                    Err(error) => ticket.error(&Status::from(error)),
                };
                pusher.ask(
                    "duplex quest",
                    encoding,
                    &payload,
                    self.timeout,
                    Box::new(on_answer),
                );
            }
            "early" => {
                let going_on = std::thread::spawn(move || {
                    for step in 0..3 {
                        let mut payload = Vec::new();
                        Encoder::new(&mut payload, encoding, false).map(|out| {
                            out.key("step");
                            out.uint(step);
                        });
                        pusher.tell("progress", encoding, &payload).unwrap();
                    }
                });
                reply.ok(|out| out.map(|_| ()));
                // The answer is made, and this is still the handler: it may go on, as long as it blocks nobody.
                drop(going_on);
            }
            "pusher" => {
                self.pushers.lock().unwrap().send(pusher).unwrap();
                reply.ok(|out| out.map(|_| ()));
            }
            _ => reply.ok(|out| out.raw(&payload)),
        }
    }
}

pub(crate) fn start(
    timeout: Option<Duration>,
    change: impl FnOnce(&mut Options),
) -> (Transport, mpsc::Receiver<Pusher>) {
    let (sender, pushers) = mpsc::sync_channel(64);
    let service = Duplex {
        pushers: Arc::new(Mutex::new(sender)),
        timeout,
    };
    let mut options = options(1, Timeouts::default());
    change(&mut options);
    let transport = started(vec![loopback()], options, service);
    (transport, pushers)
}

/// A frame that came: "tell METHOD", "ask METHOD SEQ" or "answer STATUS SEQ", and its payload.
type Came = (String, Vec<u8>);

/// A peer: frames as they are, or each in a message.
struct Client {
    stream: TcpStream,
    websocket: Option<WebSocket>,
    raw: Vec<u8>,
    plain: Vec<u8>,
}

impl Client {
    fn connect(transport: &Transport, in_messages: bool) -> Client {
        let mut stream = connect(transport);
        stream.set_read_timeout(Some(LONG)).unwrap();
        if in_messages {
            upgrade(&mut stream);
        }
        Client {
            stream,
            websocket: in_messages.then(|| WebSocket::new(Role::Client, Limits::default())),
            raw: Vec::new(),
            plain: Vec::new(),
        }
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        let mut bytes = Vec::new();
        for frame in frames {
            match self.websocket {
                Some(_) => write_message(&mut bytes, frame, Some(MASK)),
                None => bytes.extend_from_slice(frame),
            }
        }
        self.stream.write_all(&bytes).unwrap();
    }

    fn answer(&mut self, seq: u32, payload: &[u8]) {
        self.send(&[answer(0, seq, payload)]);
    }

    /// The next frame; none at the end of the stream, or after a close.
    fn next(&mut self) -> Option<Came> {
        loop {
            if let Some(came) = self.whole() {
                return Some(came);
            }
            let mut chunk = [0; 4096];
            let read = self.stream.read(&mut chunk).unwrap_or(0);
            if read == 0 {
                return None;
            }
            self.raw.extend_from_slice(&chunk[..read]);
            self.unwrap();
        }
    }

    fn came(&mut self) -> Came {
        self.next().expect("the connection closed")
    }

    fn unwrap(&mut self) {
        let Some(websocket) = &mut self.websocket else {
            return self.plain.append(&mut self.raw);
        };
        let mut scratch = Vec::new();
        while let Ok(Progress::Event { event, used }) = websocket.read(&self.raw, &mut scratch) {
            if let Event::Message { bytes, text: false } = event {
                self.plain.extend_from_slice(bytes);
            }
            self.raw.drain(..used);
            if self.raw.is_empty() {
                return;
            }
        }
    }

    fn whole(&mut self) -> Option<Came> {
        let Ok(Parsed::Whole { message, len }) = parse_frame(&self.plain, Limits::default()) else {
            return None;
        };
        let what = match message.kind {
            FrameKind::Oneway { method } => format!("tell {method}"),
            FrameKind::Twoway { method, seq } => format!("ask {method} {seq}"),
            FrameKind::Answer { status, seq } => format!("answer {status} {seq}"),
        };
        let came = (what, message.payload.to_vec());
        self.plain.drain(..len);
        Some(came)
    }
}

pub(crate) fn answer(status: u8, seq: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let kind = FrameKind::Answer { status, seq };
    write_frame(&mut bytes, Encoding::Msgpack, kind, payload).unwrap();
    bytes
}

fn map(key: u8, value: u8) -> Vec<u8> {
    vec![0x81, 0xa1, key, value]
}

fn counts(counters: &Counters) -> [u64; 4] {
    [
        &counters.pushes,
        &counters.push_answers,
        &counters.push_timeouts,
        &counters.push_answers_late,
    ]
    .map(|counter| counter.load(Ordering::Relaxed))
}

#[test]
fn a_handler_asks_its_caller_by_frames_and_in_messages() {
    for in_messages in [false, true] {
        let (transport, _pushers) = start(Some(LONG), |_| {});
        let mut client = Client::connect(&transport, in_messages);
        // The numbers of the two directions are apart: these are the peer's.
        client.send(&[
            quest("duplex", 1, &map(b'a', 1)),
            quest("duplex", 2, &map(b'b', 2)),
            quest("echo", 7, &[0x80]),
        ]);
        assert_eq!(client.came(), ("answer 0 7".into(), vec![0x80]));
        assert_eq!(client.came(), ("ask duplex quest 1".into(), map(b'a', 1)));
        assert_eq!(client.came(), ("ask duplex quest 2".into(), map(b'b', 2)));
        // In any order.
        client.answer(2, &map(b'y', 2));
        assert_eq!(client.came(), ("answer 0 2".into(), map(b'y', 2)));
        client.answer(1, &map(b'x', 1));
        assert_eq!(client.came(), ("answer 0 1".into(), map(b'x', 1)));
        assert_eq!(counts(&transport.native), [2, 2, 0, 0]);
        transport.close(LONG);
    }
}

#[test]
fn the_captured_answer_of_fpnns_client_is_taken() {
    let (transport, _pushers) = start(Some(LONG), |_| {});
    let mut client = Client::connect(&transport, false);
    client.send(&[quest("duplex", 44, &[0x80])]);
    assert_eq!(client.came(), ("ask duplex quest 1".into(), vec![0x80]));
    // Capture C, byte for byte.
    let captured = b"FPNN\x01\x80\x02\x00\x14\0\0\0\x01\0\0\0\x82\xa6Simple\xa3one\xa6duplex\x02";
    client.stream.write_all(captured).unwrap();
    let expected = b"\x82\xa6Simple\xa3one\xa6duplex\x02".to_vec();
    assert_eq!(client.came(), ("answer 0 44".into(), expected));
    transport.close(LONG);
}

#[test]
fn an_early_answer_comes_before_what_its_handler_does_afterwards() {
    for in_messages in [false, true] {
        let (transport, _pushers) = start(Some(LONG), |_| {});
        let mut client = Client::connect(&transport, in_messages);
        client.send(&[quest("early", 5, &[0x80])]);
        let mut came: Vec<Came> = (0..4).map(|_| client.came()).collect();
        let at = came.iter().position(|(what, _)| what == "answer 0 5").unwrap();
        assert_eq!(at, 0, "{came:?}");
        came.remove(at);
        for (step, (what, payload)) in came.iter().enumerate() {
            assert_eq!(
                (what.as_str(), payload.last()),
                ("tell progress", Some(&(step as u8)))
            );
        }
        transport.close(LONG);
    }
}

#[test]
fn any_thread_may_call_the_peer_until_it_leaves() {
    let (transport, pushers) = start(Some(LONG), |_| {});
    let mut client = Client::connect(&transport, false);
    client.send(&[quest("pusher", 1, &[0x80])]);
    assert_eq!(client.came().0, "answer 0 1");
    let pusher = pushers.recv().unwrap();
    let (told, results) = mpsc::sync_channel(64);
    std::thread::scope(|scope| {
        for number in 0..8_u8 {
            let (pusher, told) = (pusher.clone(), told.clone());
            scope.spawn(move || {
                let on_answer = move |answer: Result<PushAnswer<'_>, PushError>| {
                    let answer = answer.map(|answer| (answer.status, answer.payload.to_vec()));
                    told.send((number, answer)).unwrap();
                };
                pusher.ask(
                    "ask",
                    Encoding::Msgpack,
                    &map(b'n', number),
                    Some(LONG),
                    Box::new(on_answer),
                );
            });
        }
    });
    for _ in 0..7 {
        let (what, payload) = client.came();
        let seq = what.strip_prefix("ask ask ").unwrap().parse().unwrap();
        // An error is an answer too.
        client.send(&[answer(u8::from(payload[3] == 3), seq, &payload)]);
    }
    let last = client.came().1[3];
    let mut found: Vec<_> = (0..7).map(|_| results.recv_timeout(LONG).unwrap()).collect();
    found.sort_by_key(|(number, _)| *number);
    let expected = (0..8)
        .filter(|number| *number != last)
        .map(|number| (number, Ok((u8::from(number == 3), map(b'n', number)))));
    assert_eq!(found, expected.collect::<Vec<_>>());
    // The last one is never answered: its connection closes.
    drop(client);
    assert_eq!(
        results.recv_timeout(LONG).unwrap(),
        (last, Err(PushError::Closed))
    );
    assert_eq!(pusher.tell("tell", Encoding::Json, b"{}"), Err(PushError::Closed));
    transport.close(LONG);
}

#[test]
fn what_is_not_answered_in_time_is_given_up_and_a_late_answer_dropped() {
    let (transport, _pushers) = start(Some(Duration::from_millis(1)), |_| {});
    let mut client = Client::connect(&transport, false);
    client.send(&[quest("duplex", 3, &[0x80])]);
    assert_eq!(client.came().0, "ask duplex quest 1");
    let (what, payload) = client.came();
    assert_eq!(what, "answer 1 3");
    let payload = String::from_utf8_lossy(&payload).into_owned();
    assert!(payload.contains("did not answer within 1 ms"), "{payload}");
    assert!(
        payload.contains("\u{fffd}code\u{fffd}N#"),
        "20003 is not in {payload:?}"
    );
    client.answer(1, &[0x80]);
    client.send(&[quest("echo", 4, &[0x80])]);
    assert_eq!(client.came().0, "answer 0 4", "the connection goes on");
    assert_eq!(counts(&transport.native), [1, 0, 1, 1]);
    transport.close(LONG);
}

#[test]
fn an_answer_to_what_was_never_asked_ends_the_connection() {
    for in_messages in [false, true] {
        for seq in [0, 2, u32::MAX] {
            let (transport, _pushers) = start(Some(LONG), |_| {});
            let mut client = Client::connect(&transport, in_messages);
            client.send(&[quest("duplex", 9, &[0x80])]);
            assert_eq!(client.came().0, "ask duplex quest 1");
            client.answer(seq, &[0x80]);
            // The call in flight is answered before the end.
            assert!(client.next().is_none_or(|(what, _)| what == "answer 1 9"));
            assert_eq!(client.next(), None);
            assert_eq!(transport.counters().malformed.load(Ordering::Relaxed), 1);
            transport.close(LONG);
        }
    }
}

#[test]
fn answers_behind_more_calls_than_may_be_in_flight_are_taken() {
    const CALLS: u32 = 100;
    for in_messages in [false, true] {
        let (transport, _pushers) = start(Some(LONG), |options| options.native.in_flight_max = 4);
        let mut client = Client::connect(&transport, in_messages);
        let calls: Vec<Vec<u8>> = (0..CALLS)
            .map(|seq| quest("duplex", seq, &map(b'n', 1)))
            .collect();
        // All calls stand before the first answer.
        client.send(&calls);
        let (mut asked, mut answered) = (0, Vec::new());
        while answered.len() < CALLS as usize {
            let (what, payload) = client.came();
            match what.strip_prefix("ask duplex quest ") {
                Some(seq) => {
                    asked += 1;
                    assert!(asked - answered.len() <= 4, "more are in flight than may be");
                    client.answer(seq.parse().unwrap(), &payload);
                }
                None => answered.push(what),
            }
        }
        let mut expected: Vec<String> = (0..CALLS).map(|seq| format!("answer 0 {seq}")).collect();
        answered.sort_unstable();
        expected.sort_unstable();
        assert_eq!(answered, expected);
        transport.close(LONG);
    }
}

#[test]
fn what_is_held_back_is_bounded_and_the_rest_refused() {
    const CALLS: u32 = 2000;
    let (transport, _pushers) = start(Some(LONG), |options| options.native.in_flight_max = 1);
    let mut client = Client::connect(&transport, false);
    let payload = [&[0x81, 0xa1, b'b', 0xc5, 0x01, 0x00][..], &[7; 256]].concat();
    client.send(&[quest("duplex", 0, &[0x80])]);
    assert_eq!(client.came().0, "ask duplex quest 1");
    let mut writer = client.stream.try_clone().unwrap();
    let calls: Vec<u8> = (1..=CALLS).flat_map(|seq| quest("echo", seq, &payload)).collect();
    let writing = std::thread::spawn(move || {
        writer.write_all(&calls).unwrap();
        writer.write_all(&answer(0, 1, &[0x80])).unwrap();
    });
    let (mut served, mut refused) = (0_u64, 0_u64);
    for _ in 0..=CALLS {
        let (what, payload) = client.came();
        if what.starts_with("answer 0") {
            served += 1;
        } else {
            let payload = String::from_utf8_lossy(&payload).into_owned();
            assert!(payload.contains("in_flight_per_connection_max"), "{payload}");
            refused += 1;
        }
    }
    writing.join().unwrap();
    // 64 KiB hold some, and not all.
    assert!((100..400).contains(&served), "{served} were held and served");
    assert_eq!(transport.native.calls_refused.load(Ordering::Relaxed), refused);
    transport.close(LONG);
}

#[test]
fn pushes_are_bounded_in_number_and_bytes() {
    let (transport, pushers) = start(Some(LONG), |options| {
        options.native.pushes_max = 2;
        options.native.limits.frame_bytes_max = 100_000;
    });
    let mut client = Client::connect(&transport, false);
    client.send(&[quest("pusher", 1, &[0x80])]);
    assert_eq!(client.came().0, "answer 0 1");
    let pusher = pushers.recv().unwrap();
    let (told, results) = mpsc::sync_channel(64);
    for _ in 0..3 {
        let told = told.clone();
        let on_answer = move |answer: Result<PushAnswer<'_>, PushError>| told.send(answer.err()).unwrap();
        pusher.ask("ask", Encoding::Msgpack, &[0x80], Some(LONG), Box::new(on_answer));
    }
    assert_eq!(
        results.recv().unwrap(),
        Some(PushError::Overloaded(
            "2 pushes wait for the peer's answers already; push less, or wait for them".to_owned()
        )),
        "at once"
    );
    let block = vec![7; 50_000];
    let too_large = pusher.tell("tell", Encoding::Msgpack, &[7; 100_000]);
    assert!(matches!(
        too_large,
        Err(PushError::TooLarge { limit: 100_000, .. })
    ));
    assert_eq!(
        pusher.tell("", Encoding::Msgpack, &block),
        Err(PushError::Method { bytes: 0 })
    );
    // The peer does not read: sooner or later no more is taken for it.
    let mut sent = 0_usize;
    let refused = loop {
        match pusher.tell("tell", Encoding::Msgpack, &block) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    let refused = refused.to_string();
    assert!(refused.contains("wait for the peer to read them"), "{refused}");
    // It was not closed: it reads all of it, and is called again.
    for number in [1, 2] {
        assert_eq!(client.came().0, format!("ask ask {number}"));
    }
    for _ in 0..sent {
        assert_eq!(client.came().0, "tell tell");
    }
    client.answer(1, &[0x80]);
    assert_eq!(results.recv_timeout(LONG).unwrap(), None);
    transport.close(LONG);
    assert_eq!(
        results.recv_timeout(LONG).unwrap(),
        Some(PushError::Closed),
        "the stop tells who waits"
    );
}

#[test]
fn there_is_no_way_back_over_http() {
    let (transport, _pushers) = start(Some(LONG), |_| {});
    let text = crate::probe::http(
        &mut connect(&transport),
        "POST /service/duplex HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
    );
    assert!(
        text.starts_with("HTTP/1.1 400") && text.contains("20012") && text.contains("over HTTP"),
        "{text}"
    );
    transport.close(LONG);
}
