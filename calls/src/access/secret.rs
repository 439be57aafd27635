//! A token of the configuration.
//! Its invariant: nothing prints it, and comparing it takes the same time wherever a guess goes wrong.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny};
use std::fmt;
use subtle::ConstantTimeEq;

/// A token; empty where none is set.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    /// A token of that text.
    pub fn new(text: &str) -> Secret {
        Secret(text.to_owned())
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether HTTP headers can carry it: visible ASCII.
    pub fn is_graphic(&self) -> bool {
        self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }

    /// It, for a call of another server that asks for it.
    pub fn shown(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|text| !text.is_empty())
    }

    /// Whether `given` is it. One that is not set is nobody's.
    pub fn is(&self, given: &str) -> bool {
        !self.is_empty() && bool::from(self.0.as_bytes().ct_eq(given.as_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(hidden)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Other(IgnoredAny),
        }
        // The value is not shown, not even where it is no token.
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Secret(text)),
            Form::Other(_) => Err(D::Error::custom("a token is text; write it in quotes")),
        }
    }
}
