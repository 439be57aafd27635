//! Masking: payload bytes xor a key of four, the same both ways.
//!
//! It chooses no key. Its invariant: eight bytes at a time, and one pass over memory: what was copied is unmasked while it
//! is still in the first cache. Source: RFC 6455 section 5.3.

/// The masking key of one frame of a client; a fresh one that nobody can foresee for each (RFC 6455 section 5.3).
pub type MaskKey = [u8; 4];

/// Bytes copied before they are unmasked: a multiple of the key's, and a part of any first cache.
const BLOCK_BYTES: usize = 4096;

/// Masks or unmasks `bytes`, the first of them with the first byte of `key`.
pub(super) fn mask_in_place(bytes: &mut [u8], key: MaskKey) {
    let [a, b, c, d] = key;
    let word_key = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, tail) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ word_key).to_ne_bytes();
    }
    for (byte, key_byte) in tail.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key_byte;
    }
}

/// Appends `payload` to `out` without its mask, or as it is where it has none.
pub(super) fn append_unmasked(out: &mut Vec<u8>, payload: &[u8], mask: Option<MaskKey>) {
    let Some(key) = mask else {
        out.extend_from_slice(payload);
        return;
    };
    for block in payload.chunks(BLOCK_BYTES) {
        let start = out.len();
        out.extend_from_slice(block);
        mask_in_place(&mut out[start..], key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_and_blocks_do_what_single_bytes_would(payload in proptest::collection::vec(any::<u8>(), 0..10_000), key: MaskKey) {
            let expected: Vec<u8> = payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
            let mut found = vec![1];
            append_unmasked(&mut found, &payload, Some(key));
            prop_assert_eq!(&found[1..], &expected);
            mask_in_place(&mut found[1..], key);
            prop_assert_eq!(&found[1..], &payload);
        }
    }
}
