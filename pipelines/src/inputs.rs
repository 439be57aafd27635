//! What a pipeline says of the values of its requests: `inputs = { page = "bytes", x = { type = "f32", shape = [3, -1] } }`.
//!
//! Its invariant: an input that a declaration lets through is of the kind, type and shape that stages were opened for.

use crate::{Error, Items, Kind, Value};
use millpond_backends_interface::Port;
use millpond_tensor::ElementType;
use serde::Deserialize;
use std::fmt;

/// One declared input.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub enum Declared {
    /// Any bytes.
    Bytes,
    /// UTF-8.
    Texts,
    /// Keys of feature tables.
    Keys,
    /// A tensor an item, each of a shape of its own.
    Tensors,
    /// A tensor of that type; and of those sizes, of which `None` is free.
    Tensor(ElementType, Option<Vec<Option<usize>>>),
}

/// As it stands in the configuration.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a kind, as in \"texts\", or { type = \"f32\", shape = [-1, 4] }"
)]
enum Written {
    Kind(String),
    Tensor(WrittenTensor),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTensor {
    r#type: String,
    shape: Option<Vec<i64>>,
}

impl TryFrom<Written> for Declared {
    type Error = String;

    fn try_from(written: Written) -> Result<Declared, String> {
        let written = match written {
            Written::Kind(kind) => return Declared::kind_of(&kind),
            Written::Tensor(tensor) => tensor,
        };
        let Some(element_type) = ElementType::parse(&written.r#type) else {
            let known: Vec<&str> = ElementType::ALL.iter().map(|known| known.as_str()).collect();
            return Err(format!("type is {:?}; expected one of {known:?}", written.r#type));
        };
        let size = |size: i64| match size {
            -1 => Ok(None),
            size => usize::try_from(size).map(Some).map_err(|_| {
                format!("shape holds {size}; expected sizes, or -1 for one that requests choose")
            }),
        };
        let shape = written
            .shape
            .map(|sizes| sizes.into_iter().map(size).collect::<Result<Vec<_>, _>>());
        Ok(Declared::Tensor(element_type, shape.transpose()?))
    }
}

impl Declared {
    fn kind_of(kind: &str) -> Result<Declared, String> {
        match kind {
            "bytes" => Ok(Declared::Bytes),
            "texts" => Ok(Declared::Texts),
            "keys" => Ok(Declared::Keys),
            "tensors" => Ok(Declared::Tensors),
            _ => Err(format!(
                "an input is {kind:?}; expected \"bytes\", \"texts\", \"keys\", \"tensors\", or {{ type = \"f32\", shape = [3, -1] }}"
            )),
        }
    }

    /// What stages that take it get.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Declared::Bytes | Declared::Texts => Kind::Texts,
            Declared::Keys => Kind::Keys,
            Declared::Tensors => Kind::Tensors,
            Declared::Tensor(..) => Kind::Floats,
        }
    }

    /// The tensor that it is, where its sizes are declared.
    pub(crate) fn port(&self, name: &str) -> Option<Port> {
        match self {
            Declared::Tensor(element_type, Some(shape)) => Some(Port {
                name: name.to_owned(),
                element_type: *element_type,
                shape: shape.clone(),
            }),
            _ => None,
        }
    }

    /// Holds a value to it.
    pub(crate) fn check(&self, name: &str, value: &Value) -> Result<(), Error> {
        let found = match (self, &value.items) {
            (Declared::Bytes, Items::Bytes(_))
            | (Declared::Keys, Items::Keys(_))
            | (Declared::Tensors, Items::Tensors(_)) => return Ok(()),
            (Declared::Texts, Items::Bytes(bytes)) => match bytes.texts().count() == bytes.len() {
                true => return Ok(()),
                false => "bytes that are no UTF-8".to_owned(),
            },
            (Declared::Tensor(element_type, shape), Items::Tensor(tensor)) => {
                let port = Port {
                    name: String::new(),
                    element_type: *element_type,
                    shape: shape.clone().unwrap_or_default(),
                };
                let fits = shape.is_none() || port.fits(tensor.shape());
                if tensor.element_type() == *element_type && fits {
                    return Ok(());
                }
                value.items.found()
            }
            (_, items) => items.found(),
        };
        let problem = format!("key \"inputs.{name}\" is {found}; expected {self}");
        Err(Error::Request { problem })
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Declared::Bytes => f.write_str("bytes"),
            Declared::Texts => f.write_str("texts"),
            Declared::Keys => f.write_str("keys"),
            Declared::Tensors => f.write_str("tensors"),
            Declared::Tensor(element_type, None) => write!(f, "a tensor of {element_type}"),
            Declared::Tensor(element_type, Some(shape)) => {
                let sizes: Vec<String> = shape
                    .iter()
                    .map(|size| size.map_or("?".to_owned(), |size| size.to_string()))
                    .collect();
                write!(f, "{element_type}[{}]", sizes.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Bytes;
    use millpond_tensor::Tensor;

    #[derive(Debug, Deserialize)]
    struct One {
        x: Declared,
    }

    fn check(text: &str, items: Items, expected: Result<(), &str>) {
        let declared = toml::from_str::<One>(&format!("x = {text}")).unwrap().x;
        let checked = declared.check("x", &Value::rows(items));
        let checked = checked.map_err(|error| error.to_string());
        assert_eq!(checked, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn values_are_held_to_what_was_declared() {
        let texts = || Items::Bytes(["a"].into_iter().collect());
        let mut bytes = Bytes::default();
        bytes.push(b"\xff");
        let floats = || Items::Tensor(Tensor::new(vec![3, 2], vec![0.0_f32; 6]).unwrap());
        check("\"bytes\"", Items::Bytes(bytes.clone()), Ok(()));
        check("\"texts\"", texts(), Ok(()));
        let problem = "key \"inputs.x\" is bytes that are no UTF-8; expected texts";
        check("\"texts\"", Items::Bytes(bytes), Err(problem));
        check("{ type = \"f32\" }", floats(), Ok(()));
        check("{ type = \"f32\", shape = [3, -1] }", floats(), Ok(()));
        let problem = "key \"inputs.x\" is f32[3, 2]; expected f32[?, 3]";
        check("{ type = \"f32\", shape = [-1, 3] }", floats(), Err(problem));
        let problem = "key \"inputs.x\" is f32[3, 2]; expected a tensor of u8";
        check("{ type = \"u8\" }", floats(), Err(problem));
        check(
            "\"keys\"",
            texts(),
            Err("key \"inputs.x\" is texts; expected keys"),
        );
        check("\"tensors\"", Items::Tensors(Vec::new()), Ok(()));
    }

    #[test]
    fn what_is_no_declaration_is_refused() {
        let refused = |text: &str| {
            toml::from_str::<One>(&format!("x = {text}"))
                .unwrap_err()
                .to_string()
        };
        assert!(refused("\"image\"").contains("an input is \"image\"; expected \"bytes\""));
        assert!(refused("{ type = \"f8\" }").contains("type is \"f8\"; expected one of"));
        assert!(refused("{ type = \"f32\", shape = [-2] }").contains("shape holds -2"));
    }
}
