//! Configured methods, `[methods."NAME"]`, for trying clients: the payload as it came, or one map always; and those that call
//! their caller.
//!
//! Echo and constant are the shortest way through the server. Their invariant: what is echoed is one valid map, byte for byte as it
//! came: reserved keys included, and a key that occurs twice, twice.

mod duplex;
mod section;

pub use section::{Kind, Section, check};

use crate::{Engines, Served};
use duplex::Duplex;
use millpond_calls::{Callers, ConfiguredHandler, Cost, MethodSpec, Serve};
use millpond_wire_payload::{Encoder, Encoding, Payload, Reserved, Value};
use millpond_wire_schema::Status;
use section::map_of;
use std::borrow::Cow;

impl Section {
    /// The method of that name that it describes.
    pub(crate) fn method(&self, name: &str) -> MethodSpec<Engines> {
        let (cost, serve): (_, Box<ConfiguredHandler<Engines>>) = match (self.kind, &self.answer) {
            (Some(Kind::Duplex), _) => {
                let duplex = Duplex::new(self);
                let serve = move |call: &mut Served<'_>, payload: &Payload<'_>| duplex.serve(call, payload);
                (Cost::Detached, Box::new(serve))
            }
            (_, Some(answer)) => {
                let map = Constant::new(answer);
                let serve = move |call: &mut Served<'_>, payload: &Payload<'_>| {
                    answer_bytes(call, payload, map.bytes(call.asked.encoding))
                };
                (Cost::Short, Box::new(serve))
            }
            (_, None) => (Cost::Short, Box::new(echo)),
        };
        MethodSpec {
            name: Cow::Owned(name.to_owned()),
            // Over HTTP a duplex method cannot even call its caller.
            changes: false,
            callers: Callers::Any,
            cost,
            serve: Serve::Configured(serve),
            ahead: None,
        }
    }
}

fn echo(call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let bytes = as_it_came(call.asked.encoding, call.asked.payload);
    answer_bytes(call, payload, bytes)
}

/// A payload's map, without the space around it.
fn as_it_came(encoding: Encoding, payload: &[u8]) -> &[u8] {
    match encoding {
        Encoding::Msgpack => payload,
        Encoding::Json => payload.trim_ascii(),
    }
}

/// A map that was encoded at the start.
struct Constant {
    msgpack: Vec<u8>,
    json: Vec<u8>,
}

impl Constant {
    fn new(answer: &toml::Table) -> Constant {
        let value = Value::Map(map_of(answer));
        let encoded = |encoding| {
            let mut bytes = Vec::new();
            Encoder::new(&mut bytes, encoding, false).value(&value);
            bytes
        };
        Constant {
            msgpack: encoded(Encoding::Msgpack),
            json: encoded(Encoding::Json),
        }
    }

    /// The map's bytes.
    fn bytes(&self, encoding: Encoding) -> &[u8] {
        match encoding {
            Encoding::Msgpack => &self.msgpack,
            Encoding::Json => &self.json,
        }
    }
}

/// Answers those bytes, once payload and deadline are right.
fn answer_bytes(call: &mut Served<'_>, payload: &Payload<'_>, bytes: &[u8]) -> Result<(), Status> {
    let reserved = Reserved::of(payload)?;
    call.deadline(reserved.deadline_ms)?;
    call.answer(reserved.trace, |out| out.raw(bytes));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FPNN's own answer, byte for byte: the order of the file is kept.
    #[test]
    fn a_constant_keeps_the_order_of_the_file() {
        let answer = toml::from_str("Simple = \"one\"\nSimple2 = 2").unwrap_or_default();
        let constant = Constant::new(&answer);
        assert_eq!(
            constant.bytes(Encoding::Msgpack),
            b"\x82\xa6Simple\xa3one\xa7Simple2\x02"
        );
        assert_eq!(constant.bytes(Encoding::Json), br#"{"Simple":"one","Simple2":2}"#);
    }
}
