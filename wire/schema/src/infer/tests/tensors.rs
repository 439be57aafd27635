//! Tensors of every type, any shape and any elements, both ways in each form that they travel in.

use super::*;
use millpond_tensor::element_types;
use proptest::collection::vec;
use proptest::prelude::*;

macro_rules! declare {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        /// Elements of that type, made from any bits; JSON has neither NaN nor infinity.
        fn data(element_type: ElementType, seeds: &[u64]) -> Data {
            let seeds = seeds.iter().copied();
            match element_type {
                $(ElementType::$variant => Data::$variant(seeds.map(|seed| of_bits!($kind $type, seed)).collect()),)*
                ElementType::Bytes => {
                    let mut strings = Bytes::default();
                    for seed in seeds {
                        // Half of them are text.
                        let mask = if seed % 2 == 0 { 0x7f } else { 0xff };
                        let bytes = seed.to_be_bytes().map(|byte| byte & mask);
                        strings.push(&bytes[..(seed % 9) as usize]);
                    }
                    Data::Bytes(strings)
                }
            }
        }
    };
}

macro_rules! of_bits {
    (float $type:ident, $bits:expr) => {
        Some($type::from_bits($bits as _))
            .filter(|float| float.is_finite())
            .unwrap_or_default()
    };
    (truth $type:ident, $bits:expr) => {
        $bits % 2 == 1
    };
    ($kind:ident $type:ident, $bits:expr) => {
        $bits as $type
    };
}

element_types!(declare);

fn tensors() -> impl Strategy<Value = Tensor> {
    (
        prop::sample::select(ElementType::ALL),
        vec(0usize..5, 0..4),
        vec(any::<u64>(), 64),
    )
        .prop_map(|(element_type, shape, seeds)| {
            let len = shape.iter().product();
            Tensor::new(shape, data(element_type, &seeds[..len])).unwrap()
        })
}

/// Writes a call with one tensor and reads it again.
fn sent(tensor: &Tensor, encoding: Encoding, base64: bool) -> (usize, Tensor) {
    let call = Tensors {
        model: None,
        version: None,
        inputs: vec![("x".into(), tensor.clone())],
        outputs: Vec::new(),
    };
    let mut bytes = Vec::new();
    Tensors::write(&call, &mut Encoder::new(&mut bytes, encoding, base64));
    if base64 {
        bytes.splice(..1, *br#"{"base64":true,"#);
    }
    let payload = Payload::new(encoding, &bytes).unwrap();
    let (mut call, _) = Tensors::decode(&payload).unwrap();
    (bytes.len(), call.inputs.remove(0).1)
}

proptest! {
    #[test]
    fn any_tensor_comes_back_the_same(tensor in tensors()) {
        for (encoding, base64) in [(Encoding::Msgpack, false), (Encoding::Json, false), (Encoding::Json, true)] {
            let (_, found) = sent(&tensor, encoding, base64);
            prop_assert_eq!(&found, &tensor);
            prop_assert_eq!(found.element_type(), tensor.element_type());
        }
    }

    #[test]
    fn elements_take_no_more_than_their_payload_allows(tensor in tensors()) {
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let (sent_bytes, found) = sent(&tensor, encoding, false);
            // A number of JSON has one character at least and a separator; so has a string.
            prop_assert!(found.bytes() <= sent_bytes + size_of::<usize>() * found.len());
        }
    }
}
