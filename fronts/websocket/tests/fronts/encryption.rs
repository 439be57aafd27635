//! FPNN's encrypted channel over real sockets, by the client's side of `wire/channel`.

use crate::probe::{connect, quest, start_encrypted};
use crate::push::{self, LONG};
use millpond_fronts_native::Encryption;
use millpond_wire_channel::{Channel, Curve, Ephemeral, KeyBits, Mode, Opened, Opener};
use millpond_wire_frame::{FrameKind, Limits, Parsed, parse_frame};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A key file that is no secret.
fn key_file(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("private.key");
    std::fs::write(&path, [7; 32]).unwrap();
    path
}

fn key_call(public: &[u8], bits: u64, stream: bool) -> Vec<u8> {
    let mut payload = vec![0x83, 0xa9];
    payload.extend_from_slice(b"publicKey\xd9\x40");
    payload.extend_from_slice(public);
    payload.extend_from_slice(b"\xaastreamMode");
    payload.push(if stream { 0xc3 } else { 0xc2 });
    payload.extend_from_slice(b"\xa4bits\xcd");
    payload.extend_from_slice(&(bits as u16).to_be_bytes());
    quest("*key", 1, &payload)
}

/// Reads answers until there are so many; (status, seq) each.
fn answers(stream: &mut TcpStream, channel: &mut Channel, count: usize) -> Vec<(u8, u32)> {
    let answer = |kind: &FrameKind<'_>| match *kind {
        FrameKind::Answer { status, seq } => (status, seq),
        _ => panic!("not an answer"),
    };
    came(stream, channel, count, answer)
}

/// Reads frames until there are so many, and what `told` says of each.
fn came<T>(
    stream: &mut TcpStream,
    channel: &mut Channel,
    count: usize,
    told: impl Fn(&FrameKind<'_>) -> T,
) -> Vec<T> {
    let (mut cipher, mut plain, mut found) = (Vec::new(), Vec::new(), Vec::new());
    while found.len() < count {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0, "closed after {} of {count} frames", found.len());
        match &mut channel.opener {
            Opener::Stream(opener) => {
                opener.apply(&mut chunk[..read]);
                plain.extend_from_slice(&chunk[..read]);
            }
            Opener::Package(opener) => {
                cipher.extend_from_slice(&chunk[..read]);
                let mut used = 0;
                while let Opened::Whole { len, frame } = opener.open(&mut cipher[used..], 1 << 20).unwrap() {
                    plain.extend_from_slice(frame);
                    used += len;
                }
                cipher.drain(..used);
            }
        }
        while let Ok(Parsed::Whole { message, len }) = parse_frame(&plain, Limits::default()) {
            found.push(told(&message.kind));
            plain.drain(..len);
        }
    }
    found
}

#[test]
fn every_kind_of_channel_carries_calls_and_late_answers() {
    let folder = tempfile::tempdir().unwrap();
    for curve in ["secp256k1", "secp256r1"] {
        let (transport, tickets, public) = start_encrypted(curve, &key_file(folder.path()));
        for (bits, mode) in [
            (128, Mode::Package),
            (256, Mode::Package),
            (128, Mode::Stream),
            (256, Mode::Stream),
        ] {
            let own = Ephemeral::generate(curve.parse::<Curve>().unwrap()).unwrap();
            let mut bytes = key_call(&own.public_key(), bits, mode == Mode::Stream);
            let mut channel = own
                .agree(&public, KeyBits::try_from(bits).unwrap(), mode)
                .unwrap();
            // A client need not wait for the answer: it can know the key.
            for (method, seq) in [("echo", 2), ("later", 3), ("echo", 4)] {
                channel
                    .sealer
                    .seal(&quest(method, seq, &[0x80]), &mut bytes)
                    .unwrap();
            }
            let mut stream = connect(&transport);
            for piece in bytes.chunks(11) {
                stream.write_all(piece).unwrap();
            }
            let first = answers(&mut stream, &mut channel, 3);
            assert_eq!(first, [(0, 1), (0, 2), (0, 4)], "{curve} {bits} {mode:?}");
            tickets.recv().unwrap().ok(|out| out.map(|_| ()));
            assert_eq!(answers(&mut stream, &mut channel, 1), [(0, 3)]);
        }
        transport.close(Duration::from_secs(5));
    }
}

#[test]
fn both_sides_call_each_other_over_a_channel() {
    let folder = tempfile::tempdir().unwrap();
    let encryption = Encryption::read("secp256k1", &key_file(folder.path())).unwrap();
    let public = encryption.public_key();
    let encryption = Some(Arc::new(encryption));
    let (transport, _pushers) = push::start(Some(LONG), |options| options.native.encryption = encryption);
    for mode in [Mode::Package, Mode::Stream] {
        let own = Ephemeral::generate(Curve::Secp256k1).unwrap();
        let mut bytes = key_call(&own.public_key(), 128, mode == Mode::Stream);
        let mut channel = own.agree(&public, KeyBits::default(), mode).unwrap();
        for seq in [2, 3] {
            let call = quest("duplex", seq, &[0x80]);
            channel.sealer.seal(&call, &mut bytes).unwrap();
        }
        let mut stream = connect(&transport);
        stream.write_all(&bytes).unwrap();
        let shown = came(&mut stream, &mut channel, 3, |kind| format!("{kind:?}"));
        let asked = |seq| {
            format!(
                "{:?}",
                FrameKind::Twoway {
                    method: "duplex quest",
                    seq
                }
            )
        };
        let agreed = format!("{:?}", FrameKind::Answer { status: 0, seq: 1 });
        assert_eq!(shown, [agreed, asked(1), asked(2)], "{mode:?}");
        let mut bytes = Vec::new();
        for seq in [2, 1] {
            channel
                .sealer
                .seal(&push::answer(0, seq, &[0x80]), &mut bytes)
                .unwrap();
        }
        stream.write_all(&bytes).unwrap();
        assert_eq!(answers(&mut stream, &mut channel, 2), [(0, 3), (0, 2)]);
    }
    transport.close(LONG);
}

#[test]
fn a_key_that_cannot_be_ends_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (transport, _tickets, _) = start_encrypted("secp256k1", &key_file(folder.path()));
    let good = Ephemeral::generate(Curve::Secp256k1).unwrap().public_key();
    let after_another = [quest("echo", 9, &[0x80]), key_call(&good, 128, false)].concat();
    for (bytes, answered) in [
        (key_call(&[1; 64], 128, false), 0),
        (key_call(&good, 129, false), 0),
        (quest("*key", 1, &[0x80]), 0),
        (after_another, 1),
    ] {
        let mut stream = connect(&transport);
        stream.write_all(&bytes).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.windows(4).filter(|four| *four == b"FPNN").count(), answered);
    }
    transport.close(Duration::from_secs(5));
}
