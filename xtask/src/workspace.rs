//! Reads `cargo metadata` into the few facts the checks need.
//!
//! It names the platform that is built and shipped (Linux on x86_64), so the graph is the one that is
//! compiled there, not the union over every system. Invariant: no check reads JSON itself.

use std::collections::{BTreeMap, VecDeque};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// Everything `cargo metadata` told that the checks use.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The absolute folder of the root Cargo.toml.
    pub root: String,
    /// Our crates.
    pub members: Vec<Member>,
    /// Every package of the resolved graph that is not ours.
    pub packages: Vec<Package>,
}

/// One crate of ours.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// The package name, `millpond-wire-frame`.
    pub name: String,
    /// Its folder relative to the root, `wire/frame`.
    pub folder: String,
    /// What its Cargo.toml asks for, ours and others.
    pub dependencies: Vec<Dependency>,
}

/// One line of a crate's Cargo.toml.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// The name the source uses where the Cargo.toml renames it.
    pub rename: Option<String>,
    /// True under `[dev-dependencies]`.
    pub dev: bool,
    /// True where it is one of our crates (it has a path).
    pub ours: bool,
}

/// One resolved package that is not ours.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// The package's name.
    pub name: String,
    /// Its resolved version.
    pub version: String,
    /// The licence expression it declares.
    pub licence: Option<String>,
    /// How it comes in: our crate first, then each package down to this one's user.
    pub path: Vec<String>,
}

/// Runs `cargo metadata` for the current workspace.
pub fn read() -> anyhow::Result<Workspace> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .output()
        .context("starting cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    parse(&serde_json::from_slice(&output.stdout).context("cargo metadata did not print JSON")?)
}

/// Turns the JSON of `cargo metadata --format-version 1` into a [`Workspace`].
fn parse(metadata: &Value) -> anyhow::Result<Workspace> {
    let root = text(metadata, "workspace_root")?;
    let ours: Vec<&str> = list(metadata, "workspace_members")
        .filter_map(Value::as_str)
        .collect();
    let by_id: BTreeMap<&str, &Value> = list(metadata, "packages")
        .filter_map(|package| Some((package.get("id")?.as_str()?, package)))
        .collect();
    let mut members = Vec::new();
    for id in &ours {
        let package = by_id
            .get(id)
            .with_context(|| format!("workspace member {id} is not among the packages"))?;
        members.push(member(package, &root)?);
    }
    let mut packages = Vec::new();
    for (id, path) in paths(metadata, &ours, &by_id) {
        let package = by_id
            .get(id)
            .with_context(|| format!("resolved package {id} is not described"))?;
        let licence = package.get("license").and_then(Value::as_str).map(str::to_owned);
        packages.push(Package {
            name: text(package, "name")?,
            version: text(package, "version")?,
            licence,
            path,
        });
    }
    Ok(Workspace {
        root,
        members,
        packages,
    })
}

fn member(package: &Value, root: &str) -> anyhow::Result<Member> {
    let name = text(package, "name")?;
    let manifest = text(package, "manifest_path")?;
    let folder = manifest
        .strip_prefix(root)
        .and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        .with_context(|| format!("{name}: its manifest {manifest} is not under {root}"))?;
    let mut dependencies = Vec::new();
    for dependency in list(package, "dependencies") {
        dependencies.push(Dependency {
            name: text(dependency, "name")?,
            rename: dependency
                .get("rename")
                .and_then(Value::as_str)
                .map(str::to_owned),
            dev: dependency.get("kind").and_then(Value::as_str) == Some("dev"),
            ours: dependency.get("path").and_then(Value::as_str).is_some(),
        });
    }
    Ok(Member {
        name,
        folder: folder.trim_start_matches('/').to_owned(),
        dependencies,
    })
}

/// Walks the resolved graph breadth first from our crates: each foreign package once, by its shortest way in.
fn paths<'a>(
    metadata: &'a Value,
    ours: &[&'a str],
    by_id: &BTreeMap<&'a str, &Value>,
) -> BTreeMap<&'a str, Vec<String>> {
    let nodes: BTreeMap<&str, Vec<&str>> = metadata
        .get("resolve")
        .map(|resolve| list(resolve, "nodes"))
        .into_iter()
        .flatten()
        .filter_map(|node| {
            let next = list(node, "dependencies").filter_map(Value::as_str).collect();
            Some((node.get("id")?.as_str()?, next))
        })
        .collect();
    let name_of = |id: &str| {
        by_id
            .get(id)
            .and_then(|p| p.get("name")?.as_str())
            .unwrap_or(id)
            .to_owned()
    };
    let mut found = BTreeMap::new();
    let mut queue: VecDeque<(&str, Vec<String>)> = ours.iter().map(|id| (*id, Vec::new())).collect();
    while let Some((id, mut path)) = queue.pop_front() {
        path.push(name_of(id));
        for next in nodes.get(id).into_iter().flatten().copied() {
            if !ours.contains(&next) && !found.contains_key(next) {
                found.insert(next, path.clone());
                queue.push_back((next, path.clone()));
            }
        }
    }
    found
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text(value: &Value, key: &str) -> anyhow::Result<String> {
    let found = value.get(key).and_then(Value::as_str);
    Ok(found
        .with_context(|| format!("cargo metadata: no text under {key:?}"))?
        .to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use serde_json::json;

    fn metadata() -> Value {
        json!({
            "workspace_root": "/r",
            "workspace_members": ["a"],
            "packages": [
                {"id": "a", "name": "millpond-a-b", "version": "0.1.0", "license": null, "manifest_path": "/r/a/b/Cargo.toml",
                 "dependencies": [{"name": "x", "kind": null, "rename": "ex"}, {"name": "millpond-c", "kind": "dev", "path": "/r/c"}]},
                {"id": "x", "name": "x", "version": "1.0.0", "license": "MIT", "manifest_path": "/elsewhere/Cargo.toml", "dependencies": []},
                {"id": "y", "name": "y", "version": "2.0.0", "license": null, "manifest_path": "/elsewhere/Cargo.toml", "dependencies": []},
            ],
            "resolve": {"nodes": [{"id": "a", "dependencies": ["x"]}, {"id": "x", "dependencies": ["y"]}, {"id": "y", "dependencies": ["x"]}]},
        })
    }

    #[test]
    fn members_carry_their_folder_and_what_they_ask_for() {
        let workspace = parse(&metadata()).unwrap();
        let member = &workspace.members[0];
        assert_eq!(
            (member.name.as_str(), member.folder.as_str()),
            ("millpond-a-b", "a/b")
        );
        assert_eq!(member.dependencies[0].rename.as_deref(), Some("ex"));
        assert!(!member.dependencies[0].ours && !member.dependencies[0].dev);
        assert!(member.dependencies[1].ours && member.dependencies[1].dev);
    }

    #[test]
    fn packages_carry_the_way_they_come_in_even_round_a_cycle() {
        let packages = parse(&metadata()).unwrap().packages;
        let seen: Vec<_> = packages
            .iter()
            .map(|p| (p.name.as_str(), p.path.join(" > ")))
            .collect();
        assert_eq!(
            seen,
            [
                ("x", "millpond-a-b".to_owned()),
                ("y", "millpond-a-b > x".to_owned())
            ]
        );
    }

    #[test]
    fn a_missing_field_and_a_member_outside_the_root_are_errors() {
        assert!(
            parse(&json!({}))
                .unwrap_err()
                .to_string()
                .contains("workspace_root")
        );
        let mut outside = metadata();
        outside["workspace_root"] = json!("/other");
        assert!(
            parse(&outside)
                .unwrap_err()
                .to_string()
                .contains("is not under /other")
        );
    }
}
