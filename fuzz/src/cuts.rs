//! Where an input is cut into the pieces that a socket would give: a part of the input itself.
//! Its invariant: the pieces together are the bytes, whatever the seed.

/// Cuts `bytes` at up to seven places, all of which follow from the seed; 0 cuts nowhere and 255 behind every byte.
pub(crate) fn pieces(seed: u8, bytes: &[u8]) -> Vec<&[u8]> {
    if seed == 255 {
        return bytes.chunks(1).collect();
    }
    let mut places = vec![0, bytes.len()];
    let mut state = u32::from(seed).wrapping_mul(0x9e37_79b9) | 1;
    for _ in 0..seed % 8 {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        places.push(state as usize % (bytes.len() + 1));
    }
    places.sort_unstable();
    places
        .windows(2)
        .filter_map(|pair| bytes.get(pair[0]..pair[1]))
        .filter(|piece| !piece.is_empty())
        .collect()
}

/// Takes `N` bytes off the front as the input's settings; zeros where it is shorter.
pub(crate) fn settings<const N: usize>(data: &[u8]) -> ([u8; N], &[u8]) {
    match data.split_first_chunk() {
        Some((settings, rest)) => (*settings, rest),
        None => ([0; N], &[]),
    }
}
