//! Where the configuration's tokens come from.
//! Its invariant: no message of it holds a token.

use millpond_calls::access::Secret;
use std::path::PathBuf;

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
        *token = Secret::new(text.trim());
        if token.is_empty() {
            let path = file.display();
            return Err(format!(
                "{key}.token_file: {path} is empty; write the token into it"
            ));
        }
    }
    if !token.is_graphic() {
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
