//! The cipher against NIST's examples, and the key and iv derived from a published secret against OpenSSL.
//!
//! It is no test of frames or packages. Its invariant: every expected byte comes from a published document or from another program.

use super::*;

const IV: &str = "000102030405060708090a0b0c0d0e0f";
const CLEAR: &str = concat!(
    "6bc1bee22e409f96e93d7e117393172a",
    "ae2d8a571e03ac9c9eb76fac45af8e51",
    "30c81c46a35ce411e5fbc1191a0a52ef",
    "f69f2445df4f9b17ad2b417be66c3710",
);

/// Bytes of text in hexadecimal.
fn hex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// The key padded to 32 bytes, as a secret whose first bytes it is.
fn keyed(key: &str, bits: KeyBits) -> Keyed {
    let mut secret = [0xAA; SECRET_BYTES];
    let key = hex(key);
    secret[..key.len()].copy_from_slice(&key);
    Keyed::from_parts(&secret, Zeroizing::new(hex(IV).try_into().unwrap()), bits)
}

/// Both directions, whole, as a package, and cut in two at every place.
fn check(keyed: &Keyed, clear: &str, expected: &str) {
    let (clear, expected) = (hex(clear), hex(expected));
    let mut bytes = expected.clone();
    keyed.decrypt_package(&mut bytes);
    assert_eq!(bytes, clear);
    for cut in 0..=clear.len() {
        let mut bytes = clear.clone();
        let mut at = keyed.start();
        let (first, second) = bytes.split_at_mut(cut);
        keyed.encrypt(&mut at, first);
        keyed.encrypt(&mut at, second);
        assert_eq!(bytes, expected, "encrypted, cut at {cut}");
        let mut at = keyed.start();
        let (first, second) = bytes.split_at_mut(cut);
        keyed.decrypt(&mut at, first);
        keyed.decrypt(&mut at, second);
        assert_eq!(bytes, clear, "decrypted, cut at {cut}");
    }
}

// The same from OpenSSL 3.0, with CLEAR, key and IV as above:
//   echo CLEAR | xxd -r -p | openssl enc -aes-128-cfb -K 2b7e151628aed2a6abf7158809cf4f3c -iv IV | xxd -p
#[test]
fn cfb128_with_128_bits_is_that_of_sp_800_38a_f_3_13_and_14() {
    check(
        &keyed("2b7e151628aed2a6abf7158809cf4f3c", KeyBits::Bits128),
        CLEAR,
        concat!(
            "3b3fd92eb72dad20333449f8e83cfb4a",
            "c8a64537a0b3a93fcde3cdad9f1ce58b",
            "26751f67a3cbb140b1808cf187a4f4df",
            "c04b05357c5d1c0eeac4c66f9ff7f2e6",
        ),
    );
}

#[test]
fn cfb128_with_256_bits_is_that_of_sp_800_38a_f_3_17_and_18() {
    check(
        &keyed(
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            KeyBits::Bits256,
        ),
        CLEAR,
        concat!(
            "dc7e84bfda79164b7ecd8486985d3860",
            "39ffed143b28b1c832113c6331e5407b",
            "df10132415e54b92a13ed0a8267ae2f9",
            "75a385741ab9cef82031623d55b1e471",
        ),
    );
}

// The secret is `girx` of RFC 5903, section 8.1. The iv is its MD5, by md5sum; the rest is OpenSSL's:
//   openssl enc -aes-128-cfb -K d6840f6b42f6edafd13116e0e1256520 -iv d1fd7b1f3fa8273cecd6805f36c7fcbb
//   openssl enc -aes-256-cfb -K (the whole secret) -iv d1fd7b1f3fa8273cecd6805f36c7fcbb
#[test]
fn key_and_iv_are_derived_as_fpnn_does() {
    let secret = hex("d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de")
        .try_into()
        .unwrap();
    let answer = "46504e4e01800200010000000100000080";
    let short = Keyed::new(&secret, KeyBits::Bits128);
    assert_eq!(short.iv[..], hex("d1fd7b1f3fa8273cecd6805f36c7fcbb"));
    check(&short, answer, "440a473e56cbe849e9c0d4423b66ef8bc9");
    let long = Keyed::new(&secret, KeyBits::Bits256);
    assert_eq!(long.iv, short.iv);
    check(&long, answer, "efacaec91ae7591c85021a0a5c0435a669");
}

#[test]
fn bits_are_128_or_256() {
    assert_eq!(KeyBits::try_from(128).unwrap(), KeyBits::Bits128);
    assert_eq!(KeyBits::try_from(256).unwrap(), KeyBits::Bits256);
    for bits in [0, 127, 192, 512, u64::MAX] {
        let error = KeyBits::try_from(bits).unwrap_err();
        assert!(matches!(error, Error::KeyBits(found) if found == bits), "{error}");
    }
}
