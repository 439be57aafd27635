//! torchpipe's configuration file as nodes: defaults filled in, values as text. It knows no key's meaning.
//!
//! Its invariant: each node has a name of its own, and an alias names a node that is there.

use super::Refused;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// One table of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    /// The node whose instances it shares.
    pub(super) alias_of: Option<String>,
    /// Its own keys, in the file's order, then the defaults that it does not set.
    pub(super) keys: Vec<(String, String)>,
}

impl Node {
    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let found = self.keys.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The items of a list of names.
    pub(super) fn list(&self, key: &str) -> Vec<String> {
        let items = self.get(key).unwrap_or_default().split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }
}

/// The nodes of a file, in its order.
pub(super) fn nodes(file: &Table) -> Result<Vec<Node>, Refused> {
    let mut defaults = Vec::new();
    let mut found: Vec<Node> = Vec::new();
    for (name, value) in file {
        match value {
            Value::Table(table) if name == "global" => defaults.extend(keys(name, table, &mut Vec::new())?),
            Value::Table(table) => node(name, table, &mut found)?,
            value => defaults.push((name.clone(), text(name, value)?)),
        }
    }
    if found.is_empty() {
        let hint = "a node is a table: [classify] with backend = \"…\"";
        return Err(Refused::new("", "", "the file has no node", hint));
    }
    for node in &mut found {
        for (key, value) in &defaults {
            if node.get(key).is_none() {
                node.keys.push((key.clone(), value.clone()));
            }
        }
    }
    check_names(&found)?;
    Ok(found)
}

fn check_names(nodes: &[Node]) -> Result<(), Refused> {
    let mut names = BTreeMap::new();
    for node in nodes {
        if names.insert(node.name.as_str(), node).is_some() {
            let hint = "give each table a name of its own";
            return Err(Refused::new(&node.name, "", "two tables have this name", hint));
        }
    }
    for node in nodes {
        if let Some(of) = node.alias_of.as_deref().filter(|of| !names.contains_key(of)) {
            let problem = format!("it shares the instances of `{of}`, which is not there");
            return Err(Refused::new(
                &node.name,
                "",
                problem,
                format!("add [{of}], or rename this table"),
            ));
        }
    }
    Ok(())
}

/// A table, and the aliases inside it: `[name.alias]`.
fn node(name: &str, table: &Table, found: &mut Vec<Node>) -> Result<(), Refused> {
    let mut aliases = Vec::new();
    let keys = keys(name, table, &mut aliases)?;
    let alias_of = name.split_once('.').map(|(of, _)| of.to_owned());
    // A table that holds aliases alone stands for no node: [a.b] without [a] is named by the check of aliases.
    if !keys.is_empty() || aliases.is_empty() {
        let name = name.to_owned();
        found.push(Node { name, alias_of, keys });
    }
    for (alias, table) in aliases {
        node(&format!("{name}.{alias}"), table, found)?;
    }
    Ok(())
}

/// The keys of a table as text; tables inside it are `aliases`.
fn keys<'t>(
    node: &str,
    table: &'t Table,
    aliases: &mut Vec<(&'t String, &'t Table)>,
) -> Result<Vec<(String, String)>, Refused> {
    let mut found = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(alias) if node != "global" => aliases.push((key, alias)),
            value => match text(key, value) {
                Ok(text) => found.push((key.clone(), text)),
                Err(refused) => return Err(refused.of(node)),
            },
        }
    }
    Ok(found)
}

fn text(key: &str, value: &Value) -> Result<String, Refused> {
    Ok(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is_set) => is_set.to_string(),
        Value::Array(items) => {
            let items: Result<Vec<String>, Refused> = items.iter().map(|item| text(key, item)).collect();
            items?.join(",")
        }
        Value::Datetime(_) | Value::Table(_) => {
            let problem = format!("it is a {}", value.type_str());
            return Err(Refused::new("", key, problem, "write a text or a number"));
        }
    })
}
