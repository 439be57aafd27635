//! Figures that a command gives, beside the points: `[[figure]]` of a scenario.
//!
//! Its invariant: what is no number at the end of a command's output is an error that shows it.

use std::process::Command;

use crate::Error;
use crate::scenario::FigureKeys;

/// Runs the command of a figure, with its placeholders filled; the number in the last line that it prints.
pub(crate) fn value(figure: &FigureKeys, fill: impl Fn(&str) -> String) -> Result<f64, Error> {
    let failed = |reason: String| Error::Unprepared(format!("the figure {}: {reason}", figure.name));
    let words: Vec<String> = figure.command.iter().map(|word| fill(word)).collect();
    let (program, words) = words
        .split_first()
        .ok_or_else(|| failed("its command is empty".into()))?;
    let output = Command::new(program)
        .args(words)
        .output()
        .map_err(|error| failed(format!("cannot start `{program}`: {error}")))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default().trim();
    last.parse().map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().unwrap_or_default();
        failed(format!(
            "its last line is {last:?}, expected a number ({}) {said}",
            output.status
        ))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_last_line_is_the_figure() {
        let run = |script: &str| {
            let figure = FigureKeys {
                name: "lines".into(),
                command: vec!["sh".into(), "-c".into(), script.into()],
                serving: false,
            };
            value(&figure, |word| word.replace("{n}", "7"))
        };
        assert_eq!(run("echo some words; echo {n}").unwrap(), 7.0);
        let said = run("echo; echo none").unwrap_err().to_string();
        assert!(
            said.contains("the figure lines") && said.contains("\"none\""),
            "{said}"
        );
    }
}
