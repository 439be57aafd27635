//! A token from the configuration.
//! Its invariant: nothing prints it, and comparing it takes the same time wherever a guess goes wrong.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::fmt;
use std::path::PathBuf;
use subtle::ConstantTimeEq;

/// A token; empty where none is set.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `given` is it. One that is not set is nobody's.
    pub(crate) fn is(&self, given: &str) -> bool {
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
        // The value is not shown, not even where it is no token.
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Secret(text)),
            _ => Err(D::Error::custom("a token is text; write it in quotes")),
        }
    }
}

/// Fills a token from its file, and checks it. `key` is the section that both stand in.
pub(super) fn fill(key: &str, token: &mut Secret, file: Option<&PathBuf>) -> Result<(), String> {
    if let Some(file) = file {
        if !token.is_empty() {
            return Err(format!(
                "{key}.token and {key}.token_file are both set; leave one out"
            ));
        }
        let text = std::fs::read_to_string(file).map_err(|error| {
            let path = file.display();
            format!(
                "{key}.token_file: {path} cannot be read: {error}; name a file that holds the token alone"
            )
        })?;
        *token = Secret(text.trim().to_owned());
        if token.is_empty() {
            let path = file.display();
            return Err(format!(
                "{key}.token_file: {path} is empty; write the token into it"
            ));
        }
    }
    if !token.0.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "{key}.token holds a space or a character that HTTP headers cannot carry; use letters, digits and marks of ASCII"
        ));
    }
    Ok(())
}

/// `text` without what stands behind a key with `token` in it: error messages quote lines of the configuration.
pub(super) fn without_tokens(text: &str) -> String {
    let hidden = |line: &str| {
        let from = line.find("token")?;
        let equals = from + line[from..].find('=')?;
        Some(format!("{} (hidden)", &line[..=equals]))
    };
    let lines: Vec<String> = text
        .lines()
        .map(|line| hidden(line).unwrap_or_else(|| line.to_owned()))
        .collect();
    lines.join("\n")
}
