//! Bytes that lie across words, against the same bytes in a plain slice.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::tree::cell::{copy_bytes, word_at, word_of, write_bytes};

const WORDS: usize = 6;
const BYTES: usize = WORDS * 8;

fn words_of(bytes: &[u8; BYTES]) -> [AtomicU64; WORDS] {
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|at| AtomicU64::new(u64::from_le_bytes(words[at])))
}

fn bytes_of(words: &[AtomicU64]) -> Vec<u8> {
    let words = words.iter().map(|word| word.load(Ordering::Relaxed));
    words.flat_map(u64::to_le_bytes).collect()
}

fn numbered(first: u8) -> [u8; BYTES] {
    std::array::from_fn(|at| first.wrapping_add(at as u8))
}

/// All places and lengths that fit.
fn spans() -> impl Iterator<Item = (usize, usize)> {
    (0..BYTES).flat_map(|begin| (0..=BYTES - begin).map(move |len| (begin, len)))
}

#[test]
fn bytes_are_copied_behind_others_from_any_place() {
    let bytes = numbered(1);
    let words = words_of(&bytes);
    for (begin, len) in spans() {
        let mut copied = vec![7; 3];
        copy_bytes(&words, begin, len, &mut copied);
        assert_eq!(copied[..3], [7; 3]);
        assert_eq!(copied[3..], bytes[begin..begin + len], "{begin} {len}");
    }
    let mut copied = Vec::new();
    copy_bytes(&words, 1, BYTES, &mut copied);
    assert!(copied.is_empty(), "one byte more than there is");
}

#[test]
fn bytes_are_written_to_any_place_and_those_around_stay() {
    let (before, new) = (numbered(1), numbered(101));
    for (begin, len) in spans() {
        let words = words_of(&before);
        write_bytes(&words, begin, &new[..len]);
        let mut expected = before;
        expected[begin..begin + len].copy_from_slice(&new[..len]);
        assert_eq!(bytes_of(&words), expected, "{begin} {len}");
    }
}

#[test]
fn a_word_of_a_key_is_followed_by_zeros() {
    let bytes = numbered(1);
    for len in 0..=20 {
        for at in 0..24 {
            let mut expected = [0; 8];
            for (place, byte) in expected.iter_mut().zip(bytes[..len].iter().skip(at)) {
                *place = *byte;
            }
            assert_eq!(
                word_of(&bytes[..len], at),
                u64::from_be_bytes(expected),
                "{len} {at}"
            );
        }
    }
    let words = words_of(&bytes);
    for begin in 0..BYTES + 16 {
        let mut expected = [0; 8];
        for (place, byte) in expected.iter_mut().zip(bytes.iter().skip(begin)) {
            *place = *byte;
        }
        assert_eq!(word_at(&words, begin), u64::from_le_bytes(expected), "{begin}");
    }
}
