//! The table of methods: those that are built in, then those of the configuration.
//!
//! It answers nothing. Its invariant: a [`Method`] is a place in the table that gave it, and looking a name up allocates
//! nothing and costs the same however many methods there are.

use crate::config::method::{DUPLEX_TIMEOUT_MS, map_of};
use crate::config::{self, Config, Kind};
use millpond_wire_payload::{Encoder, Encoding, Value};
use millpond_wire_schema::METHODS;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

/// In the mark of an answer: a model made it. No table has so many methods.
const MODEL_MARK: u16 = 1 << 15;

/// A method's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method(u16);

impl Method {
    /// Its place, from 0.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// What the transport gives back when an answer of it has left.
    pub(crate) fn mark(self) -> u16 {
        self.0
    }

    /// The same of an answer that a model made.
    pub(crate) fn model_mark(self) -> u16 {
        self.0 | MODEL_MARK
    }
}

/// What answers a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    Ping,
    Status,
    Infos,
    Tune,
    FeaturesLookup,
    OrderedGet,
    OrderedPut,
    OrderedScan,
    Infer,
    Rank,
    /// The payload as it came.
    Echo,
    /// The same map every time.
    Constant(Constant),
    /// What the caller answers when it is called itself.
    Duplex(Duplex),
}

/// How a method calls its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Duplex {
    /// The method that is called.
    pub(crate) push: String,
    /// What it is called with; the payload of its own call where there is none.
    pub(crate) payload: Option<Constant>,
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// Whether it is asked for no answer.
    pub(crate) oneway: bool,
    /// What is answered before it is called; nothing: its answer is.
    pub(crate) early: Option<Constant>,
}

impl Work {
    fn of(method: &config::Method) -> Work {
        match (method.kind, &method.answer) {
            (Some(Kind::Duplex), answer) => Work::Duplex(Duplex {
                push: method.push.clone().unwrap_or_default(),
                payload: method.payload.as_ref().map(Constant::new),
                oneway: method.oneway,
                timeout: Duration::from_millis(method.timeout_ms.unwrap_or(DUPLEX_TIMEOUT_MS)),
                early: method
                    .early
                    .then(|| Constant::new(answer.as_ref().unwrap_or(&toml::Table::new()))),
            }),
            (_, Some(answer)) => Work::Constant(Constant::new(answer)),
            (_, None) => Work::Echo,
        }
    }
}

impl Work {
    /// Whether another thread may answer it: what it takes is measured call by call.
    pub(crate) fn is_detached(&self) -> bool {
        matches!(
            self,
            Work::OrderedPut | Work::Infer | Work::Rank | Work::Tune | Work::Duplex(_)
        )
    }
}

/// A map that was encoded at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Constant {
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
    pub(crate) fn bytes(&self, encoding: Encoding) -> &[u8] {
        match encoding {
            Encoding::Msgpack => &self.msgpack,
            Encoding::Json => &self.json,
        }
    }
}

/// What answers the methods that every server has, in the order of [`METHODS`].
const BUILT_IN: [Work; METHODS.len()] = [
    Work::Ping,
    Work::Status,
    Work::Infos,
    Work::Tune,
    Work::FeaturesLookup,
    Work::OrderedGet,
    Work::OrderedPut,
    Work::OrderedScan,
    Work::Infer,
    Work::Rank,
];

/// The names of the methods that every server has.
pub(crate) fn built_in_names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|method| method.name)
}

/// Whether a method of that name is built in.
pub(crate) fn is_built_in(name: &str) -> bool {
    built_in_names().any(|built_in| built_in == name)
}

/// One method of the table.
#[derive(Debug)]
pub(crate) struct Entry {
    name: String,
    work: Work,
}

/// All methods of a server.
#[derive(Debug)]
pub(crate) struct Methods {
    entries: Vec<Entry>,
    by_name: HashMap<String, Method, BuildHasherDefault<NameHasher>>,
}

impl Methods {
    /// The methods of a configuration, which were checked to be few.
    pub(crate) fn new(config: &Config) -> Methods {
        let mut entries: Vec<Entry> = built_in_names()
            .zip(BUILT_IN)
            .map(|(name, work)| Entry {
                name: name.to_owned(),
                work,
            })
            .collect();
        for (name, method) in &config.methods {
            entries.push(Entry {
                name: name.clone(),
                work: Work::of(method),
            });
        }
        let places = (0..).map(Method);
        let names = entries.iter().map(|entry| entry.name.clone());
        Methods {
            by_name: names.zip(places).collect(),
            entries,
        }
    }

    /// The method of that name.
    pub(crate) fn named(&self, name: &str) -> Option<Method> {
        self.by_name.get(name).copied()
    }

    /// The method of a mark that this table gave, and whether a model made the answer.
    pub(crate) fn marked(&self, mark: u16) -> Option<(Method, bool)> {
        let method = Method(mark & !MODEL_MARK);
        let known = method.index() < self.entries.len();
        known.then_some((method, mark & MODEL_MARK != 0))
    }

    /// A method's name.
    pub(crate) fn name(&self, method: Method) -> &str {
        &self.entries[method.index()].name
    }

    /// What answers it.
    pub(crate) fn work(&self, method: Method) -> &Work {
        &self.entries[method.index()].work
    }

    /// Whether it may change something that outlasts its answer. Such a call comes by HTTP's POST alone: any page can have a
    /// browser send a GET, and not every browser says whose page it was. None of the configuration does: over HTTP a duplex
    /// method cannot call its caller.
    pub(crate) fn changes(&self, method: Method) -> bool {
        METHODS.get(method.index()).is_some_and(|method| method.changes)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All of them with their names, in the order of the table.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Method, &str)> {
        let places = (0..).map(Method);
        places.zip(self.entries.iter().map(|entry| entry.name.as_str()))
    }

    /// All names, for messages.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.all().map(|(_, name)| name).collect();
        names.join(", ")
    }
}

/// A short hash of short names. Who calls chooses names to look up, never those that are in the table: no call can make it
/// slower for others.
#[derive(Default)]
pub(crate) struct NameHasher(u64);

impl NameHasher {
    fn mix(&mut self, word: u64) {
        let mixed = self.0.rotate_left(5) ^ word;
        self.0 = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let rest = match bytes.last_chunk::<8>() {
            // Some of these bytes a second time: that is shorter than each by itself.
            Some(word) => u64::from_le_bytes(*word),
            None => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        self.mix(rest ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, _: u8) {
        // The end of the text, which its length has told.
    }

    fn finish(&self) -> u64 {
        // The table takes its place from the low bits and its tag from the high ones.
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn built_in_and_configured_methods_are_found_by_name() {
        let text = "[methods.\"two way demo\"]\nanswer = { Simple = \"one\", Simple2 = 2 }\n[methods.e]\nkind = \"echo\"";
        let methods = Methods::new(&toml::from_str(text).unwrap());
        for (method, name) in methods.all() {
            assert_eq!(methods.named(name), Some(method));
            assert_eq!(methods.name(method), name);
            assert_eq!(methods.marked(method.mark()), Some((method, false)));
            assert_eq!(methods.marked(method.model_mark()), Some((method, true)));
        }
        assert_eq!(methods.len(), BUILT_IN.len() + 2);
        assert_eq!(methods.marked(methods.len() as u16), None);
        assert_eq!(methods.named("two way"), None);
        assert_eq!(methods.named(""), None);
        let demo = methods.named("two way demo").unwrap();
        let Work::Constant(constant) = methods.work(demo) else {
            panic!("{:?}", methods.work(demo))
        };
        // FPNN's own answer, byte for byte: the order of the file is kept.
        assert_eq!(
            constant.bytes(Encoding::Msgpack),
            b"\x82\xa6Simple\xa3one\xa7Simple2\x02"
        );
        assert_eq!(constant.bytes(Encoding::Json), br#"{"Simple":"one","Simple2":2}"#);
        assert_eq!(methods.work(methods.named("e").unwrap()), &Work::Echo);
    }
}
