//! FPNN's encryption: the payload of `*key`, and what comes after it in both modes.
//!
//! The first byte chooses, the second is the seed of the cuts. Either the rest is the payload of `*key` itself; or a key is
//! agreed on in order and the rest is ciphertext, or frames that this side encrypts. What must hold: the server answers or
//! closes; frames get the answers that they get in clear.

use crate::connection::frames;
use crate::cuts::{pieces, settings};
use crate::exchange::{FRAME_BYTES_MAX, exchange};
use millpond_fronts_native::Encryption;
use millpond_wire_channel::{Channel, Curve, KeyBits, Mode, Opened, Opener, PrivateKey};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::Encoder;
use std::sync::LazyLock;

/// The keys of server and client: no secrets, and the same in every run.
const SERVER: [u8; 32] = [0x35; 32];
const CLIENT: [u8; 32] = [0x21; 32];

/// The client's pair on each curve, and the server's public key.
static KEYS: LazyLock<[(PrivateKey, [u8; 64]); 2]> = LazyLock::new(|| {
    [Curve::Secp256k1, Curve::Secp256r1].map(|curve| {
        match (
            PrivateKey::from_bytes(curve, &CLIENT),
            PrivateKey::from_bytes(curve, &SERVER),
        ) {
            (Ok(client), Ok(server)) => (client, server.public_key()),
            _ => panic!("these are keys of either curve"),
        }
    })
});

/// Feeds an encrypting transport; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn key(data: &[u8]) {
    let ([choice, seed], bytes) = settings(data);
    let curve = match choice & 1 {
        0 => Curve::Secp256k1,
        _ => Curve::Secp256r1,
    };
    let seed = if bytes.len() > 64 { seed.min(254) } else { seed };
    match choice >> 1 & 3 {
        0 => payload(curve, choice, seed, bytes),
        1 => ciphertext(curve, choice, seed, bytes),
        _ => encrypted(curve, choice, seed, bytes),
    }
}

/// Any payload, and a call behind it.
fn payload(curve: Curve, choice: u8, seed: u8, bytes: &[u8]) {
    let encoding = match choice & 0x08 {
        0 => Encoding::Msgpack,
        _ => Encoding::Json,
    };
    let mut sent = quest(encoding, "*key", bytes);
    sent.extend(quest(Encoding::Msgpack, "echo", &[0x80]));
    // The answers are encrypted with whatever was agreed on, or there are none.
    exchange(&curve.to_string(), || server_key(curve), &pieces(seed, &sent));
}

/// A key in order, and bytes that nobody encrypted.
fn ciphertext(curve: Curve, choice: u8, seed: u8, bytes: &[u8]) {
    let (mut sent, mut channel) = agree(curve, choice);
    sent.extend_from_slice(bytes);
    let answers = exchange(&curve.to_string(), || server_key(curve), &pieces(seed, &sent));
    frames(&open(&mut channel, answers));
}

/// A key in order, and frames: every piece is a package of its own, where there are packages.
fn encrypted(curve: Curve, choice: u8, seed: u8, bytes: &[u8]) {
    let (sent, mut channel) = agree(curve, choice);
    let clear = pieces(seed, bytes);
    let mut all = vec![sent];
    for piece in &clear {
        // A package is one frame, so none is longer than a frame may be.
        for part in piece.chunks(FRAME_BYTES_MAX) {
            let mut sealed = Vec::new();
            if let Err(error) = channel.sealer.seal(part, &mut sealed) {
                panic!("{} bytes cannot be encrypted: {error}", part.len());
            }
            all.push(sealed);
        }
    }
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let answers = exchange(&curve.to_string(), || server_key(curve), &all);
    let answers = open(&mut channel, answers);
    frames(&answers);
    // A second key is no call, and what is answered later comes in any order.
    let lacks = |word: &[u8]| !bytes.windows(word.len()).any(|part| part == word);
    if is_frames(bytes) && lacks(b"*key") && lacks(b"later") {
        let plain = exchange(&curve.to_string(), || server_key(curve), &clear);
        // The first answer is that to `*key`.
        let first = quest_answer_bytes(&answers);
        assert_eq!(answers[first..], plain, "encrypted calls are answered otherwise");
    }
}

/// Whether no protocol but that of frames would be read in clear: whole frames, and nothing or the beginning of one behind.
fn is_frames(mut bytes: &[u8]) -> bool {
    let limits = Limits {
        frame_bytes_max: FRAME_BYTES_MAX,
    };
    while let Ok(Parsed::Whole { len, .. }) = parse_frame(bytes, limits) {
        bytes = &bytes[len..];
    }
    bytes.is_empty() || bytes.starts_with(b"FPNN")
}

/// Bytes of the first answer.
fn quest_answer_bytes(answers: &[u8]) -> usize {
    answers
        .get(8..12)
        .and_then(|size| size.try_into().ok())
        .map_or(0, |size| 16 + u32::from_le_bytes(size) as usize)
}

/// The call that agrees on a key, and this side's channel.
fn agree(curve: Curve, choice: u8) -> (Vec<u8>, Channel) {
    let (bits, number) = match choice & 0x10 {
        0 => (KeyBits::Bits128, 128),
        _ => (KeyBits::Bits256, 256),
    };
    let mode = match choice & 0x20 {
        0 => Mode::Package,
        _ => Mode::Stream,
    };
    let [k1, r1] = &*KEYS;
    let (client, server_public) = match curve {
        Curve::Secp256k1 => k1,
        Curve::Secp256r1 => r1,
    };
    let Ok(channel) = client.agree(server_public, bits, mode) else {
        panic!("these keys agree");
    };
    let mut payload = Vec::new();
    let mut out = Encoder::new(&mut payload, Encoding::Msgpack, false);
    out.map(|out| {
        out.key("publicKey");
        out.bytes(&client.public_key());
        out.key("streamMode");
        out.bool(mode == Mode::Stream);
        out.key("bits");
        out.uint(number);
    });
    (quest(Encoding::Msgpack, "*key", &payload), channel)
}

fn quest(encoding: Encoding, method: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    // A payload that is too long for a frame is cut: the transport refuses far shorter ones.
    let payload = &payload[..payload.len().min(1 << 16)];
    if let Err(error) = write_frame(&mut out, encoding, FrameKind::Twoway { method, seq: 1 }, payload) {
        panic!("a call cannot be written: {error}");
    }
    out
}

/// Decrypts all that the server sent.
fn open(channel: &mut Channel, mut answers: Vec<u8>) -> Vec<u8> {
    let opener = match &mut channel.opener {
        Opener::Stream(opener) => {
            opener.apply(&mut answers);
            return answers;
        }
        Opener::Package(opener) => opener,
    };
    let (mut clear, mut used) = (Vec::new(), 0);
    while used < answers.len() {
        match opener.open(&mut answers[used..], 1 << 24) {
            Ok(Opened::Whole { len, frame }) => {
                clear.extend_from_slice(frame);
                used += len;
            }
            other => panic!("the server's package is {other:?}"),
        }
    }
    clear
}

fn server_key(curve: Curve) -> Option<Encryption> {
    let read = || {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        std::fs::write(file.path(), SERVER).map_err(|error| error.to_string())?;
        Encryption::read(&curve.to_string(), file.path())
    };
    match read() {
        Ok(encryption) => Some(encryption),
        Err(error) => panic!("the server has no key: {error}"),
    }
}
