//! Pooling where the rows of a bag came from several nodes: after all of them are here.
//! It knows no node. Its invariant: it gives what one server with all the rows gives, in the same order of additions.

use super::{Merge, Pool, RowType};
use millpond_tensor::{bf16, f16};

/// How the rows of a call are pooled.
#[derive(Debug, Clone)]
pub struct Pooled {
    pool: Pool,
    offsets: Vec<u32>,
    /// As what the pooled numbers are answered.
    row_type: RowType,
}

/// The rows of the keys, before they are pooled.
struct Unpooled<'a> {
    dim: usize,
    found: &'a [u8],
    /// 32-bit floats, little-endian.
    values: &'a [u8],
    /// The row of a bag that has none, where it is known.
    default_row: Option<Vec<f32>>,
}

impl Unpooled<'_> {
    fn is_found(&self, key: usize) -> bool {
        self.found
            .get(key / 8)
            .is_some_and(|byte| byte >> (key % 8) & 1 == 1)
    }

    /// The numbers of a key's row.
    fn row(&self, key: usize) -> impl Iterator<Item = f32> + '_ {
        let row_bytes = self.dim * size_of::<f32>();
        let start = key.saturating_mul(row_bytes);
        let row = self
            .values
            .get(start..start.saturating_add(row_bytes))
            .unwrap_or_default();
        row.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }
}

impl Pooled {
    /// Of a call that asks for a pool.
    pub fn of(pool: Pool, offsets: Vec<u32>, row_type: RowType) -> Option<Pooled> {
        (pool != Pool::None).then_some(Pooled {
            pool,
            offsets,
            row_type,
        })
    }

    /// As what nodes are asked for the rows: they are pooled as they are, and converted then.
    pub const ASKED: RowType = RowType::F32;

    /// Bags, of which each has a row of the answer.
    pub fn bags(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// What the pooled rows take, where they have so many numbers.
    pub fn answer_bytes(&self, dim: usize) -> usize {
        self.bags()
            .saturating_mul(dim)
            .saturating_mul(self.row_type.bytes())
    }

    /// As what the pooled numbers are answered.
    pub fn row_type(&self) -> RowType {
        self.row_type
    }

    /// The bytes of the pooled rows, one a bag. `default_row` is that of the table, where it is known; else a key without a row says
    /// it, of those that have an answer (`missing` have none).
    pub fn of_merged(
        &self,
        merge: &Merge,
        default_row: Option<Vec<f32>>,
        missing: impl Iterator<Item = u32>,
    ) -> Vec<u8> {
        self.pool(&Unpooled {
            dim: merge.dim(),
            found: merge.found(),
            values: merge.values(),
            default_row: default_row.or_else(|| merge.absent_row(missing)),
        })
    }

    /// Whether a bag has no key, and no key of the call says what it is answered: that is the row of a key that is not there.
    pub fn lacks_default_row(&self, merge: &Merge) -> bool {
        let mut bags = self.offsets.windows(2);
        bags.any(|bag| matches!(bag, [start, end] if start == end))
            && merge.absent_row(std::iter::empty()).is_none()
    }

    fn pool(&self, rows: &Unpooled<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bags() * rows.dim * self.row_type.bytes());
        let mut sums = vec![0.0_f32; rows.dim];
        for bag in self.offsets.windows(2) {
            let &[start, end] = bag else { continue };
            self.bag(rows, start as usize..end as usize, &mut sums);
            self.write(&sums, &mut out);
        }
        out
    }

    /// Pools one bag as a table does (`Bag` in `engines/features`), which this crate may not use. A test of `methods` holds the two
    /// together.
    fn bag(&self, rows: &Unpooled<'_>, keys: std::ops::Range<usize>, pooled: &mut [f32]) {
        let mut count = 0_u32;
        for key in keys.filter(|key| rows.is_found(*key)) {
            count += 1;
            let numbers = pooled.iter_mut().zip(rows.row(key));
            match self.pool {
                _ if count == 1 => numbers.for_each(|(pooled, number)| *pooled = number),
                Pool::Max => numbers.for_each(|(max, number)| *max = max.max(number)),
                Pool::Sum | Pool::Mean | Pool::None => numbers.for_each(|(sum, number)| *sum += number),
            }
        }
        match (count, &rows.default_row) {
            (0, Some(row)) if row.len() == pooled.len() => pooled.copy_from_slice(row),
            (0, _) => pooled.fill(0.0),
            (2.., _) if self.pool == Pool::Mean => pooled.iter_mut().for_each(|sum| *sum /= count as f32),
            _ => {}
        }
    }

    fn write(&self, numbers: &[f32], out: &mut Vec<u8>) {
        for number in numbers {
            match self.row_type {
                RowType::F64 => out.extend(f64::from(*number).to_le_bytes()),
                RowType::F16 => out.extend(f16::from_f32(*number).to_le_bytes()),
                RowType::Bf16 => out.extend(bf16::from_f32(*number).to_le_bytes()),
                // The schema refuses a pool of the others.
                RowType::F32 | RowType::U8 | RowType::None => out.extend(number.to_le_bytes()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bags_are_pooled_as_one_server_pools_them() {
        let numbers = [1.0_f32, 8.0, 3.0, -2.0, 9.0, 9.0, 5.0, 0.5];
        let values: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let check = |pool, default_row: Option<Vec<f32>>, expected: &[f32]| {
            // Key 2 is not found.
            let rows = Unpooled {
                dim: 2,
                found: &[0b1011],
                values: &values,
                default_row,
            };
            let pooled = Pooled::of(pool, vec![0, 2, 2, 3, 4], RowType::F32).unwrap();
            let bytes = pooled.pool(&rows);
            let found: Vec<f32> = bytes
                .as_chunks()
                .0
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes))
                .collect();
            assert_eq!(found, expected, "{pool:?}");
        };
        check(Pool::Sum, None, &[4.0, 6.0, 0.0, 0.0, 0.0, 0.0, 5.0, 0.5]);
        check(
            Pool::Mean,
            Some(vec![-1.0, -1.0]),
            &[2.0, 3.0, -1.0, -1.0, -1.0, -1.0, 5.0, 0.5],
        );
        check(Pool::Max, None, &[3.0, 8.0, 0.0, 0.0, 0.0, 0.0, 5.0, 0.5]);
    }

    #[test]
    fn pooled_numbers_are_converted_last() {
        let rows = Unpooled {
            dim: 1,
            found: &[1],
            values: &1.5_f32.to_le_bytes(),
            default_row: None,
        };
        let check = |row_type, expected: &[u8]| {
            let pooled = Pooled::of(Pool::Sum, vec![0, 1], row_type).unwrap();
            assert_eq!(pooled.pool(&rows), expected);
        };
        check(RowType::F64, &1.5_f64.to_le_bytes());
        check(RowType::F16, &[0x00, 0x3e]);
        check(RowType::Bf16, &[0xc0, 0x3f]);
        assert!(Pooled::of(Pool::None, Vec::new(), RowType::F32).is_none());
    }
}
