//! A signature as a worker writes it: JSON. Its invariant: what is read has passed the checks on signatures of foreign code.

use millpond_backends_interface::{Port, Signature};
use millpond_tensor::ElementType;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Written {
    inputs: Vec<WrittenPort>,
    outputs: Vec<WrittenPort>,
    batched: bool,
}

#[derive(Serialize, Deserialize)]
struct WrittenPort {
    name: String,
    #[serde(rename = "type")]
    element_type: String,
    /// `null` is free.
    shape: Vec<Option<usize>>,
}

pub(crate) fn write(signature: &Signature) -> String {
    let ports = |ports: &[Port]| {
        ports
            .iter()
            .map(|port| WrittenPort {
                name: port.name.clone(),
                element_type: port.element_type.as_str().to_owned(),
                shape: port.shape.clone(),
            })
            .collect()
    };
    let written = Written {
        inputs: ports(&signature.inputs),
        outputs: ports(&signature.outputs),
        batched: signature.batched,
    };
    serde_json::to_string(&written).unwrap_or_default()
}

pub(crate) fn read(text: &str) -> Result<Signature, String> {
    let written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let ports = |ports: Vec<WrittenPort>| {
        let ports = ports.into_iter().map(|port| {
            let element_type = ElementType::parse(&port.element_type)
                .ok_or_else(|| format!("`{}` has the unknown type {:?}", port.name, port.element_type))?;
            Ok(Port {
                name: port.name,
                element_type,
                shape: port.shape,
            })
        });
        ports.collect::<Result<Vec<Port>, String>>()
    };
    let signature = Signature {
        inputs: ports(written.inputs)?,
        outputs: ports(written.outputs)?,
        batched: written.batched,
    };
    signature.check_foreign()?;
    Ok(signature)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn signatures_come_back_and_nonsense_is_refused() {
        let text = r#"{"inputs":[{"name":"x","type":"bytes","shape":[null,2]}],"outputs":[{"name":"y","type":"f32","shape":[null]}],"batched":true}"#;
        let signature = read(text).unwrap();
        assert_eq!(signature.inputs[0].to_string(), "x: bytes[N, 2]");
        assert_eq!(write(&signature), text);
        let refused = |from: &str, to: &str, words: &str| {
            let problem = read(&text.replacen(from, to, 1)).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        };
        refused("bytes", "texts", "unknown type \"texts\"");
        refused("[null,2]", "[1,2]", "first dimension of input `x`");
        refused("[null,2]", "[null,-2]", "invalid value");
        refused("\"batched\":true", "\"b\":1", "missing field `batched`");
        refused("\"name\":\"x\"", "\"name\":\"\"", "no usable name");
    }
}
