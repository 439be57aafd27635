//! `[ordered.NAME]`: the sections of stores, and the numbers that RESP has for them.
//! Its invariant: an unknown key is refused as the store's own section refuses it.

use millpond_engines_ordered::Section;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The key of a section that is the server's, and not the store's.
const RESP_DATABASE: &str = "resp_database";

/// Ordered stores by name.
#[derive(Debug, Clone, Default)]
pub struct Stores {
    sections: BTreeMap<String, Section>,
    databases: BTreeMap<String, u32>,
}

impl Stores {
    /// The number that SELECT of RESP calls a store by, where its section gives it one.
    pub fn resp_database(&self, name: &str) -> Option<u32> {
        self.databases.get(name).copied()
    }
}

impl Deref for Stores {
    type Target = BTreeMap<String, Section>;

    fn deref(&self) -> &Self::Target {
        &self.sections
    }
}

impl DerefMut for Stores {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.sections
    }
}

impl<'de> Deserialize<'de> for Stores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut stores = Stores::default();
        for (name, numbered) in BTreeMap::<String, Numbered>::deserialize(deserializer)? {
            if let Some(number) = numbered.resp_database {
                stores.databases.insert(name.clone(), number);
            }
            stores.sections.insert(name, numbered.section);
        }
        Ok(stores)
    }
}

/// A section with the server's key in it.
struct Numbered {
    section: Section,
    resp_database: Option<u32>,
}

impl<'de> Deserialize<'de> for Numbered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfMap)
    }
}

struct OfMap;

impl<'de> Visitor<'de> for OfMap {
    type Value = Numbered;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a section")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Numbered, A::Error> {
        let mut resp_database = None;
        let rest = Rest {
            map,
            resp_database: &mut resp_database,
        };
        let section = Section::deserialize(MapAccessDeserializer::new(rest))?;
        Ok(Numbered {
            section,
            resp_database,
        })
    }
}

/// A section's keys without the server's.
struct Rest<'n, A> {
    map: A,
    resp_database: &'n mut Option<u32>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if key == RESP_DATABASE {
                *self.resp_database = Some(self.map.next_value()?);
                continue;
            }
            return seed.deserialize(StringDeserializer::new(key)).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_servers_and_everything_else_the_stores() {
        let check = |text: &str, expected: Result<Option<u32>, &str>| {
            let found = toml::from_str::<BTreeMap<String, Stores>>(text);
            match (found, expected) {
                (Ok(found), Ok(number)) => {
                    let stores = found.get("ordered");
                    assert_eq!(stores.and_then(|stores| stores.resp_database("a")), number);
                    assert_eq!(
                        stores.and_then(|stores| stores.get("a")).map(|a| a.queue_max),
                        Some(7)
                    );
                }
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        };
        check("[ordered.a]\nqueue_max = 7", Ok(None));
        check("[ordered.a]\nresp_database = 3\nqueue_max = 7", Ok(Some(3)));
        check("[ordered.a]\nqueue_max = 7\nresp_database = 0", Ok(Some(0)));
        check("[ordered.a]\nresp_database = -1", Err("resp_database = -1"));
        check(
            "[ordered.a]\nresp_keys = \"raw\"",
            Err("unknown field `resp_keys`"),
        );
        check("[ordered.a]\nqueue_max = \"x\"", Err("queue_max = \"x\""));
    }
}
