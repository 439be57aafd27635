//! The documents and manifests that list things list them all: crates in docs/crates.md, dependencies in
//! docs/dependencies.md, the workspace's lints in every crate, and no dependency that nothing uses.

use super::{File, holds_word};
use crate::finding::Finding;
use crate::workspace::{Member, Workspace};

const CRATES: &str = "docs/crates.md";
const DEPENDENCIES: &str = "docs/dependencies.md";

/// Holds the lists against the workspace.
pub fn check(workspace: &Workspace, files: &[File]) -> Vec<Finding> {
    let text = |path: &str| {
        files
            .iter()
            .find(|file| file.path == path)
            .map_or("", |file| file.text.as_str())
    };
    let mut findings = crates(&workspace.members, text(CRATES));
    findings.extend(dependencies(
        text("Cargo.toml"),
        text(DEPENDENCIES),
        &workspace.members,
    ));
    for member in &workspace.members {
        let manifest = format!("{}/Cargo.toml", member.folder);
        findings.extend(lints(&manifest, text(&manifest)));
        findings.extend(unused(member, &workspace.members, files));
    }
    findings
}

/// Every crate's folder is named in the list, in code quotes.
fn crates(members: &[Member], list: &str) -> Vec<Finding> {
    let missing = members
        .iter()
        .filter(|member| !list.contains(&format!("`{}`", member.folder)));
    missing
        .map(|member| Finding::refused(CRATES, format!("does not name `{}`", member.folder)))
        .collect()
}

/// Every shared dependency is explained in one table row, is used by a crate, and no row explains another.
fn dependencies(manifest: &str, document: &str, members: &[Member]) -> Vec<Finding> {
    let shared = shared_dependencies(manifest);
    let rows: Vec<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    let mut findings = Vec::new();
    for name in &shared {
        if !rows.contains(name) {
            findings.push(Finding::refused(
                DEPENDENCIES,
                format!("has no row | `{name}` | for what Cargo.toml lists"),
            ));
        }
        if !members.iter().any(|member| {
            member
                .dependencies
                .iter()
                .any(|dependency| dependency.name == *name)
        }) {
            findings.push(Finding::refused(
                "Cargo.toml",
                format!("lists {name}, which no crate uses: take it out"),
            ));
        }
    }
    for (index, name) in rows.iter().enumerate() {
        if rows.iter().take(index).any(|earlier| earlier == name) {
            let message = format!("explains {name} twice: merge the two rows");
            findings.push(Finding::refused(DEPENDENCIES, message));
        }
    }
    for name in rows.iter().filter(|name| !shared.contains(name)) {
        findings.push(Finding::refused(
            DEPENDENCIES,
            format!("explains {name}, which Cargo.toml does not list"),
        ));
    }
    findings
}

/// The names under `[workspace.dependencies]` that are not ours.
fn shared_dependencies(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()))
        .filter(|name| !name.starts_with('#') && !name.starts_with("millpond-"))
        .collect()
}

/// Every crate takes the workspace's lints.
fn lints(path: &str, manifest: &str) -> Option<Finding> {
    let takes = manifest
        .split("[lints]")
        .nth(1)
        .and_then(|rest| rest.trim_start().lines().next());
    let message = "does not take the workspace's lints: add [lints] workspace = true";
    (takes.map(str::trim) != Some("workspace = true")).then(|| Finding::refused(path, message))
}

/// Every dependency of a crate is named somewhere in its own sources, those of crates inside its folder left out.
fn unused(member: &Member, members: &[Member], files: &[File]) -> Vec<Finding> {
    let inside = |path: &str, folder: &str| {
        path.strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let nested: Vec<&Member> = members
        .iter()
        .filter(|other| inside(&other.folder, &member.folder))
        .collect();
    // The black-box tests lie in tests/ at the top and are a target of the command line's crate.
    let black_box = |path: &str| member.folder == "cli" && path.starts_with("tests/");
    let of_member = |path: &str| {
        black_box(path)
            || (inside(path, &member.folder) && !nested.iter().any(|other| inside(path, &other.folder)))
    };
    let sources: Vec<&File> = files
        .iter()
        .filter(|f| f.path.ends_with(".rs") && of_member(&f.path))
        .collect();
    let mut findings = Vec::new();
    for dependency in &member.dependencies {
        let name = dependency.rename.as_ref().unwrap_or(&dependency.name);
        // In a library's name a hyphen is an underscore, or nothing (md-5 is `md5`).
        let names = ["_", ""].map(|hyphen| name.replace('-', hyphen));
        let named = |file: &&File| names.iter().any(|name| holds_word(&file.text, name));
        if !sources.iter().any(named) {
            let message = format!(
                "depends on {}, which its sources do not name: take it out",
                dependency.name
            );
            findings.push(Finding::refused(format!("{}/Cargo.toml", member.folder), message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    const MANIFEST: &str = "[workspace]\n\n[workspace.dependencies]\nmillpond-server = { path = \"server\" }\n\n\
        # A reason = given.\nslab = \"0.4\"\ntoml = { version = \"1\" }\n\n[profile.dev]\nopt-level = 1\n";

    fn member(folder: &str, dependencies: &[&str]) -> Member {
        let depend = |name: &&str| Dependency {
            name: (*name).to_owned(),
            rename: None,
            dev: false,
            ours: false,
        };
        Member {
            name: String::new(),
            folder: folder.to_owned(),
            dependencies: dependencies.iter().map(depend).collect(),
        }
    }

    fn messages(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.message.as_str()).collect()
    }

    #[test]
    fn a_crate_that_the_list_does_not_name_is_refused() {
        let members = [member("wire/frame", &[]), member("wire", &[])];
        assert_eq!(
            messages(&crates(&members, "`wire/frame`")),
            ["does not name `wire`"]
        );
    }

    #[test]
    fn shared_dependencies_are_explained_and_used() {
        assert_eq!(shared_dependencies(MANIFEST), ["slab", "toml"]);
        let user = [member("server", &["slab", "toml"])];
        assert!(dependencies(MANIFEST, "| `slab` | x |\n| `toml` | y |\n", &user).is_empty());
        let found = dependencies(
            MANIFEST,
            "| `slab` | x |\n| `rand` | y |\n",
            &[member("server", &["slab"])],
        );
        let expected = [
            "has no row | `toml` | for what Cargo.toml lists",
            "lists toml, which no crate uses: take it out",
            "explains rand, which Cargo.toml does not list",
        ];
        assert_eq!(messages(&found), expected);
    }

    #[test]
    fn a_dependency_with_two_rows_is_refused() {
        let rows = "| `slab` | x |\n| `toml` | y |\n| `slab` | z |\n";
        let found = dependencies(MANIFEST, rows, &[member("server", &["slab", "toml"])]);
        assert_eq!(messages(&found), ["explains slab twice: merge the two rows"]);
    }

    #[test]
    fn a_crate_takes_the_lints_of_the_workspace() {
        assert!(lints("a", "[package]\n\n[lints]\nworkspace = true\n").is_none());
        assert!(lints("a", "[package]\n[dependencies]\nworkspace = true\n").is_some());
        assert!(lints("a", "[lints]\n").is_some());
    }

    #[test]
    fn a_dependency_that_the_sources_do_not_name_is_refused() {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let sources = |paths: [&str; 3]| paths.map(|path| file(path, "use rmp_serde::from_slice;"));
        let members = [member("a", &["rmp-serde", "slab"]), member("a/b", &[])];
        let check = |files: &[File], expected: &[&str]| {
            let found = unused(&members[0], &members, files);
            let names = messages(&found)
                .iter()
                .map(|m| m.split([' ', ',']).nth(2).unwrap_or(""))
                .collect::<Vec<_>>();
            assert_eq!(names, expected, "{files:?}");
        };
        check(
            &sources(["a/src/lib.rs", "ab/src/lib.rs", "a/b/src/lib.rs"]),
            &["slab"],
        );
        let mut joined = sources(["a/src/lib.rs"; 3]);
        joined[0].text = "use slab::Slab; use rmpserde::from_slice;".to_owned();
        check(&joined[..1], &[]);
        check(
            &sources(["ab/src/lib.rs", "a/b/src/lib.rs", "a/README.md"]),
            &["rmp-serde", "slab"],
        );
    }
}
