//! Tensors of every type, any shape and any elements, both ways in each form that they travel in.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Elements of that type, made from any bits; JSON has neither NaN nor infinity.
fn data(element_type: ElementType, seeds: &[u64]) -> Data {
    let seeds = seeds.iter().copied();
    match element_type {
        ElementType::F32 => {
            let floats = seeds.map(|seed| f32::from_bits(seed as u32));
            Data::F32(
                floats
                    .map(|float| if float.is_finite() { float } else { 0.0 })
                    .collect(),
            )
        }
        ElementType::F64 => {
            let floats = seeds.map(f64::from_bits);
            Data::F64(
                floats
                    .map(|float| if float.is_finite() { float } else { 0.0 })
                    .collect(),
            )
        }
        ElementType::F16 => {
            let floats = seeds.map(|seed| f16::from_bits(seed as u16));
            Data::F16(
                floats
                    .map(|float| if float.is_finite() { float } else { f16::ZERO })
                    .collect(),
            )
        }
        ElementType::Bf16 => {
            let floats = seeds.map(|seed| bf16::from_bits(seed as u16));
            Data::Bf16(
                floats
                    .map(|float| if float.is_finite() { float } else { bf16::ZERO })
                    .collect(),
            )
        }
        ElementType::I64 => Data::I64(seeds.map(u64::cast_signed).collect()),
        ElementType::I32 => Data::I32(seeds.map(|seed| seed as i32).collect()),
        ElementType::U8 => Data::U8(seeds.map(|seed| seed as u8).collect()),
        ElementType::Bool => Data::Bool(seeds.map(|seed| seed % 2 == 1).collect()),
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
