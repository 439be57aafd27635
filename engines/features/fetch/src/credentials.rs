//! A file of credentials, as Amazon's tools write it: `aws_access_key_id = …` under `[default]`.
//!
//! Invariant: no error and no `Debug` holds what stands behind the names.

use std::fmt;
use std::path::Path;

/// What a request is signed with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) key_id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials")
    }
}

impl Credentials {
    pub(crate) fn read(file: &Path) -> Result<Credentials, String> {
        let path = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {path}: {error}"))?;
        Credentials::parse(&text).map_err(|problem| format!("{path}: {problem}"))
    }

    /// The section `default`, or what stands before any section.
    fn parse(text: &str) -> Result<Credentials, String> {
        let (mut key_id, mut secret, mut token) = (None, None, None);
        let mut is_default = true;
        for line in text.lines().map(str::trim) {
            if let Some(section) = line.strip_prefix('[') {
                is_default = section.trim_end_matches(']').trim() == "default";
            }
            let Some((name, value)) = line
                .split_once('=')
                .filter(|_| is_default && !line.starts_with('#'))
            else {
                continue;
            };
            let value = Some(value.trim().to_owned());
            match name.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
        let missing = |name: &str| format!("it has no {name} under [default]");
        Ok(Credentials {
            key_id: key_id.ok_or_else(|| missing("aws_access_key_id"))?,
            secret: secret.ok_or_else(|| missing("aws_secret_access_key"))?,
            token,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(&str, &str, Option<&str>), &str>) {
        match (Credentials::parse(text), expected) {
            (Ok(found), Ok((key_id, secret, token))) => {
                let found = (
                    found.key_id.as_str(),
                    found.secret.as_str(),
                    found.token.as_deref(),
                );
                assert_eq!(found, (key_id, secret, token));
            }
            (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
            (found, _) => panic!("{text:?}: {found:?}"),
        }
    }

    #[test]
    fn files_of_credentials() {
        let both = "aws_access_key_id=a\naws_secret_access_key = b=c\n";
        check(both, Ok(("a", "b=c", None)));
        check(
            &format!("[other]\naws_access_key_id = x\n[default]\n{both}aws_session_token = t"),
            Ok(("a", "b=c", Some("t"))),
        );
        check(
            &format!("{both}[other]\naws_access_key_id = x\n"),
            Ok(("a", "b=c", None)),
        );
        check(
            "aws_access_key_id = a\n#aws_secret_access_key = s",
            Err("no aws_secret_access_key"),
        );
        check("", Err("no aws_access_key_id"));
        let secret = Credentials {
            key_id: "a".into(),
            secret: "hidden".into(),
            token: None,
        };
        assert!(!format!("{secret:?}").contains("hidden"));
    }
}
