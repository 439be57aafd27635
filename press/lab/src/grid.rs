//! The grid: every combination of some values, one server started for each.
//!
//! Its invariant: a value that would change nothing, because no placeholder takes it, is refused.

use std::collections::BTreeMap;
use std::path::Path;

use crate::scenario::Launch;

type Values = BTreeMap<String, Vec<toml::Value>>;

/// Names that are always there: `programs` is the folder that `millpond` lies in, `out` the result folder.
const GIVEN: [&str; 4] = ["millpond", "config", "programs", "out"];

/// Checks that grid, placeholders and what is started belong together.
pub(crate) fn check(grid: &Values, launches: &[Launch<'_>]) -> Result<(), String> {
    if let (Some(key), []) = (grid.keys().next(), launches) {
        return Err(format!(
            "grid.{key} needs a [server] section: its values are put into server.command, one server a value"
        ));
    }
    let mut used = Vec::new();
    for launch in launches {
        let own = placeholders_of(launch);
        check_launch(grid, launch, &own)?;
        used.extend(own);
    }
    for (key, values) in grid {
        if GIVEN.contains(&key.as_str()) || key.is_empty() {
            return Err(format!("grid.{key} cannot be a key of the grid"));
        }
        if values.is_empty() {
            return Err(format!("grid.{key} is empty; give at least one value"));
        }
        if !used.contains(key) {
            return Err(format!(
                "grid.{key} changes nothing: no {{{key}}} stands in server.command or server.env, nor in those of a program"
            ));
        }
        if let Some(value) = values.iter().find(|value| value.is_table() || value.is_array()) {
            return Err(format!(
                "grid.{key} holds a {}; values must be plain",
                value.type_str()
            ));
        }
    }
    Ok(())
}

fn placeholders_of(launch: &Launch<'_>) -> Vec<String> {
    let prepare = launch.prepare.iter().flatten();
    let texts = launch.command.iter().chain(launch.env.values()).chain(prepare);
    texts.flat_map(|text| placeholders(text)).collect()
}

fn check_launch(grid: &Values, launch: &Launch<'_>, used: &[String]) -> Result<(), String> {
    let section = launch.section;
    if launch.command.is_empty() || launch.prepare.iter().any(Vec::is_empty) {
        return Err(format!(
            "{section}.command is empty; write it as [\"{{millpond}}\", \"serve\", …]"
        ));
    }
    for name in used {
        if name == "config" && launch.config.is_none() {
            return Err(format!(
                "{section}.command holds {{config}}, but server.config is not set"
            ));
        }
        if !GIVEN.contains(&name.as_str()) && !grid.contains_key(name) {
            return Err(format!(
                "{section}.command or {section}.env holds {{{name}}}, which is neither {{millpond}}, {{config}} nor a key of [grid]"
            ));
        }
    }
    if launch.config.is_some() && !used.iter().any(|name| name == "config") {
        return Err("server.config is set, but no {config} stands in server.command".into());
    }
    Ok(())
}

/// Every combination, the last key's values changing fastest.
pub(crate) fn combinations(grid: &Values) -> Vec<BTreeMap<String, String>> {
    let mut all = vec![BTreeMap::new()];
    for (key, values) in grid {
        all = all
            .iter()
            .flat_map(|combination| {
                values.iter().map(|value| {
                    let mut combination = combination.clone();
                    let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    combination.insert(key.clone(), plain);
                    combination
                })
            })
            .collect();
    }
    all
}

/// What stands in the braces of `text`.
fn placeholders(text: &str) -> Vec<String> {
    let inside = |part: &str| part.split_once('}').map(|(name, _)| name.to_owned());
    text.split('{').skip(1).filter_map(inside).collect()
}

/// What stands for the names that are always there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) millpond: &'a Path,
    /// The result folder.
    pub(crate) out: &'a Path,
    /// A server's configuration, where it has one.
    pub(crate) config: Option<&'a str>,
}

/// Puts the values in. The braces were checked when the scenario was loaded.
pub(crate) fn fill(text: &str, names: Names<'_>, combination: &BTreeMap<String, String>) -> String {
    let path = |path: &Path| path.display().to_string();
    let mut text = text
        .replace("{millpond}", &path(names.millpond))
        .replace(
            "{programs}",
            &path(names.millpond.parent().unwrap_or(Path::new("."))),
        )
        .replace(
            "{out}",
            &path(&std::path::absolute(names.out).unwrap_or(names.out.to_owned())),
        );
    if let Some(config) = names.config {
        text = text.replace("{config}", config);
    }
    for (key, value) in combination {
        text = text.replace(&format!("{{{key}}}"), value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_all_pairs_in_order() {
        let grid: Values = [
            (
                "level".to_owned(),
                vec![toml::Value::from(2), toml::Value::from(5)],
            ),
            (
                "name".to_owned(),
                vec![toml::Value::from("a"), toml::Value::from("b")],
            ),
        ]
        .into();
        let all: Vec<String> = combinations(&grid)
            .iter()
            .map(|c| format!("{}{}", c["level"], c["name"]))
            .collect();
        assert_eq!(all, ["2a", "2b", "5a", "5b"]);
        assert_eq!(combinations(&Values::new()), [BTreeMap::new()]);
    }

    #[test]
    fn placeholders_are_filled() {
        let combination = BTreeMap::from([("level".to_owned(), "3".to_owned())]);
        let names = Names {
            millpond: Path::new("/bin/mp"),
            out: Path::new("/r"),
            config: Some("c.toml"),
        };
        let fill = |text| fill(text, names, &combination);
        assert_eq!(fill("{programs}/x {out}/y"), "/bin/x /r/y");
        assert_eq!(
            fill("{millpond} {config} log.level={level}"),
            "/bin/mp c.toml log.level=3"
        );
        assert_eq!(placeholders("a{b}c{d}e{f"), ["b", "d"]);
    }
}
