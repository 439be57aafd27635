//! Figures that a command gives, beside the points: `[[figure]]` of a scenario.
//!
//! Its invariant: only a command that ended well and in time gives a figure, and what is no number at the end of its output is an
//! error that shows it.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::{oneshot, watch};

use crate::scenario::FigureKeys;
use crate::{Error, stopped};

/// A command that has not ended by then hangs. Some drive whole searches, or count instructions in a simulator.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(3600);

/// Runs the command of a figure, with its placeholders filled; the number in the last line that it prints.
pub(crate) async fn value(
    figure: &FigureKeys,
    fill: impl Fn(&str) -> String,
    time_max: Duration,
    stop: &mut watch::Receiver<bool>,
) -> Result<f64, Error> {
    let failed = |reason: String| Error::Unprepared(format!("the figure {}: {reason}", figure.name));
    let words: Vec<String> = figure.command.iter().map(|word| fill(word)).collect();
    let (program, words) = words
        .split_first()
        .ok_or_else(|| failed("its command is empty".into()))?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).process_group(0);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|error| failed(format!("cannot start `{program}`: {error}")))?;
    let group = Pid::from_child(&child);
    let (done, output) = oneshot::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    let output = tokio::select! {
        output = output => output,
        () = tokio::time::sleep(time_max) => return Err(failed(end(group, &format!("it did not end within {time_max:?}")))),
        () = stopped(stop) => return Err(failed(end(group, "somebody stopped the run"))),
    };
    let broken = |error: &dyn std::fmt::Display| failed(format!("its output cannot be read: {error}"));
    let output = output
        .map_err(|error| broken(&error))?
        .map_err(|error| broken(&error))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default().trim();
    let number = last.parse().ok().filter(|number: &f64| number.is_finite());
    number.filter(|_| output.status.success()).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().unwrap_or_default();
        failed(format!(
            "its last line is {last:?}, expected a number and success ({}) {said}",
            output.status
        ))
    })
}

/// Asks what the command started to end too, each in its own order.
fn end(group: Pid, why: &str) -> String {
    let _ = kill_process_group(group, Signal::TERM);
    why.to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What a shell's script comes to within so much time.
    async fn run(script: &str, time_max: Duration) -> Result<f64, String> {
        let figure = FigureKeys {
            name: "lines".into(),
            command: vec!["sh".into(), "-c".into(), script.into()],
            serving: false,
        };
        let (_stop, mut stop) = watch::channel(false);
        let value = value(&figure, |word| word.replace("{n}", "7"), time_max, &mut stop).await;
        value.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_last_line_is_the_figure() {
        assert_eq!(run("echo some words; echo {n}", TIME_MAX).await.unwrap(), 7.0);
        let check = async |script, words: &str| {
            let said = run(script, TIME_MAX).await.unwrap_err();
            assert!(
                said.contains("the figure lines") && said.contains(words),
                "{said}"
            );
        };
        check("echo; echo none", "\"none\"").await;
        check("echo nan", "\"nan\"").await;
        check("echo inf", "\"inf\"").await;
        check("echo 7; exit 3", "exit status: 3").await;
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait; echo 7", file.display());
        let said = run(&script, Duration::from_secs(3)).await.unwrap_err();
        assert!(said.contains("did not end within 3s"), "{said}");
        let pid = std::fs::read_to_string(file).unwrap();
        let sleeper = std::path::Path::new("/proc").join(pid.trim()).join("exe");
        // Who reaps it may be slow, but a process that has ended has no program.
        while sleeper.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
