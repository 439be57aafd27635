//! What a method is before anybody serves it: its name, its effect, its call and its answer.
//!
//! Servers, clients, the documentation and the fuzzer take methods from here. Its invariant: a method is named once.

use crate::payload::{Encoder, Encoding, Payload, PayloadError, Read, Reader};
use crate::{Field, Key, declare};

/// A method's schema.
pub trait Method {
    /// What it is called by.
    const NAME: &'static str;
    /// Whether it may change something that outlasts its answer.
    const CHANGES: bool;
    /// What it takes.
    type Call: Field;
    /// What it gives.
    type Answer: Field;
}

/// A method's schema as a value.
#[derive(Debug, Clone, Copy)]
pub struct MethodSchema {
    /// What it is called by.
    pub name: &'static str,
    /// Whether it may change something that outlasts its answer.
    pub changes: bool,
    /// What it takes.
    pub call: Side,
    /// What it gives.
    pub answer: Side,
}

/// One direction of a method.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    /// How the documentation writes its map.
    pub notation: fn() -> String,
    /// Its keys, for the documentation.
    pub keys: fn() -> Vec<Key>,
    /// Reads a payload, and holds what was read to being written and read again: both are written alike.
    pub again: fn(&Payload<'_>) -> Result<(), String>,
}

/// Declares the methods, in the order of the documentation: `TYPE: "NAME" EFFECT, CALL => ANSWER;`.
macro_rules! methods {
    ($($method:ident: $name:literal $effect:ident, $call:ty => $answer:ty;)+) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub enum $method {}

            impl $crate::Method for $method {
                const NAME: &'static str = $name;
                const CHANGES: bool = $crate::method::methods!(@$effect);
                type Call = $call;
                type Answer = $answer;
            }
        )+

        /// Every method that a server has whatever its configuration, in the order of the documentation.
        pub static METHODS: &[MethodSchema] = &[$(MethodSchema {
            name: $name,
            changes: <$method as $crate::Method>::CHANGES,
            call: Side::of::<$call>(),
            answer: Side::of::<$answer>(),
        }),+];
    };
    (@reads) => {
        false
    };
    (@changes) => {
        true
    };
}

pub(crate) use methods;

impl Side {
    /// A kind of payload as a value.
    pub const fn of<F: Field>() -> Side {
        Side {
            notation: F::notation,
            keys: F::keys,
            again: again::<F>,
        }
    }
}

fn again<F: Field>(payload: &Payload<'_>) -> Result<(), String> {
    let Ok((first, _)) = F::decode(payload) else {
        return Ok(());
    };
    // Bytes are compared and not values: NaN is not equal to itself; and it is written as msgpack: JSON has no NaN.
    let once = written::<F>(&first);
    let read = |error: PayloadError| format!("what was read is written as {once:02x?}: {error}");
    let payload = Payload::new(Encoding::Msgpack, &once).map_err(read)?;
    let twice = written::<F>(&F::decode(&payload).map_err(read)?.0);
    match once == twice {
        true => Ok(()),
        false => Err(format!("{once:02x?} is read, and written as {twice:02x?}")),
    }
}

fn written<F: Field>(value: &F::Of<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    F::write(value, &mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
    bytes
}

/// A map without keys of its own.
impl Field for () {
    type Of<'a> = ();

    fn notation() -> String {
        "{}".to_owned()
    }

    fn read(reader: &mut Reader<'_>) -> Read<()> {
        let mut unknown = None;
        reader.map("a map", |reader, key| declare::other(reader, key, &mut unknown))?;
        match unknown {
            None => Ok(()),
            Some(key) => Err(declare::refuse(key, &[])),
        }
    }

    fn write((): &(), out: &mut Encoder<'_>) {
        out.map(|_| ());
    }

    fn own((): ()) {}
}
