//! The macros that schemas are declared with: from one declaration come the struct, its reading, its writing, its owned
//! form and its documentation.
//!
//! Their invariants: a key is written once; a call's unknown keys are refused, those of an answer skipped, so that a server may
//! say more than its clients know; and a key that occurs twice is refused in both.

use crate::Field;
use crate::payload::{PayloadError, Problem, Read, Reader};

/// What stands under a key, as far as it was read.
pub(crate) enum Slot<T> {
    Unseen,
    Nil,
    Read(T),
}

/// Reads the value under `key`, which was not there before.
#[inline]
pub(crate) fn fill<'a, F: Field>(
    slot: &mut Slot<F::Of<'a>>,
    reader: &mut Reader<'a>,
    key: &'static str,
) -> Read<()> {
    if !matches!(slot, Slot::Unseen) {
        return Err(reader.twin(key));
    }
    *slot = match reader.nil() {
        true => Slot::Nil,
        false => Slot::Read(F::read(reader).map_err(|error| error.under(key))?),
    };
    Ok(())
}

/// What was read, or what its absence means.
#[inline]
pub(crate) fn take<'a, F: Field>(slot: Slot<F::Of<'a>>, key: &'static str) -> Read<F::Of<'a>> {
    match slot {
        Slot::Read(value) => Ok(value),
        Slot::Unseen | Slot::Nil => F::absent().ok_or_else(|| PayloadError::missing(key, F::expected())),
    }
}

/// Goes past the value under a key that is not declared, and keeps the first such key. Reserved ones are read.
pub(crate) fn other<'a>(reader: &mut Reader<'a>, key: &'a [u8], unknown: &mut Option<&'a [u8]>) -> Read<()> {
    if reader.is_at_root() && reader.reserve(key)? {
        return Ok(());
    }
    unknown.get_or_insert(key);
    reader.skip()
}

/// An error of a call that has an unknown key too: a missing one may be the same, misspelt.
#[cold]
pub(crate) fn beside(error: PayloadError, unknown: Option<&[u8]>) -> PayloadError {
    match (error.problem(), unknown) {
        (Problem::Missing { key, expected }, Some(unknown)) => {
            let unknown = String::from_utf8_lossy(unknown);
            PayloadError::missing(key, format!("{expected}; key \"{unknown}\" is unknown here"))
        }
        _ => error,
    }
}

#[cold]
pub(crate) fn refuse(unknown: &[u8], known: &[&str]) -> PayloadError {
    let key = String::from_utf8_lossy(unknown).into_owned();
    let known = match known {
        [] => "_deadline_ms, _priority, _trace, _token, _epoch".to_owned(),
        known => format!(
            "{} (and _deadline_ms, _priority, _trace, _token, _epoch)",
            known.join(", ")
        ),
    };
    Problem::Unknown { key, known }.into()
}

/// Refuses another number of `key`'s items than one for each of `of`'s.
pub(crate) fn one_for_each(key: &str, found: usize, of: &str, expected: usize) -> Read<()> {
    if found == expected {
        return Ok(());
    }
    let expected = format!("one for each of {expected} {of}");
    Err(PayloadError::invalid(format!("{found} {key}"), expected).under(key))
}

/// What the documentation says of a key.
pub(crate) fn key<F: Field>(name: &str, about: &str) -> crate::Key {
    let notation = F::notation();
    let (mark, notation) = match F::absent() {
        Some(_) => ("?", notation.strip_suffix(" or nil").unwrap_or(&notation)),
        None => ("", &*notation),
    };
    crate::Key {
        name: format!("{name}{mark}"),
        notation: notation.to_owned(),
        about: about.to_owned(),
        nested: F::keys(),
    }
}

/// How the documentation writes a map of these keys.
pub(crate) fn notation(keys: &[crate::Key]) -> String {
    let entries: Vec<String> = keys
        .iter()
        .map(|key| format!("{}: {}", key.name, key.notation))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

/// Declares a map by its keys: `schema! { call NAME { /// words⏎ KEY: KIND, … } }`, or `answer NAME`. The kind of a key is a
/// [`Field`]; `KEY ("NAME")` names it otherwise than its field; `check FUNCTION` behind it holds the keys against each other.
macro_rules! schema {
    (
        $(#[$meta:meta])+
        $role:ident $name:ident {
            $($(#[doc = $about:literal])+ $field:ident $(($key:literal))?: $kind:ty,)+
        }
        $(check $check:path)?
    ) => {
        $(#[$meta])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name<'a> {
            $($(#[doc = $about])+ pub $field: $crate::Of<'a, $kind>,)+
        }

        impl $name<'_> {
            /// Writes its entries into a map that may have others too: reserved keys.
            pub fn write_entries(&self, out: &mut $crate::payload::Encoder<'_>) {
                $(if !<$kind as $crate::Field>::is_left_out(&self.$field) {
                    out.key(schema!(@key $field $($key)?));
                    <$kind as $crate::Field>::write(&self.$field, out);
                })+
            }
        }

        impl $crate::Field for $name<'static> {
            type Of<'a> = $name<'a>;

            fn notation() -> String {
                $crate::declare::notation(&<Self as $crate::Field>::keys())
            }

            fn expected() -> String {
                "a map".to_owned()
            }

            fn read<'a>(reader: &mut $crate::payload::Reader<'a>) -> $crate::payload::Read<$name<'a>> {
                use $crate::declare::{Slot, beside, fill, other, take};
                $(let mut $field: Slot<$crate::Of<'a, $kind>> = Slot::Unseen;)+
                let mut unknown = None;
                reader.map("a map", |reader, key| {
                    $(if key == schema!(@key $field $($key)?).as_bytes() {
                        return fill::<$kind>(&mut $field, reader, schema!(@key $field $($key)?));
                    })+
                    other(reader, key, &mut unknown)
                })?;
                let read = $name {
                    $($field: take::<$kind>($field, schema!(@key $field $($key)?))
                        .map_err(|error| beside(error, unknown.filter(|_| schema!(@$role))))?,)+
                };
                $($check(&read).map_err(|error| beside(error, unknown.filter(|_| schema!(@$role))))?;)?
                match unknown {
                    Some(unknown) if schema!(@$role) => {
                        Err($crate::declare::refuse(unknown, &[$(schema!(@key $field $($key)?)),+]))
                    }
                    _ => Ok(read),
                }
            }

            fn write(value: &$name<'_>, out: &mut $crate::payload::Encoder<'_>) {
                out.map(|out| value.write_entries(out));
            }

            fn own(value: $name<'_>) -> $name<'static> {
                $name {
                    $($field: <$kind as $crate::Field>::own(value.$field),)+
                }
            }

            fn keys() -> Vec<$crate::Key> {
                vec![$($crate::declare::key::<$kind>(
                    schema!(@key $field $($key)?),
                    [$($about),+].concat().trim(),
                ),)+]
            }
        }
    };
    (@key $field:ident) => {
        stringify!($field)
    };
    (@key $field:ident $key:literal) => {
        $key
    };
    // Whether unknown keys are refused.
    (@call) => {
        true
    };
    (@answer) => {
        false
    };
}

/// Declares a payload of two forms, told apart by a key: `either! { NAME { "KEY" => FIRST(PAYLOAD), else => SECOND(PAYLOAD) } }`.
macro_rules! either {
    (
        $(#[$meta:meta])+
        $name:ident {
            $(#[$first_meta:meta])+
            $key:literal => $first:ident($first_of:ident),
            $(#[$second_meta:meta])+
            else => $second:ident($second_of:ident),
        }
    ) => {
        $(#[$meta])+
        #[derive(Debug, Clone, PartialEq)]
        pub enum $name<'a> {
            $(#[$first_meta])+
            $first($first_of<'a>),
            $(#[$second_meta])+
            $second($second_of<'a>),
        }

        impl $crate::Field for $name<'static> {
            type Of<'a> = $name<'a>;

            fn notation() -> String {
                format!("{} or {}", $second_of::notation(), $first_of::notation())
            }

            fn read<'a>(reader: &mut $crate::payload::Reader<'a>) -> $crate::payload::Read<$name<'a>> {
                match reader.has($key)? {
                    true => $first_of::read(reader).map($name::$first),
                    false => $second_of::read(reader).map($name::$second),
                }
            }

            fn write(value: &$name<'_>, out: &mut $crate::payload::Encoder<'_>) {
                match value {
                    $name::$first(value) => $first_of::write(value, out),
                    $name::$second(value) => $second_of::write(value, out),
                }
            }

            fn own(value: $name<'_>) -> $name<'static> {
                match value {
                    $name::$first(value) => $name::$first($first_of::own(value)),
                    $name::$second(value) => $name::$second($second_of::own(value)),
                }
            }

            fn keys() -> Vec<$crate::Key> {
                let mut keys = $second_of::keys();
                let others = $first_of::keys().into_iter();
                keys.extend(others.filter(|other| keys.iter().all(|key| key.name != other.name)).collect::<Vec<_>>());
                keys
            }
        }
    };
}

pub(crate) use {either, schema};
