//! `[access]`: from where, with which token and how protected methods may be called.
//! It decides about no call. Its invariant: a rule that passes [`Section::check`] names methods that exist.

use super::{AddressRange, Secret, matches};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `[access]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Section {
    /// Addresses and networks that may call; empty: all. Unix sockets always may.
    pub ip_allow: Vec<String>,
    /// Groups of callers by name, each with a token and the methods that it opens.
    pub tokens: BTreeMap<String, TokenGroup>,
    /// What a method asks of the connection, by method or `PREFIX*`.
    pub methods: BTreeMap<String, MethodRule>,
}

/// `[access.tokens.GROUP]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenGroup {
    /// The token.
    #[serde(default)]
    pub token: Secret,
    /// The file that holds it.
    pub token_file: Option<PathBuf>,
    /// Methods that need this token, or another group's that names them.
    pub methods: Vec<String>,
}

/// `[access.methods."PATTERN"]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MethodRule {
    /// Only over connections that nobody between can read: encrypted ones and Unix sockets.
    pub encrypted_only: bool,
    /// Only from this machine and private networks.
    pub private_only: bool,
}

impl Section {
    /// What is known to be wrong with it, where these methods are served.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    pub fn check(&self, methods: &[&str]) -> Result<(), String> {
        for (at, text) in self.ip_allow.iter().enumerate() {
            AddressRange::parse(text)
                .map_err(|problem| format!("access.ip_allow[{at}] is {text:?}; {problem}"))?;
        }
        for (name, group) in &self.tokens {
            let key = format!("access.tokens.{name}");
            if group.token.is_empty() {
                return Err(format!("{key}.token is missing; write one, or name a token_file"));
            }
            if group.methods.is_empty() {
                return Err(format!(
                    "{key}.methods is empty; name the methods that need the token"
                ));
            }
            for pattern in &group.methods {
                known(methods, &format!("{key}.methods"), pattern)?;
            }
        }
        for pattern in self.methods.keys() {
            known(methods, "access.methods", pattern)?;
        }
        Ok(())
    }
}

fn known(methods: &[&str], key: &str, pattern: &str) -> Result<(), String> {
    if methods.iter().any(|name| matches(pattern, name)) {
        return Ok(());
    }
    Err(format!(
        "{key} holds {pattern:?}, which is no method and no PREFIX* of one; methods are {}",
        methods.join(", ")
    ))
}
