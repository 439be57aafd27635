//! Licences and banned crates, over every package the Linux build resolves (tests included: they are built too).
//!
//! The same lists stand in deny.toml for those who have cargo-deny; a test holds the two together.

mod expression;

use crate::finding::Finding;
use crate::workspace::Package;

/// Licences a package may be used under.
const ALLOWED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "BSL-1.0",
    "CC0-1.0",
    "Unlicense",
    "0BSD",
    "NCSA",
];

/// Crates that are refused, and why.
const BANNED: &[(&str, &str)] = &[
    (
        "openssl",
        "TLS is rustls: no system library decides whether the build works",
    ),
    (
        "openssl-sys",
        "TLS is rustls: no system library decides whether the build works",
    ),
    ("native-tls", "TLS is rustls, the same on every system"),
    (
        "cmake",
        "a fresh machine builds with Rust, make and cc alone: no cmake",
    ),
    (
        "bindgen",
        "a fresh machine builds with Rust, make and cc alone: no libclang",
    ),
];

/// Refuses packages that are banned, undeclared, or under no allowed licence.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let place = format!("{} {}", package.name, package.version);
        let used_by = format!("(used by {})", package.path.join(" > "));
        if let Some((_, reason)) = BANNED.iter().find(|(name, _)| *name == package.name) {
            findings.push(Finding::refused(&place, format!("banned: {reason} {used_by}")));
        }
        match package
            .licence
            .as_deref()
            .map(|text| (text, expression::satisfied(text, ALLOWED)))
        {
            Some((_, Ok(true))) => {}
            Some((text, Ok(false))) => {
                findings.push(Finding::refused(
                    &place,
                    format!("licence {text} is not allowed {used_by}"),
                ));
            }
            Some((text, Err(error))) => {
                let message = format!("licence {text:?} cannot be read: {error} {used_by}");
                findings.push(Finding::refused(&place, message));
            }
            None => findings.push(Finding::refused(&place, format!("declares no licence {used_by}"))),
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(name: &str, licence: Option<&str>, expected: &[&str]) {
        let package = Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.map(str::to_owned),
            path: vec!["millpond-server".to_owned(), "tokio".to_owned()],
        };
        let found = check(&[package]);
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        for (finding, expected) in found.iter().zip(expected) {
            assert!(finding.message.contains(expected), "{name}: {finding}");
            assert!(
                finding.message.contains("(used by millpond-server > tokio)"),
                "{name}: {finding}"
            );
        }
    }

    #[test]
    fn allowed_licences_pass_and_others_are_refused() {
        check_one("serde", Some("MIT OR Apache-2.0"), &[]);
        check_one(
            "readline",
            Some("GPL-3.0-only"),
            &["licence GPL-3.0-only is not allowed"],
        );
        check_one("nameless", None, &["declares no licence"]);
        check_one("garbled", Some("MIT OR"), &["cannot be read"]);
    }

    #[test]
    fn banned_crates_are_refused_whatever_their_licence() {
        check_one("bindgen", Some("BSD-3-Clause"), &["no libclang"]);
        check_one("openssl-sys", Some("MIT"), &["TLS is rustls"]);
        check_one("cmake", Some("GPL-3.0-only"), &["no cmake", "is not allowed"]);
    }

    #[test]
    fn deny_toml_says_the_same() {
        let deny: String = include_str!("../../deny.toml")
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .collect::<Vec<_>>()
            .join("\n");
        let quoted: Vec<&str> = deny.split('"').skip(1).step_by(2).collect();
        for name in ALLOWED.iter().chain(BANNED.iter().map(|(name, _)| name)) {
            assert!(quoted.contains(name), "deny.toml does not name {name}");
        }
        let licences = deny
            .split("allow = [")
            .nth(1)
            .and_then(|rest| rest.split(']').next())
            .unwrap_or("");
        for name in licences.split('"').skip(1).step_by(2) {
            assert!(
                ALLOWED.contains(&name),
                "deny.toml allows {name}, this check does not"
            );
        }
    }
}
