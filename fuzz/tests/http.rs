//! Requests that are made of parts which are almost right, through the target that reads them twice.
//!
//! What the fuzzers find in hours these find in seconds, because every part is near to one that is taken. Its invariant is the
//! target's: a request that is accepted is the same request to a reader that shares no code with the server's.

use millpond_fuzz::http;
use proptest::prelude::*;
use proptest::sample::select;

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(texts).prop_map(str::to_owned)
}

/// A length as it is told: right mostly.
fn size(bytes: usize) -> impl Strategy<Value = String> {
    prop_oneof![
        8 => Just(format!("{bytes:x}")),
        1 => Just(format!("{bytes:08X}")),
        1 => Just(format!("{bytes:09x}")),
        1 => Just(format!("{:x}", bytes as u64 | 1 << 32)),
        1 => (0..64u64).prop_map(move |below| format!("{:X}", (0u64.wrapping_sub(below)).wrapping_add(bytes as u64))),
        1 => one_of(&["", " ", "+", "-1", "0x1", "g", "7fffffff", "ffffffff", "FFFFFFFFFFFFFFFE"]),
    ]
}

fn chunk() -> impl Strategy<Value = String> {
    let data = prop_oneof![4 => "[a-z]{1,20}", 1 => "[0-9a-f\r\n]{1,9}"];
    data.prop_flat_map(|data| {
        let around = (
            size(data.len()),
            prop_oneof![8 => Just(String::new()), 2 => one_of(&[";a=b", ";a=\"b;c\"", " ", ";\n", ";a\r", "\t;a", ";\0"])],
            prop_oneof![12 => Just("\r\n".to_owned()), 1 => one_of(&["\n", "\r", "", "\r\n\r\n"])],
            prop_oneof![12 => Just("\r\n".to_owned()), 1 => one_of(&["\n", "\r", "", "X\r\n"])],
        );
        around.prop_map(move |(size, extension, end, behind)| format!("{size}{extension}{end}{data}{behind}"))
    })
}

fn body() -> impl Strategy<Value = String> {
    let last = prop_oneof![6 => Just("0\r\n\r\n".to_owned()), 1 => one_of(&["0\r\nA: b\r\n\r\n", "00\r\n\r\n", "\r\n\r\n", "0\n\n", "0\r\nA: b\n\r\n", ""])];
    (prop::collection::vec(chunk(), 0..4), last).prop_map(|(chunks, last)| chunks.concat() + &last)
}

fn header() -> impl Strategy<Value = String> {
    one_of(&[
        "Host: h",
        "Host:",
        "host : h",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: CHUNKED",
        "Transfer-Encoding: \tchunked ",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding:\u{a0}chunked",
        "Transfer-Encoding: chunked\u{a0}",
        "Transfer-Encoding:\u{b}chunked",
        " folded: yes",
        "Transfer_Encoding: chunked",
        "Content-Length: 3",
        "Content-Length: 0",
        "Content-Length: +3",
        "Content-Length: 3, 3",
        "Content-Length: 3\u{a0}",
        "Content-Length:\u{c}3",
        "Content-Length: 0x3",
        "Content-Length:",
        "X: y\rZ: z",
        "X: \0",
        ": y",
        "X",
    ])
}

fn head() -> impl Strategy<Value = String> {
    let start = prop_oneof![8 => Just("POST /service/a HTTP/1.1".to_owned()), 1 => one_of(&["POST /service/a HTTP/1.0", "GET / HTTP/1.1", "POST  / HTTP/1.1", "POST / HTTP/1.2", "POST /\ta HTTP/1.1"])];
    let host = prop_oneof![8 => Just(vec!["Host: h".to_owned()]), 1 => Just(Vec::new())];
    let framing = one_of(&["Transfer-Encoding: chunked", "Content-Length: 7"]);
    let more = prop_oneof![3 => Just(Vec::new()), 2 => prop::collection::vec(header(), 1..3)];
    let end = prop_oneof![20 => Just("\r\n".to_owned()), 1 => one_of(&["\n", "\r"])];
    (start, host, framing, more, prop::collection::vec(end, 7)).prop_map(
        |(start, host, framing, more, ends)| {
            let lines = [vec![start], host, vec![framing], more, vec![String::new()]].concat();
            lines
                .into_iter()
                .zip(ends.iter())
                .map(|(line, end)| line + end)
                .collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn what_is_accepted_is_the_same_to_another_reader(
        settings: [u8; 2],
        requests in prop::collection::vec((head(), body()), 1..3),
    ) {
        let mut input = settings.to_vec();
        for (head, body) in requests {
            input.extend_from_slice(head.as_bytes());
            input.extend_from_slice(body.as_bytes());
        }
        http(&input);
    }
}
