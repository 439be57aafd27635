//! Rows of every type of element: cut apart and joined again they are what they were.
#![allow(clippy::unwrap_used)]

use millpond_tensor::{Bytes, ElementType, Tensor};
use proptest::collection::vec;
use proptest::prelude::*;

/// One element of that type, made from any number.
fn element(element_type: ElementType, seed: u64) -> Tensor {
    if element_type == ElementType::Bytes {
        let mut string = Bytes::default();
        string.push(&seed.to_le_bytes()[..(seed % 9) as usize]);
        return Tensor::new(vec![1], string).unwrap();
    }
    let none = Tensor::zeros(element_type, vec![0]).unwrap();
    none.resized(&[1], seed.cast_signed()).unwrap()
}

/// As many elements as the shape has.
fn whole(element_type: ElementType, [rows, width]: [usize; 2], seeds: &[u64]) -> Tensor {
    if rows * width == 0 {
        return Tensor::zeros(element_type, vec![rows, width]).unwrap();
    }
    let row = |seeds: &[u64]| {
        let elements: Vec<Tensor> = seeds.iter().map(|seed| element(element_type, *seed)).collect();
        Tensor::concat(&elements).unwrap()
    };
    let rows: Vec<Tensor> = seeds[..rows * width].chunks(width).map(row).collect();
    Tensor::stack(&rows).unwrap()
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
        let whole = whole(element_type, [rows, width], &seeds);
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
