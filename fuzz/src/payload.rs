//! The payloads of every method: `wire/schema`, calls and answers.
//!
//! The first byte chooses the encoding, the rest is a payload, given to every decoder: a peer may send anything to any
//! method. What must hold: a call that decodes is written as one that decodes to the same.

use crate::cuts::settings;
use crate::frame::held_max;
use crate::memory::within;
use millpond_wire_schema::frame::{Encoder, Encoding, Map, PayloadError, decode_map};
use millpond_wire_schema::{
    Status, features_lookup, infer, ordered_get, ordered_put, ordered_scan, ping, rank, serving, tune,
};

/// Feeds payloads; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn payload(data: &[u8]) {
    let ([choice], bytes) = settings(data);
    let encoding = match choice & 1 {
        0 => Encoding::Msgpack,
        _ => Encoding::Json,
    };
    within(held_max(data), || calls(encoding, bytes));
    within(held_max(data), || answers(encoding, bytes));
}

/// Holds what `decode` makes of a payload to being written and read again. It is written as msgpack: JSON has no NaN.
macro_rules! again {
    ($name:expr, $payload:expr, $decode:expr, $encode:expr) => {
        if let Ok(map) = $payload
            && let Ok(first) = $decode(map)
        {
            let bytes = written(|out| $encode(&first, out));
            let read = reread(&bytes).map($decode);
            let Ok(Ok(second)) = &read else {
                panic!("{} is written as {bytes:02x?}: {read:?}", $name)
            };
            let twice = written(|out| $encode(second, out));
            assert_eq!(twice, bytes, "{} changes when it is written", $name);
        }
    };
}

/// The same of the calls of a method.
macro_rules! call_again {
    ($method:ident, $payload:expr) => {
        again!(
            stringify!($method),
            $payload,
            $method::Call::decode,
            |decoded: &($method::Call<'_>, _), out: &mut Encoder<'_>| decoded.0.encode(out)
        )
    };
}

fn calls(encoding: Encoding, bytes: &[u8]) {
    call_again!(features_lookup, decode_map(encoding, bytes));
    call_again!(infer, decode_map(encoding, bytes));
    call_again!(ordered_get, decode_map(encoding, bytes));
    call_again!(ordered_put, decode_map(encoding, bytes));
    call_again!(ordered_scan, decode_map(encoding, bytes));
    call_again!(rank, decode_map(encoding, bytes));
    call_again!(tune, decode_map(encoding, bytes));
}

fn answers(encoding: Encoding, bytes: &[u8]) {
    again!(
        "the answer of features.lookup",
        decode_map(encoding, bytes),
        features_lookup::decode_answer,
        |rows: &Vec<features_lookup::Rows>, out: &mut Encoder<'_>| {
            features_lookup::encode_answer(out, rows, true);
        }
    );
    again!(
        "the answer of rank",
        decode_map(encoding, bytes),
        rank::Answer::decode,
        |answer: &rank::Answer<'_>, out: &mut Encoder<'_>| answer.encode(out)
    );
    let decoded = || decode_map(encoding, bytes).unwrap_or_default();
    let _ = infer::Answer::decode(decoded());
    let _ = infer::decode_scores(decoded());
    let _ = ordered_get::decode_answer(decoded());
    let _ = ordered_put::Answer::decode(decoded());
    let _ = ordered_scan::Answer::decode(decoded());
    let _ = ping::decode_answer(decoded());
    let _ = serving::decode_answer(decoded());
    let _ = Status::decode(&decoded());
}

fn written(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
    bytes
}

fn reread(bytes: &[u8]) -> Result<Map<'_>, PayloadError> {
    decode_map(Encoding::Msgpack, bytes)
}
