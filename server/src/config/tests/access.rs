//! Rules of access, and tokens.

use super::*;

#[test]
fn rules_of_access_name_what_exists() {
    let rule = |text: &str, expected: &str| check(text, &[], expected);
    rule(
        "[access]\nip_allow = [\"10.0.0.0/8\", \"home\"]",
        "access.ip_allow[1] is \"home\"; expected",
    );
    rule(
        "[access.tokens.a]\nmethods = [\"rank\"]",
        "access.tokens.a.token is missing",
    );
    rule(
        "[access.tokens.a]\ntoken = \"x\"\nmethods = []",
        "methods is empty",
    );
    rule(
        "[access.tokens.a]\ntoken = \"x\"\nmethods = [\"rink\"]",
        "access.tokens.a.methods holds \"rink\"",
    );
    rule(
        "[access.methods.\"feature.*\"]\nprivate_only = true",
        "access.methods holds \"feature.*\"",
    );
    rule(
        "[access.methods.\"features.*\"]\nprivate_only = true",
        "private_only: true",
    );
    rule(
        "[access.methods.\"*tune\"]\nencrypted_only = true",
        "encrypted_only: true",
    );
    rule("[access.methods.rank]\nprivate = true", "unknown field `private`");
}

#[test]
fn tokens_come_from_text_or_file_and_are_shown_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("millpond.toml");
    std::fs::write(folder.path().join("t"), "s3cret-of-file\n").unwrap();
    std::fs::write(folder.path().join("empty"), "\n").unwrap();
    let loaded = |text: &str, flag: Option<&str>| {
        std::fs::write(&file, text).unwrap();
        load(&Origin {
            file: Some(file.clone()),
            flags: flag.into_iter().map(str::to_owned).collect(),
            ..Origin::default()
        })
    };
    for (text, flag, expected) in [
        (
            "[admin]\ntoken = \"s3cret\"\ntoken_file = \"t\"",
            None,
            "both set",
        ),
        ("[admin]\ntoken = \"s3c ret\"", None, "admin.token holds a space"),
        ("[admin]\ntoken_file = \"empty\"", None, "is empty"),
        ("[admin]\ntoken_file = \"none\"", None, "admin.token_file"),
        ("[admin]\ntoken = s3cret", None, "line 2"),
        ("[admin]\ntoken = [\"s3cret\"]", None, "a token is text"),
        (
            "[admin]\ntokens = \"s3cret\"",
            Some("admin.token=s3cret"),
            "unknown field `tokens`",
        ),
        ("", Some("admin.token=[\"s3cret\"]"), "a token is text"),
        ("[log]\nlevel = 9", Some("admin.token=s3cret"), "log level 9"),
        (
            "[server]\nthreads = 9999",
            Some("admin.token=s3cret"),
            "with --set admin.token= (hidden)",
        ),
    ] {
        let error = loaded(text, flag).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} does not contain {expected:?}");
        assert!(!error.contains("s3c") && !error.contains("cret"), "{error}");
    }
    let config = loaded("[admin]\ntoken_file = \"t\"", None).unwrap();
    assert!(config.admin.token.is("s3cret-of-file") && !config.admin.token.is("s3cret-of-fil"));
    let config = loaded("", Some("admin.token=s3cret")).unwrap();
    assert!(config.admin.token.is("s3cret"));
    assert!(!format!("{config:?}").contains("s3cret"));
}
