//! Key pairs against published points and secrets; what is refused; what the texts say and hide.
//!
//! It encrypts nothing. Its invariant: every expected point is published, or was computed from the curve's definition alone.

use super::*;
use std::fs;

// secp256k1: small multiples of its base point, widely published; each is also what 40 lines of affine arithmetic in
// another language give, from y^2 = x^3 + 7 over 2^256 - 2^32 - 977 and the base point of SEC 2.
const G2: &str = "c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5\
                  1ae168fea63dc339a3c58419466ceaeef7f632653266d0e1236431a950cfe52a";
const G3: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9\
                  388f7b0f632de8140fe337e62a37f3566500a99934c2231b6cb9fd7584b8e672";
const G6_X: &str = "fff97bd5755eeea420453a14355235d382f6472f8568a18b2f057a1460297556";
// Two keys of full length, the SHA-256 of "millpond channel a" and of "... b", and their points by the same arithmetic.
const A: &str = "036938aee0f2039f2011dbb2b4adac54c4237179674e287c77653bc6c1866244";
const B: &str = "73056469b9b493f3e0b3ecbd5847dedea1b410215a6b10d28224d3390a108a31";
const A_PUBLIC: &str = "fd34541edfa3c45025f137d05fadfc1bcb889a2be983cc5d3674efc0196b7f72\
                        4b1f347a6bcbd1dff4dfceb1b123a07a8702eadad057f9beba7b68073292c8c2";
const B_PUBLIC: &str = "b40d5b017a8b8e7c325de35d908afd192c853360d7bc9c50ba1ce889e7519fe5\
                        f6aceb0d3aaddf557f3def9248c7917e7ea254fd4fdb7ff976b32160f6dec412";
const A_B_X: &str = "aa6e89224c9d40ea9d7013b040079416116020508870117869d577e47b30dc3b";

// secp256r1: RFC 5903, section 8.1.
const I: &str = "c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433";
const R: &str = "c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53";
const I_PUBLIC: &str = "dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180\
                        5271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3";
const R_PUBLIC: &str = "d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf63\
                        56fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab";
const I_R_X: &str = "d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de";

const ORDER_K1: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
const ORDER_R1: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
const CURVES: [Curve; 2] = [Curve::Secp256k1, Curve::Secp256r1];

fn hex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

fn small(number: u8) -> [u8; SECRET_BYTES] {
    let mut bytes = [0; SECRET_BYTES];
    bytes[SECRET_BYTES - 1] = number;
    bytes
}

#[test]
fn public_keys_and_secrets_are_the_published_ones() {
    let check = |curve, private: &[u8], public: &str, peer: &str, secret: &str| {
        let key = PrivateKey::from_bytes(curve, private).unwrap();
        assert_eq!(key.curve(), curve);
        assert_eq!(key.public_key()[..], hex(public), "{curve} public key");
        assert_eq!(
            key.scalar.secret(&hex(peer)).unwrap()[..],
            hex(secret),
            "{curve} secret"
        );
    };
    check(Curve::Secp256k1, &small(2), G2, G3, G6_X);
    check(Curve::Secp256k1, &small(3), G3, G2, G6_X);
    check(Curve::Secp256k1, &hex(A), A_PUBLIC, B_PUBLIC, A_B_X);
    check(Curve::Secp256k1, &hex(B), B_PUBLIC, A_PUBLIC, A_B_X);
    check(Curve::Secp256r1, &hex(I), I_PUBLIC, R_PUBLIC, I_R_X);
    check(Curve::Secp256r1, &hex(R), R_PUBLIC, I_PUBLIC, I_R_X);
}

#[test]
fn numbers_that_are_no_private_key_are_refused() {
    let check = |curve, bytes: &[u8], expected| match PrivateKey::from_bytes(curve, bytes) {
        Err(Error::PrivateKey(problem)) => assert_eq!(problem, expected, "{curve} {bytes:02x?}"),
        other => panic!("{curve} {bytes:02x?}: {other:?}"),
    };
    for curve in CURVES {
        for bytes in [0, 1, 24, 28, 31, 33, 64] {
            check(curve, &vec![1; bytes], KeyProblem::Length(bytes));
        }
        check(curve, &[0; SECRET_BYTES], KeyProblem::Range(curve));
        check(curve, &[0xFF; SECRET_BYTES], KeyProblem::Range(curve));
    }
    for (curve, order) in CURVES.into_iter().zip([ORDER_K1, ORDER_R1]) {
        check(curve, &hex(order), KeyProblem::Range(curve));
        let mut last = hex(order);
        last[SECRET_BYTES - 1] -= 1;
        assert!(PrivateKey::from_bytes(curve, &last).is_ok());
    }
}

#[test]
fn points_that_are_none_are_refused() {
    let (bits, mode) = (KeyBits::Bits128, Mode::Package);
    for (curve, private, public) in [(Curve::Secp256k1, A, B_PUBLIC), (Curve::Secp256r1, I, R_PUBLIC)] {
        let key = PrivateKey::from_bytes(curve, &hex(private)).unwrap();
        let none = |point: &[u8]| match key.agree(point, bits, mode) {
            Err(Error::PeerKeyPoint(named)) => assert_eq!(named, curve),
            other => panic!("{curve} {point:02x?}: {other:?}"),
        };
        let public = hex(public);
        for byte in 0..PUBLIC_KEY_BYTES {
            let mut off = public.clone();
            off[byte] ^= 1;
            none(&off);
        }
        // Infinity written as zeros; coordinates not below the prime.
        none(&[0; PUBLIC_KEY_BYTES]);
        none(&[0xFF; PUBLIC_KEY_BYTES]);
        none(&[public[..32].to_vec(), vec![0; 32]].concat());
        none(&[vec![0; 32], public[32..].to_vec()].concat());
        // A point of the other curve.
        none(&hex(if curve == Curve::Secp256k1 {
            R_PUBLIC
        } else {
            B_PUBLIC
        }));
        // Other sizes: infinity, compressed, of the shorter curves, with the leading 04.
        for bytes in [0, 1, 33, 48, 56, 63, 65, 128] {
            match key.agree(&vec![4; bytes], bits, mode) {
                Err(Error::PeerKeyLength(found)) => assert_eq!(found, bytes),
                other => panic!("{bytes} bytes: {other:?}"),
            }
        }
    }
}

#[test]
fn a_key_file_is_read_or_named_with_its_problem() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server-private.key");
    let check = |content: &[u8], expected: &str| {
        fs::write(&path, content).unwrap();
        let text = PrivateKey::read(Curve::Secp256r1, &path).unwrap_err().to_string();
        assert!(text.contains("server-private.key"), "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("eccKeyMaker"), "{text}");
    };
    check(b"", "has 0 bytes; expected 32");
    check(&[1; 28], "has 28 bytes; expected 32");
    check(&[1; 33], "has more than 32 bytes");
    check(&vec![1; 1 << 20], "has more than 32 bytes");
    check(b"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE", "is PEM text");
    check(&[0; 32], "is 0 or not below the order of secp256r1");
    fs::write(&path, hex(I)).unwrap();
    let key = PrivateKey::read(Curve::Secp256r1, &path).unwrap();
    assert_eq!(key.public_key()[..], hex(I_PUBLIC));
    let missing = folder.path().join("absent.key");
    let text = PrivateKey::read(Curve::Secp256k1, &missing)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("absent.key") && text.contains("correct the path"),
        "{text}"
    );
    let folder_read = PrivateKey::read(Curve::Secp256k1, folder.path());
    assert!(
        matches!(folder_read, Err(Error::KeyFile { .. })),
        "{folder_read:?}"
    );
}

#[test]
fn no_text_holds_a_private_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.key");
    fs::write(&path, hex(A).repeat(2)).unwrap();
    for curve in CURVES {
        let key = PrivateKey::from_bytes(curve, &hex(A)).unwrap();
        let channel = key
            .agree(&key.public_key(), KeyBits::Bits256, Mode::Stream)
            .unwrap();
        let texts = [
            format!("{key:?}"),
            format!("{:#?}", key.scalar),
            format!("{channel:?}"),
            format!("{:?}", PrivateKey::read(curve, &path).unwrap_err()),
            format!(
                "{:?}",
                PrivateKey::from_bytes(curve, &hex(ORDER_K1)[1..]).unwrap_err()
            ),
        ];
        // Any two bytes of it in a row, as hexadecimal or as a list of numbers.
        for text in texts {
            let text = text.to_lowercase();
            for pair in hex(A).windows(2) {
                let [first, second] = pair else { unreachable!() };
                assert!(!text.contains(&format!("{first}, {second}, ")), "{text}");
            }
            assert!(!text.contains(&A[..8]), "{text}");
            assert!(!text.contains(&A[56..]), "{text}");
        }
    }
}

#[test]
fn ephemeral_keys_differ_and_agree() {
    for curve in CURVES {
        let (one, other) = (
            Ephemeral::generate(curve).unwrap(),
            Ephemeral::generate(curve).unwrap(),
        );
        assert_ne!(one.public_key(), other.public_key());
        let secret = one.0.scalar.secret(&other.public_key()).unwrap();
        assert_eq!(secret, other.0.scalar.secret(&one.public_key()).unwrap());
    }
}

#[test]
fn curves_have_fpnns_names() {
    for curve in CURVES {
        assert_eq!(curve.to_string().parse::<Curve>().unwrap(), curve);
    }
    for name in ["", "secp224r1", "secp192r1", "P-256", "SECP256K1"] {
        let text = name.parse::<Curve>().unwrap_err().to_string();
        assert!(
            text.contains(name) && text.contains("secp256k1 or secp256r1"),
            "{text}"
        );
    }
}
