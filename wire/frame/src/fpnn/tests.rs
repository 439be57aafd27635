//! Frames captured from FPNN's own client and server, edge cases, and proptest round trips.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use proptest::prelude::*;

/// Capture A: twoway quest, "two way demo".
const QUEST: &str = "46504e4e0180010c75000000010000\
00 74776f207761792064656d6f86a57175\
657374a36f6e65a3696e7402a6646f75\
626c65cb400a666666666666a7626f6f\
6c65616ec3a5415252415992a9666972\
73745f76656304a34d415085a46d6170\
31a966697273745f6d6170a46d617032\
c3a46d61703305a46d617034cb4016cc\
cccccccccda46d617035a6e4b8ade696\
87";
/// Capture B: its answer.
const ANSWER: &str = "46504e4e0180020015000000010000\
0082a653696d706c65a36f6e65a753696d\
706c653202";
/// Capture C: a client's answer to a server push.
const PUSH_ANSWER: &str = "46504e4e0180020014000000010000\
0082a653696d706c65a36f6e65a6647570\
6c657802";
/// Capture E: an answer to *ping.
const PING: &str = "46504e4e018002000d0000000700000081a27473cf000001a2005eb8b9";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn whole(bytes: &[u8]) -> Frame<'_> {
    match parse_frame(bytes, Limits::default()).unwrap() {
        Parsed::Whole { message, len } => {
            assert_eq!(len, bytes.len());
            message
        }
        Parsed::Partial { needed, .. } => panic!("partial, needs {needed}"),
    }
}

#[test]
fn captured_frames_are_read_and_written_byte_for_byte() {
    for (text, kind) in [
        (
            QUEST,
            FrameKind::Twoway {
                method: "two way demo",
                seq: 1,
            },
        ),
        (ANSWER, FrameKind::Answer { status: 0, seq: 1 }),
        (PUSH_ANSWER, FrameKind::Answer { status: 0, seq: 1 }),
        (PING, FrameKind::Answer { status: 0, seq: 7 }),
    ] {
        let bytes = hex(text);
        let frame = whole(&bytes);
        assert_eq!(frame.kind, kind);
        assert_eq!(frame.encoding, Encoding::Msgpack);
        millpond_wire_payload::decode_map(frame.encoding, frame.payload)
            .expect("the captured payload is a map");
        let mut again = Vec::new();
        write_frame(&mut again, frame.encoding, frame.kind, frame.payload).unwrap();
        assert_eq!(again, bytes);
    }
    assert_eq!(hex(QUEST).len(), 145);
    assert_eq!(hex(ANSWER).len(), 37);
}

#[test]
fn bad_headers_are_named() {
    let quest = hex(QUEST);
    let check = |at: usize, byte: u8, problem: FrameProblem, seq: Option<u32>| {
        let mut bytes = quest.clone();
        bytes[at] = byte;
        let found = parse_frame(&bytes, Limits::default()).unwrap_err();
        assert_eq!(found, FrameError { problem, seq });
    };
    check(0, b'X', FrameProblem::Magic(*b"XPNN"), None);
    let said = |found: &[u8; 4]| FrameProblem::Magic(*found).of(None).to_string();
    assert!(said(b"XPNN").contains("expected the magic"));
    assert!(said(b"POST").contains("open another for HTTP"));
    check(4, 9, FrameProblem::Version(9), Some(1));
    check(5, 0xc0, FrameProblem::Flags(0xc0), Some(1));
    check(5, 0x00, FrameProblem::Flags(0), Some(1));
    check(5, 0xa0, FrameProblem::Flags(0xa0), Some(1));
    check(6, 5, FrameProblem::Kind(5), None);
    check(7, 0, FrameProblem::Method("empty"), Some(1));
    check(8, 0, FrameProblem::EmptyPayload, Some(1));
    check(16, 0xff, FrameProblem::Method("not UTF-8"), Some(1));
    let (bytes, limit) = (28 + 0x7f00_0075, 8 << 20);
    check(11, 0x7f, FrameProblem::TooLarge { bytes, limit }, Some(1));
}

#[test]
fn every_prefix_is_partial_and_says_what_it_needs() {
    let bytes = hex(QUEST);
    for cut in 0..bytes.len() {
        match parse_frame(&bytes[..cut], Limits::default()).unwrap() {
            Parsed::Partial { needed, .. } => assert!(needed > cut && needed <= bytes.len()),
            Parsed::Whole { .. } => panic!("whole at {cut}"),
        }
    }
}

proptest! {
    #[test]
    fn frames_round_trip(method in "[a-z.* ]{1,255}", seq: u32, payload in proptest::collection::vec(any::<u8>(), 1..300), which in 0..3, json: bool) {
        let encoding = if json { Encoding::Json } else { Encoding::Msgpack };
        let kind = match which {
            0 => FrameKind::Oneway { method: &method },
            1 => FrameKind::Twoway { method: &method, seq },
            _ => FrameKind::Answer { status: 1, seq },
        };
        let mut bytes = Vec::new();
        write_frame(&mut bytes, encoding, kind, &payload).unwrap();
        prop_assert_eq!(whole(&bytes), Frame { kind, encoding, payload: &payload });
        if let FrameKind::Answer { status, seq } = kind {
            let mut built = Vec::new();
            let start = begin_answer(&mut built, encoding, status, seq);
            built.extend_from_slice(&payload);
            finish_answer(&mut built, start);
            prop_assert_eq!(&built, &bytes);
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..64), keep_magic: bool) {
        if keep_magic && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(b"FPNN");
        }
        let _ = parse_frame(&bytes, Limits { frame_bytes_max: 40 });
    }
}

proptest! {
    #[test]
    fn the_next_call_is_seen_where_it_is_whole_and_alike(
        methods in prop::sample::select(&[["a", "a"], ["a", "b"], ["lookup", "lookup"], ["lookup", "look"], ["ab", "abc"]][..]),
        payloads in [prop::collection::vec(any::<u8>(), 1..20), prop::collection::vec(any::<u8>(), 1..300)],
        is_json: [bool; 2],
        is_oneway: [bool; 2],
        seqs: [u32; 2],
        left in 0_usize..30,
    ) {
        let frames: Vec<Vec<u8>> = (0..2).map(|at| {
            let method = methods[at];
            let kind = match is_oneway[at] {
                true => FrameKind::Oneway { method },
                false => FrameKind::Twoway { method, seq: seqs[at] },
            };
            let encoding = if is_json[at] { Encoding::Json } else { Encoding::Msgpack };
            let mut out = Vec::new();
            write_frame(&mut out, encoding, kind, &payloads[at]).unwrap();
            out
        }).collect();
        let alike = methods[0] == methods[1] && is_json[0] == is_json[1] && is_oneway == [false; 2];
        let expected = |count| vec![payloads[1].clone(); if alike { count } else { 0 }];
        let found = |behind: &[u8]| payloads_of_alike(&frames[0], behind).map(<[u8]>::to_vec).collect::<Vec<_>>();
        prop_assert_eq!(found(&frames[1]), expected(1));
        let three = frames[1].repeat(3);
        prop_assert_eq!(found(&three), expected(3));
        // With the beginning of another frame behind it.
        let more = [&frames[1][..], &frames[0][..left.min(frames[0].len() - 1)]].concat();
        prop_assert_eq!(found(&more), expected(1));
        for len in 0..frames[1].len() {
            prop_assert_eq!(found(&frames[1][..len]), expected(0), "{}", len);
        }
    }
}
