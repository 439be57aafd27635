//! The rows of one table's answer, in the type that was asked for.
//! Its invariant: what [`Header::write`] writes and what [`Rows`] writes is the same answer.

use super::Missing;
use crate::Key;
use crate::declare::{Slot, fill, key, notation, other, take};
use crate::field::{Block, Bytes, Field, List, Optional, OrDefault, UInt, Within, one_of};
use crate::infer::{Data, ElementType, read_elements, write_elements};
use crate::payload::{Encoder, PayloadError, Read, Reader};
use millpond_tensor::{bf16, f16};
use std::borrow::Cow;
use std::ops::Range;

/// As what the numbers of rows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowType {
    /// 32-bit floats.
    #[default]
    F32,
    /// 64-bit floats.
    F64,
    /// 16-bit floats (IEEE 754 binary16).
    F16,
    /// The upper halves of 32-bit floats.
    Bf16,
    /// The bytes of the rows, as the table stores them.
    U8,
    /// No rows: which keys were found is all that is asked.
    None,
}

impl RowType {
    const ALL: [(RowType, &str); 6] = [
        (RowType::F32, "f32"),
        (RowType::F64, "f64"),
        (RowType::F16, "f16"),
        (RowType::Bf16, "bf16"),
        (RowType::U8, "u8"),
        (RowType::None, "none"),
    ];

    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            RowType::F64 => 8,
            RowType::F32 => 4,
            RowType::F16 | RowType::Bf16 => 2,
            RowType::U8 => 1,
            RowType::None => 0,
        }
    }

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        let named = RowType::ALL.into_iter().find(|(row_type, _)| *row_type == self);
        named.map_or("f32", |(_, name)| name)
    }

    fn element_type(self) -> ElementType {
        match self {
            RowType::F32 => ElementType::F32,
            RowType::F64 => ElementType::F64,
            RowType::F16 => ElementType::F16,
            RowType::Bf16 => ElementType::Bf16,
            RowType::U8 | RowType::None => ElementType::U8,
        }
    }

    /// The numbers of a block; none where bytes are left over.
    pub(super) fn numbers(self, block: &[u8]) -> Option<Data> {
        use crate::payload::Number as _;
        Some(match self {
            RowType::F32 => Data::F32(f32::of_block(block)?),
            RowType::F64 => Data::F64(f64::of_block(block)?),
            RowType::F16 => Data::F16(f16::of_block(block)?),
            RowType::Bf16 => Data::Bf16(bf16::of_block(block)?),
            RowType::U8 | RowType::None => Data::U8(block.to_vec()),
        })
    }
}

impl Field for RowType {
    type Of<'a> = RowType;

    fn notation() -> String {
        one_of(RowType::ALL.into_iter().map(|(_, name)| name))
    }

    fn read(reader: &mut Reader<'_>) -> Read<RowType> {
        let text = reader.text()?;
        let mut known = RowType::ALL.into_iter();
        let found = known.find(|(_, name)| *name == text);
        found
            .map(|(row_type, _)| row_type)
            .ok_or_else(|| PayloadError::invalid(format!("{text:?}"), RowType::notation()))
    }

    fn write(value: &RowType, out: &mut Encoder<'_>) {
        out.text(value.as_str());
    }

    fn own(value: RowType) -> RowType {
        value
    }
}

/// One table's part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows<'a> {
    /// The version that answered.
    pub version: u64,
    /// Numbers a row; 0 where rows vary in length.
    pub dim: usize,
    /// As what they come.
    pub row_type: RowType,
    /// Bit i of byte i / 8 (lowest first) is set where key i was found; of a call with `unique`, where different key i was.
    pub found: Cow<'a, [u8]>,
    /// n × dim (or bags × dim) numbers; where nothing was found the table's default row, or zeros.
    pub values: Data,
    /// Of rows that vary in length: row i is `values[offsets[i]..offsets[i + 1]]`; where nothing was found the default row, or no bytes.
    pub offsets: Option<Vec<u32>>,
    /// Of a call with `unique`: which row each key has.
    pub inverse: Option<Vec<u32>>,
    /// Of a table with an overlay: all upserts up to this one are in the answer.
    pub overlay_sequence: Option<u64>,
    /// The version that serves, where another one answered.
    pub active: Option<u64>,
    /// Keys without an answer, by the node that was asked last. Their rows are zeros, and they count as not found.
    pub missing: Vec<Missing<'static>>,
}

type Active = Optional<UInt>;
type AllMissing = OrDefault<List<Missing<'static>>>;
type Dim = Within<0, 0xffff_ffff>;
type Numbers = Optional<Block<u32>>;

impl Field for Rows<'static> {
    type Of<'a> = Rows<'a>;

    fn notation() -> String {
        notation(&Self::keys())
    }

    fn expected() -> String {
        "a map".to_owned()
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Read<Rows<'a>> {
        let (mut version, mut dim, mut row_type) = (Slot::Unseen, Slot::Unseen, Slot::Unseen);
        let (mut found, mut inverse, mut values) = (Slot::Unseen, Slot::Unseen, None);
        let mut overlay_sequence = Slot::Unseen;
        let (mut active, mut missing) = (Slot::Unseen, Slot::Unseen);
        let mut offsets = Slot::Unseen;
        reader.map("a map", |reader, key| match key {
            b"version" => fill::<UInt>(&mut version, reader, "version"),
            b"dim" => fill::<Dim>(&mut dim, reader, "dim"),
            b"type" => fill::<OrDefault<RowType>>(&mut row_type, reader, "type"),
            b"found" => fill::<Bytes>(&mut found, reader, "found"),
            b"values" if values.is_some() => Err(reader.twin("values")),
            // Their type may stand behind them.
            b"values" => reader.later().map(|later| values = Some(later)),
            b"offsets" => fill::<Numbers>(&mut offsets, reader, "offsets"),
            b"inverse" => fill::<Numbers>(&mut inverse, reader, "inverse"),
            b"overlay_sequence" => fill::<Optional<UInt>>(&mut overlay_sequence, reader, "overlay_sequence"),
            b"active" => fill::<Active>(&mut active, reader, "active"),
            b"missing" => fill::<AllMissing>(&mut missing, reader, "missing"),
            _ => other(reader, key, &mut None),
        })?;
        let row_type = take::<OrDefault<RowType>>(row_type, "type")?;
        let Some(mut values) = values.filter(|values| !values.clone().nil()) else {
            return Err(PayloadError::missing("values", "the numbers of the rows"));
        };
        let values = read_elements(row_type.element_type(), &mut values);
        let values = values.map_err(|error| error.under("values"))?;
        let offsets = take::<Numbers>(offsets, "offsets")?;
        if let Some(offsets) = &offsets {
            check_offsets(offsets, values.len())?;
        }
        Ok(Rows {
            version: take::<UInt>(version, "version")?,
            dim: take::<Dim>(dim, "dim")?,
            row_type,
            found: take::<Bytes>(found, "found")?,
            values,
            offsets,
            inverse: take::<Numbers>(inverse, "inverse")?,
            overlay_sequence: take::<Optional<UInt>>(overlay_sequence, "overlay_sequence")?,
            active: take::<Active>(active, "active")?,
            missing: AllMissing::own(take::<AllMissing>(missing, "missing")?),
        })
    }

    fn write(rows: &Rows<'_>, out: &mut Encoder<'_>) {
        out.map(|out| {
            begin(rows.version, rows.dim, rows.row_type, out);
            out.key("found");
            out.bytes(&rows.found);
            out.key("values");
            write_elements(rows.values.slice(0..rows.values.len()), out);
            if let Some(offsets) = &rows.offsets {
                out.key("offsets");
                out.block(offsets);
            }
            end(
                rows.inverse.as_deref(),
                rows.overlay_sequence,
                rows.active,
                &rows.missing,
                out,
            );
        });
    }

    fn own(rows: Rows<'_>) -> Rows<'static> {
        Rows {
            found: Bytes::own(rows.found),
            ..rows
        }
    }

    fn keys() -> Vec<Key> {
        vec![
            key::<UInt>("version", "The version that answered."),
            key::<Dim>("dim", "Numbers a row."),
            key::<OrDefault<RowType>>("type", "As what they come; \"f32\" when absent."),
            key::<Bytes>(
                "found",
                "Bit i of byte i / 8 (lowest first) is set where key i was found; with `unique`, where different key i was.",
            ),
            Key {
                name: "values".to_owned(),
                notation: "block of that type".to_owned(),
                about: "n × dim (or bags × dim) numbers; where nothing was found the table's default row, or zeros."
                    .to_owned(),
                nested: Vec::new(),
            },
            key::<Numbers>(
                "offsets",
                "Of rows that vary in length, n + 1: row i is values[offsets[i]..offsets[i + 1]], and `dim` is 0.",
            ),
            key::<Numbers>("inverse", "With `unique`: which row each key of the call has."),
            key::<Optional<UInt>>(
                "overlay_sequence",
                "Of a table with an overlay: all upserts up to this one are in the answer.",
            ),
            key::<Active>("active", "The version that serves, where another one answered."),
            key::<AllMissing>(
                "missing",
                "Keys without an answer, by the node that was asked last; they count as not found, and their rows are zeros.",
            ),
        ]
    }
}

/// Whoever cuts values at them must not fall.
pub(super) fn check_offsets(offsets: &[u32], values: usize) -> Read<()> {
    let ascend = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    match (offsets.first(), offsets.last()) {
        (Some(0), Some(last)) if ascend && *last as usize == values => Ok(()),
        (first, last) => {
            let given = format!("{first:?} … {last:?}");
            let expected = format!("ascending offsets from 0 to the number of bytes ({values})");
            Err(PayloadError::invalid(given, expected).under("offsets"))
        }
    }
}

fn begin(version: u64, dim: usize, row_type: RowType, out: &mut Encoder<'_>) {
    out.key("version");
    out.uint(version);
    out.key("dim");
    out.uint(dim as u64);
    out.key("type");
    RowType::write(&row_type, out);
}

fn end(
    inverse: Option<&[u32]>,
    overlay_sequence: Option<u64>,
    active: Option<u64>,
    missing: &[Missing<'static>],
    out: &mut Encoder<'_>,
) {
    if let Some(sequence) = overlay_sequence {
        out.key("overlay_sequence");
        out.uint(sequence);
    }
    if let Some(inverse) = inverse {
        out.key("inverse");
        out.block(inverse);
    }
    if let Some(active) = active {
        out.key("active");
        out.uint(active);
    }
    if !missing.is_empty() {
        out.key("missing");
        out.items(missing.iter(), |out, missing| Missing::write(missing, out));
    }
}

/// [`Rows`] before they are read, so that they are read to where they leave from.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// The version that answers.
    pub version: u64,
    /// Numbers a row.
    pub dim: usize,
    /// As what they come.
    pub row_type: RowType,
    /// Bits of the bitmap.
    pub keys: usize,
    /// Rows: one for each of those keys, or for each bag.
    pub rows: usize,
    /// Of a call with `unique`: which row each key has.
    pub inverse: Option<&'a [u32]>,
    /// Of a table with an overlay: all upserts up to this one are in the answer.
    pub overlay_sequence: Option<u64>,
    /// The version that serves, where another one answers.
    pub active: Option<u64>,
    /// Keys without an answer.
    pub missing: &'a [Missing<'static>],
}

impl Header<'_> {
    /// The same with its rows, where an encoding is written from them.
    fn rows_of(&self, found: Vec<u8>, values: Data, offsets: Option<Vec<u32>>) -> Rows<'static> {
        Rows {
            version: self.version,
            dim: self.dim,
            row_type: self.row_type,
            found: found.into(),
            values,
            offsets,
            inverse: self.inverse.map(<[u32]>::to_vec),
            overlay_sequence: self.overlay_sequence,
            active: self.active,
            missing: self.missing.to_vec(),
        }
    }

    fn values_bytes(&self) -> usize {
        self.rows * self.dim * self.row_type.bytes()
    }

    /// The entries up to the rows: the places of the bitmap and of the rows, all zero.
    #[inline]
    pub(super) fn begin(&self, out: &mut Encoder<'_>) -> [Range<usize>; 2] {
        begin(self.version, self.dim, self.row_type, out);
        out.key("found");
        let found = out.zeros(self.keys.div_ceil(8));
        out.key("values");
        [found, out.zeros(self.values_bytes())]
    }

    /// Writes what [`Rows`] writes. `fill` receives the bitmap of the keys (⌈keys/8⌉ bytes) and the bytes of the numbers
    /// (rows × dim of them, little-endian), all zero.
    pub fn write(self, out: &mut Encoder<'_>, fill: impl FnOnce(&mut [u8], &mut [u8])) {
        if !out.is_binary() {
            let mut found = vec![0; self.keys.div_ceil(8)];
            let mut values = vec![0; self.values_bytes()];
            fill(&mut found, &mut values);
            let values = self.row_type.numbers(&values).unwrap_or(Data::U8(values));
            let rows = self.rows_of(found, values, None);
            return Rows::write(&rows, out);
        }
        out.map(|out| {
            let places = self.begin(out);
            if let Some([found, values]) = out.places(places) {
                fill(found, values);
            }
            end(
                self.inverse,
                self.overlay_sequence,
                self.active,
                self.missing,
                out,
            );
        });
    }

    /// Writes what [`Rows`] writes where rows are bytes that vary in length. `fill` receives the bitmap of the keys, the offsets
    /// (rows + 1 numbers of 32 bits, little-endian) and `values_bytes` bytes of rows, all zero.
    pub fn write_varying(
        self,
        values_bytes: usize,
        out: &mut Encoder<'_>,
        fill: impl FnOnce(&mut [u8], &mut [u8], &mut [u8]),
    ) {
        let found_bytes = self.keys.div_ceil(8);
        let offsets_bytes = (self.rows + 1) * size_of::<u32>();
        if !out.is_binary() {
            let (mut found, mut values) = (vec![0; found_bytes], vec![0; values_bytes]);
            let mut offsets = vec![0; offsets_bytes];
            fill(&mut found, &mut offsets, &mut values);
            let (offsets, _) = offsets.as_chunks();
            let offsets = offsets.iter().map(|end| u32::from_le_bytes(*end)).collect();
            let rows = self.rows_of(found, Data::U8(values), Some(offsets));
            return Rows::write(&rows, out);
        }
        out.map(|out| {
            begin(self.version, self.dim, self.row_type, out);
            out.key("found");
            let found = out.zeros(found_bytes);
            out.key("values");
            let values = out.zeros(values_bytes);
            out.key("offsets");
            let offsets = out.zeros(offsets_bytes);
            if let Some([found, values, offsets]) = out.places([found, values, offsets]) {
                fill(found, offsets, values);
            }
            end(
                self.inverse,
                self.overlay_sequence,
                self.active,
                self.missing,
                out,
            );
        });
    }
}
