//! RESP commands: the reader, and what is written back.
//!
//! The first byte chooses the limit, the second the cuts, the rest is what a client sends. What must hold: however the bytes
//! are cut, the commands and the refusal are the same; nothing is waited for beyond the limit; a command that was read is
//! read again when it is written.

use crate::cuts::{pieces, settings};
use crate::memory::within;
use millpond_wire_frame::{Limits, Parsed, RespError, parse_resp, write_resp_command};

/// The words of a command.
type Words = Vec<Vec<u8>>;
/// Bytes of a line's head, beyond the limit of what it announces.
const HEAD_BYTES: usize = 32;

/// Feeds what a client sends; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn resp(data: &[u8]) {
    let ([choice, seed], stream) = settings(data);
    let limits = Limits {
        frame_bytes_max: [32, 200, 1 << 10, 1 << 13][usize::from(choice) % 4],
    };
    within((1 << 18) + 64 * data.len(), || {
        let whole = read_pieces(limits, [stream]);
        let cut = read_pieces(limits, pieces(seed, stream));
        assert_eq!(cut, whole, "cut by {seed}");
        if stream.len() <= 256 {
            assert_eq!(read_pieces(limits, stream.chunks(1)), whole, "byte by byte");
        }
        let mut out = Vec::new();
        for words in &whole.0 {
            write_resp_command(&mut out, words.iter().map(Vec::as_slice));
        }
        // A line's words may take more when they are written as bulk strings.
        let again = read_pieces(Limits::default(), [&out[..]]);
        assert_eq!(again, (whole.0, None), "written again");
    });
}

/// Reads the pieces as they would come from a socket, up to a refusal.
fn read_pieces<'p>(
    limits: Limits,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> (Vec<Words>, Option<RespError>) {
    let (mut input, mut found) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match parse_resp(&input, limits) {
                Ok(Parsed::Whole { message, len }) => {
                    assert!(len > 0 && len <= input.len());
                    let words: Words = message.words().map(<[u8]>::to_vec).collect();
                    assert_eq!(words.len(), message.len());
                    found.push(words);
                    input.drain(..len);
                }
                Ok(Parsed::Partial { needed }) => {
                    let most = limits.frame_bytes_max + HEAD_BYTES;
                    assert!(needed > input.len(), "waits for {needed} and has {}", input.len());
                    assert!(needed <= most, "waits for {needed}, where {most} is the most");
                    break;
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}
