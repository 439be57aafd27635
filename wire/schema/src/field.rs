//! What stands under a key: the kinds of fields that schemas are declared with.
//!
//! A kind says how a field is read and written, what belongs there, and what its absence means; it is a name in a
//! declaration, and [`Field::Of`] the Rust type that it stands for. Its invariant: what is written reads back.

use crate::payload::{Encoder, Map, Number, Payload, PayloadError, Read, Reader, Reserved, Token, Value};
use std::borrow::Cow;
use std::marker::PhantomData;

/// What a field of this kind is in Rust.
pub type Of<'a, F> = <F as Field>::Of<'a>;

/// A kind of field, or a whole payload.
pub trait Field {
    /// What it is in Rust, borrowing from the payload where it can.
    type Of<'a>;

    /// How the documentation writes it.
    fn notation() -> String;

    /// What belongs there, for messages.
    fn expected() -> String {
        Self::notation()
    }

    /// Reads one.
    fn read<'a>(reader: &mut Reader<'a>) -> Read<Self::Of<'a>>;

    /// Writes one.
    fn write(value: &Self::Of<'_>, out: &mut Encoder<'_>);

    /// The same, borrowing nothing: for what outlives the payload.
    fn own(value: Self::Of<'_>) -> Self::Of<'static>;

    /// What it is where its key is absent or nil; nothing where the key must be there.
    fn absent<'a>() -> Option<Self::Of<'a>> {
        None
    }

    /// Whether its key is not written: reading finds the same.
    fn is_left_out<'a>(_value: &Self::Of<'a>) -> bool {
        false
    }

    /// The keys that it has, for the documentation.
    fn keys() -> Vec<Key> {
        Vec::new()
    }

    /// Reads a whole payload, and what stands under its reserved keys.
    fn decode<'p>(payload: &'p Payload<'_>) -> Read<(Self::Of<'p>, Reserved<'p>)> {
        payload.read(|reader| {
            let read = Self::read(reader)?;
            Ok((read, reader.reserved()))
        })
    }
}

/// How the documentation writes one of some words: `"a", "b" or "c"`.
pub(crate) fn one_of<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut words: Vec<String> = names.into_iter().map(|name| format!("{name:?}")).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// One key of a payload, for the documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name, with a question mark where it may be left out.
    pub name: String,
    /// What belongs there.
    pub notation: String,
    /// What it means.
    pub about: String,
    /// The keys of the map, or of each map of the list, that belongs there; none elsewhere.
    pub nested: Vec<Key>,
}

impl Key {
    /// How the documentation writes the map that belongs there, with the keys of all maps in it; nothing where that is none.
    pub fn map_notation(&self) -> Option<String> {
        let entries = self.nested.iter().map(|key| {
            let notation = match key.map_notation() {
                Some(map) if key.notation.starts_with('[') => format!("[{map}]"),
                Some(map) => map,
                None => key.notation.clone(),
            };
            format!("{}: {notation}", key.name)
        });
        let entries: Vec<String> = entries.collect();
        (!entries.is_empty()).then(|| format!("{{{}}}", entries.join(", ")))
    }
}

/// Declares the kinds that are one value.
macro_rules! plain {
    ($($(#[$meta:meta])+ $name:ident: $of:ty, $notation:literal, $read:expr, $write:expr, $own:expr;)*) => {$(
        $(#[$meta])+
        pub enum $name {}

        impl Field for $name {
            type Of<'a> = $of;
            fn notation() -> String {
                $notation.to_owned()
            }
            #[inline]
            fn read<'a>(reader: &mut Reader<'a>) -> Read<$of> {
                $read(reader)
            }
            fn write(value: &Self::Of<'_>, out: &mut Encoder<'_>) {
                $write(out, value);
            }
            fn own(value: Self::Of<'_>) -> Self::Of<'static> {
                $own(value)
            }
        }
    )*};
}

plain! {
    /// UTF-8 text.
    Text: Cow<'a, str>, "text",
        |reader: &mut Reader<'a>| reader.text().map(Cow::Borrowed),
        |out: &mut Encoder<'_>, text: &str| out.text(text),
        |text: Cow<'_, str>| Cow::Owned(text.into_owned());
    /// Any bytes.
    Bytes: Cow<'a, [u8]>, "bytes",
        |reader: &mut Reader<'a>| reader.bytes(),
        |out: &mut Encoder<'_>, bytes: &[u8]| out.bytes(bytes),
        |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
    /// A whole number not below zero.
    UInt: u64, "int",
        |reader: &mut Reader<'a>| reader.uint(),
        |out: &mut Encoder<'_>, value: &u64| out.uint(*value),
        |value| value;
    /// A whole number of 64 bits.
    Int: i64, "signed int",
        |reader: &mut Reader<'a>| match reader.token()? {
            Token::Int(value) => Ok(value),
            Token::UInt(value) => i64::try_from(value)
                .map_err(|_| PayloadError::invalid(value.to_string(), "a whole number of 64 bits, with its sign")),
            other => Err(other.is_not("a whole number")),
        },
        |out: &mut Encoder<'_>, value: &i64| out.int(*value),
        |value| value;
    /// A boolean that must be there.
    Bool: bool, "bool",
        |reader: &mut Reader<'a>| reader.bool(),
        |out: &mut Encoder<'_>, value: &bool| out.bool(*value),
        |value| value;
    /// What names a thing and comes back as it went in.
    Id: Value<'a>, "text or int",
        |reader: &mut Reader<'a>| match reader.token()? {
            Token::Text(text) => Ok(Value::Text(Cow::Borrowed(text))),
            Token::UInt(value) => Ok(Value::UInt(value)),
            Token::Int(value) => Ok(Value::Int(value)),
            other => Err(other.is_not("text or an integer")),
        },
        |out: &mut Encoder<'_>, id: &Value<'_>| out.value(id),
        |id: Value<'_>| id.into_owned();
    /// A map of any values.
    AnyMap: Map<'a>, "map",
        |reader: &mut Reader<'a>| Map::read(reader, "a map"),
        |out: &mut Encoder<'_>, map: &Map<'_>| out.entries(map.entries(), Encoder::value),
        |map: Map<'_>| map.into_owned();
    /// A key and its value.
    Entry: (Cow<'a, [u8]>, Cow<'a, [u8]>), "[key, value]",
        |reader: &mut Reader<'a>| match reader.token()? {
            Token::Array(2) => {
                let entry = (reader.bytes()?, reader.bytes()?);
                reader.leave();
                Ok(entry)
            }
            Token::Array(len) => Err(PayloadError::invalid(format!("an array of {len}"), "[key, value]")),
            other => Err(other.is_not("[key, value]")),
        },
        |out: &mut Encoder<'_>, (key, value): &(Cow<'_, [u8]>, Cow<'_, [u8]>)| out.array(|out| {
            out.bytes(key);
            out.bytes(value);
        }),
        |(key, value)| (Bytes::own(key), Bytes::own(value));
}

/// A whole number within bounds.
pub enum Within<const LEAST: usize, const MOST: usize> {}

impl<const LEAST: usize, const MOST: usize> Field for Within<LEAST, MOST> {
    type Of<'a> = usize;
    fn notation() -> String {
        match LEAST {
            0 => format!("int up to {MOST}"),
            _ => format!("int from {LEAST} to {MOST}"),
        }
    }
    fn expected() -> String {
        format!("an integer from {LEAST} to {MOST}")
    }
    fn read(reader: &mut Reader<'_>) -> Read<usize> {
        match reader.token()? {
            Token::UInt(value) => match usize::try_from(value) {
                Ok(within) if (LEAST..=MOST).contains(&within) => Ok(within),
                _ => Err(PayloadError::invalid(value.to_string(), Self::expected())),
            },
            other => Err(other.is_not(Self::expected())),
        }
    }
    fn write(value: &usize, out: &mut Encoder<'_>) {
        out.uint(*value as u64);
    }
    fn own(value: usize) -> usize {
        value
    }
}

/// What may be left out; nil stands for nothing.
pub struct Optional<F>(PhantomData<F>);

impl<F: Field> Field for Optional<F> {
    type Of<'a> = Option<F::Of<'a>>;
    fn notation() -> String {
        format!("{} or nil", F::notation())
    }
    fn expected() -> String {
        F::expected()
    }
    fn read<'a>(reader: &mut Reader<'a>) -> Read<Option<F::Of<'a>>> {
        if reader.nil() {
            Ok(None)
        } else {
            F::read(reader).map(Some)
        }
    }
    fn write(value: &Self::Of<'_>, out: &mut Encoder<'_>) {
        match value {
            Some(value) => F::write(value, out),
            None => out.nil(),
        }
    }
    fn own(value: Self::Of<'_>) -> Self::Of<'static> {
        value.map(F::own)
    }
    fn absent<'a>() -> Option<Self::Of<'a>> {
        Some(None)
    }
    fn is_left_out<'a>(value: &Self::Of<'a>) -> bool {
        value.is_none()
    }
    fn keys() -> Vec<Key> {
        F::keys()
    }
}

/// An array of at most so many.
pub struct List<F, const MOST: usize = { usize::MAX }>(PhantomData<F>);

impl<F: Field, const MOST: usize> Field for List<F, MOST> {
    type Of<'a> = Vec<F::Of<'a>>;
    fn notation() -> String {
        match F::keys().is_empty() {
            true => format!("[{}]", F::notation()),
            false => "[{…}]".to_owned(),
        }
    }
    fn expected() -> String {
        format!("an array of {}", F::notation())
    }
    #[inline]
    fn read<'a>(reader: &mut Reader<'a>) -> Read<Self::Of<'a>> {
        let items = reader.array("an array", F::read)?;
        match items.len() {
            len if len > MOST => {
                let expected = format!("at most {MOST}");
                Err(PayloadError::invalid(format!("an array of {len}"), expected))
            }
            _ => Ok(items),
        }
    }
    fn write(value: &Self::Of<'_>, out: &mut Encoder<'_>) {
        out.items(value.iter(), |out, item| F::write(item, out));
    }
    fn own(value: Self::Of<'_>) -> Self::Of<'static> {
        value.into_iter().map(F::own).collect()
    }
    fn keys() -> Vec<Key> {
        F::keys()
    }
}

/// A map from names that the sender chose.
pub struct Named<F>(PhantomData<F>);

impl<F: Field> Field for Named<F> {
    type Of<'a> = Vec<(Cow<'a, str>, F::Of<'a>)>;
    fn notation() -> String {
        format!("{{name: {}}}", F::notation())
    }
    fn read<'a>(reader: &mut Reader<'a>) -> Read<Self::Of<'a>> {
        reader.named("a map", F::read)
    }
    fn write(value: &Self::Of<'_>, out: &mut Encoder<'_>) {
        let entries = value.iter().map(|(name, value)| (&**name, value));
        out.entries(entries, |out, value| F::write(value, out));
    }
    fn own(value: Self::Of<'_>) -> Self::Of<'static> {
        let own = |(name, value)| (Text::own(name), F::own(value));
        value.into_iter().map(own).collect()
    }
    fn keys() -> Vec<Key> {
        F::keys()
    }
}

/// Numbers written as a block, or one by one where they are `PLAIN`; either form is read.
pub struct Block<T, const PLAIN: bool = false>(PhantomData<T>);

/// Numbers written as an array.
pub type Numbers<T> = Block<T, true>;

impl<T: Number + 'static, const PLAIN: bool> Field for Block<T, PLAIN> {
    type Of<'a> = Vec<T>;
    fn notation() -> String {
        match PLAIN {
            true => format!("[{}]", T::NAME),
            false => format!("{} block", T::NAME),
        }
    }
    fn expected() -> String {
        T::expected()
    }
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Read<Vec<T>> {
        reader.numbers(false)
    }
    fn write(value: &Vec<T>, out: &mut Encoder<'_>) {
        match PLAIN {
            true => out.items(value.iter(), |out, number| number.write(out)),
            false => out.block(value),
        }
    }
    fn own(value: Vec<T>) -> Vec<T> {
        value
    }
}

/// What is its default where its key is absent: false, nothing.
pub struct OrDefault<F>(PhantomData<F>);

impl<F: Field> Field for OrDefault<F>
where
    for<'a> F::Of<'a>: Default + PartialEq,
{
    type Of<'a> = F::Of<'a>;
    fn notation() -> String {
        F::notation()
    }
    fn expected() -> String {
        F::expected()
    }
    fn read<'a>(reader: &mut Reader<'a>) -> Read<F::Of<'a>> {
        F::read(reader)
    }
    fn write(value: &Self::Of<'_>, out: &mut Encoder<'_>) {
        F::write(value, out);
    }
    fn own(value: Self::Of<'_>) -> Self::Of<'static> {
        F::own(value)
    }
    fn absent<'a>() -> Option<F::Of<'a>> {
        Some(Default::default())
    }
    fn is_left_out<'a>(value: &F::Of<'a>) -> bool {
        *value == <F::Of<'a>>::default()
    }
}
