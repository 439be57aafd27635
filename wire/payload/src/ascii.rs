//! Whether short text is ASCII, told by one or two words.
//!
//! It is no UTF-8 decoder: what it does not call ASCII may be UTF-8 all the same. Its invariant: no byte behind the text
//! decides.

/// Whether the text of `len` bytes at the front of `bytes` is short and ASCII.
///
/// Keys are short and mostly ASCII: a look at one or two words tells that sooner than one at each byte, and what follows a
/// key is there to be read with it.
#[inline(always)]
pub(crate) fn is_short_ascii(bytes: &[u8], len: usize) -> bool {
    match len {
        0..8 => match bytes.first_chunk() {
            Some(word) => word_of(word) & HIGH_BITS[len] == 0,
            // The payload's last.
            None => bytes.get(..len).is_some_and(<[u8]>::is_ascii),
        },
        // Words may overlap: a look at some bytes twice is shorter than one at each by itself.
        8..=16 => (bytes.get(..len))
            .and_then(|text| Some(word_of(text.first_chunk()?) | word_of(text.last_chunk()?)))
            .is_some_and(|words| words & HIGH_BITS[8] == 0),
        _ => false,
    }
}

/// The highest bits of so many bytes at the front of a word.
const HIGH_BITS: [u64; 9] = {
    let mut bits = [0; 9];
    let mut len = 1;
    while len < 9 {
        bits[len] = bits[len - 1] << 8 | 0x80;
        len += 1;
    }
    bits
};

fn word_of(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wherever in a text a byte is none of ASCII, however long the text is, and whatever follows it.
    #[test]
    fn every_byte_of_a_text_is_looked_at_and_none_behind_it() {
        for (len, behind) in (0..40).flat_map(|len| [(len, 0), (len, 1), (len, 20)]) {
            let mut bytes = vec![b'a'; len];
            bytes.resize(len + behind, 0xff);
            assert_eq!(is_short_ascii(&bytes, len), len <= 16, "{len}, {behind} behind");
            for at in 0..len {
                bytes[at] = 0xff;
                assert!(!is_short_ascii(&bytes, len), "{at} of {len}, {behind} behind");
                bytes[at] = b'a';
            }
        }
    }
}
