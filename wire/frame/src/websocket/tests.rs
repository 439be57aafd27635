//! The examples of RFC 6455, every refusal with its close code, and proptests: round trips, cuts anywhere, any bytes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::write::write_frame;
use super::*;
use proptest::prelude::*;

const KEY: MaskKey = [0x37, 0xfa, 0x21, 0x3d];
const SMALL: Limits = Limits { frame_bytes_max: 200 };

/// An [`Event`] that outlives its input.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Message(Vec<u8>, bool),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
    Refused(WebSocketError),
}

fn seen(event: Event<'_>) -> Seen {
    match event {
        Event::Message { bytes, text } => Seen::Message(bytes.to_vec(), text),
        Event::Ping(payload) => Seen::Ping(payload.to_vec()),
        Event::Pong(payload) => Seen::Pong(payload.to_vec()),
        Event::Close { code, reason } => Seen::Close(code, reason.to_owned()),
    }
}

/// Reads `pieces` as they would come from a socket, up to a close or an error, holding every promise of `read` to account.
fn read_pieces<'p>(role: Role, limits: Limits, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<Seen> {
    let mut socket = WebSocket::new(role, limits);
    let (mut input, mut scratch, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let (used, event) = match socket.read(&input, &mut scratch) {
                Ok(Progress::Event { event, used }) => (used, Some(seen(event))),
                Ok(Progress::Partial { used, needed }) => {
                    assert!(
                        needed > input.len() - used,
                        "a caller that waits for {needed} would spin"
                    );
                    assert!(
                        needed <= limits.frame_bytes_max.max(125) + 14,
                        "waits for {needed}"
                    );
                    (used, None)
                }
                Err(error) => {
                    found.push(Seen::Refused(error));
                    return found;
                }
            };
            input.drain(..used);
            assert!(socket.joined.capacity() <= limits.frame_bytes_max);
            assert!(scratch.capacity() <= limits.frame_bytes_max.max(125));
            let Some(event) = event else { break };
            let ends = matches!(event, Seen::Close(..));
            found.push(event);
            if ends {
                return found;
            }
        }
    }
    found
}

fn read_all(role: Role, limits: Limits, bytes: &[u8]) -> Vec<Seen> {
    read_pieces(role, limits, [bytes])
}

/// The same bytes, cut at each of `cuts`.
fn cut<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

#[test]
fn the_accept_key_is_that_of_the_rfc() {
    // Section 1.3.
    assert_eq!(
        accept_key("dGhlIHNhbXBsZSBub25jZQ=="),
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
}

#[test]
fn the_examples_of_the_rfc_are_read() {
    // Section 5.7.
    let check = |role: Role, bytes: &[u8], expected: &[Seen]| {
        assert_eq!(read_all(role, Limits::default(), bytes), expected, "{bytes:02x?}");
    };
    let hello = Seen::Message(b"Hello".to_vec(), true);
    check(Role::Client, b"\x81\x05Hello", std::slice::from_ref(&hello));
    check(
        Role::Server,
        b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
        std::slice::from_ref(&hello),
    );
    check(Role::Client, b"\x01\x03Hel\x80\x02lo", &[hello]);
    check(Role::Client, b"\x89\x05Hello", &[Seen::Ping(b"Hello".to_vec())]);
    check(
        Role::Server,
        b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
        &[Seen::Pong(b"Hello".to_vec())],
    );
    let mut long = b"\x82\x7f\0\0\0\0\0\x01\0\0".to_vec();
    long.resize(10 + 65536, 7);
    check(Role::Client, &long, &[Seen::Message(vec![7; 65536], false)]);
}

#[test]
fn what_breaks_the_rules_is_refused_with_its_code() {
    let check = |role: Role, bytes: &[u8], code: u16, words: &str| {
        let found = read_all(role, SMALL, bytes);
        let Some(Seen::Refused(error)) = found.last() else {
            panic!("{bytes:02x?}: {found:?}");
        };
        assert_eq!(error.close_code(), code, "{bytes:02x?}: {error}");
        assert!(
            error.to_string().contains(words),
            "{error} does not contain {words:?}"
        );
    };
    let server = |bytes: &[u8], words: &str| check(Role::Server, bytes, close_code::PROTOCOL, words);
    let client = |bytes: &[u8], words: &str| check(Role::Client, bytes, close_code::PROTOCOL, words);
    server(b"\xc2\x80\0\0\0\0", "[c2, 80]: a reserved bit is set");
    server(b"\x83\x80\0\0\0\0", "unknown opcode");
    server(b"\x8b\x80\0\0\0\0", "unknown opcode");
    server(b"\x82\x00", "an unmasked frame from a client");
    client(b"\x82\x80", "a masked frame from a server");
    server(b"\x09\x80", "a fragmented control frame");
    server(b"\x89\xfe\x00\x7e", "more than 125 bytes");
    server(b"\x80\x80\0\0\0\0", "a continuation of no message");
    client(b"\x02\x01a\x82\x01b", "a new message before");
    client(b"\x02\x01a\x01\x01b", "a new message before");
    client(b"\x82\x7e\x00\x7d", "a length in more bytes than it needs");
    client(
        b"\x82\x7f\0\0\0\0\0\0\xff\xff",
        "a length in more bytes than it needs",
    );
    client(b"\x82\x7f\x80\0\0\0\0\0\0\0", "more than 63 bits");
    client(b"\x88\x01\x03", "one byte");
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000_u16] {
        let [high, low] = code.to_be_bytes();
        client(&[0x88, 2, high, low], &format!("code {code};"));
    }
    let text = |bytes: &[u8], words: &str| check(Role::Client, bytes, close_code::INVALID_TEXT, words);
    text(b"\x81\x01\xff", "a text message is not UTF-8");
    text(b"\x01\x01\xc3\x80\x01\x28", "a text message is not UTF-8");
    text(b"\x88\x03\x03\xe8\xff", "a close reason is not UTF-8");
}

#[test]
fn the_limit_is_checked_from_the_header_over_all_fragments() {
    let too_large = |bytes: u64| {
        let limit = SMALL.frame_bytes_max;
        Seen::Refused(WebSocketError::TooLarge { bytes, limit })
    };
    let check = |bytes: &[u8], expected: &[Seen]| {
        let found = read_all(Role::Client, SMALL, bytes);
        assert_eq!(found, expected, "{bytes:02x?}");
    };
    // Nothing of these payloads has come.
    check(b"\x82\x7e\x00\xc8", &[]);
    check(b"\x82\x7e\x00\xc9", &[too_large(201)]);
    check(
        b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
        &[too_large(i64::MAX as u64)],
    );
    let mut joined = b"\x02\x64".to_vec();
    joined.extend([1; 100]);
    joined.extend(b"\x80\x65");
    check(&joined, &[too_large(201)]);
    // Control frames between fragments do not count.
    let mut full = b"\x02\x64".to_vec();
    full.extend([1; 100]);
    full.extend(b"\x89\x00\x80\x64");
    full.extend([1; 100]);
    check(&full, &[Seen::Ping(vec![]), Seen::Message(vec![1; 200], false)]);
}

#[test]
fn a_limit_below_control_frames_lets_them_pass() {
    let mut bytes = Vec::new();
    write_ping(&mut bytes, &[1; 125], Some(KEY));
    let none = Limits { frame_bytes_max: 0 };
    assert_eq!(read_all(Role::Server, none, &bytes), [Seen::Ping(vec![1; 125])]);
}

#[test]
fn an_unmasked_message_is_lent_and_no_buffer_is_kept() {
    let (mut bytes, mut scratch) = (Vec::new(), Vec::new());
    write_message(&mut bytes, b"answer", None);
    let mut socket = WebSocket::new(Role::Client, SMALL);
    let read = socket.read(&bytes, &mut scratch).unwrap();
    let event = Event::Message {
        bytes: b"answer",
        text: false,
    };
    assert_eq!(read, Progress::Event { event, used: 8 });
    assert_eq!(scratch.capacity(), 0);

    let mut socket = WebSocket::new(Role::Client, SMALL);
    socket.read(b"\x02\x01a", &mut scratch).unwrap();
    assert!(socket.is_joining());
    socket.read(b"\x80\x01b", &mut scratch).unwrap();
    assert!(!socket.is_joining());
    assert_eq!((scratch.as_slice(), socket.joined.capacity()), (&b"ab"[..], 0));
}

#[test]
fn control_frames_are_cut_to_what_they_may_hold() {
    let mut bytes = Vec::new();
    write_pong(&mut bytes, &[5; 200], None);
    assert_eq!(read_all(Role::Client, SMALL, &bytes), [Seen::Pong(vec![5; 125])]);
    bytes.clear();
    write_close(&mut bytes, Some(close_code::NORMAL), &"é".repeat(99), None);
    assert_eq!(
        read_all(Role::Client, SMALL, &bytes),
        [Seen::Close(Some(1000), "é".repeat(61))]
    );
    bytes.clear();
    write_close(&mut bytes, None, "unsaid", None);
    assert_eq!(bytes, b"\x88\x00");
    assert_eq!(
        read_all(Role::Client, SMALL, &bytes),
        [Seen::Close(None, String::new())]
    );
}

#[test]
fn messages_filled_in_place_are_those_written_whole() {
    for len in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
        for mask in [None, Some(KEY)] {
            let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let (mut whole, mut filled) = (b"before".to_vec(), b"before".to_vec());
            write_message(&mut whole, &payload, mask);
            let start = begin_message(&mut filled, mask);
            filled.extend_from_slice(&payload);
            finish_message(&mut filled, start);
            assert!(whole == filled, "{len} bytes, mask {mask:?}");
        }
    }
    let mut out = b"before".to_vec();
    let start = begin_message(&mut out, None);
    out.truncate(3);
    finish_message(&mut out, start);
    assert_eq!(out, b"bef");
}

/// Something to send: a message in fragments with pings between them, or a control frame.
#[derive(Debug, Clone)]
enum Sent {
    Message {
        text: bool,
        fragments: Vec<Vec<u8>>,
        ping_between: bool,
    },
    Control(Seen),
}

fn sent() -> impl Strategy<Value = Sent> {
    let fragment = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => (65_000..66_000_usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ];
    let control = proptest::collection::vec(any::<u8>(), 0..=125);
    prop_oneof![
        (
            proptest::collection::vec(fragment, 1..5),
            any::<bool>(),
            any::<bool>()
        )
            .prop_map(|(mut fragments, text, ping_between)| {
                if text {
                    fragments.iter_mut().flatten().for_each(|byte| *byte &= 0x7f);
                }
                Sent::Message {
                    text,
                    fragments,
                    ping_between,
                }
            }),
        control
            .clone()
            .prop_map(|payload| Sent::Control(Seen::Ping(payload))),
        control.prop_map(|payload| Sent::Control(Seen::Pong(payload))),
    ]
}

/// Writes what is sent and returns what the other side must see.
fn send(out: &mut Vec<u8>, sent: &Sent, mask: Option<MaskKey>) -> Vec<Seen> {
    match sent {
        Sent::Control(Seen::Ping(payload)) => write_ping(out, payload, mask),
        Sent::Control(Seen::Pong(payload)) => write_pong(out, payload, mask),
        Sent::Control(other) => panic!("{other:?} is not sent here"),
        Sent::Message {
            text: false,
            fragments,
            ..
        } if fragments.len() == 1 => write_message(out, &fragments[0], mask),
        Sent::Message {
            text,
            fragments,
            ping_between,
        } => {
            let mut expected = Vec::new();
            for (index, fragment) in fragments.iter().enumerate() {
                let opcode = match (index, text) {
                    (0, true) => Opcode::Text,
                    (0, false) => Opcode::Binary,
                    _ => Opcode::Continuation,
                };
                let fin = index + 1 == fragments.len();
                let start = out.len();
                write_frame(out, opcode, fragment, mask);
                if !fin {
                    out[start] &= 0x7f;
                }
                if *ping_between && !fin {
                    write_ping(out, b"between", mask);
                    expected.push(Seen::Ping(b"between".to_vec()));
                }
            }
            expected.push(Seen::Message(fragments.concat(), *text));
            return expected;
        }
    }
    match sent {
        Sent::Control(control) => vec![control.clone()],
        Sent::Message { fragments, text, .. } => vec![Seen::Message(fragments.concat(), *text)],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_however_it_was_cut(
        all in proptest::collection::vec(sent(), 0..6),
        key in proptest::option::of(any::<MaskKey>()),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
        reason in "\\PC{0,30}",
    ) {
        let role = if key.is_some() { Role::Server } else { Role::Client };
        let mut bytes = Vec::new();
        let mut expected: Vec<Seen> = all.iter().flat_map(|sent| send(&mut bytes, sent, key)).collect();
        write_close(&mut bytes, Some(close_code::GOING_AWAY), &reason, key);
        expected.push(Seen::Close(Some(1001), reason));
        let found = read_pieces(role, Limits::default(), cut(&bytes, &cuts));
        prop_assert!(found == expected);
    }
}

/// Bytes that look like frames often enough to get far: a first byte that means something, a length that fits or nearly.
fn near_frames() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        proptest::sample::select(vec![0x82_u8, 0x81, 0x02, 0x01, 0x00, 0x80, 0x88, 0x89, 0x8a]),
        any::<u8>(),
    ];
    let second = prop_oneof![4 => 0..6_u8, 4 => 0x80..0x86_u8, 1 => any::<u8>()];
    let rest = proptest::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..12);
    let frame = (first, second, rest).prop_map(|(first, second, rest)| {
        let mut frame = vec![first, second];
        let len = match second {
            0..6 => usize::from(second),
            0x80..0x86 => usize::from(second & 7) + 4,
            _ => rest.len(),
        };
        frame.extend(rest.into_iter().chain(std::iter::repeat(b'a')).take(len));
        frame
    });
    proptest::collection::vec(frame, 0..12).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn any_bytes_give_the_same_events_however_they_were_cut(
        bytes in prop_oneof![near_frames(), proptest::collection::vec(any::<u8>(), 0..64)],
        is_server: bool,
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
        frame_bytes_max in 0..40_usize,
    ) {
        let role = if is_server { Role::Server } else { Role::Client };
        let limits = Limits { frame_bytes_max };
        let expected = read_all(role, limits, &bytes);
        prop_assert_eq!(&read_pieces(role, limits, cut(&bytes, &cuts)), &expected);
        prop_assert_eq!(read_pieces(role, limits, bytes.chunks(1)), expected);
    }
}
