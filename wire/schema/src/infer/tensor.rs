//! A tensor as it travels: `{shape, type, data}`.
//! Its invariant: what is read has as many elements as its shape says.

use crate::Field;
use crate::declare::{Slot, fill, other, refuse, take};
use crate::field::{List, Text, Within};
use crate::payload::{Encoder, PayloadError, Read, Reader};
use millpond_tensor::{Bytes, Data, ElementType, Elements, Error, Tensor, element_types};

macro_rules! declare {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        pub(crate) fn read_elements(element_type: ElementType, reader: &mut Reader<'_>) -> Read<Data> {
            match element_type {
                $(ElementType::$variant => reader.numbers(true).map(Data::$variant),)*
                ElementType::Bytes => {
                    let mut strings = Bytes::default();
                    reader.strings(&mut |string| strings.push(string))?;
                    Ok(Data::Bytes(strings))
                }
            }
        }

        pub(crate) fn write_elements(elements: Elements<'_>, out: &mut Encoder<'_>) {
            match elements {
                $(Elements::$variant(values) => out.block(values),)*
                Elements::Bytes(strings) => out.items(strings.iter(), |out, string| out.string(string)),
            }
        }
    };
}

element_types!(declare);

/// The dimensions.
type Shape = List<Within<0, 0xffff_ffff>>;

impl Field for Tensor {
    type Of<'a> = Tensor;

    fn notation() -> String {
        "{shape, type, data}".to_owned()
    }

    fn expected() -> String {
        "a map {shape, type, data}".to_owned()
    }

    fn read(reader: &mut Reader<'_>) -> Read<Tensor> {
        let (mut shape, mut element_type) = (Slot::Unseen, Slot::Unseen);
        let (mut data, mut unknown) = (None, None);
        reader.map("a map {shape, type, data}", |reader, key| match key {
            b"shape" => fill::<Shape>(&mut shape, reader, "shape"),
            b"type" => fill::<Text>(&mut element_type, reader, "type"),
            b"data" if data.is_some() => Err(reader.twin("data")),
            // Its type may stand behind it.
            b"data" => reader.later().map(|later| data = Some(later)),
            _ => other(reader, key, &mut unknown),
        })?;
        let shape = take::<Shape>(shape, "shape")?;
        let type_name = take::<Text>(element_type, "type")?;
        let Some(mut data) = data.filter(|data| !data.clone().nil()) else {
            return Err(PayloadError::missing("data", "the tensor's elements"));
        };
        let Some(element_type) = ElementType::parse(&type_name) else {
            let known: Vec<String> = ElementType::ALL
                .iter()
                .map(|known| format!("\"{known}\""))
                .collect();
            return Err(PayloadError::invalid(format!("{type_name:?}"), known.join(", ")).under("type"));
        };
        if element_type == ElementType::Bytes {
            reader.tell_base64(&mut data);
        }
        let data = read_elements(element_type, &mut data).map_err(|error| error.under("data"))?;
        let elements = data.len();
        let tensor = Tensor::new(shape, data).map_err(|error| {
            let (Error::Length { shape, .. } | Error::TooLarge { shape }) = error;
            let expected = format!("as many as shape {shape:?} holds");
            PayloadError::invalid(format!("{elements} elements"), expected).under("data")
        })?;
        match unknown {
            None => Ok(tensor),
            Some(key) => Err(refuse(key, &["shape", "type", "data"])),
        }
    }

    fn write(tensor: &Tensor, out: &mut Encoder<'_>) {
        out.map(|out| {
            out.key("shape");
            out.items(tensor.shape().iter(), |out, size| out.uint(*size as u64));
            out.key("type");
            out.text(tensor.element_type().as_str());
            out.key("data");
            write_elements(tensor.elements(), out);
        });
    }

    fn own(tensor: Tensor) -> Tensor {
        tensor
    }
}
