//! Both sides of a channel over bytes: every combination, any cut, damaged input, FPNN's captured shapes.
//!
//! It opens no socket. Its invariant: what the last test asserts are known weaknesses; if it fails, the crate no longer
//! speaks FPNN's protocol, and its documentation is wrong.

#![allow(clippy::unwrap_used)] // the functions here are called by tests alone

use millpond_wire_channel::{
    Channel, Curve, Ephemeral, Error, KeyBits, Mode, Opened, Opener, PrivateKey, Sealer,
};
use proptest::prelude::*;
use std::sync::LazyLock;

const LIMIT: usize = 8 << 20;
const CURVES: [Curve; 2] = [Curve::Secp256k1, Curve::Secp256r1];
const BITS: [KeyBits; 2] = [KeyBits::Bits128, KeyBits::Bits256];
/// A key of each curve, the same in every run.
static KEYS: LazyLock<[PrivateKey; 2]> =
    LazyLock::new(|| CURVES.map(|curve| PrivateKey::from_bytes(curve, &[0x35; 32]).unwrap()));

/// Client and server of one connection, client first, by a fresh handshake.
fn pair(curve: Curve, bits: KeyBits, mode: Mode) -> (Channel, Channel) {
    let server_key = KEYS.iter().find(|key| key.curve() == curve).unwrap();
    let client_key = Ephemeral::generate(curve).unwrap();
    let server = server_key.agree(&client_key.public_key(), bits, mode).unwrap();
    let client = client_key.agree(&server_key.public_key(), bits, mode).unwrap();
    (client, server)
}

/// One side of a conversation of one key with itself, the same at every call.
fn fixed(bits: KeyBits, mode: Mode) -> Channel {
    KEYS[0].agree(&KEYS[0].public_key(), bits, mode).unwrap()
}

/// Gives `wire` to the opener in pieces of the given sizes (the last taken until the end), as reads of a socket would.
fn receive(opener: &mut Opener, wire: &[u8], pieces: &[usize]) -> Result<Vec<u8>, Error> {
    let mut clear = Vec::new();
    let mut held = Vec::new();
    let mut rest = wire;
    let mut sizes = pieces.iter().copied().chain(std::iter::repeat(7));
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
        rest = after;
        match opener {
            Opener::Stream(opener) => {
                let mut piece = piece.to_vec();
                opener.apply(&mut piece);
                clear.extend(piece);
            }
            Opener::Package(opener) => {
                held.extend_from_slice(piece);
                loop {
                    let before = held.clone();
                    match opener.open(&mut held, LIMIT)? {
                        Opened::Partial { needed } => {
                            assert!(needed > before.len(), "{needed} of {}", before.len());
                            assert_eq!(held, before);
                            break;
                        }
                        Opened::Whole { len, frame } => {
                            assert_eq!(len, 4 + frame.len());
                            clear.extend_from_slice(frame);
                            held.drain(..len);
                        }
                    }
                }
            }
        }
    }
    Ok(clear)
}

fn seal(sealer: &mut Sealer, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut wire = Vec::new();
    for frame in frames {
        sealer.seal(frame, &mut wire).unwrap();
    }
    wire
}

#[test]
fn every_combination_works_in_both_directions() {
    let frames = [1, 15, 16, 17, 127, 128, 129, 1000].map(|bytes| vec![bytes as u8; bytes]);
    for curve in CURVES {
        for bits in BITS {
            for mode in [Mode::Package, Mode::Stream] {
                let (mut client, mut server) = pair(curve, bits, mode);
                for _ in 0..2 {
                    let wire = seal(&mut client.sealer, &frames);
                    assert_eq!(receive(&mut server.opener, &wire, &[]).unwrap(), frames.concat());
                    let wire = seal(&mut server.sealer, &frames);
                    assert_eq!(receive(&mut client.opener, &wire, &[]).unwrap(), frames.concat());
                    let prefixes = if mode == Mode::Package {
                        4 * frames.len()
                    } else {
                        0
                    };
                    assert_eq!(wire.len(), frames.concat().len() + prefixes);
                }
            }
        }
    }
}

#[test]
fn lengths_are_judged_before_their_bytes_are_there() {
    let Opener::Package(mut opener) = fixed(KeyBits::Bits128, Mode::Package).opener else {
        panic!("no package mode");
    };
    let mut check = |input: &[u8], limit, expected: Result<Opened<'_>, &str>| {
        let mut input = input.to_vec();
        match (opener.open(&mut input, limit), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert_eq!(found.to_string(), expected),
            other => panic!("{other:?}"),
        }
    };
    check(&[], 10, Ok(Opened::Partial { needed: 4 }));
    check(&[10, 0, 0], 10, Ok(Opened::Partial { needed: 4 }));
    check(&[10, 0, 0, 0], 10, Ok(Opened::Partial { needed: 14 }));
    check(&[10, 0, 0, 0, 1, 2], 10, Ok(Opened::Partial { needed: 14 }));
    let too_large = "the encrypted package has 11 bytes; the limit is 10";
    check(&[11, 0, 0, 0], 10, Err(too_large));
    check(
        &[11, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        10,
        Err(too_large),
    );
    let too_large = "the encrypted package has 4294967295 bytes; the limit is 8388608";
    check(&[0xFF; 4], LIMIT, Err(too_large));
    check(
        &[0xFF; 4],
        usize::MAX,
        Ok(Opened::Partial {
            needed: (1 << 32) + 3,
        }),
    );
    check(
        &[0; 4],
        10,
        Err("the encrypted package is empty; expected one frame"),
    );
}

#[test]
fn an_empty_frame_is_refused_and_leaves_nothing() {
    for mode in [Mode::Package, Mode::Stream] {
        let Channel {
            mut sealer,
            mut opener,
        } = fixed(KeyBits::Bits256, mode);
        let mut wire = b"before".to_vec();
        assert!(matches!(sealer.seal(&[], &mut wire), Err(Error::Empty)));
        assert_eq!(wire, b"before");
        sealer.seal(b"frame", &mut wire).unwrap();
        assert_eq!(receive(&mut opener, &wire[6..], &[]).unwrap(), b"frame");
    }
}

/// Frame D of FPNN's captures, with our public key in it, and the captured answer.
#[test]
fn the_handshake_has_the_captured_size_and_shape() {
    for curve in CURVES {
        let public = Ephemeral::generate(curve).unwrap().public_key();
        let mut quest = b"FPNN\x01\x80\x01\x04\x60\0\0\0\x01\0\0\0*key".to_vec();
        let payload_start = quest.len();
        quest.extend_from_slice(b"\x83\xa9publicKey\xd9\x40");
        quest.extend_from_slice(&public);
        quest.extend_from_slice(b"\xaastreamMode\xc2\xa4bits\xcc\x80");
        assert_eq!(quest.len() - payload_start, 0x60);
        assert_eq!(quest.len(), 116);
    }
    let mut captured = *b"\x11\0\0\0\xc9\x93\x16\x8e\xdd\0\xec\xf6\xb7\xdc\xb1\x1c\x8d\xf6\xae\xfd\xee";
    let answer = b"FPNN\x01\x80\x02\0\x01\0\0\0\x01\0\0\0\x80";
    let Channel { mut sealer, opener } = fixed(KeyBits::Bits128, Mode::Package);
    let mut wire = Vec::new();
    sealer.seal(answer, &mut wire).unwrap();
    assert_eq!(wire.len(), captured.len());
    assert_eq!(wire[..4], captured[..4]);
    // Its keys are not known here, so it opens to something else of the same size.
    let Opener::Package(mut opener) = opener else {
        panic!("no package mode");
    };
    let opened = opener.open(&mut captured, LIMIT).unwrap();
    assert!(matches!(opened, Opened::Whole { len: 21, frame } if frame.len() == answer.len()));
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..200), 1..8)
}

proptest! {
    #[test]
    fn frames_survive_any_cut(
        frames in frames(),
        pieces in proptest::collection::vec(1_usize..100, 0..40),
        long in any::<bool>(),
        stream in any::<bool>(),
    ) {
        let bits = BITS[usize::from(long)];
        let mode = if stream { Mode::Stream } else { Mode::Package };
        let (mut client, mut server) = (fixed(bits, mode), fixed(bits, mode));
        let wire = seal(&mut client.sealer, &frames);
        prop_assert_ne!(&wire, &frames.concat());
        prop_assert_eq!(receive(&mut server.opener, &wire, &pieces).unwrap(), frames.concat());
    }

    #[test]
    fn damaged_input_is_no_panic(
        frames in frames(),
        pieces in proptest::collection::vec(1_usize..100, 0..40),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..6),
        kept in any::<prop::sample::Index>(),
        stream in any::<bool>(),
    ) {
        let mode = if stream { Mode::Stream } else { Mode::Package };
        let (mut client, mut server) = (fixed(KeyBits::Bits128, mode), fixed(KeyBits::Bits128, mode));
        let mut wire = seal(&mut client.sealer, &frames);
        for (at, mask) in flips {
            let at = at.index(wire.len());
            wire[at] ^= mask;
        }
        wire.truncate(kept.index(wire.len() + 1));
        match receive(&mut server.opener, &wire, &pieces) {
            Ok(clear) => prop_assert!(clear.len() <= wire.len()),
            Err(error) => prop_assert!(matches!(error, Error::TooLarge { .. } | Error::Empty), "{error}"),
        }
    }

    #[test]
    fn any_bytes_are_no_panic(
        mut input in proptest::collection::vec(any::<u8>(), 0..64),
        key in proptest::collection::vec(any::<u8>(), 0..70),
        limit in 0_usize..64,
    ) {
        let Opener::Package(mut opener) = fixed(KeyBits::Bits128, Mode::Package).opener else {
            panic!("no package mode");
        };
        let bytes = input.len();
        if let Ok(Opened::Whole { len, frame }) = opener.open(&mut input, limit) {
            prop_assert!(len <= bytes && frame.len() <= limit);
        }
        for curve in CURVES {
            let _ = PrivateKey::from_bytes(curve, &key);
        }
        for server in KEYS.iter() {
            prop_assert!(server.agree(&key, KeyBits::Bits128, Mode::Package).is_err());
        }
    }
}

#[test]
fn the_known_weaknesses_are_as_documented() {
    let answers = [
        b"FPNN\x01\x80\x02\0\x0d\0\0\0\x07\0\0\0 the one".as_slice(),
        b"FPNN\x01\x80\x02\0\x15\0\0\0\x08\0\0\0 another".as_slice(),
    ];
    let sealed = |bits, mode| {
        let mut sealer = fixed(bits, mode).sealer;
        answers.map(|answer| {
            let mut wire = Vec::new();
            sealer.seal(answer, &mut wire).unwrap();
            wire
        })
    };
    for bits in BITS {
        // The iv is reused: what the frames begin with alike, their ciphertexts do, as in FPNN's captures.
        let [one, other] = sealed(bits, Mode::Package);
        assert_eq!(one[4..12], other[4..12]);
        assert_ne!(one[12], other[12]);
        // So one known header gives every other: ciphertexts differ exactly where the plaintexts do.
        for at in 0..16 {
            assert_eq!(
                one[4 + at] ^ other[4 + at],
                answers[0][at] ^ answers[1][at],
                "byte {at}"
            );
        }
        // Both directions share key and iv: a frame sent back to its sender opens there.
        let mut sender = fixed(bits, Mode::Package);
        assert_eq!(receive(&mut sender.opener, &one, &[]).unwrap(), answers[0]);
        let [first, _] = sealed(bits, Mode::Stream);
        let [again, _] = sealed(bits, Mode::Stream);
        assert_eq!(first, again);
        // Nothing is authenticated: a flipped bit of the last block flips that bit of the plaintext, and no more.
        let mut changed = one.clone();
        changed[4 + 20] ^= 0x40;
        let mut expected = answers[0].to_vec();
        expected[20] ^= 0x40;
        assert_eq!(receive(&mut sender.opener, &changed, &[]).unwrap(), expected);
    }
}
