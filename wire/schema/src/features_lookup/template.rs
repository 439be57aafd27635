//! An answer of which the rows alone are missing, for calls that differ in their keys alone.
//! Its invariant: what it writes is what [`Header::write`] writes in msgpack.

use super::Header;
use crate::payload::{Encoder, Encoding};
use std::ops::Range;

/// The answer of a header, written once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its entries up to the rows, these and the bitmap zero.
    entries: Vec<u8>,
    count: usize,
    found: Range<usize>,
    values: Range<usize>,
}

impl Template {
    /// That of a header without an inverse, a version that serves in its place, and keys without an answer; nothing for others.
    /// Its sequence of the overlay is given anew each time.
    pub fn new(header: Header<'_>) -> Option<Template> {
        if header.inverse.is_some() || header.active.is_some() || !header.missing.is_empty() {
            return None;
        }
        let mut entries = Vec::new();
        let mut out = Encoder::new(&mut entries, Encoding::Msgpack, false);
        let [found, values] = header.begin(&mut out);
        let begun = out.written_entries();
        // Kept for long.
        entries.shrink_to_fit();
        Some(Template {
            entries,
            count: begun + usize::from(header.overlay_sequence.is_some()),
            found,
            values,
        })
    }

    /// Writes the answer in msgpack; `fill` is that of [`Header::write`], and the sequence is there where the header had one.
    #[inline]
    pub fn write(
        &self,
        overlay_sequence: Option<u64>,
        out: &mut Encoder<'_>,
        fill: impl FnOnce(&mut [u8], &mut [u8]),
    ) {
        out.begin_map(self.count);
        let at = out.written_bytes();
        out.raw(&self.entries);
        let place = |range: &Range<usize>| at + range.start..at + range.end;
        if let Some([found, values]) = out.places([place(&self.found), place(&self.values)]) {
            fill(found, values);
        }
        if let Some(sequence) = overlay_sequence {
            out.key("overlay_sequence");
            out.uint(sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::features_lookup::RowType;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_writes_what_its_header_writes(
            version: u64, dim in 0_usize..70, keys in 0_usize..70, sequences: Option<[u64; 2]>, is_f16: bool,
        ) {
            let header = |overlay_sequence| Header {
                version,
                dim,
                row_type: if is_f16 { RowType::F16 } else { RowType::F32 },
                keys,
                rows: keys,
                inverse: None,
                overlay_sequence,
                active: None,
                missing: &[],
            };
            let fill = |found: &mut [u8], values: &mut [u8]| {
                found.fill(0x5a);
                values.fill(0xa5);
            };
            let written = |write: &dyn Fn(&mut Encoder<'_>)| {
                let mut bytes = vec![7];
                write(&mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
                bytes
            };
            let template = Template::new(header(sequences.map(|[first, _]| first))).unwrap();
            let sequence = sequences.map(|[_, second]| second);
            let expected = written(&|out| header(sequence).write(out, fill));
            prop_assert_eq!(written(&|out| template.write(sequence, out, fill)), expected);
        }
    }
}
