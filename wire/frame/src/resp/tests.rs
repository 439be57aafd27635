//! Commands as clients send them, every refusal, and proptests: round trips, cuts anywhere, any bytes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use proptest::prelude::*;

const SMALL: Limits = Limits { frame_bytes_max: 200 };

/// The words of every command in the bytes, and what ended them.
type Read = (Vec<Vec<Vec<u8>>>, Option<RespError>);

/// Reads pieces as they would come from a socket.
fn read<'p>(limits: Limits, pieces: impl IntoIterator<Item = &'p [u8]>) -> Read {
    let (mut input, mut found) = (Vec::new(), Vec::new());
    let mut progress = RespProgress::default();
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let parsed = parse_resp_on(&input, limits, &mut progress);
            let anew = parse_resp(&input, limits);
            assert_eq!(format!("{parsed:?}"), format!("{anew:?}"));
            match parsed {
                Ok(Parsed::Whole { message, len }) => {
                    assert_eq!((progress.arguments, progress.at), (0, 0));
                    let words: Vec<Vec<u8>> = message.words().map(<[u8]>::to_vec).collect();
                    assert_eq!(words.len(), message.len());
                    assert_eq!(words.is_empty(), message.is_empty());
                    found.push(words);
                    input.drain(..len);
                }
                Ok(Parsed::Partial { needed }) => {
                    assert!(needed > input.len(), "waits for {needed} and has {}", input.len());
                    let most = limits.frame_bytes_max + NUMBER_BYTES_MAX + 4;
                    assert!(needed <= most, "waits for {needed}");
                    break;
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// One piece with commands, each written with blanks between its words.
fn check(input: &str, expected: &[&str]) {
    let (found, error) = read(SMALL, [input.as_bytes()]);
    let found: Vec<String> = found
        .iter()
        .map(|words| words.join(&b' ').escape_ascii().to_string())
        .collect();
    assert_eq!(
        (found, error),
        (expected.iter().map(ToString::to_string).collect(), None)
    );
}

fn check_refused(input: &str, expected: &str) {
    let (found, error) = read(SMALL, [input.as_bytes()]);
    assert!(found.is_empty(), "{input:?}");
    assert_eq!(error.unwrap().to_string(), expected, "{input:?}");
    assert_eq!(
        read(SMALL, input.as_bytes().chunks(1)),
        (found, error),
        "{input:?}"
    );
}

#[test]
fn commands_are_arrays_of_bulk_strings() {
    check("*1\r\n$4\r\nPING\r\n", &["PING"]);
    check(
        "*2\r\n$3\r\nGET\r\n$1\r\n7\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
        &["GET 7", "GET "],
    );
    check("*1\r\n$4\r\n\r\n\r\n\r\n", &["\\r\\n\\r\\n"]);
    check("*0\r\n*-1\r\n", &["", ""]);
    check("*2\r\n$3\r\nGET\r\n", &[]);
}

#[test]
fn a_line_is_a_command_of_words() {
    check("PING\r\nGET  7 \n\r\n", &["PING", "GET 7", ""]);
    check("SET \"a b\" 'c d'\r\n", &["SET a b c d"]);
    check(
        "ECHO \"\\x41\\n\\\"\" 'it\\'s \\n'\n",
        &["ECHO A\\n\\\" it\\'s \\\\n"],
    );
    check("GET pre\"fix 1\"\n", &["GET prefix 1"]);
}

#[test]
fn what_is_no_command_is_refused_in_the_words_of_redis() {
    check_refused("*x\r\n", "invalid multibulk length");
    check_refused("*\r\n", "invalid multibulk length");
    check_refused("*1\n", "invalid multibulk length");
    check_refused("*99999999999999999999\r\n", "invalid multibulk length");
    // 33 arguments are 198 bytes at least, 34 are 204.
    check_refused("*34\r\n", "invalid multibulk length");
    check_refused("*1\r\n$-1\r\n", "invalid bulk length");
    check_refused("*1\r\n$a\r\n", "invalid bulk length");
    check_refused("*1\r\n$200\r\n", "invalid bulk length");
    check_refused("*1\r\n$9223372036854775807\r\n", "invalid bulk length");
    check_refused("*1\r\n*1\r\n", "expected '$', got '*'");
    check_refused("*1\r\n\u{1}", "expected '$', got '\\x01'");
    check_refused("*1\r\n$1\r\nabc", "expected a line end behind a bulk string");
    check_refused("GET \"7\n", "unbalanced quotes in request");
    check_refused("GET '7'8\n", "unbalanced quotes in request");
    check_refused(&"x".repeat(200), "too big inline request");
}

#[test]
fn replies_are_as_their_version_writes_them() {
    let check = |version, expected: &str| {
        let mut out = Vec::new();
        let mut reply = RespReply::new(&mut out, version);
        reply.status("OK");
        reply.error("ERR a\r\nb");
        reply.integer(-7);
        reply.bulk(b"ab\r\n");
        reply.nil();
        reply.verbatim("text");
        reply.array(2);
        reply.map(1);
        reply.set(0);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    };
    check(
        RespVersion::Two,
        "+OK\r\n-ERR a  b\r\n:-7\r\n$4\r\nab\r\n\r\n$-1\r\n$4\r\ntext\r\n*2\r\n*2\r\n*0\r\n",
    );
    check(
        RespVersion::Three,
        "+OK\r\n-ERR a  b\r\n:-7\r\n$4\r\nab\r\n\r\n_\r\n=8\r\ntxt:text\r\n*2\r\n%1\r\n~0\r\n",
    );
}

proptest! {
    #[test]
    fn commands_are_read_as_they_were_written_wherever_they_are_cut(
        commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..8), 1..4),
    ) {
        let mut bytes = Vec::new();
        for words in &commands {
            write_resp_command(&mut bytes, words.iter().map(Vec::as_slice));
        }
        for cut in 0..=bytes.len() {
            let (one, other) = bytes.split_at(cut);
            prop_assert_eq!(read(Limits::default(), [one, other]), (commands.clone(), None));
        }
        prop_assert_eq!(read(Limits::default(), bytes.chunks(1)), (commands, None));
    }

    #[test]
    fn any_bytes_are_read_alike_however_they_are_cut(
        bytes in prop::collection::vec(
            prop_oneof![
                Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'"'), Just(b'\\'), b'0'..=b'4', any::<u8>(),
            ],
            0..80,
        ),
    ) {
        let whole = read(SMALL, [&bytes[..]]);
        for cut in 0..=bytes.len() {
            let (one, other) = bytes.split_at(cut);
            prop_assert_eq!(&read(SMALL, [one, other]), &whole);
        }
        prop_assert_eq!(read(SMALL, bytes.chunks(1)), whole);
    }
}
