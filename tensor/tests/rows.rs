//! Rows of every type of element: cut apart and joined again they are what they were.
#![allow(clippy::unwrap_used)]

use millpond_tensor::{Bytes, Data, ElementType, Tensor, bf16, f16};
use proptest::collection::vec;
use proptest::prelude::*;

/// Elements of that type, made from any numbers: NaN is left out, which is not equal to itself.
fn data(element_type: ElementType, seeds: &[u64]) -> Data {
    let seeds = seeds.iter().copied();
    match element_type {
        ElementType::F32 => Data::F32(seeds.map(|seed| seed as f32).collect()),
        ElementType::F64 => Data::F64(seeds.map(|seed| seed as f64).collect()),
        ElementType::F16 => Data::F16(seeds.map(|seed| f16::from_f64(seed as f64)).collect()),
        ElementType::Bf16 => Data::Bf16(seeds.map(|seed| bf16::from_f64(seed as f64)).collect()),
        ElementType::I64 => Data::I64(seeds.map(u64::cast_signed).collect()),
        ElementType::I32 => Data::I32(seeds.map(|seed| seed as i32).collect()),
        ElementType::U8 => Data::U8(seeds.map(|seed| seed as u8).collect()),
        ElementType::Bool => Data::Bool(seeds.map(|seed| seed % 2 == 1).collect()),
        ElementType::Bytes => {
            let mut strings = Bytes::default();
            seeds.for_each(|seed| strings.push(&seed.to_le_bytes()[..(seed % 9) as usize]));
            strings.into()
        }
    }
}

proptest! {
    #[test]
    fn cut_and_joined_rows_are_the_same(
        element_type in prop::sample::select(ElementType::ALL),
        width in 0usize..4,
        sizes in vec(0usize..5, 1..6),
        seeds in vec(any::<u64>(), 100),
    ) {
        let rows: usize = sizes.iter().sum();
        let whole = Tensor::new(vec![rows, width], data(element_type, &seeds[..rows * width])).unwrap();
        let mut parts = Vec::new();
        let mut from = 0;
        for size in sizes {
            parts.push(whole.view(from..from + size).unwrap());
            from += size;
        }
        let joined = Tensor::concat(&parts).unwrap();
        prop_assert_eq!(&joined, &whole);
        prop_assert_eq!(joined.element_type(), element_type);
        prop_assert_eq!(parts.iter().map(Tensor::bytes).sum::<usize>(), whole.bytes());
    }
}
